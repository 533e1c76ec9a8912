/* What the hold of a sampled lock says about those of the acquisitions it stands for.
 *
 * A hold that stands for w others alike is worth w times its length, unless that is more than all
 * holds together can have lasted in that time: a lock is held once at a time, and a thread seldom
 * has more than two. So there is room: the time between samples, times the locks that are in use
 * at a time. Holds take from it, and what they leave is there for later ones, since lengths vary.
 * Without such a bound, the first long hold after many short ones would be multiplied by these.
 *
 * Whoever owns the lock collector's countdown adds room; any thread takes from it. Never waits.
 */
#ifndef PYR_COLLECT_HOLD_ESTIMATE_H
#define PYR_COLLECT_HOLD_ESTIMATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_hold_room {
    _Atomic int64_t left_ns; /* below 0: a hold took what comes next */
    /* The owner's: */
    int64_t last_ns;               /* up to when room was added */
    uint64_t locks[2], holders[2]; /* a bit each, by hash: of the last samples, of those before */
    unsigned seen;                 /* samples in the first of each */
} pyr_hold_room;

/* No room, from now on. The owner, also where acquisitions are given that no hold stands for. */
PYR_HOOK_SAFE void pyr_hold_room_clear(pyr_hold_room *room, int64_t now_ns);

/* An acquisition is sampled that stands for `weight`, of a lock that `holder` (a thread, a task)
 * has now. The owner. */
PYR_HOOK_SAFE void pyr_hold_room_add(pyr_hold_room *room, int64_t now_ns, int64_t weight,
                                     uintptr_t lock, uintptr_t holder);

/* The length of all holds that this one stands for. */
PYR_HOOK_SAFE int64_t pyr_hold_room_take(pyr_hold_room *room, int64_t hold_ns, int64_t weight);

#endif
