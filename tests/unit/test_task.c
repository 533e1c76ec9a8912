/* Unit tests of os/task: the texts of /proc and of control groups, and what the kernel says of this
 * process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "os/task.h"

enum { PAGE = 4096 };

/* The text at the end of readable memory: what reads beyond it dies. */
static const char *at_guard(const char *text, size_t length)
{
    static char *pages;
    if (!pages) {
        pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages != MAP_FAILED);
        assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    }
    assert_true(length <= PAGE);
    memcpy(pages + PAGE - length, text, length);
    return pages + PAGE - length;
}

static pyr_task_wait parse_wait(const char *text, uintptr_t *futex)
{
    size_t length = strlen(text);
    *futex = 99;
    return pyr_task_parse_wait(at_guard(text, length), length, futex);
}

static void test_wait(void **state)
{
    (void)state;
    char futex_line[128], sleep_line[64], poll_line[64], read_line[64], unknown_line[64];
    (void)snprintf(futex_line, sizeof futex_line,
                   "%d 0x7f0123456789 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe12345678 0x7f0123450000\n",
                   SYS_futex);
    (void)snprintf(sleep_line, sizeof sleep_line, "%d 0x1 0x0 0x7ffe0000\n", SYS_clock_nanosleep);
    (void)snprintf(poll_line, sizeof poll_line, "%d 0x7ffe0000 0x1\n", SYS_ppoll);
    (void)snprintf(read_line, sizeof read_line, "%d 0x3\n", SYS_read);
    (void)snprintf(unknown_line, sizeof unknown_line, "%d 0x3\n", SYS_getpid);
    const struct {
        const char *text;
        pyr_task_wait wait;
        uintptr_t futex;
    } rows[] = {
        {futex_line, PYR_TASK_FUTEX, 0x7f0123456789},
        {sleep_line, PYR_TASK_SLEEP, 0},
        {poll_line, PYR_TASK_IO, 0},
        {read_line, PYR_TASK_IO, 0},
        {unknown_line, PYR_TASK_UNKNOWN, 0},
        {"running\n", PYR_TASK_RUNNING, 0},
        {"running", PYR_TASK_RUNNING, 0},
        {"runnin", PYR_TASK_UNKNOWN, 0},
        {"-1 0x7ffe12345678 0x7f0123450000\n", PYR_TASK_UNKNOWN, 0}, /* blocked in no call */
        {"", PYR_TASK_UNKNOWN, 0},
        {"\n", PYR_TASK_UNKNOWN, 0},
        {"x", PYR_TASK_UNKNOWN, 0},
        {"99999999999999999999999 0x1", PYR_TASK_UNKNOWN, 0},
        {"4294967296 0x1", PYR_TASK_UNKNOWN, 0}, /* not the call 0 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uintptr_t futex;
        assert_int_equal(parse_wait(rows[i].text, &futex), rows[i].wait);
        assert_int_equal(futex, rows[i].futex);
    }
    /* Every cut-off line is read within its bounds. */
    for (size_t length = 0; length <= strlen(futex_line); length++) {
        uintptr_t futex;
        (void)pyr_task_parse_wait(at_guard(futex_line, length), length, &futex);
    }
}

static void test_quota(void **state)
{
    (void)state;
    const struct {
        const char *text;
        double cores;
    } rows[] = {
        {"max 100000\n", 0},
        {"50000 100000\n", 0.5},
        {"200000 100000", 2},
        {"-1 100000", 0},
        {"50000", 0},
        {"50000 0\n", 0},
        {"50000 -5", 0},
        {"", 0},
        {"50000\n 100000", 0.5},
        {"inf 100000", 0},
        {"nan 1", 0},
        {"0x10 1", 0},
        {"150000 x", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].text);
        double cores = pyr_task_parse_quota(at_guard(rows[i].text, length), length);
        assert_true(cores == rows[i].cores);
    }
}

static void test_group(void **state)
{
    (void)state;
    static const char text[] = "12:cpuset:/only/set\n"
                               "11:name=systemd:/init.scope\n"
                               "4:cpuacct,cpu:/docker/abc\n"
                               "broken\n"
                               "3:memory\n"
                               "0::/user.slice/a:b\n";
    const struct {
        const char *controller, *path;
    } rows[] = {
        {"", "/user.slice/a:b"},         {"cpu", "/docker/abc"}, {"cpuacct", "/docker/abc"},
        {"cpuset", "/only/set"},         {"cp", NULL},           {"memory", NULL},
        {"name=systemd", "/init.scope"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[64] = "";
        size_t length = sizeof text - 1;
        pyr_status status = pyr_task_parse_group(at_guard(text, length), length, rows[i].controller,
                                                 path, sizeof path);
        assert_int_equal(status, rows[i].path ? PYR_OK : PYR_ENOENT);
        assert_string_equal(path, rows[i].path ? rows[i].path : "");
    }
    char exact[4];
    assert_int_equal(pyr_task_parse_group("1:x:/ab", 7, "x", exact, sizeof exact), PYR_OK);
    assert_string_equal(exact, "/ab");
    assert_int_equal(pyr_task_parse_group("1:x:/abc", 8, "x", exact, sizeof exact), PYR_ENOENT);
    assert_int_equal(pyr_task_parse_group("", 0, "", exact, sizeof exact), PYR_ENOENT);
    assert_int_equal(pyr_task_parse_group("::", 2, "", exact, sizeof exact), PYR_OK);
    assert_string_equal(exact, "");
    for (size_t length = 0; length < sizeof text; length++) {
        char path[64];
        (void)!pyr_task_parse_group(at_guard(text, length), length, "cpu", path, sizeof path);
    }
}

/* ---------------------------------------------------------------------------- this process ---- */

typedef struct task {
    pthread_t thread;
    _Atomic int64_t id;
    _Atomic int stop;
    void (*work)(struct task *self);
    pthread_mutex_t mutex;
    int pipe[2];
} task;

static void *run(void *context)
{
    task *self = context;
    (void)prctl(PR_SET_NAME, "a long name of a thread", 0, 0, 0);
    atomic_store(&self->id, (int64_t)syscall(SYS_gettid));
    self->work(self);
    return NULL;
}

static void spin(task *self)
{
    while (!atomic_load(&self->stop)) {
    }
}

static void wait_for_mutex(task *self)
{
    (void)pthread_mutex_lock(&self->mutex);
    (void)pthread_mutex_unlock(&self->mutex);
}

static void read_pipe(task *self)
{
    char byte;
    (void)!read(self->pipe[0], &byte, 1);
}

static void sleep_on(task *self)
{
    while (!atomic_load(&self->stop)) {
        (void)usleep(1000000);
    }
}

/* Waits until the kernel says so, at most ten seconds. */
static void assert_comes_to(task *self, pyr_task_wait expected, uintptr_t expected_futex)
{
    uintptr_t futex = 0;
    pyr_task_wait wait = PYR_TASK_UNKNOWN;
    for (int i = 0; i < 10000 && (wait != expected || futex != expected_futex); i++) {
        pyr_os_sleep(1000000);
        wait = pyr_os_task_wait(atomic_load(&self->id), &futex);
    }
    assert_int_equal(wait, expected);
    assert_int_equal(futex, expected_futex);
}

/* The thread sanitizer starts a thread of its own beside the first one. */
#ifdef __SANITIZE_THREAD__
enum { SANITIZER_THREADS = 1 };
#else
enum { SANITIZER_THREADS = 0 };
#endif

static void test_tasks_of_this_process(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    static task tasks[COUNT];
    void (*const works[COUNT])(task *) = {spin, wait_for_mutex, read_pipe, sleep_on};
    int64_t listed[16];
    assert_int_equal(pyr_os_tasks(listed, 16), 1);
    assert_int_equal(listed[0], getpid());
    assert_int_equal(pyr_os_task_count(), 1);
    for (int i = 0; i < COUNT; i++) {
        tasks[i].work = works[i];
        assert_int_equal(pthread_mutex_init(&tasks[i].mutex, NULL), 0);
        assert_int_equal(pthread_mutex_lock(&tasks[i].mutex), 0);
        assert_int_equal(pipe(tasks[i].pipe), 0);
        assert_int_equal(pthread_create(&tasks[i].thread, NULL, run, &tasks[i]), 0);
        while (atomic_load(&tasks[i].id) == 0) {
        }
    }
    enum { ALL = 1 + COUNT + SANITIZER_THREADS };
    assert_int_equal(pyr_os_task_count(), ALL);
    assert_int_equal(pyr_os_tasks(listed, 16), ALL);
    assert_int_equal(pyr_os_tasks(listed, 2), ALL); /* more than fit */
    char name[16];
    pyr_os_task_name(atomic_load(&tasks[0].id), name);
    assert_string_equal(name, "a long name of ");
    assert_comes_to(&tasks[0], PYR_TASK_RUNNING, 0);
    assert_comes_to(&tasks[1], PYR_TASK_FUTEX, (uintptr_t)&tasks[1].mutex);
    assert_comes_to(&tasks[2], PYR_TASK_IO, 0);
    assert_comes_to(&tasks[3], PYR_TASK_SLEEP, 0);
    for (int i = 0; i < COUNT; i++) {
        atomic_store(&tasks[i].stop, 1);
        (void)pthread_mutex_unlock(&tasks[i].mutex);
        assert_int_equal(write(tasks[i].pipe[1], "x", 1), 1);
        assert_int_equal(pthread_join(tasks[i].thread, NULL), 0);
        (void)close(tasks[i].pipe[0]);
        (void)close(tasks[i].pipe[1]);
    }
    /* One that has ended. */
    uintptr_t futex = 5;
    assert_int_equal(pyr_os_task_wait(999999999, &futex), PYR_TASK_UNKNOWN);
    assert_int_equal(futex, 0);
    pyr_os_task_name(999999999, name);
    assert_string_equal(name, "");
}

static void test_ran(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ran;
    } rows[] = {
        {"cat (31, #threads: 1)\n---\nse.exec_start        :       6351766.535168\nse.x : 1\n",
         6351766535168},
        {"se.exec_start : 0.000001", 1},
        {"se.exec_start : 12.5", -1},
        {"se.exec_start : 12", -1},
        {"se.exec_start :", -1},
        {"se.exec_start", -1},
        {"se.vruntime : 1.000000", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].text);
        assert_int_equal(pyr_task_parse_ran(at_guard(rows[i].text, length), length), rows[i].ran);
    }
    /* Where the kernel tells, the own time is of now: it grows. */
    int64_t before = pyr_os_task_ran_ns(pyr_os_own_task());
    pyr_os_sleep(2000000);
    int64_t after = pyr_os_task_ran_ns(pyr_os_own_task());
    assert_true((before < 0 && after < 0) || after > before);
    assert_int_equal(pyr_os_task_ran_ns(999999999), -1);
}

/* The number that the kernel keeps for this thread is the CPU it runs on. */
static void test_cpu(void **state)
{
    (void)state;
    int64_t offset = pyr_os_task_cpu_offset();
    if (offset == 0) {
        return; /* an old glibc, or another machine */
    }
    cpu_set_t old, one;
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &old)) {
            continue;
        }
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        int32_t seen;
        memcpy(&seen, (const char *)(uintptr_t)pthread_self() + offset, sizeof seen);
        assert_int_equal(seen, (int)cpu);
        assert_int_equal(pyr_os_own_cpu(), (int)cpu);
    }
    assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
}

static void test_wishes(void **state)
{
    (void)state;
    assert_true(pyr_os_cpu_quota() >= 0);
    pyr_status status = pyr_os_prefer_short_slice(100000);
    assert_true(status == PYR_OK || status == PYR_ENOTSUP || status == PYR_EINVAL ||
                status == PYR_EPERM); /* by the kernel's age and the sandbox */
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    pyr_os_sleep(2000000);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t slept = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
    assert_true(slept >= 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait),   cmocka_unit_test(test_quota),
        cmocka_unit_test(test_group),  cmocka_unit_test(test_tasks_of_this_process),
        cmocka_unit_test(test_wishes), cmocka_unit_test(test_ran),
        cmocka_unit_test(test_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
