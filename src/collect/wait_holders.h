/* Who had a lock while a thread waited for it: whoever had it as the wait began, and then those
 * that got it meanwhile, one after the other.
 *
 * A row for each entry of the table of waits (collect/waits.h), used with the GIL of the
 * interpreter whose lock it is. Only threads that had to wait themselves are seen to get it: who
 * takes a lock that is free just then, before any waiter, is not, and its time counts as that of
 * the one before. Bounded: where more had the lock than there is room for, their time is nobody's.
 */
#ifndef PYR_COLLECT_WAIT_HOLDERS_H
#define PYR_COLLECT_WAIT_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "unwind/own_stack.h"

enum {
    PYR_WAIT_SUCCESSORS = 4,
    PYR_WAIT_PARTS = PYR_WAIT_SUCCESSORS + 1, /* the last is nobody's */
};

/* A wait begins. Like all that follows, it ignores an entry of -1: there is none. */
PYR_HOOK_SAFE void pyr_wait_holders_begin(int entry, int64_t now_ns);

/* The calling thread, which waited beneath `stack`, has got the lock: whoever waits for it still
 * waits because of that thread. The stack is copied. */
PYR_HOOK_SAFE void pyr_wait_holders_change(const void *lock, const pyr_own_stack *stack,
                                           int64_t now_ns);

/* The wait is over: for how long of it each successor had the lock. The rest is the first
 * holder's. */
PYR_HOOK_SAFE void pyr_wait_holders_end(int entry, int64_t now_ns,
                                        int64_t times_ns[PYR_WAIT_PARTS]);

/* The stack of a successor after that, into the caller's storage; false: it is nobody's part. */
PYR_HOOK_SAFE bool pyr_wait_holders_stack(int entry, unsigned part, pyr_own_stack *stack);

#endif
