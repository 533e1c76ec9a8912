/* What the lock collector wants done now and then, by whoever has a thread that wakes. */
#ifndef PYR_COLLECT_LOCK_WATCH_H
#define PYR_COLLECT_LOCK_WATCH_H

#include <stdint.h>

#include "model/symbols.h"

/* Looks for threads that wait for one another, and adapts the rate of samples. Some tens of times a
 * second; costs nanoseconds where nothing is to be done. `symbols`: a table that lives as long as
 * the call, of `epoch` (unwind/own_stack.h). One thread at a time, no GIL. */
void pyr_lock_watch(const pyr_symbols *symbols, uint64_t epoch);

#endif
