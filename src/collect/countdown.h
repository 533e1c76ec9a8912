/* A countdown of events to the next one that is sampled: what an event costs is one subtraction.
 *
 * Gaps are geometric: every event has the same chance. A sample stands for all events since the one
 * before, so that sums are exact. Hooks in any thread count; who brings the countdown to 0, or
 * takes it, owns everything else of it until it is armed again.
 */
#ifndef PYR_COLLECT_COUNTDOWN_H
#define PYR_COLLECT_COUNTDOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_countdown {
    _Atomic int64_t left;
    /* The owner's: */
    uint64_t random;
    int64_t gap;     /* drawn last */
    int64_t carried; /* events of samples that could not be taken */
} pyr_countdown;

/* Where it stands while nothing is sampled. */
#define PYR_COUNTDOWN_FAR (INT64_MAX / 2)
#define PYR_COUNTDOWN_INIT                                                                         \
    {                                                                                              \
        .left = PYR_COUNTDOWN_FAR                                                                  \
    }

/* One event more; true: it is sampled, and the caller owns the countdown. */
PYR_HOOK_SAFE static inline bool pyr_countdown_hit(pyr_countdown *countdown)
{
    return atomic_fetch_sub_explicit(&countdown->left, 1, memory_order_acquire) == 1;
}

/* The event that was counted last was none after all. Does nothing while somebody owns it: then one
 * event too many stays counted. */
PYR_HOOK_SAFE static inline void pyr_countdown_undo(pyr_countdown *countdown)
{
    int64_t left = atomic_load_explicit(&countdown->left, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak(&countdown->left, &left, left + 1)) {
    }
}

/* Events that the sample stands for. The owner. */
PYR_HOOK_SAFE static inline int64_t pyr_countdown_weight(const pyr_countdown *countdown)
{
    return countdown->gap + countdown->carried;
}

/* Draws the next gap, of `mean` events, and gives the countdown back. `carry`: events that go to
 * the next sample. The owner, at a hit. */
PYR_HOOK_SAFE void pyr_countdown_go_on(pyr_countdown *countdown, double mean, int64_t carry);

/* Far away. The owner at a hit, or anybody before it is armed. */
PYR_HOOK_SAFE void pyr_countdown_stop(pyr_countdown *countdown);

/* Begins, from far away. */
PYR_HOOK_SAFE void pyr_countdown_start(pyr_countdown *countdown, double mean, uint64_t seed);

/* Takes it away from hooks; *rest gets the events that no sample stands for yet. False: a hook is
 * about to go on. Then pyr_countdown_resume draws anew (a gap has no memory), or it stays far. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_countdown_take(pyr_countdown *countdown, int64_t *rest);
PYR_HOOK_SAFE void pyr_countdown_resume(pyr_countdown *countdown, double mean);

#endif
