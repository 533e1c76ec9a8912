/* The hooks around the locks of multiprocessing. */
#ifndef PYR_NATIVE_PROCESS_LOCK_HOOK_H
#define PYR_NATIVE_PROCESS_LOCK_HOOK_H

#include <stdbool.h>

/* Puts the hooks in place when the lock collector runs and _multiprocessing is there; they stay, as
 * a pass-through. With the GIL, outside of the profiler's locks. True: it waits for the module to
 * be imported. The error indicator is as before. */
bool pyr_process_lock_hook_follow(void);

#endif
