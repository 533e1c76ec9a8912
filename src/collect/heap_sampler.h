/* Sampling allocations: what the hooks of CPython's allocators call.
 *
 * There is one sampler a process, since the hooks stay to its end. A hook counts every allocation
 * down in thread-local storage, and calls pyr_heap_sample for the few that are sampled; it asks the
 * filter of heap_live.h about every block that is freed or resized. Everything here is hook safe,
 * in any thread, with or without the GIL; the rest of the sampler's interface is heap_account.h.
 */
#ifndef PYR_COLLECT_HEAP_SAMPLER_H
#define PYR_COLLECT_HEAP_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/heap_estimate.h"
#include "collect/heap_live.h"
#include "collect/heap_sites.h"

/* What a thread keeps. Zero in a new thread. */
typedef struct pyr_heap_own {
    int64_t left;    /* bytes to the next sample; below 0: it is due */
    uint64_t count;  /* allocations since the last sample */
    uint32_t nested; /* calls of an allocator that counted already: what is below does not count */
    uint32_t epoch;  /* of the start that `drawn` is of */
    uintptr_t counted; /* a block that may be passed on to be resized, and is counted already */
    int64_t drawn;     /* what `left` began with */
    double distance;   /* ... at which distance; 0 = never */
    pyr_heap_account account;
    double told_variance; /* of the account: what the sampler's sum has of it */
    uint64_t random;
    uint64_t native_id; /* kernel id, 0 = not asked for yet */
} pyr_heap_own;

extern _Thread_local pyr_heap_own pyr_heap_mine __attribute__((tls_model("initial-exec")));

/* Counts an allocation. False: it is to be sampled, by pyr_heap_sample when it has succeeded, or
 * taken back by pyr_heap_undo. */
PYR_HOOK_SAFE static inline bool pyr_heap_count(size_t size)
{
    pyr_heap_mine.count++;
    return (pyr_heap_mine.left -= (int64_t)size) >= 0;
}

/* Whether an allocation would be sampled, or undone: so that nothing is counted yet. */
PYR_HOOK_SAFE static inline bool pyr_heap_is_due(size_t size)
{
    return pyr_heap_mine.left < (int64_t)size;
}

/* What the calling thread allocates in C code from now on is ours, and is not counted. */
static inline void pyr_heap_leave_out_thread(void)
{
    pyr_heap_mine.nested = 1;
}

/* Samples the allocation counted just now. Waits for nothing: what cannot be recorded is counted as
 * lost, and later samples speak for it. Does not touch errno. */
PYR_HOOK_SAFE void pyr_heap_sample(pyr_heap_domain domain, uintptr_t address, size_t size);

/* The same for an allocation of C code; `caller`: where the call of the allocator returns to. */
PYR_HOOK_SAFE void pyr_heap_sample_native(uintptr_t address, size_t size, uintptr_t caller);

/* The allocation counted just now has failed. */
PYR_HOOK_SAFE void pyr_heap_undo(size_t size);

/* The block at `address`, for which the filter said yes, is about to be freed. */
PYR_HOOK_SAFE void pyr_heap_freed(uintptr_t address);

/* The same for the first `size` bytes of the block: what is left of it begins behind them. */
PYR_HOOK_SAFE void pyr_heap_cut(uintptr_t address, size_t size);

/* A block at `address`, for which the filter said yes, was allocated just now: what was there has
 * been freed unseen. */
PYR_HOOK_SAFE void pyr_heap_reused(uintptr_t address);

/* The same for a block about to be resized: its place, or -1; ends with pyr_heap_resized. `moved`:
 * it was resized (and is a new allocation); else it is what it was. */
PYR_HOOK_SAFE int64_t pyr_heap_resizing(uintptr_t address);
PYR_HOOK_SAFE void pyr_heap_resized(int64_t place, uintptr_t address, bool moved);

#endif
