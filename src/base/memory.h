/* All heap memory of the core comes from here: checked, counted, and failable on demand.
 *
 * Any thread, but not hook safe (it calls malloc). `pyr_memory_in_use` is the profiler's own heap
 * as it reports it. Hostile builds (PYR_HOSTILE) fail the n-th allocation and poison freed memory.
 */
#ifndef PYR_BASE_MEMORY_H
#define PYR_BASE_MEMORY_H

#include <stddef.h>

/* Zeroed memory for `count` objects of `size` bytes; NULL when out of memory or on overflow.
 * Freed with pyr_memory_free. */
void *pyr_memory_new(size_t count, size_t size) __attribute__((malloc, warn_unused_result));

/* Resizes `old` (may be NULL) to `count` * `size` bytes; on failure NULL, and `old` stays valid.
 * New bytes are not zeroed. */
void *pyr_memory_resize(void *old, size_t count, size_t size) __attribute__((warn_unused_result));

/* Frees; NULL is fine. */
void pyr_memory_free(void *block);

/* For a program of its own that takes and frees megabytes all the time, never inside another's: at
 * most about `bytes` that were freed stay with the process, instead of going back to the kernel and
 * coming again page by page. Before the first thread is started. Does nothing where malloc cannot.
 */
void pyr_memory_retain(size_t bytes);

/* Bytes held now by pyr_memory_new and pyr_memory_resize (usable size of each block). */
size_t pyr_memory_in_use(void);

/* Tests only: the n-th allocation from now fails once (1 = the next); 0 switches it off.
 * Works in every build, costs one relaxed load. */
void pyr_memory_fail_at(size_t nth);

/* Tests only: 1 if the planned failure has happened. */
int pyr_memory_has_failed(void);

#endif
