/* Thread states of all interpreters; see the header for the idea.
 *
 * Owns two generations of the list (the valid one and the one being built) and a batch. Everything
 * read is hostile: lists are bounded, links are followed through copies only, a node must say that
 * it belongs to the interpreter whose list it stands in.
 */
#include "unwind/threads.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"

typedef struct interpreter {
    pyr_addr address, next, threads_head, gil;
    uint64_t next_thread_id;
} interpreter;

typedef struct generation {
    pyr_thread_ref *refs;
    size_t count, capacity;
    pyr_map *by_state;
} generation;

struct pyr_threads {
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_addr runtime;
    pyr_batch *batch;
    pyr_addr head; /* first interpreter */
    interpreter interpreters[PYR_LIMIT_INTERPRETERS];
    size_t interpreter_count;
    pyr_gil_ref gils[PYR_LIMIT_INTERPRETERS];
    size_t gil_count;
    generation now, next;
    bool torn; /* the last update failed: look says changed */
};

enum {
    BATCH_BYTES = 1 << 19,
    LOOKED = 255, /* interpreters and GILs of a look: 4 spans each, and 2, fit into a batch */
};

_Static_assert(4 * LOOKED + 2 == (int)PYR_THREADS_LOOK_SPANS, "what a look adds");
_Static_assert(PYR_THREADS_LOOK_SPANS <= (int)PYR_LIMIT_SPANS, "a look is one batch");

static bool generation_init(generation *list)
{
    *list = (generation){.by_state = pyr_map_new(PYR_LIMIT_THREADS)};
    return list->by_state != NULL;
}

static void generation_fini(generation *list)
{
    pyr_memory_free(list->refs);
    pyr_map_free(list->by_state);
}

pyr_threads *pyr_threads_new(pyr_reader *reader, const pyr_layout *layout, pyr_addr runtime)
{
    pyr_threads *threads = pyr_memory_new(1, sizeof *threads);
    if (!threads) {
        return NULL;
    }
    threads->reader = reader;
    threads->layout = layout;
    threads->runtime = runtime;
    threads->torn = true;
    threads->batch = pyr_batch_new(BATCH_BYTES);
    bool made = generation_init(&threads->now);
    made = generation_init(&threads->next) && made; /* both, so that both can be freed */
    if (!threads->batch || !made) {
        pyr_threads_free(threads);
        return NULL;
    }
    return threads;
}

void pyr_threads_free(pyr_threads *threads)
{
    if (threads) {
        pyr_batch_free(threads->batch);
        generation_fini(&threads->now);
        generation_fini(&threads->next);
        pyr_memory_free(threads);
    }
}

/* A word of the batch, or 0 when it could not be read. */
static pyr_addr word(const pyr_batch *batch, int span)
{
    const uint8_t *bytes = pyr_batch_get(batch, span);
    return bytes ? pyr_load_addr(bytes, 0) : 0;
}

static pyr_addr gil_of(const pyr_threads *threads, pyr_addr ceval_gil)
{
    return threads->layout->interp_ceval_gil == PYR_FIELD_ABSENT
               ? threads->runtime + threads->layout->gil_runtime
               : ceval_gil;
}

/* Adds the words that tell who holds each GIL; the first span. */
static int add_holders(const pyr_threads *threads, pyr_batch *batch)
{
    int first = (int)batch->count;
    for (size_t i = 0; i < threads->gil_count && i < LOOKED; i++) {
        pyr_addr gil = threads->gils[i].gil;
        (void)pyr_batch_add(batch, gil + threads->layout->gil_locked, 4);
        (void)pyr_batch_add(batch, gil + threads->layout->gil_holder, 8);
    }
    return first;
}

static void take_holders(pyr_threads *threads, const pyr_batch *batch, int first)
{
    for (size_t i = 0; i < threads->gil_count && i < LOOKED; i++) {
        const uint8_t *locked = pyr_batch_get(batch, first + 2 * (int)i);
        bool held = locked && pyr_load_i32(locked, 0) > 0;
        threads->gils[i].holder = held ? word(batch, first + 2 * (int)i + 1) : 0;
    }
}

/* Interpreters beyond the batch are seen by the regular updates. */
static size_t looked_interpreters(const pyr_threads *threads)
{
    return threads->interpreter_count < LOOKED ? threads->interpreter_count : LOOKED;
}

int pyr_threads_look_add(const pyr_threads *threads, pyr_batch *batch)
{
    const pyr_layout *layout = threads->layout;
    int first = pyr_batch_add(batch, threads->runtime + layout->runtime_finalizing, 8);
    (void)pyr_batch_add(batch, threads->runtime + layout->runtime_interpreters_head, 8);
    for (size_t i = 0; i < looked_interpreters(threads); i++) {
        pyr_addr base = threads->interpreters[i].address;
        (void)pyr_batch_add(batch, base + layout->interp_threads_head, 8);
        (void)pyr_batch_add(batch, base + layout->interp_threads_next_id, 8);
    }
    (void)add_holders(threads, batch);
    return first;
}

pyr_status pyr_threads_look_take(pyr_threads *threads, const pyr_batch *batch, int first,
                                 bool *changed)
{
    if (!pyr_batch_get(batch, first)) {
        return PYR_EFAULT;
    }
    if (word(batch, first) != 0) {
        return PYR_ECLOSED;
    }
    int head = first + 1;
    size_t looked = looked_interpreters(threads);
    bool differs = threads->torn || word(batch, head) != threads->head;
    for (size_t i = 0; i < looked; i++) {
        const interpreter *known = &threads->interpreters[i];
        int span = head + 1 + 2 * (int)i;
        differs |= word(batch, span) != known->threads_head;
        differs |= word(batch, span + 1) != known->next_thread_id;
    }
    take_holders(threads, batch, head + 1 + 2 * (int)looked);
    *changed = differs;
    return PYR_OK;
}

pyr_status pyr_threads_look(pyr_threads *threads, bool *changed)
{
    pyr_batch_clear(threads->batch);
    int first = pyr_threads_look_add(threads, threads->batch);
    pyr_reader_read_batch(threads->reader, threads->batch);
    return pyr_threads_look_take(threads, threads->batch, first, changed);
}

static pyr_status append(generation *list, const pyr_thread_ref *ref)
{
    if (list->count >= PYR_LIMIT_THREADS) {
        return PYR_ETOOBIG;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 32;
        pyr_thread_ref *refs = pyr_memory_resize(list->refs, capacity, sizeof *refs);
        if (!refs) {
            return PYR_ENOMEM;
        }
        list->refs = refs;
        list->capacity = capacity;
    }
    pyr_status status = pyr_map_put(list->by_state, ref->state, list->count);
    if (status == PYR_OK) {
        list->refs[list->count++] = *ref;
    }
    return status;
}

static pyr_thread_ref parse(const pyr_layout *layout, const uint8_t *bytes, pyr_addr state)
{
    return (pyr_thread_ref){
        .state = state,
        .next = pyr_load_addr(bytes, layout->thread_next),
        .interpreter = pyr_load_addr(bytes, layout->thread_interp),
        .ident = pyr_load_u64(bytes, layout->thread_ident),
        .native_id = pyr_load_u64(bytes, layout->thread_native_id),
        .unique_id = pyr_load_u64(bytes, layout->thread_unique_id),
    };
}

/* Walks the list of one interpreter, through copies of the states known before, which are read in
 * batches of as many as fit. */
static pyr_status walk(pyr_threads *threads, const interpreter *owner)
{
    const pyr_layout *layout = threads->layout;
    pyr_batch *batch = threads->batch;
    const generation *known = &threads->now;
    pyr_addr state = owner->threads_head;
    size_t from = 0, copied = 0; /* known->refs[from .. from + copied) are in the batch */
    while (state != 0) {
        uint64_t index;
        pyr_thread_ref ref;
        if (pyr_map_get(threads->next.by_state, state, &index)) {
            return PYR_ETORN; /* a cycle */
        }
        if (pyr_map_get(known->by_state, state, &index)) {
            if (index < from || index >= from + copied) {
                /* Lists keep their order, so what follows is likely to be needed next. */
                pyr_batch_clear(batch);
                from = (size_t)index;
                copied = 0;
                while (from + copied < known->count &&
                       pyr_batch_add(batch, known->refs[from + copied].state,
                                     layout->thread_size) >= 0) {
                    copied++;
                }
                pyr_reader_read_batch(threads->reader, batch);
            }
            const uint8_t *bytes = pyr_batch_get(batch, (int)(index - from));
            if (!bytes) {
                return PYR_ETORN;
            }
            ref = parse(layout, bytes, state);
        } else {
            uint8_t bytes[PYR_LIMIT_THREAD_STATE_BYTES];
            if (layout->thread_size > sizeof bytes ||
                pyr_reader_read(threads->reader, state, bytes, layout->thread_size) != PYR_OK) {
                return PYR_ETORN;
            }
            ref = parse(layout, bytes, state);
        }
        if (ref.interpreter != owner->address) {
            return PYR_ETORN; /* freed, or not linked in yet */
        }
        ref.gil = owner->gil;
        /* A state whose thread has not started yet has no native id: it runs nothing. */
        pyr_status status = append(&threads->next, &ref);
        if (status != PYR_OK) {
            return status;
        }
        state = ref.next;
    }
    return PYR_OK;
}

static pyr_status read_interpreters(pyr_threads *threads)
{
    const pyr_layout *layout = threads->layout;
    pyr_batch *batch = threads->batch;
    threads->interpreter_count = 0;
    threads->gil_count = 0;
    if (pyr_reader_read_addr(threads->reader, threads->runtime + layout->runtime_interpreters_head,
                             &threads->head) != PYR_OK) {
        return PYR_EFAULT;
    }
    pyr_addr address = threads->head;
    while (address != 0 && threads->interpreter_count < PYR_LIMIT_INTERPRETERS) {
        bool shared_gil = layout->interp_ceval_gil == PYR_FIELD_ABSENT;
        pyr_batch_clear(batch);
        int next = pyr_batch_add(batch, address + layout->interp_next, 8);
        int head = pyr_batch_add(batch, address + layout->interp_threads_head, 8);
        int id = pyr_batch_add(batch, address + layout->interp_threads_next_id, 8);
        int gil = shared_gil ? -1 : pyr_batch_add(batch, address + layout->interp_ceval_gil, 8);
        pyr_reader_read_batch(threads->reader, batch);
        if (!pyr_batch_get(batch, next) || !pyr_batch_get(batch, head)) {
            return PYR_ETORN;
        }
        interpreter *found = &threads->interpreters[threads->interpreter_count++];
        *found = (interpreter){.address = address,
                               .next = word(batch, next),
                               .threads_head = word(batch, head),
                               .next_thread_id = word(batch, id),
                               .gil = gil_of(threads, word(batch, gil))};
        bool seen = found->gil == 0;
        for (size_t i = 0; i < threads->gil_count && !seen; i++) {
            seen = threads->gils[i].gil == found->gil;
        }
        if (!seen) {
            threads->gils[threads->gil_count++] = (pyr_gil_ref){.gil = found->gil};
        }
        address = found->next;
    }
    pyr_batch_clear(batch);
    int holders = add_holders(threads, batch);
    pyr_reader_read_batch(threads->reader, batch);
    take_holders(threads, batch, holders);
    return address == 0 ? PYR_OK : PYR_ETORN; /* too many, or a cycle */
}

pyr_status pyr_threads_update(pyr_threads *threads)
{
    threads->torn = true;
    threads->next.count = 0;
    pyr_map_clear(threads->next.by_state);
    pyr_status status = read_interpreters(threads);
    for (size_t i = 0; i < threads->interpreter_count && status == PYR_OK; i++) {
        status = walk(threads, &threads->interpreters[i]);
    }
    if (status != PYR_OK && status != PYR_ETOOBIG) {
        return status;
    }
    generation old = threads->now;
    threads->now = threads->next;
    threads->next = old;
    threads->torn = false;
    return status;
}

size_t pyr_threads_count(const pyr_threads *threads)
{
    return threads->now.count;
}

const pyr_thread_ref *pyr_threads_get(const pyr_threads *threads, size_t index)
{
    return index < threads->now.count ? &threads->now.refs[index] : NULL;
}

int64_t pyr_threads_find(const pyr_threads *threads, pyr_addr state)
{
    uint64_t index;
    return pyr_map_get(threads->now.by_state, state, &index) ? (int64_t)index : -1;
}

size_t pyr_threads_gil_count(const pyr_threads *threads)
{
    return threads->gil_count;
}

const pyr_gil_ref *pyr_threads_gil(const pyr_threads *threads, size_t index)
{
    return index < threads->gil_count ? &threads->gils[index] : NULL;
}

pyr_addr pyr_threads_main_interpreter(const pyr_threads *threads)
{
    return threads->interpreter_count > 0
               ? threads->interpreters[threads->interpreter_count - 1].address
               : 0;
}

uint64_t pyr_threads_calls(const pyr_threads *threads)
{
    return threads->batch->calls;
}
