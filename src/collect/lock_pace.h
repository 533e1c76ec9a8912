/* The pace of lock samples: how many acquisitions one stands for in the mean.
 *
 * Numbers only; never waits. The owner of the lock collector's countdown calls all but
 * pyr_lock_pace_is_rare, which the watcher asks at any time.
 */
#ifndef PYR_COLLECT_LOCK_PACE_H
#define PYR_COLLECT_LOCK_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_lock_pace {
    unsigned stretch;         /* the mean is 2 to this power */
    unsigned paced;           /* spent in this round, in samples of the cheapest */
    int64_t paced_ns;         /* when it began */
    _Atomic int64_t last_ns;  /* of the last sample */
    _Atomic int64_t slack_ns; /* so long without one: the mean is too large */
} pyr_lock_pace;

/* From now on; the mean is what it was. */
PYR_HOOK_SAFE void pyr_lock_pace_begin(pyr_lock_pace *pace, int64_t now_ns);

PYR_HOOK_SAFE static inline double pyr_lock_pace_mean(const pyr_lock_pace *pace)
{
    return (double)(UINT64_C(1) << pace->stretch);
}

/* After a sample of that cost (pyr_own_stack_cost): a thousand of the cheapest a second are the
 * budget. */
PYR_HOOK_SAFE void pyr_lock_pace_sampled(pyr_lock_pace *pace, int64_t now_ns, uint32_t cost);

/* Whether samples have become rare, because the program takes locks seldom now. */
PYR_HOOK_SAFE bool pyr_lock_pace_is_rare(pyr_lock_pace *pace, int64_t now_ns);

/* Then every acquisition is sampled again. */
PYR_HOOK_SAFE void pyr_lock_pace_restart(pyr_lock_pace *pace, int64_t now_ns);

#endif
