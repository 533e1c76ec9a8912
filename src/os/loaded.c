/* Loaded objects; see the header.
 *
 * Owns the one question to the loader at a time. Its lock may be held for long, by who needs ours
 * or the GIL to go on: a callback of dl_iterate_phdr that is written in Python. So questions are
 * asked by a thread of their own, which is left alone where no answer comes in time. Every address
 * and count of an object is held against its segments before it is used: a library is not hostile,
 * but a broken one must not break the program.
 */
#include "os/loaded.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "os/os.h"

enum {
    RELOCATIONS = 0, /* DT_RELA */
    PLT = 1,         /* DT_JMPREL */
    MOST_SYMBOLS = 1 << 24,
    HASH_HEAD = 4, /* words before the filter of a GNU hash table */
};

/* ------------------------------------------------------------------------------- questions ---- */

enum { IDLE, WAITING, INSIDE, ANSWERED, ABANDONED };

static const int64_t PATIENCE_NS = 500000000, FORK_PATIENCE_NS = 20000000, NAP_NS = 1000000;

static struct {
    _Atomic uint32_t phase; /* what follows is of whoever made it WAITING */
    int (*answer)(struct dl_phdr_info *info, size_t size, void *context);
    void *context;
} question;

static bool change_phase(uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&question.phase, &from, to);
}

/* Waits for another phase than this, some time. */
static void nap(uint32_t phase)
{
    pyr_os_futex_wait(&question.phase, phase, pyr_clock_monotonic_ns() + NAP_NS);
}

static int pass_on(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)unused;
    if (!change_phase(WAITING, INSIDE) && atomic_load(&question.phase) != INSIDE) {
        return 1; /* who asked did not wait */
    }
    return question.answer(info, size, question.context);
}

/* False: it was abandoned, and the question is somebody else's by now. */
static bool ask(void)
{
    (void)dl_iterate_phdr(pass_on, NULL);
    bool is_answered = change_phase(INSIDE, ANSWERED);
    if (!is_answered) {
        atomic_store(&question.phase, IDLE);
    }
    pyr_os_futex_wake(&question.phase);
    return is_answered;
}

static void *ask_alone(void *unused)
{
    (void)ask();
    return unused;
}

/* False: it is not answered now. */
static bool answer_by(int (*answer)(struct dl_phdr_info *info, size_t size, void *context),
                      void *context)
{
    pthread_t asker;
    int64_t deadline_ns = pyr_clock_monotonic_ns() + PATIENCE_NS;
    while (!change_phase(IDLE, WAITING)) {
        uint32_t phase = atomic_load(&question.phase);
        if (phase == ABANDONED || pyr_clock_monotonic_ns() > deadline_ns) {
            return false;
        }
        nap(phase);
    }
    question.answer = answer;
    question.context = context;
    if (pyr_os_thread_start(&asker, "pyrometer-loader", ask_alone, NULL) != PYR_OK) {
        atomic_store(&question.phase, IDLE);
        return false;
    }
    uint32_t phase;
    while ((phase = atomic_load(&question.phase)) != ANSWERED) {
        if (pyr_clock_monotonic_ns() > deadline_ns && change_phase(WAITING, ABANDONED)) {
            (void)pthread_detach(asker);
            return false;
        }
        nap(phase);
    }
    (void)pthread_join(asker, NULL);
    atomic_store(&question.phase, IDLE);
    return true;
}

static int count_changes(struct dl_phdr_info *info, size_t size, void *context)
{
    pyr_loaded_counts *counts = context;
    (void)size;
    *counts = (pyr_loaded_counts){.added = info->dlpi_adds, .removed = info->dlpi_subs};
    return 1;
}

bool pyr_loaded_count(pyr_loaded_counts *counts)
{
    return answer_by(count_changes, counts);
}

bool pyr_loaded_count_here(pyr_loaded_counts *counts)
{
    if (!change_phase(IDLE, WAITING)) {
        return false;
    }
    question.answer = count_changes;
    question.context = counts;
    bool is_answered = ask();
    if (is_answered) {
        atomic_store(&question.phase, IDLE);
    }
    return is_answered;
}

void pyr_loaded_prefork(void)
{
    int64_t deadline_ns = pyr_clock_monotonic_ns() + FORK_PATIENCE_NS;
    uint32_t phase;
    while ((phase = atomic_load(&question.phase)) == WAITING || phase == INSIDE) {
        if (pyr_clock_monotonic_ns() > deadline_ns && change_phase(WAITING, ABANDONED)) {
            break;
        }
        nap(phase);
    }
}

void pyr_loaded_fork_child(void)
{
    /* Who held the loader's lock is not there to give it back: it stays ABANDONED. */
    if (atomic_load(&question.phase) != ABANDONED) {
        atomic_store(&question.phase, IDLE);
    }
}

/* --------------------------------------------------------------------------------- objects ---- */

bool pyr_loaded_has(const pyr_loaded *object, uintptr_t address, size_t bytes, uint32_t flags)
{
    for (size_t at = 0; at < object->segment_count; at++) {
        const ElfW(Phdr) *segment = &object->segments[at];
        uintptr_t into = address - (object->base + segment->p_vaddr);
        if (segment->p_type == PT_LOAD && (segment->p_flags & flags) == flags &&
            into < segment->p_memsz && bytes <= segment->p_memsz - into) {
            return true;
        }
    }
    return false;
}

/* A pointer of the dynamic section, which glibc has relocated, but for read-only ones. NULL: it
 * leads out of the object. */
static const void *pointer(const pyr_loaded *object, uintptr_t value, size_t bytes)
{
    if (pyr_loaded_has(object, value, bytes, PF_R)) {
        return (const void *)value;
    }
    return pyr_loaded_has(object, object->base + value, bytes, PF_R)
               ? (const void *)(object->base + value)
               : NULL;
}

static bool has_words(const pyr_loaded *object, const uint32_t *words, size_t count)
{
    return pyr_loaded_has(object, (uintptr_t)words, count * sizeof *words, PF_R);
}

typedef struct hash_table {
    const uint32_t *buckets, *chains;
    uint32_t bucket_count, first; /* first: symbol of the first chain's word */
} hash_table;

static bool open_hash(const pyr_loaded *object, hash_table *table)
{
    const uint32_t *hash = object->hash;
    if (hash == NULL || !has_words(object, hash, HASH_HEAD)) {
        return false;
    }
    size_t filter_words = (size_t)hash[2] * (sizeof(ElfW(Addr)) / sizeof *hash);
    table->bucket_count = hash[0];
    table->first = hash[1];
    table->buckets = hash + HASH_HEAD + filter_words;
    table->chains = table->buckets + table->bucket_count;
    return table->bucket_count > 0 && has_words(object, table->buckets, table->bucket_count);
}

/* The table is as long as its last chain says. */
static size_t count_by_hash(const pyr_loaded *object)
{
    hash_table table;
    uint32_t last = 0;
    if (!open_hash(object, &table)) {
        return 0;
    }
    for (uint32_t bucket = 0; bucket < table.bucket_count; bucket++) {
        last = table.buckets[bucket] > last ? table.buckets[bucket] : last;
    }
    if (last < table.first) {
        return table.first; /* it defines nothing */
    }
    while (last < MOST_SYMBOLS && has_words(object, &table.chains[last - table.first], 1) &&
           (table.chains[last - table.first] & 1) == 0) {
        last++;
    }
    return (size_t)last + 1;
}

static void read_dynamic(pyr_loaded *object, const ElfW(Dyn) * entry, size_t count)
{
    uintptr_t tables[2] = {0, 0};
    size_t bytes[2] = {0, 0};
    uintptr_t symbols = 0, names = 0, hash = 0, old_hash = 0;
    for (size_t at = 0; at < count && entry[at].d_tag != DT_NULL; at++) {
        uintptr_t value = entry[at].d_un.d_val;
        switch (entry[at].d_tag) {
        case DT_SYMTAB:
            symbols = value;
            break;
        case DT_STRTAB:
            names = value;
            break;
        case DT_STRSZ:
            object->names_bytes = value;
            break;
        case DT_GNU_HASH:
            hash = value;
            break;
        case DT_HASH:
            old_hash = value;
            break;
        case DT_RELA:
            tables[RELOCATIONS] = value;
            break;
        case DT_RELASZ:
            bytes[RELOCATIONS] = value;
            break;
        case DT_JMPREL:
            tables[PLT] = value;
            break;
        case DT_PLTRELSZ:
            bytes[PLT] = value;
            break;
        default:
            break;
        }
    }
    object->names = pointer(object, names, object->names_bytes);
    object->hash = pointer(object, hash, HASH_HEAD * sizeof(uint32_t));
    const uint32_t *words = pointer(object, old_hash, 2 * sizeof *words);
    size_t symbol_count = words != NULL && old_hash != 0 ? words[1] : count_by_hash(object);
    object->symbol_count = symbol_count < MOST_SYMBOLS ? symbol_count : 0;
    object->symbols = pointer(object, symbols, object->symbol_count * sizeof(ElfW(Sym)));
    for (int table = 0; table < 2; table++) {
        pyr_loaded_relocations *found = &object->relocations[table];
        found->first = tables[table] != 0 ? pointer(object, tables[table], bytes[table]) : NULL;
        found->count = found->first != NULL ? bytes[table] / sizeof *found->first : 0;
    }
}

/* Fills in what the object is; false: it imports and exports nothing. */
static bool examine(pyr_loaded *object, const struct dl_phdr_info *info)
{
    const ElfW(Phdr) *dynamic = NULL;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    *object = (pyr_loaded){
        .base = info->dlpi_addr,
        .path = info->dlpi_name != NULL ? info->dlpi_name : "",
        .segments = info->dlpi_phdr,
        .segment_count = info->dlpi_phnum,
    };
    for (size_t at = 0; at < object->segment_count; at++) {
        const ElfW(Phdr) *segment = &object->segments[at];
        uintptr_t start = object->base + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) {
            dynamic = segment;
        } else if (segment->p_type == PT_GNU_RELRO) {
            /* As the loader rounds it: a page that is shared with other data stays writable. */
            object->relro_start = start / page * page;
            object->relro_end = (start + segment->p_memsz) / page * page;
        }
    }
    if (dynamic == NULL ||
        !pyr_loaded_has(object, object->base + dynamic->p_vaddr, dynamic->p_memsz, PF_R)) {
        return false;
    }
    read_dynamic(object, (const ElfW(Dyn) *)(object->base + dynamic->p_vaddr),
                 dynamic->p_memsz / sizeof(ElfW(Dyn)));
    return object->symbols != NULL && object->names != NULL;
}

typedef struct visitor {
    bool (*visit)(void *context, const pyr_loaded *object);
    void *context;
} visitor;

static int visit_one(struct dl_phdr_info *info, size_t size, void *context)
{
    const visitor *to = context;
    pyr_loaded object;
    (void)size;
    return examine(&object, info) && to->visit(to->context, &object);
}

bool pyr_loaded_each(bool (*visit)(void *context, const pyr_loaded *object), void *context)
{
    visitor to = {visit, context};
    return answer_by(visit_one, &to);
}

const char *pyr_loaded_symbol_name(const pyr_loaded *object, size_t symbol)
{
    size_t name = symbol < object->symbol_count ? object->symbols[symbol].st_name : 0;
    /* The names end with a NUL, so one that begins within them ends there too. */
    bool is_good = name < object->names_bytes && object->names[object->names_bytes - 1] == '\0';
    return is_good ? object->names + name : "";
}

static bool is_function(const ElfW(Sym) * symbol)
{
    unsigned type = symbol->st_info & 0xf;
    return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

bool pyr_loaded_defines(const pyr_loaded *object, const char *name)
{
    hash_table table;
    uint32_t wanted = 5381;
    for (const char *at = name; *at != '\0'; at++) {
        wanted = wanted * 33 + (uint8_t)*at;
    }
    if (!open_hash(object, &table)) {
        for (size_t symbol = 0; symbol < object->symbol_count; symbol++) {
            if (is_function(&object->symbols[symbol]) &&
                strcmp(pyr_loaded_symbol_name(object, symbol), name) == 0) {
                return true;
            }
        }
        return false;
    }
    for (uint32_t symbol = table.buckets[wanted % table.bucket_count];
         symbol >= table.first && symbol < object->symbol_count; symbol++) {
        uint32_t hash = table.chains[symbol - table.first];
        if ((hash | 1) == (wanted | 1) && is_function(&object->symbols[symbol]) &&
            strcmp(pyr_loaded_symbol_name(object, symbol), name) == 0) {
            return true;
        }
        if ((hash & 1) != 0) {
            break;
        }
    }
    return false;
}

const char *pyr_loaded_function_at(const pyr_loaded *object, uintptr_t address)
{
    for (size_t at = 0; at < object->symbol_count; at++) {
        const ElfW(Sym) *symbol = &object->symbols[at];
        if (is_function(symbol) && address - (object->base + symbol->st_value) < symbol->st_size) {
            return pyr_loaded_symbol_name(object, at);
        }
    }
    return NULL;
}
