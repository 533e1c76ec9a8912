/* A thread that wakes now and then, and does one thing: what a wake costs that does nothing, and
 * what a single part of a tick adds to it. Loaded by bench/profilers.py and bench/parts.py.
 *
 * What to do is picked at random at each wake, so that all parts meet the same machine. A part's
 * CPU is that of the thread's clock from one wake to the next, the sleep included.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32, SPANS = 36, SPAN_BYTES = 256, MOST = 20000 };

static long interval_ns;
static int others_task, tasks_folder, memory_file;
static uint8_t source[PAGES * PAGE] __attribute__((aligned(4096)));
static uint8_t target[PAGES * PAGE] __attribute__((aligned(4096)));
static uint8_t *code; /* a function that returns at once, on each page and on each line */
static struct iovec spans[SPANS];
static volatile uint64_t sink;
static int futex_word;

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_until(int64_t deadline)
{
    const struct timespec at = {deadline / 1000000000, deadline % 1000000000};
    syscall(SYS_futex, &futex_word, FUTEX_WAIT_BITSET_PRIVATE, 0, &at, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static void nothing(void)
{
}

static void sleep_again(void) /* marks the other way to sleep, see run() */
{
}

static void clocks_by_vdso(void)
{
    for (int i = 0; i < 5; i++) {
        sink += (uint64_t)read_clock(CLOCK_MONOTONIC);
    }
}

static void clock_of_process(void)
{
    sink += (uint64_t)read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static void clock_of_thread(void)
{
    sink += (uint64_t)read_clock((clockid_t)((~(unsigned)others_task << 3) | 6));
}

static void clock_of_thread_five_times(void)
{
    for (int i = 0; i < 5; i++) {
        clock_of_thread();
    }
}

static void list(int count, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        spans[i] = (struct iovec){source + (size_t)i * SPAN_BYTES, bytes};
    }
}

static void write_word(void)
{
    list(1, 8);
    struct iovec to = {target, 8};
    sink += (uint64_t)syscall(SYS_process_vm_writev, getpid(), spans, 1UL, &to, 1UL, 0UL);
}

static void write_spans(void)
{
    list(SPANS, SPAN_BYTES);
    struct iovec to = {target, SPANS * SPAN_BYTES};
    sink += (uint64_t)syscall(SYS_process_vm_writev, getpid(), spans, (long)SPANS, &to, 1UL, 0UL);
}

static void write_spans_twice(void)
{
    write_spans();
    write_spans();
}

static void read_word(void)
{
    list(1, 8);
    struct iovec to = {target, 8};
    sink += (uint64_t)syscall(SYS_process_vm_readv, getpid(), &to, 1UL, spans, 1UL, 0UL);
}

static void file_spans(void)
{
    list(SPANS, SPAN_BYTES);
    sink += (uint64_t)pwritev(memory_file, spans, SPANS, 0);
}

static void file_word(void)
{
    list(1, 8);
    sink += (uint64_t)pwritev(memory_file, spans, 1, 0);
}

static void file_spans_read(void)
{
    file_spans();
    sink += (uint64_t)pread(memory_file, target, SPANS * SPAN_BYTES, 0);
}

static void stat_tasks(void)
{
    struct stat folder;
    sink += (uint64_t)fstat(tasks_folder, &folder);
}

static void touch_pages(void)
{
    for (int i = 0; i < PAGES; i++) {
        sink += source[(size_t)i * PAGE + 64UL * (size_t)i];
    }
}

static void touch_lines(void)
{
    for (int i = 0; i < PAGES; i++) {
        sink += target[PAGE + 128UL * (size_t)i];
    }
}

static void run_pages(void)
{
    for (int i = 0; i < PAGES; i++) {
        ((void (*)(void))(uintptr_t)(code + (size_t)i * PAGE + 64UL * (size_t)i))();
    }
}

static void run_lines(void)
{
    for (int i = 0; i < PAGES; i++) {
        ((void (*)(void))(uintptr_t)(code + (size_t)PAGES * PAGE + 128UL * (size_t)i))();
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"nothing", nothing},
    {"nothing, sleeping by clock_nanosleep", sleep_again},
    {"monotonic clock, five times", clocks_by_vdso},
    {"CPU clock of the process", clock_of_process},
    {"CPU clock of a thread", clock_of_thread},
    {"CPU clock of a thread, five times", clock_of_thread_five_times},
    {"process_vm_writev, 8 bytes", write_word},
    {"process_vm_writev, 9 KB in 36 spans", write_spans},
    {"the same twice", write_spans_twice},
    {"process_vm_readv, 8 bytes", read_word},
    {"pwritev to memory, 8 bytes", file_word},
    {"pwritev to memory, 9 KB in 36 spans", file_spans},
    {"the same, and pread", file_spans_read},
    {"fstat of the threads' folder", stat_tasks},
    {"a byte of each of 32 pages", touch_pages},
    {"a byte of each of 32 lines", touch_lines},
    {"a call into each of 32 pages", run_pages},
    {"a call into each of 32 lines", run_lines},
};

enum { PARTS = sizeof parts / sizeof parts[0] };

static int32_t seen[PARTS][MOST];
static int counts[PARTS];

static void *run(void *only_nothing)
{
    unsigned random = 1;
    int64_t next = read_clock(CLOCK_MONOTONIC);
    int64_t before = read_clock(CLOCK_THREAD_CPUTIME_ID);
    for (;;) {
        unsigned part = only_nothing ? 0 : (unsigned)rand_r(&random) % PARTS;
        parts[part].run();
        next += interval_ns / 2 + (int64_t)((double)interval_ns * rand_r(&random) / RAND_MAX);
        if (parts[part].run == sleep_again) {
            const struct timespec at = {next / 1000000000, next % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        } else {
            sleep_until(next);
        }
        if (!only_nothing) {
            int64_t now = read_clock(CLOCK_THREAD_CPUTIME_ID);
            if (counts[part] < MOST) {
                seen[part][counts[part]++] = (int32_t)(now - before);
            }
            before = now;
        }
    }
    return NULL;
}

/* Starts the thread. `all`: it does every part in turn, else nothing but wake. */
int wake_start(long every_ns, int all)
{
    enum { RETURN = 0xC3 }; /* of x86 */
    interval_ns = every_ns;
    others_task = (int)syscall(SYS_gettid);
    tasks_folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memory_file = memfd_create("spans", MFD_CLOEXEC);
    memset(source, 1, sizeof source);
    memset(target, 1, sizeof target);
    code =
        mmap(NULL, 2UL * PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED || ftruncate(memory_file, sizeof target) != 0) {
        return -1;
    }
    memset(code, RETURN, 2UL * PAGES * PAGE);
    mprotect(code, 2UL * PAGES * PAGE, PROT_READ | PROT_EXEC);
    pthread_t thread;
    return pthread_create(&thread, NULL, run, all ? NULL : source);
}

const char *wake_part(int part)
{
    return part >= 0 && part < PARTS ? parts[part].name : NULL;
}

static int compare(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1
                                                     : *(const int32_t *)a > *(const int32_t *)b;
}

/* CPU of a part, in nanoseconds: `percent` of its wakes used at most that. */
int wake_cost(int part, int percent)
{
    qsort(seen[part], (size_t)counts[part], sizeof seen[part][0], compare);
    return counts[part] ? seen[part][(counts[part] - 1) * percent / 100] : -1;
}
