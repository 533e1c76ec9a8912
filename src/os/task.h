/* What the kernel tells of the threads ("tasks") of this process, and of the CPU it may use.
 *
 * Files of /proc are opened, read and closed at once: a descriptor that we held could be closed
 * and reused by the program (task_files.h has the way out for a thread of ours). Parsing is pure
 * and separate, so that it can be tested and fuzzed.
 */
#ifndef PYR_OS_TASK_H
#define PYR_OS_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What a task is blocked in, from the number of its system call. */
typedef enum pyr_task_wait {
    PYR_TASK_UNKNOWN, /* not readable, or a call we do not class */
    PYR_TASK_RUNNING, /* on a CPU, or waiting for one */
    PYR_TASK_FUTEX,   /* a lock, a condition, the GIL: see the address */
    PYR_TASK_SLEEP,
    PYR_TASK_IO, /* reads, writes, polls, accepts, connects, waits for a child */
} pyr_task_wait;

/* Reads /proc/self/task/TID/syscall: three system calls, about 2 us. */
pyr_task_wait pyr_os_task_wait(int64_t task, uintptr_t *futex);

/* Pure: the text of that file. */
pyr_task_wait pyr_task_parse_wait(const char *text, size_t length, uintptr_t *futex);

/* Fills the ids of all tasks of this process; returns how many there are (maybe more than fit). */
size_t pyr_os_tasks(int64_t *tasks, size_t capacity);

/* How many there are: one system call, about 2 us. 0 when unknown. */
uint64_t pyr_os_task_count(void);

/* Pure: links of the folder /proc/self/task, which are its own name, its "." and the ".." of each
 * task's folder -> tasks, 0 when it does not count them. */
uint64_t pyr_task_parse_links(uint64_t links);

/* The name of a task (at most 15 bytes), "" when unknown. */
void pyr_os_task_name(int64_t task, char name[16]);

/* Cores that the control group may use, from cpu.max (v2) or cpu.cfs_quota_us (v1); 0 = no limit
 * or not known. */
double pyr_os_cpu_quota(void);

/* Pure: "max 100000" or "50000 100000" of cpu.max -> cores, 0 = no limit or malformed. */
double pyr_task_parse_quota(const char *text, size_t length);

/* Pure: the path of the control group that has `controller` ("" = the unified hierarchy) in the
 * text of /proc/self/cgroup, lines such as "0::/a/b" and "3:cpu,cpuacct:/a/b". PYR_ENOENT: none, or
 * longer than `size`. */
PYR_MUST_USE pyr_status pyr_task_parse_group(const char *text, size_t length,
                                             const char *controller, char *path, size_t size);

/* Asks for the shortest scheduling slice and the finest timer for the calling thread, so that it
 * preempts a busy program when its time has come (sched_setattr with SCHED_OTHER and a runtime,
 * Linux 6.12+; no privilege needed). PYR_OK; PYR_ENOTSUP where the kernel has no such thing. */
PYR_MUST_USE pyr_status pyr_os_prefer_short_slice(int64_t slice_ns);

/* When a task was last on a CPU, on the clock of that CPU's run queue (/proc/self/task/ID/sched;
 * three system calls, 4 us): for one that waits, the moment it was taken off. Comparable only
 * between tasks of one CPU. -1: the kernel does not tell. */
int64_t pyr_os_task_ran_ns(int64_t task);

/* Pure: the text of that file -> nanoseconds, -1 when it has no such line. */
int64_t pyr_task_parse_ran(const char *text, size_t length);

/* The kernel's id of the calling thread. */
int64_t pyr_os_own_task(void);

/* Where a thread keeps the number of the CPU that it runs on or ran on last, as the kernel writes
 * it on each return to the program (rseq(2), registered by glibc 2.35+): an int32_t at this
 * distance from its pthread id. 0: not known on this platform. */
int64_t pyr_os_task_cpu_offset(void);

/* The CPU that the calling thread runs on; -1 when not known. */
int pyr_os_own_cpu(void);

/* Sleeps about so long. */
void pyr_os_sleep(int64_t duration_ns);

#endif
