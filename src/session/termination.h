/* The last window of a program that SIGTERM ends. */
#ifndef PYR_SESSION_TERMINATION_H
#define PYR_SESSION_TERMINATION_H

#include <signal.h>

/* Handles SIGTERM where its action is the default, and only there. CPython's table of handlers is
 * not touched: signal.getsignal(SIGTERM) stays SIG_DFL. Any thread; calling it twice is fine. */
void pyr_termination_install(void);

/* Gives the default action back, if the handler is still ours. */
void pyr_termination_remove(void);

/* Keeps SIGTERM from the calling thread, and lets it come again. The handler waits for the
 * scheduler's thread, so it must not interrupt a thread that holds a lock which that one needs. */
void pyr_termination_hold(sigset_t *before);
void pyr_termination_release(const sigset_t *before);

#endif
