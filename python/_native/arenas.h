/* What pymalloc takes from the kernel: its arenas. */
#ifndef PYR_NATIVE_ARENAS_H
#define PYR_NATIVE_ARENAS_H

#include <stdint.h>

#include "collect/memory_host.h"

/* From now on arenas are counted as they come and go, beside those that are there already; once a
 * process, a pass-through to its end. With the GIL. Takes a millisecond, and
 * another one for each gigabyte of arenas that is there. */
void pyr_arenas_watch(void);

/* Any thread. */
pyr_arenas pyr_arenas_get(void);

/* The function that arenas come from; 0 before they are watched. */
uintptr_t pyr_arenas_source(void);

#endif
