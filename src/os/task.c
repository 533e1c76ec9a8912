/* Tasks of the own process as /proc shows them. Stateless; any thread; allocates nothing. */
#include "os/task.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The whole of a small file, NUL-terminated; its length, or -1. */
static ssize_t read_small(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    ssize_t length = read(file, text, size - 1);
    (void)close(file);
    if (length >= 0) {
        text[length] = '\0';
    }
    return length;
}

static pyr_task_wait classify(long number)
{
    static const struct {
        long number;
        pyr_task_wait wait;
    } rows[] = {
#ifdef SYS_poll /* architectures without these have only the calls below */
        {SYS_poll, PYR_TASK_IO},
        {SYS_select, PYR_TASK_IO},
        {SYS_epoll_wait, PYR_TASK_IO},
        {SYS_pause, PYR_TASK_SLEEP},
#endif
#ifdef SYS_epoll_pwait2
        {SYS_epoll_pwait2, PYR_TASK_IO},
#endif
        {SYS_futex, PYR_TASK_FUTEX},
        {SYS_nanosleep, PYR_TASK_SLEEP},
        {SYS_clock_nanosleep, PYR_TASK_SLEEP},
        {SYS_ppoll, PYR_TASK_IO},
        {SYS_pselect6, PYR_TASK_IO},
        {SYS_epoll_pwait, PYR_TASK_IO},
        {SYS_read, PYR_TASK_IO},
        {SYS_readv, PYR_TASK_IO},
        {SYS_pread64, PYR_TASK_IO},
        {SYS_write, PYR_TASK_IO},
        {SYS_writev, PYR_TASK_IO},
        {SYS_pwrite64, PYR_TASK_IO},
        {SYS_openat, PYR_TASK_IO},
        {SYS_close, PYR_TASK_IO},
        {SYS_fsync, PYR_TASK_IO},
        {SYS_fdatasync, PYR_TASK_IO},
        {SYS_sendfile, PYR_TASK_IO},
        {SYS_accept, PYR_TASK_IO},
        {SYS_accept4, PYR_TASK_IO},
        {SYS_connect, PYR_TASK_IO},
        {SYS_recvfrom, PYR_TASK_IO},
        {SYS_recvmsg, PYR_TASK_IO},
        {SYS_sendto, PYR_TASK_IO},
        {SYS_sendmsg, PYR_TASK_IO},
        {SYS_flock, PYR_TASK_IO},
        {SYS_wait4, PYR_TASK_IO},
        {SYS_waitid, PYR_TASK_IO},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].number == number) {
            return rows[i].wait;
        }
    }
    return PYR_TASK_UNKNOWN;
}

/* The beginning of a text, NUL-terminated. */
static void copy_line(const char *text, size_t length, char *line, size_t size)
{
    size_t kept = length < size - 1 ? length : size - 1;
    memcpy(line, text, kept);
    line[kept] = '\0';
}

pyr_task_wait pyr_task_parse_wait(const char *text, size_t length, uintptr_t *futex)
{
    char line[64]; /* "202 0x7f..., ...": the number and the first argument are in front */
    copy_line(text, length, line, sizeof line);
    *futex = 0;
    if (strncmp(line, "running", 7) == 0) {
        return PYR_TASK_RUNNING;
    }
    char *end;
    long number = strtol(line, &end, 10);
    if (end == line || number < 0) {
        return PYR_TASK_UNKNOWN;
    }
    pyr_task_wait wait = classify(number);
    if (wait == PYR_TASK_FUTEX) {
        *futex = (uintptr_t)strtoull(end, NULL, 16);
    }
    return wait;
}

pyr_task_wait pyr_os_task_wait(int64_t task, uintptr_t *futex)
{
    char path[64], text[128];
    (void)snprintf(path, sizeof path, "/proc/self/task/%lld/syscall", (long long)task);
    ssize_t length = read_small(path, text, sizeof text);
    *futex = 0;
    return length > 0 ? pyr_task_parse_wait(text, (size_t)length, futex) : PYR_TASK_UNKNOWN;
}

size_t pyr_os_tasks(int64_t *tasks, size_t capacity)
{
    DIR *folder = opendir("/proc/self/task");
    if (!folder) {
        return 0;
    }
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char *end;
        long long task = strtoll(entry->d_name, &end, 10);
        if (end == entry->d_name || *end != '\0') {
            continue;
        }
        if (count < capacity) {
            tasks[count] = task;
        }
        count++;
    }
    (void)closedir(folder);
    return count;
}

uint64_t pyr_task_parse_links(uint64_t links)
{
    return links > 2 ? links - 2 : 0;
}

uint64_t pyr_os_task_count(void)
{
    struct stat folder;
    return stat("/proc/self/task", &folder) == 0 ? pyr_task_parse_links((uint64_t)folder.st_nlink)
                                                 : 0;
}

void pyr_os_task_name(int64_t task, char name[16])
{
    char path[64], text[32];
    (void)snprintf(path, sizeof path, "/proc/self/task/%lld/comm", (long long)task);
    ssize_t length = read_small(path, text, sizeof text);
    size_t kept = length > 0 ? strcspn(text, "\n") : 0;
    kept = kept > 15 ? 15 : kept;
    memcpy(name, text, kept);
    name[kept] = '\0';
}

double pyr_task_parse_quota(const char *text, size_t length)
{
    char line[64];
    char *end;
    copy_line(text, length, line, sizeof line);
    long long quota = strtoll(line, &end, 10);
    long long period = end == line ? 0 : strtoll(end, NULL, 10);
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/* True when a comma list of names has this one. */
static bool has_name(const char *list, size_t length, const char *name)
{
    size_t wanted = strlen(name);
    for (size_t start = 0; start <= length;) {
        const char *comma = memchr(list + start, ',', length - start);
        size_t end = comma ? (size_t)(comma - list) : length;
        if (end - start == wanted && memcmp(list + start, name, wanted) == 0) {
            return true;
        }
        start = end + 1;
    }
    return false;
}

pyr_status pyr_task_parse_group(const char *text, size_t length, const char *controller, char *path,
                                size_t size)
{
    for (size_t start = 0; start < length;) {
        const char *line = text + start;
        const char *newline = memchr(line, '\n', length - start);
        size_t bytes = newline ? (size_t)(newline - line) : length - start;
        start += bytes + 1;
        const char *first = memchr(line, ':', bytes);
        const char *names = first ? first + 1 : NULL;
        const char *second = names ? memchr(names, ':', bytes - (size_t)(names - line)) : NULL;
        if (!second || !has_name(names, (size_t)(second - names), controller)) {
            continue;
        }
        size_t rest = bytes - (size_t)(second + 1 - line);
        if (rest < size) {
            memcpy(path, second + 1, rest);
            path[rest] = '\0';
            return PYR_OK;
        }
    }
    return PYR_ENOENT;
}

static double quota_of(const char *root, const char *group)
{
    char path[4608], text[64];
    (void)snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
    ssize_t length = read_small(path, text, sizeof text);
    if (length > 0) {
        return pyr_task_parse_quota(text, (size_t)length);
    }
    /* The older hierarchy has the two numbers in a file each. */
    (void)snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, group);
    length = read_small(path, text, sizeof text / 2);
    if (length <= 0) {
        return 0;
    }
    text[length++] = ' ';
    (void)snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, group);
    ssize_t more = read_small(path, text + length, sizeof text - (size_t)length);
    return more > 0 ? pyr_task_parse_quota(text, (size_t)(length + more)) : 0;
}

double pyr_os_cpu_quota(void)
{
    static const struct {
        const char *controller, *root;
    } hierarchies[] = {{"", "/sys/fs/cgroup"},
                       {"cpu", "/sys/fs/cgroup/cpu"},
                       {"cpu", "/sys/fs/cgroup/cpu,cpuacct"}};
    char groups[4096], path[4096];
    ssize_t length = read_small("/proc/self/cgroup", groups, sizeof groups);
    if (length <= 0) {
        return 0;
    }
    double least = 0;
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
        if (pyr_task_parse_group(groups, (size_t)length, hierarchies[i].controller, path,
                                 sizeof path) != PYR_OK) {
            continue;
        }
        /* In a container the own group is the root of what is mounted. A limit may stand on any
         * group above: the least one binds. */
        for (;;) {
            double quota = quota_of(hierarchies[i].root, strcmp(path, "/") == 0 ? "" : path);
            least = quota > 0 && (least == 0 || quota < least) ? quota : least;
            char *slash = strrchr(path, '/');
            if (!slash || path[0] == '\0') {
                break;
            }
            *slash = '\0';
        }
    }
    return least;
}

pyr_status pyr_os_prefer_short_slice(int64_t slice_ns)
{
    int policy = sched_getscheduler(0);
    if (policy != SCHED_OTHER && policy != SCHED_BATCH) {
        return PYR_ENOTSUP; /* the program chose another one: leave it */
    }
    /* struct sched_attr of linux/sched/types.h, first version: glibc has no declaration. */
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = 48,
                    .policy = (uint32_t)policy,
                    .nice = getpriority(PRIO_PROCESS, 0),
                    .runtime = (uint64_t)slice_ns};
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (syscall(SYS_sched_setattr, 0, &attributes, 0U) != 0) {
        return pyr_status_from_errno(errno);
    }
    return PYR_OK;
}

void pyr_os_sleep(int64_t duration_ns)
{
    const struct timespec duration = {.tv_sec = duration_ns / 1000000000,
                                      .tv_nsec = duration_ns % 1000000000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
}

int64_t pyr_task_parse_ran(const char *text, size_t length)
{
    static const char key[] = "exec_start";
    const char *at = memmem(text, length, key, sizeof key - 1);
    const char *end = text + length;
    if (!at || !(at = memchr(at, ':', (size_t)(end - at)))) {
        return -1;
    }
    at++; /* "  6351766.535168": milliseconds with six digits behind the point */
    while (at < end && *at == ' ') {
        at++;
    }
    int64_t number = 0;
    int digits = 0, behind = -1;
    for (; at < end && digits < 18 && ((*at >= '0' && *at <= '9') || *at == '.'); at++) {
        if (*at == '.') {
            behind = 0;
            continue;
        }
        number = number * 10 + (*at - '0');
        digits++;
        behind += behind >= 0;
    }
    return behind == 6 ? number : -1;
}

int64_t pyr_os_task_ran_ns(int64_t task)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/self/task/%lld/sched", (long long)task);
    ssize_t length = read_small(path, text, sizeof text);
    return length > 0 ? pyr_task_parse_ran(text, (size_t)length) : -1;
}

int64_t pyr_os_own_task(void)
{
    return syscall(SYS_gettid);
}

int64_t pyr_os_task_cpu_offset(void)
{
#ifdef __x86_64__                      /* where a pthread id is the thread pointer */
    static _Atomic int64_t known = -1; /* never a valid offset: they are aligned */
    int64_t offset = atomic_load(&known);
    if (offset == -1) {
        enum { CPU_ID = 4 }; /* of struct rseq, linux/rseq.h */
        const ptrdiff_t *area = dlsym(RTLD_DEFAULT, "__rseq_offset");
        const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
        offset = area && size && *size > CPU_ID ? (int64_t)*area + CPU_ID : 0;
        atomic_store(&known, offset);
    }
    return offset;
#else
    return 0;
#endif
}

int pyr_os_own_cpu(void)
{
    return sched_getcpu();
}
