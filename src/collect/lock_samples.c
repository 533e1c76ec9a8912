/* Samples of the lock collector; see the header. Owns nothing. */
#include "collect/lock_samples.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"

enum { LABELS = PYR_OWN_STACK_LABELS + 4 };

/* The names of pyr_lock_type. */
static const char *const type_names[PYR_LOCK_TYPES] = {
    [PYR_LOCK_TYPE_LOCK] = "Lock",
    [PYR_LOCK_TYPE_RLOCK] = "RLock",
    [PYR_LOCK_TYPE_TASK_LOCK] = "asyncio.Lock",
    [PYR_LOCK_TYPE_TASK_SEMAPHORE] = "asyncio.Semaphore",
    [PYR_LOCK_TYPE_TASK_BOUNDED_SEMAPHORE] = "asyncio.BoundedSemaphore",
    [PYR_LOCK_TYPE_TASK_CONDITION] = "asyncio.Condition",
    [PYR_LOCK_TYPE_TASK_EVENT] = "asyncio.Event",
    [PYR_LOCK_TYPE_TASK_QUEUE] = "asyncio.Queue",
    [PYR_LOCK_TYPE_GEVENT_LOCK] = "gevent.Lock",
    [PYR_LOCK_TYPE_GEVENT_SEMAPHORE] = "gevent.Semaphore",
    [PYR_LOCK_TYPE_EVENTLET_LOCK] = "eventlet.Lock",
    [PYR_LOCK_TYPE_EVENTLET_SEMAPHORE] = "eventlet.Semaphore",
    [PYR_LOCK_TYPE_PROCESS_LOCK] = "multiprocessing.Lock",
    [PYR_LOCK_TYPE_PROCESS_RLOCK] = "multiprocessing.RLock",
    [PYR_LOCK_TYPE_PROCESS_SEMAPHORE] = "multiprocessing.Semaphore",
    [PYR_LOCK_TYPE_PROCESS_BOUNDED_SEMAPHORE] = "multiprocessing.BoundedSemaphore",
};

void pyr_lock_samples_renew(pyr_lock_samples *samples, pyr_symbols *symbols)
{
    static const char rest[] = "<acquisitions between samples>";
    pyr_lock_words *next = &samples->words[atomic_load(&samples->words_at) ^ 1];
    for (int i = 0; i < PYR_LOCK_TYPES; i++) {
        next->types[i] = pyr_symbols_string(symbols, type_names[i], strlen(type_names[i]));
    }
    next->mutex = pyr_symbols_string(symbols, "mutex", 5);
    next->park = pyr_symbols_string(symbols, "park", 4);
    next->rest = pyr_symbols_function(symbols, rest, sizeof rest - 1, "", 0, 0);
    next->symbols = symbols;
    atomic_fetch_xor(&samples->words_at, 1);
}

void pyr_lock_samples_give(pyr_lock_samples *samples, const pyr_lock_event *event)
{
    const pyr_lock_words *words = &samples->words[atomic_load(&samples->words_at)];
    pyr_label labels[LABELS];
    uint32_t used = pyr_own_stack_labels(event->stack, labels);
    bool has_words = words->symbols == event->stack->symbols;
    if (has_words) {
        labels[used++] = (pyr_label){.key = PYR_LABEL_LOCK_TYPE, .text = words->types[event->type]};
    }
    if (has_words && event->waits) {
        labels[used++] = (pyr_label){.key = PYR_LABEL_WAIT_KIND,
                                     .text = event->parks ? words->park : words->mutex};
    }
    if (event->name != 0) {
        labels[used++] = (pyr_label){.key = PYR_LABEL_LOCK_NAME, .text = event->name};
    }
    if (event->pair != 0) {
        labels[used++] = (pyr_label){.key = PYR_LABEL_PAIR_ID, .number = (int64_t)event->pair};
    }
    const pyr_sample sample = {
        .symbols = event->stack->symbols,
        .kind = event->kind,
        .frame_count = event->stack->count,
        .frames = event->stack->frames,
        .omitted = event->stack->omitted,
        .label_count = used,
        .labels = labels,
        .values = {event->value, event->count},
        .end_ns = samples->timeline ? event->end_ns : 0,
    };
    (void)samples->sink.add(samples->sink.context, &sample);
}

void pyr_lock_samples_give_rest(pyr_lock_samples *samples, int64_t waited_ns, int64_t acquired,
                                bool waits, bool parks)
{
    const pyr_lock_words *words = &samples->words[atomic_load(&samples->words_at)];
    if (waited_ns <= 0 && acquired <= 0) {
        return;
    }
    pyr_frame frame = {.function = words->rest};
    pyr_label label = {.key = PYR_LABEL_WAIT_KIND, .text = parks ? words->park : words->mutex};
    const pyr_sample sample = {
        .symbols = words->symbols,
        .kind = PYR_SAMPLE_KIND_LOCK_ACQUIRE,
        .frame_count = 1,
        .frames = &frame,
        .label_count = waits,
        .labels = &label,
        .values = {waited_ns, acquired},
        .end_ns = samples->timeline ? pyr_clock_monotonic_ns() : 0,
    };
    (void)samples->sink.add(samples->sink.context, &sample);
}

uint64_t pyr_lock_pair(const pyr_own_stack *waiter, const pyr_own_stack *holder, const void *lock)
{
    uint64_t hash = (uint64_t)(uintptr_t)lock;
    hash = pyr_hash_bytes(waiter->frames, waiter->count * sizeof waiter->frames[0], hash);
    hash = pyr_hash_bytes(holder->frames, holder->count * sizeof holder->frames[0],
                          hash ^ waiter->thread_id ^ holder->thread_id << 1);
    return (hash >> 1) | 1; /* above 0 as a signed number, too */
}
