/* Threads that wait for locks just now, and who waits for whom in a ring.
 *
 * A hook adds an entry when its thread begins to wait and removes it after; the watcher (the
 * sampler's thread) looks for rings without the GIL: threads that wait for locks whose holders wait
 * for locks, and so on. A ring that stands still for two looks is told once, with the stacks that
 * the threads had when they began to wait: as a deadlock, or, where one of the waits has a timeout
 * and the ring may come apart, as just that. Bounded; a full table only means that some deadlock
 * may not be told.
 */
#ifndef PYR_COLLECT_WAITS_H
#define PYR_COLLECT_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "unwind/own_stack.h"

enum {
#ifdef PYR_HOSTILE
    PYR_WAITS = 4, /* threads that wait at a time, at most */
#else
    PYR_WAITS = 256,
#endif
};

/* Adds the calling thread's wait; its entry, or -1 when the table is full. `stack` is copied. */
PYR_HOOK_SAFE int pyr_waits_add(const void *lock, pyr_addr thread_state, int64_t now_ns,
                                bool has_timeout, const pyr_own_stack *stack);
PYR_HOOK_SAFE void pyr_waits_remove(int entry);

/* The wait is over, but its entry stays the caller's until it is removed. */
PYR_HOOK_SAFE void pyr_waits_hide(int entry);

/* The next entry behind `entry` (-1: the first) that waits for the lock; -1: none. */
PYR_HOOK_SAFE int pyr_waits_next(const void *lock, int entry);

/* What the entry waits for; NULL: nothing. From any thread. */
PYR_HOOK_SAFE const void *pyr_waits_lock(int entry);

/* The thread state that waits for the lock since longest; 0 = none. */
PYR_HOOK_SAFE pyr_addr pyr_waits_oldest(const void *lock);

/* Threads that wait now. */
PYR_HOOK_SAFE unsigned pyr_waits_count(void);

/* One line about a ring, without its end. */
typedef void pyr_waits_tell(void *context, bool is_deadlock, const char *line);

typedef struct pyr_waits_told {
    unsigned deadlocks;
    unsigned
        with_timeout; /* rings of the same threads and locks, however often they form, are one */
} pyr_waits_told;

/* Looks for rings; those that stood at the look before, too, are told through `tell`. Returns how
 * many were. One thread at a time, no GIL. Names are those of `symbols`, of that epoch; a stack of
 * another one is not shown. `stacks` knows the names of threads that had none yet when they began
 * to wait; NULL: nobody does. */
pyr_waits_told pyr_waits_look(const pyr_symbols *symbols, pyr_own_stacks *stacks, uint64_t epoch,
                              pyr_waits_tell *tell, void *context);

/* Forgets all: in the child of a fork, and when symbols change stacks that were copied. */
PYR_HOOK_SAFE void pyr_waits_clear(void);

#endif
