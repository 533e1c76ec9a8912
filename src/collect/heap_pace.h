/* How far apart samples of allocations are: as near as the budget of events allows.
 *
 * Time earns credit and events spend it, so that a burst is sampled finely and lasting load is not.
 * An event spends more beneath a deep stack, since it takes more time there, most of it for memory
 * that the program has pushed out of the caches. Numbers only; one owner, under its lock; hook
 * safe.
 */
#ifndef PYR_COLLECT_HEAP_PACE_H
#define PYR_COLLECT_HEAP_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PYR_HEAP_EVENTS_PER_S = 4000, /* of the cheapest, on a core */
    PYR_HEAP_BURST = 16384,       /* events beyond that, once */
    PYR_HEAP_NEAREST = 16 << 10,  /* bytes */
    PYR_HEAP_FIRST = 64 << 10,
    PYR_HEAP_FARTHEST = 8 << 20,
};

typedef struct pyr_heap_pace {
    double distance;   /* bytes, mean */
    double nearest;    /* set by hand, else PYR_HEAP_NEAREST */
    double budget;     /* credit earned in a second */
    double credit;     /* events of the cheapest */
    double built;      /* bytes that events have stood for */
    int64_t earned_ns; /* up to this time */
    int64_t slice_ns;  /* start of the slice of time in which events are counted */
    uint64_t slice_events;
    double slice_spent; /* credit */
    bool is_pushed;     /* the budget has made the distance larger than set by hand */
    bool is_set;
} pyr_heap_pace;

/* `set_bytes`: the distance set by hand, 0 = none. `quota_cores`: CPU that the container may use,
 * 0 = all; the budget is that of one core or of what there is. */
PYR_HOOK_SAFE void pyr_heap_pace_init(pyr_heap_pace *pace, int64_t set_bytes, double quota_cores,
                                      int64_t now_ns);

/* An event was sampled, at the cost of so many of the cheapest (pyr_own_stack_cost); the distance
 * may change. */
PYR_HOOK_SAFE void pyr_heap_pace_event(pyr_heap_pace *pace, int64_t now_ns, uint32_t cost);

/* Time passes, maybe without events. */
PYR_HOOK_SAFE void pyr_heap_pace_rest(pyr_heap_pace *pace, int64_t now_ns);

#endif
