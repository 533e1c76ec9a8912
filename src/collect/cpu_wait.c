/* Having a CPU, or waiting for one; see the header. */
#include "collect/cpu_wait.h"

#include "base/clock.h"
#include "os/task.h"

/* Taken off and put on in one switch: the kernel notes one time for both. */
enum { SAME_NS = 2000 };

void pyr_cpu_watch_begin(pyr_cpu_watch *watch)
{
    watch->put_on_ns = watch->wanted ? pyr_task_files_ran_ns(watch->files, watch->own_task) : -1;
    watch->wanted = false;
}

/* Of two threads of one CPU: whether the other one ran until we were put on it. */
static pyr_cpu_wait of_our_cpu(pyr_cpu_watch *watch, int64_t native_id, bool holds_gil)
{
    watch->wanted = true;
    int64_t taken_off = watch->put_on_ns < 0 ? -1 : pyr_task_files_ran_ns(watch->files, native_id);
    if (taken_off < 0) {
        return PYR_CPU_WAIT_UNSURE;
    }
    int64_t between = watch->put_on_ns - taken_off;
    if (between > SAME_NS || between < -SAME_NS) {
        return PYR_CPU_WAIT_YES;
    }
    /* It also left the CPU in that switch if it began to wait, which is when a sampler that is due
     * gets its turn on a busy CPU. Who holds the GIL does not wait. */
    uintptr_t futex;
    return holds_gil || pyr_task_files_wait(watch->files, native_id, &futex) == PYR_TASK_RUNNING
               ? PYR_CPU_WAIT_NO
               : PYR_CPU_WAIT_YES;
}

pyr_cpu_wait pyr_cpu_wait_of(pyr_cpu_watch *watch, int64_t native_id, int64_t cpu_ns,
                             int64_t read_ns, int cpu, bool holds_gil)
{
    int64_t elapsed = pyr_clock_monotonic_ns() - read_ns;
    int64_t ran = pyr_clock_thread_cpu_ns(native_id) - cpu_ns;
    if (ran > 0) {
        int64_t enough = holds_gil ? elapsed / 2 : elapsed / 10 * 9;
        return ran >= enough ? PYR_CPU_WAIT_NO : PYR_CPU_WAIT_PARTLY;
    }
    if (cpu < 0) {
        return PYR_CPU_WAIT_UNSURE;
    }
    return cpu == pyr_os_own_cpu() ? of_our_cpu(watch, native_id, holds_gil) : PYR_CPU_WAIT_YES;
}
