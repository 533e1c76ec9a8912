/* The operating system of os.h, on Linux: threads, waiting and address space. Files stand in
 * os_files.c, which is POSIX but for one rename. Stateless; nothing here knows why it is called. */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum { MOST_STACK_BYTES = 8 << 20 };

uint64_t pyr_os_process_birth(void)
{
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    text[length > 0 ? length : 0] = '\0';
    /* Field 22; the second is the program's name in brackets, which may hold anything. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

typedef struct beginning { /* of a thread, which frees it */
    void *(*run)(void *context);
    void *context;
    char name[16];
} beginning;

static _Atomic int64_t last_end_ns;

int64_t pyr_os_thread_last_end_ns(void)
{
    return atomic_load(&last_end_ns);
}

/* The thread names itself: others name it through a file of /proc, and whoever has such a file open
 * once makes the end of a process milliseconds more expensive, which its parent pays. */
static void *begin(void *argument)
{
    beginning given = *(beginning *)argument;
    pyr_memory_free(argument);
    prctl(PR_SET_NAME, given.name);
    void *result = given.run(given.context);
    atomic_store(&last_end_ns, pyr_clock_monotonic_ns());
    return result;
}

pyr_status pyr_os_thread_start(pthread_t *thread, const char *name, void *(*run)(void *context),
                               void *context)
{
    pthread_attr_t attributes;
    beginning *given = pyr_memory_new(1, sizeof *given);
    if (given == NULL || pthread_attr_init(&attributes) != 0) {
        pyr_memory_free(given);
        return PYR_ETHREAD;
    }
    given->run = run;
    given->context = context;
    snprintf(given->name, sizeof given->name, "%s", name);
    /* A thread inherits the mask of its maker: block, make, restore. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* The libraries of some programs have so much thread-local storage, which stands in the same
     * memory, that a small stack is refused with EINVAL. */
    int error = EINVAL;
    for (size_t bytes = PYR_OS_STACK_BYTES; error == EINVAL && bytes <= MOST_STACK_BYTES;
         bytes *= 2) {
        error = pthread_attr_setstacksize(&attributes, bytes);
        if (error == 0) {
            error = pthread_create(thread, &attributes, begin, given);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        pyr_memory_free(given);
        return PYR_ETHREAD;
    }
    return PYR_OK;
}

pyr_status pyr_os_own_descriptors(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const int first = STDERR_FILENO + 1; /* a sanitizer has to say what it found */
#else
    const int first = 0;
#endif
    if (syscall(SYS_close_range, (unsigned)first, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
        return PYR_ENOTSUP;
    }
    for (int least = first; least <= STDERR_FILENO; least++) {
        (void)!open("/dev/null", O_RDWR | O_CLOEXEC); /* they come in this order */
    }
    return PYR_OK;
}

int64_t pyr_os_process(void)
{
    return getpid();
}

uint64_t pyr_os_user(void)
{
    return geteuid();
}

void pyr_os_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = deadline_ns / 1000000000,
        .tv_nsec = deadline_ns % 1000000000,
    };
    /* WAIT_BITSET, unlike WAIT, takes an absolute monotonic time: early returns lose none. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, &deadline, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

void pyr_os_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

int pyr_os_process_clock_open(void)
{
    /* Without libc's wrappers, which are in another library before glibc 2.34. SIGURG, because its
     * default is to be ignored; it would come after 136 years of CPU. A timer without a signal is
     * never armed (kernel/time/posix-cpu-timers.c). */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    struct itimerspec never = {.it_value = {.tv_sec = INT64_C(1) << 32}};
    int handle = -1; /* the kernel's timer id */
    if (syscall(SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, &event, &handle) != 0) {
        return -1;
    }
    if (syscall(SYS_timer_settime, handle, 0, &never, NULL) != 0) {
        pyr_os_process_clock_close(handle);
        return -1;
    }
    return handle;
}

void pyr_os_process_clock_close(int handle)
{
    if (handle >= 0) {
        syscall(SYS_timer_delete, handle);
    }
}

void pyr_os_make_own(void *space, size_t bytes)
{
    mmap(space, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

int pyr_os_is_unmapped(const void *address)
{
    unsigned char resident;
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)address / page_bytes * page_bytes);
    return mincore(page, page_bytes, &resident) != 0 && errno == ENOMEM;
}

int pyr_os_process_is_gone(int64_t pid)
{
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

int pyr_os_is_memory(const char *path)
{
    struct statfs facts;
    return statfs(path, &facts) == 0 && facts.f_type == TMPFS_MAGIC;
}

pyr_status pyr_os_file_map(const char *path, void *space, size_t bytes)
{
    struct stat facts;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        return pyr_status_from_errno(errno);
    }
    pyr_status status = PYR_EBAD;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size >= (off_t)bytes) {
        void *mapped = mmap(space, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
        status = mapped != MAP_FAILED ? PYR_OK : pyr_status_from_errno(errno);
    }
    close(file);
    return status;
}

size_t pyr_os_address_space(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                : SIZE_MAX;
}

void *pyr_os_reserve(size_t bytes)
{
    void *space = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        return NULL;
    }
    /* A huge page would make two megabytes of the first byte. */
    madvise(space, bytes, MADV_NOHUGEPAGE);
    return space;
}

void pyr_os_release(void *space, size_t bytes)
{
    if (space) {
        munmap(space, bytes);
    }
}

void pyr_os_discard(void *space, size_t bytes)
{
    madvise(space, bytes, MADV_DONTNEED);
}
