/* The hooks of CPython's memory allocators. */
#ifndef PYR_NATIVE_HEAP_HOOKS_H
#define PYR_NATIVE_HEAP_HOOKS_H

#include "collect/memory_host.h"

/* For the memory collector; constant. */
extern const pyr_memory_host pyr_heap_hooks;

#endif
