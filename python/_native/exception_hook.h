/* The hook on raised exceptions. */
#ifndef PYR_NATIVE_EXCEPTION_HOOK_H
#define PYR_NATIVE_EXCEPTION_HOOK_H

#include <stdbool.h>

/* Whether this Python has sys.monitoring. */
bool pyr_exception_hook_is_possible(void);

/* Puts the hook in place when the exception collector runs, and takes it away when not: called
 * after each start, stop and resumption, with the GIL. Never fails towards the program: what cannot
 * be done is a fact and a log line. The error indicator is as before. */
void pyr_exception_hook_follow(void);

#endif
