/* A start that waits until the child of a fork has lived long enough to be worth it.
 *
 * Most children of a fork either end within milliseconds or live for minutes. Building a session
 * costs a millisecond and files of /proc, whose traces the kernel removes when the child ends, at a
 * cost of several milliseconds more. So a child gets one sleeping thread, which starts the profiler
 * once the child has used some CPU or has lived for a while. There is one a process; calls come
 * under the lock of session/process.c, except where said.
 */
#ifndef PYR_SESSION_LATE_START_H
#define PYR_SESSION_LATE_START_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Has `start` called, on a thread of its own and without the GIL, 20 ms from now if the process has
 * used 5 ms of CPU by then, else 60 ms from now. PYR_ETHREAD; PYR_EBUSY: one that was cancelled has
 * not ended yet. */
PYR_MUST_USE pyr_status pyr_late_start_plan(void (*start)(void));

/* It shall not be called any more, unless that has begun. Does not wait. */
void pyr_late_start_cancel(void);

/* A thread of this exists. Any thread. */
bool pyr_late_start_has_thread(void);

/* Waits until it does not, at most until the monotonic `deadline_ns`. Without the lock, which the
 * thread may be waiting for. */
void pyr_late_start_wait(int64_t deadline_ns);

/* The process has used so much CPU that it is worth a window even if it ends now. Any thread. */
bool pyr_late_start_is_due(void);

/* After a fork, in the child: the thread is gone. */
PYR_HOOK_SAFE void pyr_late_start_fork_child(void);

#endif
