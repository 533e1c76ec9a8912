/* Symbol tables; see the header.
 *
 * Entries stand in chunks that never move, texts in blocks that never move. A writer holds the
 * lock, fills an entry and then publishes it by storing the count (release); a reader loads the
 * count (acquire) and follows pointers, without a lock. Interning goes through two maps from hash
 * to id, which only writers touch. Interning itself allocates nothing: it finds room or it does
 * not, and who may allocate adds room and tries again. Everything is freed together by the last
 * release.
 */
#include "model/symbols.h"

#include <stdatomic.h>
#include <string.h>

#include "base/limits.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/utf8.h"

enum {
#ifdef PYR_HOSTILE
    CHUNK_ENTRIES = 16,
    BLOCK_BYTES = 1 << 13,
#else
    CHUNK_ENTRIES = 512,
    BLOCK_BYTES = 1 << 15, /* holds any string */
#endif
    STRING_CHUNKS = PYR_LIMIT_STRINGS / CHUNK_ENTRIES,
    FUNCTION_CHUNKS = PYR_LIMIT_FUNCTIONS / CHUNK_ENTRIES,
    BLOCKS = PYR_LIMIT_STRING_BYTES / BLOCK_BYTES,
    TEXT_BYTES = PYR_LIMIT_PATH_BYTES, /* of one string; longer ones are cut */
    RESERVED_CHUNKS = 2,               /* beyond the last entry, for hooks */
    RESERVED_BLOCKS = 1,
    LOCK_TRIES = 64,
};

typedef struct string {
    const char *text;
    size_t length;
} string;

struct pyr_symbols {
    atomic_uint references;
    atomic_uint string_count, function_count;
    void *strings[STRING_CHUNKS];     /* arrays of string; written once, before their count */
    void *functions[FUNCTION_CHUNKS]; /* arrays of pyr_function; likewise */
    pyr_lock lock;                    /* guards everything below, and all writing */
    char *blocks[BLOCKS];
    size_t block_count;          /* made so far */
    size_t block_at, block_used; /* the one being filled, and how far */
    pyr_map *string_ids, *function_ids;
    uint64_t seed;
    atomic_ullong overflows;
};

/* The place of entry `id`, or NULL where its chunk is not there yet. Lock held. */
static void *entry_at(void *const *chunks, size_t chunk_count, uint32_t id, size_t size)
{
    char *chunk = id / CHUNK_ENTRIES < chunk_count ? chunks[id / CHUNK_ENTRIES] : NULL;
    return chunk ? chunk + id % CHUNK_ENTRIES * size : NULL;
}

/* Where a string of `length` bytes and its NUL can be written, or NULL: no room. Lock held. */
static char *place_text(pyr_symbols *symbols, size_t length)
{
    while (symbols->block_at < symbols->block_count) {
        if (BLOCK_BYTES - symbols->block_used >= length + 1) {
            return symbols->blocks[symbols->block_at] + symbols->block_used;
        }
        if (symbols->block_at + 1 == symbols->block_count) {
            break; /* the tail of this one may still hold a shorter text */
        }
        symbols->block_at++;
        symbols->block_used = 0;
    }
    return NULL;
}

static const string *get_string(const pyr_symbols *symbols, uint32_t id)
{
    return (const string *)symbols->strings[id / CHUNK_ENTRIES] + id % CHUNK_ENTRIES;
}

static pyr_function *get_function(const pyr_symbols *symbols, uint32_t id)
{
    return (pyr_function *)symbols->functions[id / CHUNK_ENTRIES] + id % CHUNK_ENTRIES;
}

/* Appends valid text; 0 when there is no room. Lock held. */
static uint32_t append_string(pyr_symbols *symbols, uint64_t hash, const char *text, size_t length)
{
    uint32_t id = atomic_load_explicit(&symbols->string_count, memory_order_relaxed);
    char *copy = place_text(symbols, length);
    string *entry = entry_at(symbols->strings, STRING_CHUNKS, id, sizeof *entry);
    if (!copy || !entry || pyr_map_put_reserved(symbols->string_ids, hash, id) != PYR_OK) {
        return 0;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    symbols->block_used += length + 1;
    *entry = (string){copy, length};
    atomic_store_explicit(&symbols->string_count, id + 1, memory_order_release);
    return id;
}

/* Finds or appends; 0 for the empty text and when there is no room. Lock held. */
static uint32_t intern_string(pyr_symbols *symbols, const char *text, size_t length)
{
    char repaired[TEXT_BYTES + 1];
    if (length > TEXT_BYTES || pyr_utf8_valid(text, length) < length) {
        length = pyr_utf8_repair(text, length, repaired, sizeof repaired);
        text = repaired;
    }
    if (length == 0) {
        return 0;
    }
    uint64_t id;
    uint64_t hash = pyr_hash_bytes(text, length, symbols->seed);
    /* Two texts with one hash are next to impossible, and then the second gets another hash. */
    while (pyr_map_get(symbols->string_ids, hash, &id)) {
        const string *known = get_string(symbols, (uint32_t)id);
        if (known->length == length && memcmp(known->text, text, length) == 0) {
            return (uint32_t)id;
        }
        hash = pyr_hash_u64(hash, symbols->seed);
    }
    return append_string(symbols, hash, text, length);
}

static uint32_t append_function(pyr_symbols *symbols, uint64_t hash, pyr_function function)
{
    uint32_t id = atomic_load_explicit(&symbols->function_count, memory_order_relaxed);
    pyr_function *entry = entry_at(symbols->functions, FUNCTION_CHUNKS, id, sizeof *entry);
    if (!entry || pyr_map_put_reserved(symbols->function_ids, hash, id) != PYR_OK) {
        return 0;
    }
    *entry = function;
    atomic_store_explicit(&symbols->function_count, id + 1, memory_order_release);
    return id;
}

static uint32_t intern_function(pyr_symbols *symbols, pyr_function function)
{
    uint64_t id;
    uint64_t hash = pyr_hash_bytes(&function, sizeof function, symbols->seed);
    while (pyr_map_get(symbols->function_ids, hash, &id)) {
        if (memcmp(get_function(symbols, (uint32_t)id), &function, sizeof function) == 0) {
            return (uint32_t)id;
        }
        hash = pyr_hash_u64(hash, symbols->seed);
    }
    return append_function(symbols, hash, function);
}

/* A function by its three fields; 0 when there is no room. Lock held. */
static uint32_t intern_fields(pyr_symbols *symbols, const char *name, size_t name_length,
                              const char *file, size_t file_length, int32_t first_line)
{
    pyr_function function = {
        .name = intern_string(symbols, name, name_length),
        .file = intern_string(symbols, file, file_length),
        .first_line = first_line,
    };
    /* A function without the name it has would merge with others: rather none. */
    if ((function.name == 0 && name_length != 0) || (function.file == 0 && file_length != 0)) {
        return 0;
    }
    return intern_function(symbols, function);
}

/* Makes the chunk of entry `id` if it is missing. True: made. Lock held. */
static bool add_chunk(void **chunks, size_t chunk_count, uint32_t id, size_t size)
{
    size_t at = id / CHUNK_ENTRIES;
    if (at >= chunk_count || chunks[at]) {
        return false;
    }
    chunks[at] = pyr_memory_new(CHUNK_ENTRIES, size);
    return chunks[at] != NULL;
}

static bool add_to_map(pyr_map *map, size_t entries)
{
    if (pyr_map_has_room(map, entries)) {
        return false;
    }
    (void)!pyr_map_reserve(map, entries);
    return pyr_map_has_room(map, entries);
}

/* Adds what is lacking of room for `entries` more strings and functions, and of `blocks` blocks
 * behind the one being filled. True: something was added. Lock held. */
static bool add_room(pyr_symbols *symbols, uint32_t entries, size_t blocks)
{
    uint32_t string_id = atomic_load_explicit(&symbols->string_count, memory_order_relaxed);
    uint32_t function_id = atomic_load_explicit(&symbols->function_count, memory_order_relaxed);
    bool added = false;
    for (uint32_t more = 0; more < entries; more += CHUNK_ENTRIES) {
        added |= add_chunk(symbols->strings, STRING_CHUNKS, string_id + more, sizeof(string));
        added |= add_chunk(symbols->functions, FUNCTION_CHUNKS, function_id + more,
                           sizeof(pyr_function));
    }
    while (symbols->block_count <= symbols->block_at + blocks && symbols->block_count < BLOCKS) {
        char *block = pyr_memory_new(1, BLOCK_BYTES);
        if (!block) {
            break;
        }
        symbols->blocks[symbols->block_count++] = block;
        added = true;
    }
    added |= add_to_map(symbols->string_ids, entries);
    added |= add_to_map(symbols->function_ids, entries);
    return added;
}

/* After an attempt that found no room: true when there is more now. Lock held. */
static bool add_room_for_one(pyr_symbols *symbols)
{
    return add_room(symbols, 2, BLOCK_BYTES - symbols->block_used <= TEXT_BYTES);
}

static void destroy(pyr_symbols *symbols)
{
    for (size_t i = 0; i < STRING_CHUNKS; i++) {
        pyr_memory_free(symbols->strings[i]);
    }
    for (size_t i = 0; i < FUNCTION_CHUNKS; i++) {
        pyr_memory_free(symbols->functions[i]);
    }
    for (size_t i = 0; i < symbols->block_count; i++) {
        pyr_memory_free(symbols->blocks[i]);
    }
    pyr_map_free(symbols->string_ids);
    pyr_map_free(symbols->function_ids);
    pyr_lock_fini(&symbols->lock);
    pyr_memory_free(symbols);
}

pyr_symbols *pyr_symbols_new(void)
{
    static const char full[] = "<symbol table full>";
    pyr_symbols *symbols = pyr_memory_new(1, sizeof *symbols);
    if (!symbols) {
        return NULL;
    }
    atomic_init(&symbols->references, 1);
    pyr_lock_init(&symbols->lock, PYR_LOCK_SYMBOLS);
    symbols->seed = pyr_hash_seed();
    symbols->string_ids = pyr_map_new(PYR_LIMIT_STRINGS);
    symbols->function_ids = pyr_map_new(PYR_LIMIT_FUNCTIONS);
    if (!symbols->string_ids || !symbols->function_ids || !add_room_for_one(symbols)) {
        destroy(symbols);
        return NULL;
    }
    /* The entries with id 0. Nobody looks the empty text up, so its hash does not matter. */
    append_string(symbols, 0, "", 0);
    uint32_t name = intern_string(symbols, full, sizeof full - 1);
    intern_function(symbols, (pyr_function){.name = name});
    if (name != 1 || atomic_load(&symbols->function_count) != 1) {
        destroy(symbols);
        return NULL;
    }
    return symbols;
}

pyr_symbols *pyr_symbols_share(pyr_symbols *symbols)
{
    atomic_fetch_add_explicit(&symbols->references, 1, memory_order_relaxed);
    return symbols;
}

void pyr_symbols_release(pyr_symbols *symbols)
{
    if (symbols && atomic_fetch_sub_explicit(&symbols->references, 1, memory_order_acq_rel) == 1) {
        destroy(symbols);
    }
}

static void count_overflow(pyr_symbols *symbols)
{
    atomic_fetch_add_explicit(&symbols->overflows, 1, memory_order_relaxed);
}

uint32_t pyr_symbols_string(pyr_symbols *symbols, const char *text, size_t length)
{
    if (length == 0) {
        return 0;
    }
    pyr_lock_acquire(&symbols->lock);
    uint32_t id;
    do {
        id = intern_string(symbols, text, length);
    } while (id == 0 && add_room_for_one(symbols));
    pyr_lock_release(&symbols->lock);
    if (id == 0) {
        count_overflow(symbols);
    }
    return id;
}

uint32_t pyr_symbols_function(pyr_symbols *symbols, const char *name, size_t name_length,
                              const char *file, size_t file_length, int32_t first_line)
{
    uint32_t id;
    pyr_lock_acquire(&symbols->lock);
    do {
        id = intern_fields(symbols, name, name_length, file, file_length, first_line);
    } while (id == 0 && add_room_for_one(symbols));
    pyr_lock_release(&symbols->lock);
    if (id == 0) {
        count_overflow(symbols);
    }
    return id;
}

/* Takes the lock, waiting no longer than its short holds take. */
static bool try_for_a_while(pyr_symbols *symbols)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (pyr_lock_try(&symbols->lock)) {
            return true;
        }
    }
    return false;
}

pyr_status pyr_symbols_string_reserved(pyr_symbols *symbols, const char *text, size_t length,
                                       uint32_t *string_id)
{
    *string_id = 0;
    if (length == 0) {
        return PYR_OK;
    }
    if (!try_for_a_while(symbols)) {
        return PYR_EBUSY;
    }
    *string_id = intern_string(symbols, text, length);
    pyr_lock_release(&symbols->lock);
    return *string_id != 0 ? PYR_OK : PYR_ENOMEM;
}

pyr_status pyr_symbols_function_reserved(pyr_symbols *symbols, const char *name, size_t name_length,
                                         const char *file, size_t file_length, int32_t first_line,
                                         uint32_t *function_id)
{
    *function_id = 0;
    if (!try_for_a_while(symbols)) {
        return PYR_EBUSY;
    }
    *function_id = intern_fields(symbols, name, name_length, file, file_length, first_line);
    pyr_lock_release(&symbols->lock);
    return *function_id != 0 ? PYR_OK : PYR_ENOMEM;
}

void pyr_symbols_reserve(pyr_symbols *symbols)
{
    pyr_lock_acquire(&symbols->lock);
    (void)add_room(symbols, RESERVED_CHUNKS * CHUNK_ENTRIES, RESERVED_BLOCKS);
    pyr_lock_release(&symbols->lock);
}

const char *pyr_symbols_text(const pyr_symbols *symbols, uint32_t id, size_t *length)
{
    uint32_t count = atomic_load_explicit(&symbols->string_count, memory_order_acquire);
    const string *found = get_string(symbols, id < count ? id : 0);
    if (length) {
        *length = found->length;
    }
    return found->text;
}

pyr_function pyr_symbols_get(const pyr_symbols *symbols, uint32_t function)
{
    uint32_t count = atomic_load_explicit(&symbols->function_count, memory_order_acquire);
    return *get_function(symbols, function < count ? function : 0);
}

unsigned pyr_symbols_fill_pct(const pyr_symbols *symbols)
{
    pyr_lock *lock = (pyr_lock *)(uintptr_t)&symbols->lock;
    pyr_lock_acquire(lock);
    size_t blocks = symbols->block_count;
    pyr_lock_release(lock);
    size_t strings = atomic_load_explicit(&symbols->string_count, memory_order_relaxed);
    size_t functions = atomic_load_explicit(&symbols->function_count, memory_order_relaxed);
    size_t fullest = strings * 100 / PYR_LIMIT_STRINGS;
    if (functions * 100 / PYR_LIMIT_FUNCTIONS > fullest) {
        fullest = functions * 100 / PYR_LIMIT_FUNCTIONS;
    }
    if (blocks * 100 / BLOCKS > fullest) {
        fullest = blocks * 100 / BLOCKS;
    }
    return (unsigned)fullest;
}

uint64_t pyr_symbols_overflows(const pyr_symbols *symbols)
{
    return atomic_load_explicit(&symbols->overflows, memory_order_relaxed);
}

void pyr_symbols_fork_child(pyr_symbols *symbols)
{
    pyr_lock_fork_child(&symbols->lock);
}
