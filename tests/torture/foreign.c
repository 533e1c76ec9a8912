/* What a C library of the program may do, for tests/torture: handle real segmentation faults, wait
 * in system calls that must not be interrupted, call Python from threads that Python did not make.
 *
 * Built into a shared library by conftest.py, loaded by program.py through ctypes. Knows nothing
 * of the profiler.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

static char *guarded;
static pthread_t faulting; /* the one thread that faults on purpose */
static atomic_long handled;
static struct sigaction before;

static void handle(int number, siginfo_t *info, void *context)
{
    const char *address = info->si_addr;
    if (pthread_equal(pthread_self(), faulting) && address >= guarded &&
        address < guarded + PAGE_BYTES) {
        mprotect(guarded, PAGE_BYTES, PROT_READ | PROT_WRITE);
        atomic_fetch_add(&handled, 1);
        return;
    }
    /* A fault that is not ours: whoever was there before, at the same instruction again. */
    (void)context;
    sigaction(number, &before, NULL);
}

/* Reads a forbidden page `count` times, which the handler allows each time. Returns how many faults
 * were handled; -1 when it could not begin. */
long fault(long count)
{
    guarded = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded == MAP_FAILED) {
        return -1;
    }
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    faulting = pthread_self();
    atomic_store(&handled, 0);
    sigaction(SIGSEGV, &action, &before);
    for (long i = 0; i < count; i++) {
        mprotect(guarded, PAGE_BYTES, PROT_NONE);
        (void)*(volatile char *)guarded;
    }
    sigaction(SIGSEGV, &before, NULL);
    munmap(guarded, PAGE_BYTES);
    return atomic_load(&handled);
}

/* Polls nothing for `milliseconds` with every signal of the program blocked: whoever interrupts it
 * is not the program. 0, or the error number. */
int wait_undisturbed(int milliseconds)
{
    sigset_t all, mask;
    sigfillset(&all);
    /* SIGSEGV and its like must stay deliverable; nothing faults here. */
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    int result = poll(NULL, 0, milliseconds);
    int error = result < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return error;
}

static void *call(void *argument)
{
    void (*function)(void);
    *(void **)&function = argument;
    function();
    return NULL;
}

/* Calls `function` in a thread made here, and waits for it. 0, or the error number. */
int call_in_thread(void *function)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, call, function);
    return error != 0 ? error : pthread_join(thread, NULL);
}
