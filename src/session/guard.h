/* Tells a start whether the process before it ended in the profiler's own code.
 *
 * Each process keeps a page of memory in a file of /dev/shm, which outlives it: a counter for each
 * collector says how many threads are in its code just now. An end that is none of the profiler's
 * removes the file, or leaves it with all counters at 0. Who finds another leaves that collector
 * off until ten minutes after it was found, and says so. Not for longer, since a process that is
 * killed at a random moment is in the sampler's code once in some hundred times, too. For the same
 * reason sudden ends are counted, those outside too: where one in twenty is within, or fewer, as in
 * a server whose children leave by _exit, that is chance, and no collector is left off.
 *
 * Every function takes NULL for a guard that could not be had: no collector is left off then.
 */
#ifndef PYR_SESSION_GUARD_H
#define PYR_SESSION_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/identity.h"

typedef struct pyr_guard pyr_guard;

/* Reads what processes of the same program in the same working folder have left in `folder` (NULL =
 * the usual one), and makes this one's page. NULL: there is no such folder, the program has no
 * name, or no memory. */
pyr_guard *pyr_guard_open(const char *folder, const pyr_identity *identity, const char *program);

/* The monotonic time until which the collector is to stay off, and `why` in a sentence; 0: it need
 * not. */
int64_t pyr_guard_holds(const pyr_guard *guard, const char *collector, char *why, size_t why_size);

/* The collector's counter, until the guard is closed. NULL: none. */
_Atomic uint32_t *pyr_guard_counter(pyr_guard *guard, const char *collector);

/* The end of this process is not the profiler's doing: the file goes. Any thread, also in a signal
 * handler; counters may still be used. */
PYR_HOOK_SAFE void pyr_guard_end(pyr_guard *guard);

/* Frees it, and leaves the file as it is. */
void pyr_guard_close(pyr_guard *guard);

/* In the child of a fork: the counters are memory of its own from now on. */
PYR_HOOK_SAFE void pyr_guard_fork_child(pyr_guard *guard);

#endif
