/* The lock collector's state, for the files it is made of. Private to them. */
#ifndef PYR_COLLECT_LOCK_COLLECTOR_H
#define PYR_COLLECT_LOCK_COLLECTOR_H

#include "base/gate.h"
#include "base/limits.h"
#include "collect/collector.h"
#include "collect/hold_estimate.h"
#include "collect/left_out.h"
#include "collect/lock.h"
#include "collect/lock_pace.h"
#include "collect/lock_samples.h"
#include "collect/toll.h"

enum {
    PYR_LOCK_DEADLOCKS = 4,   /* told in facts */
    PYR_LOCK_TIMED_RINGS = 4, /* told in the log: programs may form them all the time */
};

typedef struct pyr_lock_drawing {
    pyr_lock_pace pace;
    pyr_hold_room room;
} pyr_lock_drawing;

typedef struct pyr_lock_state {
    pyr_collect_context context;
    pyr_lock_drawing draw;
    bool running; /* composition root only */
    pyr_left_out *left_out;
    pyr_toll waits[2][2]; /* of threads, of tasks: mutex, park; `extra`: without getting the lock */
    pyr_lock_samples samples;
    /* What has been given: those of waits are in a toll before. */
    _Atomic uint64_t acquired, contended, waited_ns, parked, parked_ns, released, unknown_holders,
        missed;
    _Atomic uint64_t deadlocks, timed_rings;
    char deadlock_lines[PYR_LOCK_DEADLOCKS]
                       [PYR_LIMIT_FACT_TEXT]; /* the watcher writes, facts read */
    _Atomic unsigned deadlock_line_count;
} pyr_lock_state;

extern pyr_gate pyr_lock_gate;              /* to the state of the collector that runs */
extern _Atomic int64_t pyr_lock_started_ns; /* of the one that runs now, or ran last */

PYR_HOOK_SAFE static inline void pyr_lock_count(_Atomic uint64_t *counter, int64_t more)
{
    atomic_fetch_add_explicit(counter, (uint64_t)more, memory_order_relaxed);
}

/* Waits that are given now; or, with negative sums, were not after all. */
PYR_HOOK_SAFE static inline void pyr_lock_count_waits(pyr_lock_state *self, pyr_sums sums,
                                                      bool parks)
{
    pyr_lock_count(parks ? &self->parked : &self->contended, sums.count);
    pyr_lock_count(parks ? &self->parked_ns : &self->waited_ns, sums.time_ns);
    pyr_lock_count(&self->acquired, sums.count - sums.extra);
}

/* A string of a table of names, while that table lasts. */
typedef struct pyr_lock_known_name {
    uint32_t epoch; /* of the table (own_stack.h), its low bits */
    uint32_t name;  /* 0 = none */
} pyr_lock_known_name;

/* What locks are called whose holds are measured, by place: their end need not look again. */
extern _Atomic(pyr_lock_known_name) pyr_held_names[PYR_HELD_PLACES];

/* The hold that began at `now_ns` is measured, and stands for those of `weight` acquisitions. */
PYR_HOOK_SAFE static inline void pyr_lock_mark(pyr_held *held, int64_t weight,
                                               pyr_lock_known_name name, int64_t now_ns)
{
    atomic_store_explicit(&pyr_held_names[held - pyr_held_locks], name, memory_order_relaxed);
    atomic_store_explicit(&held->weight, weight, memory_order_relaxed);
    atomic_store_explicit(&held->since_ns, now_ns, memory_order_relaxed);
}

/* The name of a lock, as a string of the stack's table; 0 = none. */
PYR_HOOK_SAFE uint32_t pyr_lock_name(pyr_lock_state *self, const void *object,
                                     pyr_addr thread_state, const pyr_own_stack *stack);

#endif
