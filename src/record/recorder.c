/* The recorder; see the header.
 *
 * Writers try the locks of the lanes, beginning with one that depends on their thread, so that a
 * thread mostly finds its own stacks where it wrote them before. A lane lives in a window; which
 * window, is guarded by the lane's lock. A rotation makes the next window first and then moves lane
 * by lane, so that a writer always finds lanes free, and each sample is in exactly one window.
 */
#include "record/recorder.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "record/window_body.h"

struct pyr_recorder {
    size_t window_bytes;
    uint64_t next_sequence;       /* rotation only */
    _Atomic(pyr_window *) newest; /* the window that lanes are in, or move into */
    pyr_lock locks[PYR_LIMIT_LANES];
    pyr_window *windows[PYR_LIMIT_LANES]; /* of each lane; guarded by its lock */
    _Atomic uint64_t lost[PYR_LOSSES];    /* since the last rotation */
};

static void lose(void *context, pyr_loss reason, uint64_t count)
{
    pyr_recorder *recorder = context;
    if ((unsigned)reason < PYR_LOSSES) {
        atomic_fetch_add_explicit(&recorder->lost[reason], count, memory_order_relaxed);
    }
}

static pyr_status add(void *context, const pyr_sample *sample)
{
    pyr_recorder *recorder = context;
    size_t first = (size_t)((uint64_t)pthread_self() * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        size_t lane = (first + i) % PYR_LIMIT_LANES;
        if (!pyr_lock_try(&recorder->locks[lane])) {
            continue;
        }
        pyr_window *window = recorder->windows[lane];
        /* Between a rotation to a new table and the moment when a collector hears of it, ids would
         * get other names: rather lose these few. */
        pyr_status status = sample->symbols && sample->symbols != window->symbols
                                ? PYR_EVERSION
                                : pyr_lane_add(&window->lanes[lane], &window->space, sample);
        pyr_lock_release(&recorder->locks[lane]);
        if (status == PYR_ETOOBIG || status == PYR_EVERSION) {
            lose(recorder, status == PYR_ETOOBIG ? PYR_LOSS_WINDOW_FULL : PYR_LOSS_OLD_SYMBOLS, 1);
        }
        return status;
    }
    lose(recorder, PYR_LOSS_LANES_BUSY, 1);
    return PYR_EBUSY;
}

pyr_recorder *pyr_recorder_new(size_t window_bytes, pyr_symbols *symbols)
{
    return pyr_recorder_new_ranked(window_bytes, PYR_LOCK_LANE, symbols);
}

pyr_recorder *pyr_recorder_new_ranked(size_t window_bytes, unsigned rank, pyr_symbols *symbols)
{
    pyr_recorder *recorder = pyr_memory_new(1, sizeof *recorder);
    pyr_window *window = recorder ? pyr_window_new(window_bytes, symbols, 0) : NULL;
    if (!window) {
        pyr_memory_free(recorder);
        return NULL;
    }
    recorder->window_bytes = window_bytes;
    recorder->next_sequence = 1;
    atomic_init(&recorder->newest, window);
    for (unsigned i = 0; i < PYR_LIMIT_LANES; i++) {
        pyr_lock_init(&recorder->locks[i], rank + i);
        recorder->windows[i] = window;
    }
    return recorder;
}

void pyr_recorder_free(pyr_recorder *recorder)
{
    if (recorder) {
        pyr_window_free(atomic_load(&recorder->newest));
        for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
            pyr_lock_fini(&recorder->locks[i]);
        }
        pyr_memory_free(recorder);
    }
}

pyr_sink pyr_recorder_sink(pyr_recorder *recorder)
{
    return (pyr_sink){.context = recorder, .add = add, .lose = lose};
}

pyr_status pyr_recorder_rotate(pyr_recorder *recorder, pyr_symbols *next_symbols,
                               pyr_window **window)
{
    pyr_window *next =
        pyr_window_new(recorder->window_bytes, next_symbols, recorder->next_sequence);
    if (!next) {
        return PYR_ENOMEM;
    }
    recorder->next_sequence++;
    pyr_window *sealed = atomic_exchange(&recorder->newest, next);
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        pyr_lock_acquire(&recorder->locks[i]);
        recorder->windows[i] = next;
        pyr_lock_release(&recorder->locks[i]);
    }
    for (size_t i = 0; i < PYR_LOSSES; i++) {
        sealed->lost[i] = atomic_exchange_explicit(&recorder->lost[i], 0, memory_order_relaxed);
    }
    /* The table counts by itself; what it counted meanwhile is this window's, and no other's. */
    uint64_t overflows = pyr_symbols_overflows(sealed->symbols);
    sealed->lost[PYR_LOSS_SYMBOLS_FULL] += overflows - sealed->symbol_overflows;
    if (next->symbols == sealed->symbols) {
        next->symbol_overflows = overflows;
    }
    sealed->end_ns = next->start_ns;
    sealed->epoch_offset_ns = pyr_clock_epoch_offset_ns();
    *window = sealed;
    return PYR_OK;
}

size_t pyr_recorder_used(const pyr_recorder *recorder)
{
    /* The lock keeps the window from being sealed, and then freed, meanwhile. */
    pyr_lock *lock = (pyr_lock *)(uintptr_t)&recorder->locks[0];
    pyr_lock_acquire(lock);
    size_t used = atomic_load_explicit(&recorder->windows[0]->space.claimed, memory_order_relaxed);
    pyr_lock_release(lock);
    return used;
}

void pyr_recorder_prefork(pyr_recorder *recorder)
{
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        pyr_lock_acquire(&recorder->locks[i]);
    }
}

void pyr_recorder_postfork_parent(pyr_recorder *recorder)
{
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        pyr_lock_release(&recorder->locks[i]);
    }
}

void pyr_recorder_postfork_child(pyr_recorder *recorder)
{
    /* A fork in the middle of a rotation leaves lanes in two windows. The sealed one belongs to
     * the parent's thread that rotated, and is lost here, on purpose, with its memory. */
    pyr_window *window = atomic_load(&recorder->newest);
    pyr_window_reset(window);
    recorder->next_sequence = 1;
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        recorder->windows[i] = window;
        pyr_lock_fork_child(&recorder->locks[i]);
    }
    for (size_t i = 0; i < PYR_LOSSES; i++) {
        atomic_store_explicit(&recorder->lost[i], 0, memory_order_relaxed);
    }
}
