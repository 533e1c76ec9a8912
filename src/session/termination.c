/* A handler for SIGTERM that delivers the last window, and then lets the program die of SIGTERM.
 *
 * By default SIGTERM ends a program at once, even one stuck in a long C call that never returns to
 * the interpreter. So the handler is in C, waits for the scheduler's thread (which needs no GIL),
 * gives the default action back and raises SIGTERM again: the status is -15 as without us. A
 * handler that the program installs later simply takes our place. A thread interrupted in a hook of
 * ours that holds a lock gives it back first: the signal is raised again then.
 *
 * Owns nothing. The handler runs on any thread of the program, at any instruction: only atomics,
 * futex and sigaction.
 */
#include "session/termination.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "session/process.h"

static const int64_t MOST_NS = 1000000000;

static void terminate(int number)
{
    int error = errno;
    /* The window is sealed by a thread that may need what the interrupted one holds. */
    if (pyr_lock_defer_signal(number)) {
        return;
    }
    pyr_process_flush_from_signal(pyr_clock_monotonic_ns() + MOST_NS);
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    /* It stays pending until this handler returns, since SIGTERM is blocked within it. Process 1 of
     * a container survives, as it would have without us. */
    raise(number);
    errno = error;
}

void pyr_termination_install(void)
{
    struct sigaction action;
    if (sigaction(SIGTERM, NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
        action.sa_handler != SIG_DFL) {
        return;
    }
    /* SA_ONSTACK: the interrupted thread may have little stack left; its own alternate stack, where
     * it has one, is used. */
    memset(&action, 0, sizeof action);
    action.sa_handler = terminate;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

void pyr_termination_remove(void)
{
    struct sigaction action;
    if (sigaction(SIGTERM, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
        action.sa_handler == terminate) {
        action = (struct sigaction){.sa_handler = SIG_DFL};
        sigaction(SIGTERM, &action, NULL);
    }
}

void pyr_termination_hold(sigset_t *before)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

void pyr_termination_release(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
