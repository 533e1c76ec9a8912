/* The hooks around the locks of asyncio. */
#ifndef PYR_NATIVE_TASK_LOCK_HOOK_H
#define PYR_NATIVE_TASK_LOCK_HOOK_H

#include <stdbool.h>

/* Puts the hooks in place while the lock collector runs, once asyncio is there, and takes them away
 * after. With the GIL, in the main interpreter, outside of the profiler's locks. True: it waits for
 * asyncio to be imported. The error indicator is as before. */
bool pyr_task_lock_hook_follow(void);

#endif
