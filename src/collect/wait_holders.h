/* Who had a lock while a thread waited for it: whoever had it as the wait began, and then those
 * that got it meanwhile, one after the other; and what these did with it, as far as ticks saw it.
 *
 * A thread that has just got a lock stands where it took it, and that is all that others can see of
 * it when it matters. So the sampler's thread notes at each tick where the holders stand that
 * others wait for just then; the time of each is divided among these.
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
    PYR_WAIT_SIGHTS = 6,                      /* stacks of holders noted for a wait */
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

/* How often each noted stack of that thread was seen while the wait went on, and all of them
 * together; after pyr_wait_holders_end, and not for long: until the entry is removed. */
PYR_HOOK_SAFE uint32_t pyr_wait_holders_seen(int entry, uint64_t native_id,
                                             uint32_t times[PYR_WAIT_SIGHTS]);

/* One of them, into the caller's storage. */
PYR_HOOK_SAFE void pyr_wait_holders_sight(int entry, unsigned which, pyr_own_stack *stack);

/* After a fork, in the child: nobody notes anything just now. */
PYR_HOOK_SAFE void pyr_wait_holders_clear(void);

/* The stack that a thread state has now; false: it is not known. */
typedef bool pyr_wait_holders_find(void *context, pyr_addr thread_state, pyr_own_stack *stack);

/* Tells each thread state that somebody waits for, maybe more than once. From any thread. */
void pyr_wait_holders_each(void (*tell)(void *context, pyr_addr thread_state), void *context);

/* Notes where the holders stand that somebody waits for; `scratch` is for one stack. Without the
 * GIL, one thread at a time: the sampler's. */
void pyr_wait_holders_look(pyr_wait_holders_find *find, void *context, pyr_own_stack *scratch);

#endif
