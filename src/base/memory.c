/* Heap memory of the core: malloc with overflow checks, a byte count and planned failures.
 *
 * Owns nothing but counters (atomics, any thread). The count uses malloc_usable_size, so that it
 * needs no header of its own in front of each block and stays right under every malloc.
 */
#include "base/memory.h"

#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_size_t in_use;
static atomic_size_t fail_countdown;
static atomic_int failed;

static int planned_failure(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) {
        return 0;
    }
    if (atomic_fetch_sub(&fail_countdown, 1) != 1) {
        return 0;
    }
    atomic_store(&failed, 1);
    return 1;
}

static void count(void *block)
{
    atomic_fetch_add_explicit(&in_use, malloc_usable_size(block), memory_order_relaxed);
}

static void uncount(void *block)
{
    atomic_fetch_sub_explicit(&in_use, malloc_usable_size(block), memory_order_relaxed);
}

void *pyr_memory_new(size_t number, size_t size)
{
    if (planned_failure()) {
        return NULL;
    }
    void *block = calloc(number ? number : 1, size ? size : 1);
    if (block) {
        count(block);
    }
    return block;
}

void *pyr_memory_resize(void *old, size_t number, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(number, size, &bytes) || planned_failure()) {
        return NULL;
    }
    size_t before = old ? malloc_usable_size(old) : 0;
    void *block = realloc(old, bytes ? bytes : 1);
    if (!block) {
        return NULL;
    }
    atomic_fetch_sub_explicit(&in_use, before, memory_order_relaxed);
    count(block);
    return block;
}

void pyr_memory_free(void *block)
{
    if (!block) {
        return;
    }
    uncount(block);
#ifdef PYR_HOSTILE
    memset(block, 0xDB, malloc_usable_size(block));
#endif
    free(block);
}

void pyr_memory_retain(size_t bytes)
{
#ifdef M_TRIM_THRESHOLD
    enum { ARENAS = 2, BLOCK_BYTES = 4 << 20 };
    int each = bytes / ARENAS < INT_MAX ? (int)(bytes / ARENAS) : INT_MAX;
    (void)mallopt(M_ARENA_MAX, ARENAS);
    (void)mallopt(M_TRIM_THRESHOLD, each);
    (void)mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES); /* larger ones go back at once */
#else
    (void)bytes;
#endif
}

size_t pyr_memory_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

void pyr_memory_fail_at(size_t nth)
{
    atomic_store(&failed, 0);
    atomic_store(&fail_countdown, nth);
}

int pyr_memory_has_failed(void)
{
    return atomic_load(&failed);
}
