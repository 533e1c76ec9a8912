/* The hooks around the locks that gevent and eventlet put in the place of CPython's. */
#ifndef PYR_NATIVE_GREENLET_LOCK_HOOK_H
#define PYR_NATIVE_GREENLET_LOCK_HOOK_H

#include <stdbool.h>

/* Puts the hooks in place when the lock collector runs and these modules are there; they stay, as a
 * pass-through. With the GIL, in the main interpreter, outside of the profiler's locks. True: it
 * waits for modules to be imported. The error indicator is as before. */
bool pyr_greenlet_lock_hook_follow(void);

#endif
