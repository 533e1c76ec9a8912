/* The collector of garbage collections' pauses, as its hook in the interpreter sees it: called at
 * the start and the stop of each, in the thread that collects, with the GIL. One interpreter. */
#ifndef PYR_COLLECT_GC_H
#define PYR_COLLECT_GC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "reader/reader.h"

/* Whether the collector runs. Any thread. */
PYR_HOOK_SAFE bool pyr_gc_is_on(void);

PYR_HOOK_SAFE void pyr_gc_start(void);

/* `collected`: objects that were found to be garbage and freed. */
PYR_HOOK_SAFE void pyr_gc_stop(pyr_addr thread_state, int64_t generation, int64_t collected);

#endif
