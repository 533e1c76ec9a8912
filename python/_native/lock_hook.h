/* The hooks around the methods of lock objects. */
#ifndef PYR_NATIVE_LOCK_HOOK_H
#define PYR_NATIVE_LOCK_HOOK_H

/* Puts the hooks in place when the lock collector runs for the first time; they stay to the end of
 * the process, as a pass-through while it does not run. With the GIL, outside of the profiler's
 * locks. What cannot be hooked is left alone and said in facts. The error indicator is as before.
 */
void pyr_lock_hook_follow(void);

#endif
