/* The hook on garbage collections. */
#ifndef PYR_NATIVE_GC_HOOK_H
#define PYR_NATIVE_GC_HOOK_H

/* Adds our callable to gc.callbacks when the collector of pauses runs, and takes it out when not.
 * With the GIL, outside of the profiler's locks. The error indicator is as before. */
void pyr_gc_hook_follow(void);

#endif
