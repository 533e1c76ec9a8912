/* The scheduler: one native thread that rotates, encodes and exports, without the GIL.
 *
 * It wakes every period, on demand and at the end. What it does is given as one function, so it
 * knows neither recorder nor exporters. Requests are posted by an atomic and a futex word, so that
 * a signal handler can make them.
 */
#ifndef PYR_SCHEDULE_SCHEDULER_H
#define PYR_SCHEDULE_SCHEDULER_H

#include <stdint.h>

#include "base/status.h"

typedef struct pyr_scheduler pyr_scheduler;

typedef enum pyr_flush_reason {
    PYR_FLUSH_PERIOD,
    PYR_FLUSH_REQUEST,
    PYR_FLUSH_EXIT,  /* the last one */
    PYR_FLUSH_SIGNAL /* likewise, and a signal handler waits for it */
} pyr_flush_reason;

/* `flush` is called on the scheduler's thread, one call at a time. */
PYR_MUST_USE pyr_status pyr_scheduler_new(int64_t period_ns,
                                          void (*flush)(void *context, pyr_flush_reason reason),
                                          void *context, pyr_scheduler **scheduler);
void pyr_scheduler_free(pyr_scheduler *scheduler);

/* For a process that is frozen at times (serverless): a period then also takes `ticks` waits of
 * `tick_ns`, of which a freeze makes one at most. Before the first start. */
void pyr_scheduler_count_ticks(pyr_scheduler *scheduler, int64_t tick_ns, uint64_t ticks);

/* Starts the thread (explicit stack size, all signals blocked). Started again after a stop, it
 * keeps to its periods. PYR_ETHREAD. */
PYR_MUST_USE pyr_status pyr_scheduler_start(pyr_scheduler *scheduler);

/* Asks for a flush and waits until one that began after the call has ended, at most until the
 * monotonic `deadline_ns`. PYR_OK, PYR_EBUSY (deadline), PYR_ECLOSED (not running). */
PYR_MUST_USE pyr_status pyr_scheduler_flush(pyr_scheduler *scheduler, pyr_flush_reason reason,
                                            int64_t deadline_ns);

/* As pyr_scheduler_flush, callable from a signal handler: only futex and atomics. */
PYR_HOOK_SAFE pyr_status pyr_scheduler_flush_from_signal(pyr_scheduler *scheduler,
                                                         int64_t deadline_ns);

/* Ends the thread: waits for it until `deadline_ns`; a thread that hangs is abandoned (and leaked,
 * on purpose). */
void pyr_scheduler_stop(pyr_scheduler *scheduler, int64_t deadline_ns);

/* 1 when stop gave up on the thread: what its flush uses may be in use for ever, so the owner must
 * not free it. */
PYR_HOOK_SAFE int pyr_scheduler_is_abandoned(const pyr_scheduler *scheduler);

/* After a fork, in the child: the thread is gone. Hook safe. */
void pyr_scheduler_fork_child(pyr_scheduler *scheduler);

#endif
