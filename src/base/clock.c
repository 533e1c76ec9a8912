/* Clocks. Stateless; hook safe. The CPU clock of a thread is addressed by its kernel id (the
 * encoding of clock ids of clock_getcpuclockid(3)), so that no pthread_t is ever dereferenced:
 * a thread that ended gives EINVAL, not a crash. */
#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0) {
        return -1;
    }
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t pyr_clock_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t pyr_clock_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t pyr_clock_epoch_offset_ns(void)
{
    int64_t before = read_clock(CLOCK_MONOTONIC);
    int64_t realtime = read_clock(CLOCK_REALTIME);
    int64_t after = read_clock(CLOCK_MONOTONIC);
    return realtime - (before + (after - before) / 2);
}

int64_t pyr_clock_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t pyr_clock_own_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t pyr_clock_thread_cpu_ns(int64_t native_id)
{
    /* MAKE_THREAD_CPUCLOCK(tid, CPUCLOCK_SCHED) of include/linux/posix-timers.h. */
    uint32_t encoded = (~(uint32_t)native_id << 3) | 4U | 2U;
    return read_clock((clockid_t)encoded);
}
