/* Clocks, in nanoseconds; any thread. */
#ifndef PYR_BASE_CLOCK_H
#define PYR_BASE_CLOCK_H

#include <stdint.h>

#include "base/status.h"

/* Monotonic time: the one clock of all collectors. */
PYR_HOOK_SAFE int64_t pyr_clock_monotonic_ns(void);

/* Unix time. */
PYR_HOOK_SAFE int64_t pyr_clock_realtime_ns(void);

/* What to add to a monotonic time to get Unix time, now. */
PYR_HOOK_SAFE int64_t pyr_clock_epoch_offset_ns(void);

/* CPU time of the whole process, exited threads included. */
PYR_HOOK_SAFE int64_t pyr_clock_process_cpu_ns(void);

/* CPU time of the calling thread. */
PYR_HOOK_SAFE int64_t pyr_clock_own_cpu_ns(void);

/* CPU time of thread `native_id` of this process, or -1 when there is no such thread. */
PYR_HOOK_SAFE int64_t pyr_clock_thread_cpu_ns(int64_t native_id);

#endif
