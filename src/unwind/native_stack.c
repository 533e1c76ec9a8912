/* Walking C frames; see the header.
 *
 * Owns the list of objects, a table of rules (four places a set) and the copy of the stack; all
 * guarded by `lock`. The list is made aside and exchanged under the lock. Rules are forgotten when
 * something was unloaded: another object may stand at its addresses.
 */
#include "unwind/native_stack.h"

#include <stdbool.h>
#include <string.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/cfi.h"

enum {
    OBJECTS = 2048,
    SETS = 1 << 10,
    WAYS = 4,
    COPY_BYTES = 8 << 10,
    MOST_COPIES = 8, /* a walk */
    OWN_FRAMES = 24, /* at most so many frames of ours lie above the caller */
    ALIGNMENT = 0x7, /* of stack pointers, as a mask */
};

/* Code of a loaded object. */
typedef struct object {
    uintptr_t start, end;
    uintptr_t header; /* PT_GNU_EH_FRAME, 0 = none */
    bool is_interpreter;
} object;

typedef struct list {
    object objects[OBJECTS]; /* by address */
    size_t count;
} list;

typedef struct known {
    uintptr_t pc; /* 0 = empty */
    pyr_cfi_rule rule;
} known;

struct pyr_native_stacks {
    pyr_reader *reader;
    uintptr_t interpreter;
    pyr_loaded_counts counts; /* as of the list; whoever looks */
    bool is_listed;
    list made; /* likewise: the list being made */
    pyr_lock lock;
    list list; /* by lock, as what follows */
    known rules[SETS * WAYS];
    uint32_t turn; /* which place of a full set goes next */
    pyr_cfi_scratch scratch;
    pyr_batch *copy;
};

pyr_native_stacks *pyr_native_stacks_new(pyr_reader *reader, uintptr_t interpreter)
{
    pyr_native_stacks *stacks = pyr_memory_new(1, sizeof *stacks);
    if (!stacks) {
        return NULL;
    }
    stacks->reader = reader;
    stacks->interpreter = interpreter;
    pyr_lock_init(&stacks->lock, PYR_LOCK_NATIVE_STACK);
    stacks->copy = pyr_batch_new(COPY_BYTES);
    if (!stacks->copy) {
        pyr_native_stacks_free(stacks);
        return NULL;
    }
    return stacks;
}

void pyr_native_stacks_free(pyr_native_stacks *stacks)
{
    if (stacks) {
        pyr_batch_free(stacks->copy);
        pyr_lock_fini(&stacks->lock);
        pyr_memory_free(stacks);
    }
}

/* ----------------------------------------------------------------------------------- objects ----
 */

static void insert(list *to, object one)
{
    size_t at = to->count;
    if (at == OBJECTS) {
        return;
    }
    while (at > 0 && to->objects[at - 1].start > one.start) {
        to->objects[at] = to->objects[at - 1];
        at--;
    }
    to->objects[at] = one;
    to->count++;
}

static bool add_object(void *context, const pyr_loaded *loaded)
{
    pyr_native_stacks *stacks = context;
    object one = {.is_interpreter = pyr_loaded_has(loaded, stacks->interpreter, 1, PF_X)};
    for (size_t at = 0; at < loaded->segment_count; at++) {
        uintptr_t address = loaded->base + loaded->segments[at].p_vaddr;
        if (loaded->segments[at].p_type == PT_GNU_EH_FRAME) {
            one.header = address;
        }
    }
    for (size_t at = 0; at < loaded->segment_count; at++) {
        const ElfW(Phdr) *segment = &loaded->segments[at];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
            one.start = loaded->base + segment->p_vaddr;
            one.end = one.start + segment->p_memsz;
            insert(&stacks->made, one);
        }
    }
    return false;
}

void pyr_native_stacks_look(pyr_native_stacks *stacks, pyr_loaded_counts now)
{
    if (stacks->is_listed && now.added == stacks->counts.added &&
        now.removed == stacks->counts.removed) {
        return;
    }
    stacks->made.count = 0;
    if (!pyr_loaded_each(add_object, stacks)) {
        return;
    }
    pyr_lock_acquire(&stacks->lock);
    stacks->list = stacks->made;
    /* New objects stand where nothing was, and whatever was no rule there may be one now. */
    memset(stacks->rules, 0, sizeof stacks->rules);
    pyr_lock_release(&stacks->lock);
    stacks->counts = now;
    stacks->is_listed = true;
}

static const object *find_object(const list *all, uintptr_t pc)
{
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->objects[middle].start <= pc) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && pc < all->objects[low - 1].end ? &all->objects[low - 1] : NULL;
}

/* ------------------------------------------------------------------------------------- rules ----
 */

static size_t read_memory(void *context, uintptr_t address, void *destination, size_t length)
{
    pyr_native_stacks *stacks = context;
    uint8_t *bytes = destination;
    if (pyr_reader_read(stacks->reader, address, bytes, length) == PYR_OK) {
        return length;
    }
    /* The end of a mapping may lie in between. */
    size_t page = 4096, first = page - address % page;
    return first < length && pyr_reader_read(stacks->reader, address, bytes, first) == PYR_OK
               ? first
               : 0;
}

static pyr_cfi_rule find_rule(pyr_native_stacks *stacks, const object *in, uintptr_t pc)
{
    known *set = &stacks->rules[pyr_hash_u64(pc, 0) % SETS * WAYS];
    size_t way = 0;
    while (way < WAYS && set[way].pc != pc && set[way].pc != 0) {
        way++;
    }
    if (way < WAYS && set[way].pc == pc) {
        return set[way].rule;
    }
    known fresh = {.pc = pc};
    const pyr_cfi_memory memory = {read_memory, stacks};
    (void)pyr_cfi_find(&memory, in->header, pc, &stacks->scratch, &fresh.rule);
    set[way < WAYS ? way : stacks->turn++ % WAYS] = fresh;
    return fresh.rule;
}

/* -------------------------------------------------------------------------------------- walk ----
 */

typedef struct cursor {
    pyr_native_stacks *stacks;
    uintptr_t pc; /* within the instruction that it has come to */
    uintptr_t sp, fp;
    bool is_fp_known;
    int copies;
} cursor;

/* A word of the stack. */
static bool read_word(cursor *self, uintptr_t address, uintptr_t *word)
{
    pyr_batch *copy = self->stacks->copy;
    const struct pyr_batch_span *span = &copy->spans[0];
    if (copy->count == 0 || address - span->addr > span->done ||
        span->done - (address - span->addr) < sizeof *word) {
        if (self->copies++ == MOST_COPIES) {
            return false;
        }
        pyr_batch_clear(copy);
        (void)pyr_batch_add(copy, address, COPY_BYTES);
        pyr_reader_read_batch(self->stacks->reader, copy);
    }
    if (span->done < sizeof *word || address - span->addr > span->done - sizeof *word) {
        return false;
    }
    memcpy(word, copy->buffer + (address - span->addr), sizeof *word);
    return true;
}

static bool find_place(cursor *self, pyr_cfi_place where, uintptr_t cfa, uintptr_t *word)
{
    uintptr_t offset = (uintptr_t)(intptr_t)where.offset;
    if (where.base == PYR_CFI_CFA) {
        return read_word(self, cfa + offset, word);
    }
    return where.base == PYR_CFI_FP && self->is_fp_known &&
           read_word(self, self->fp + offset, word);
}

typedef enum outcome { STEPPED, AT_END, LOST } outcome;

/* Goes to the caller; *returns: where that goes on. */
static outcome go_up(cursor *self, uintptr_t *returns)
{
    const object *in = find_object(&self->stacks->list, self->pc);
    pyr_cfi_rule rule = {0};
    if (in != NULL && in->header != 0) {
        rule = find_rule(self->stacks, in, self->pc);
    }
    uintptr_t offset = (uintptr_t)(intptr_t)rule.cfa.offset, cfa, fp = 0;
    switch (rule.cfa.base) {
    case PYR_CFI_END:
        return AT_END;
    case PYR_CFI_SP:
        cfa = self->sp + offset;
        break;
    case PYR_CFI_FP:
    case PYR_CFI_AT_FP:
        cfa = self->fp + offset;
        if (!self->is_fp_known || (rule.cfa.base == PYR_CFI_AT_FP && !read_word(self, cfa, &cfa))) {
            return LOST;
        }
        break;
    default:
        return LOST;
    }
    if (cfa <= self->sp || (cfa & ALIGNMENT) != 0 ||
        !find_place(self, rule.return_address, cfa, returns)) {
        return LOST;
    }
    if (rule.frame_pointer.base != PYR_CFI_SAME) {
        self->is_fp_known = find_place(self, rule.frame_pointer, cfa, &fp);
        self->fp = fp;
    }
    self->sp = cfa;
    self->pc = *returns - 1; /* what follows the call may be another function's */
    return *returns != 0 ? STEPPED : AT_END;
}

/* To the function that `caller` is in; false: it was not met. */
static bool go_to(cursor *self, uintptr_t caller)
{
    uintptr_t returns = 0;
    for (int frame = 0; frame < OWN_FRAMES; frame++) {
        if (go_up(self, &returns) != STEPPED) {
            return false;
        }
        if (returns == caller) {
            return true;
        }
    }
    return false;
}

static uint32_t walk(cursor *self, uintptr_t caller, uintptr_t *addresses)
{
    uint32_t count = 1;
    outcome how = go_to(self, caller) ? STEPPED : LOST;
    while (how == STEPPED) {
        uintptr_t returns = 0;
        how = count < PYR_NATIVE_STACK_FRAMES - 1 ? go_up(self, &returns) : LOST;
        const object *in = how == STEPPED ? find_object(&self->stacks->list, self->pc) : NULL;
        if (in != NULL && in->is_interpreter) {
            how = AT_END;
        } else if (how == STEPPED) {
            addresses[count++] = returns;
        }
    }
    if (how == LOST) {
        addresses[count++] = PYR_NATIVE_STACK_UNKNOWN;
    }
    return count;
}

/* Not inlined: its registers are read where it stands. */
__attribute__((noinline)) uint32_t
pyr_native_stack_walk(pyr_native_stacks *stacks, uintptr_t caller,
                      uintptr_t addresses[PYR_NATIVE_STACK_FRAMES])
{
    cursor self = {.stacks = stacks, .is_fp_known = true};
    addresses[0] = caller;
    addresses[1] = PYR_NATIVE_STACK_UNKNOWN;
    if (!pyr_lock_try(&stacks->lock)) {
        return 2;
    }
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(self.pc), "=&r"(self.sp), "=&r"(self.fp));
#elif defined(__aarch64__)
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(self.pc), "=&r"(self.sp), "=&r"(self.fp));
#endif
    pyr_batch_clear(stacks->copy);
    uint32_t count = walk(&self, caller, addresses);
    pyr_lock_release(&stacks->lock);
    return count;
}

size_t pyr_native_stacks_memory(void)
{
    return sizeof(pyr_native_stacks) + COPY_BYTES;
}

/* -------------------------------------------------------------------------------------- fork ----
 */

void pyr_native_stacks_prefork(pyr_native_stacks *stacks)
{
    pyr_lock_acquire(&stacks->lock);
}

void pyr_native_stacks_postfork_parent(pyr_native_stacks *stacks)
{
    pyr_lock_release(&stacks->lock);
}

void pyr_native_stacks_postfork_child(pyr_native_stacks *stacks)
{
    pyr_lock_fork_child(&stacks->lock);
}
