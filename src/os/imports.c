/* Slots of imports; see the header.
 *
 * Works under the loader's lock on its list (os/loaded.h), where the loader itself may be at work
 * on an object that is in the list already. So it is proved first that the loader has finished with
 * a slot: one in RELRO when its page has become read-only, which it stays but for the moment of our
 * store; any other when it holds a function. Calls go through slots meanwhile, and find the one
 * function or the other.
 */
#include "os/imports.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/loaded.h"

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT, ABSOLUTE = R_X86_64_64 };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT, ABSOLUTE = R_AARCH64_ABS64 };
#endif

enum { PATIENCE = 200 }; /* rounds in which an object may be unfinished */

typedef struct look {
    pyr_imports *imports;
    const pyr_imports_wanted *wanted;
    bool is_incomplete;
    bool is_usual; /* the object that is looked at: no slot of it is known to hold anything else */
} look;

void pyr_imports_clear(pyr_imports *imports)
{
    imports->seen_count = 0;
    imports->rounds = 0;
    imports->is_incomplete = true;
    imports->exchanged = imports->refused = 0;
}

bool pyr_imports_want_round(const pyr_imports *imports, pyr_loaded_counts now)
{
    return imports->is_incomplete || now.added != imports->counts.added ||
           now.removed != imports->counts.removed;
}

/* ----------------------------------------------------------------------------------- slots ---- */

typedef enum permission { WRITABLE, READ_ONLY, UNKNOWN } permission;

/* Whether the slot can be written to: the kernel adds 0 to it, atomically, or fails. */
static permission permission_of(_Atomic uintptr_t *slot)
{
    uint32_t nobody = 0;
    int add_nothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    if (syscall(SYS_futex, &nobody, FUTEX_WAKE_OP_PRIVATE, 0, 0, slot, add_nothing) >= 0) {
        return WRITABLE;
    }
    return errno == EFAULT ? READ_ONLY : UNKNOWN;
}

static bool store(_Atomic uintptr_t *slot, uintptr_t held, uintptr_t chosen, bool is_protected)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)slot / page_bytes * page_bytes);
    if (is_protected && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    bool stored = atomic_compare_exchange_strong(slot, &held, chosen);
    if (is_protected) {
        (void)mprotect(page, page_bytes, PROT_READ);
    }
    return stored;
}

/* Whether the loader has put an address there: before, it is one in the file, or 0. */
static bool is_relocated(const pyr_loaded *object, uintptr_t held)
{
    return held != 0 && (object->base == 0 || !pyr_loaded_has(object, object->base + held, 1, 0));
}

typedef struct slot_kind {
    size_t name;      /* index */
    bool may_be_none; /* 0 is an answer, too */
    bool is_own;      /* the object has a function of this name itself */
    bool is_data;     /* the program may have stored what it likes */
    uintptr_t at;     /* address */
} slot_kind;

/* Whether it is known what a slot that holds code of its own object will be bound to. Not where
 * others of the object hold other functions than usual, as a library with an allocator of its own
 * that was loaded with RTLD_DEEPBIND. Not where it leads back to the slot: as the function's
 * address counts that of a stub in a program which is not relocated. */
static bool is_binding_known(const look *self, const pyr_loaded *object, const slot_kind *kind)
{
    return self->is_usual && !kind->is_own &&
           !pyr_loaded_has(object, self->wanted->usual[kind->name], 1, 0);
}

/* False: the loader has not finished with it. */
static bool exchange_slot(look *self, const pyr_loaded *object, const slot_kind *kind)
{
    _Atomic uintptr_t *slot = (_Atomic uintptr_t *)kind->at;
    bool is_relro = kind->at >= object->relro_start && kind->at < object->relro_end;
    permission allowed = permission_of(slot);
    uintptr_t held = atomic_load(slot);
    if (is_relro && allowed == WRITABLE) {
        return false;
    }
    if (!is_relocated(object, held)) {
        return held == 0 && kind->may_be_none;
    }
    uintptr_t original = held;
    if (pyr_loaded_has(object, held, 1, 0)) {
        if (!is_binding_known(self, object, kind)) {
            return true;
        }
        original = self->wanted->usual[kind->name];
    }
    uintptr_t chosen = self->wanted->choose(self->wanted->context, kind->name, original,
                                            kind->is_data && !is_relro);
    if (chosen == original) {
        return true;
    }
    if (allowed == (is_relro ? READ_ONLY : WRITABLE) && store(slot, held, chosen, is_relro)) {
        self->imports->exchanged++;
    } else {
        self->imports->refused++;
    }
    return true;
}

/* The index of a wanted name; `count` of them: it is none. */
static size_t find_name(const pyr_imports_wanted *wanted, const char *name)
{
    size_t at = 0;
    while (at < wanted->count &&
           (wanted->names[at][0] != name[0] || strcmp(wanted->names[at], name) != 0)) {
        at++;
    }
    return at;
}

/* False: not all of them are finished. */
static bool each_slot(look *self, const pyr_loaded *object,
                      bool (*visit_slot)(look *self, const pyr_loaded *object,
                                         const slot_kind *kind))
{
    bool is_complete = true;
    for (size_t at = 0; at < object->relocations[0].count + object->relocations[1].count; at++) {
        size_t first = object->relocations[0].count;
        const ElfW(Rela) *one = at < first ? &object->relocations[0].first[at]
                                           : &object->relocations[1].first[at - first];
        uint64_t type = ELF64_R_TYPE(one->r_info);
        uintptr_t slot = object->base + one->r_offset;
        if ((type != JUMP_SLOT && type != GLOB_DAT && type != ABSOLUTE) ||
            (type == ABSOLUTE && one->r_addend != 0) || slot % sizeof slot != 0 ||
            !pyr_loaded_has(object, slot, sizeof slot, PF_W)) {
            continue;
        }
        size_t symbol = ELF64_R_SYM(one->r_info);
        size_t name = find_name(self->wanted, pyr_loaded_symbol_name(object, symbol));
        if (name < self->wanted->count) {
            const ElfW(Sym) *found = &object->symbols[symbol];
            const slot_kind kind = {.name = name,
                                    .may_be_none = ELF64_ST_BIND(found->st_info) == STB_WEAK,
                                    .is_own = found->st_shndx != SHN_UNDEF,
                                    .is_data = type == ABSOLUTE,
                                    .at = slot};
            is_complete &= visit_slot(self, object, &kind);
        }
    }
    return is_complete;
}

static bool look_for_others(look *self, const pyr_loaded *object, const slot_kind *kind)
{
    uintptr_t held = atomic_load((_Atomic uintptr_t *)kind->at);
    uintptr_t usual = self->wanted->usual[kind->name];
    if (usual != 0 && is_relocated(object, held) && !pyr_loaded_has(object, held, 1, 0)) {
        self->is_usual &= held == usual;
    }
    return true;
}

/* --------------------------------------------------------------------------------- objects ---- */

static bool is_left_alone(const pyr_imports_wanted *wanted, const pyr_loaded *object)
{
    for (size_t at = 0; at < wanted->left_alone_count; at++) {
        if (pyr_loaded_has(object, wanted->left_alone[at], 1, 0)) {
            return true;
        }
    }
    return pyr_loaded_defines(object, wanted->definer);
}

static bool is_seen(const pyr_imports *imports, uintptr_t object)
{
    size_t at = 0;
    while (at < imports->seen_count && imports->seen[at] != object) {
        at++;
    }
    return at < imports->seen_count;
}

static bool visit(void *context, const pyr_loaded *object)
{
    look *self = context;
    pyr_imports *imports = self->imports;
    if (is_seen(imports, (uintptr_t)object->segments)) {
        return false;
    }
    bool is_complete = true;
    if (!is_left_alone(self->wanted, object)) {
        self->is_usual = true;
        (void)each_slot(self, object, look_for_others);
        is_complete = each_slot(self, object, exchange_slot);
    }
    if (is_complete && imports->seen_count < PYR_IMPORTS_OBJECTS) {
        imports->seen[imports->seen_count++] = (uintptr_t)object->segments;
    }
    self->is_incomplete |= !is_complete;
    return false;
}

void pyr_imports_exchange(pyr_imports *imports, const pyr_imports_wanted *wanted)
{
    pyr_loaded_counts now;
    look self = {.imports = imports, .wanted = wanted};
    if (!pyr_loaded_count(&now)) {
        imports->is_incomplete = true;
        return;
    }
    if (now.removed != imports->counts.removed) {
        imports->seen_count = 0; /* others may stand where objects were */
    }
    if (now.added != imports->counts.added || now.removed != imports->counts.removed) {
        imports->rounds = 0;
    }
    imports->counts = now;
    self.is_incomplete = !pyr_loaded_each(visit, &self);
    imports->rounds++;
    imports->is_incomplete = self.is_incomplete && imports->rounds < PATIENCE;
}
