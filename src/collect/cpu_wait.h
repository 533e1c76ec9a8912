/* Whether a thread has a CPU at this moment.
 *
 * A thread that is able to run may wait for a CPU, and then stands still at one place, often behind
 * a wake-up or late in its slice: it must not be taken for one that computes there. On another CPU
 * than ours a running thread's clock goes on while we look. On ours only we run: there it ran if it
 * was taken off the CPU in the moment in which we were put on. The sampler's thread only.
 */
#ifndef PYR_COLLECT_CPU_WAIT_H
#define PYR_COLLECT_CPU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "os/task_files.h"

typedef enum pyr_cpu_wait {
    PYR_CPU_WAIT_NO,     /* it ran while we looked, or until we did */
    PYR_CPU_WAIT_YES,    /* it does not run */
    PYR_CPU_WAIT_PARTLY, /* it began or ceased to run while we looked */
    PYR_CPU_WAIT_UNSURE, /* the system does not tell */
} pyr_cpu_wait;

/* What holds for one tick. */
typedef struct pyr_cpu_watch {
    pyr_task_files *files;
    int64_t own_task;  /* kernel id of the sampler's thread */
    int64_t put_on_ns; /* when it was put on its CPU, on that CPU's clock; -1 = not known */
    bool wanted;       /* somebody asked for it in the last tick */
} pyr_cpu_watch;

/* Begins a tick: to be called before anything that reads the sampler's own CPU clock or the
 * process's, since that sets the moment forward. */
void pyr_cpu_watch_begin(pyr_cpu_watch *watch);

/* `cpu_ns` is the thread's CPU clock as read, at the monotonic `read_ns`, before its stack was
 * copied, `cpu` the CPU that it runs or ran on last (-1: not known). `holds_gil`: its stack cannot
 * be that of a wait, so running half of the time since then will do; else it must have run all of
 * it. One system call, up to three where it was last on our CPU. */
pyr_cpu_wait pyr_cpu_wait_of(pyr_cpu_watch *watch, int64_t native_id, int64_t cpu_ns,
                             int64_t read_ns, int cpu, bool holds_gil);

#endif
