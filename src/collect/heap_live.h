/* Sampled blocks that are still alive, found by address in the hook of free.
 *
 * A filter of bits answers "certainly not sampled" for nearly every free: 32 KiB, so that it stays
 * in the cache, and neighbouring addresses have neighbouring bits. Behind it stands a table of
 * buckets. Blocks are added, thinned and swept under the owner's lock; they are taken by address
 * without a lock and without waiting, from any thread. A taken place is swept later, which also
 * clears its bit: so a bit is only ever cleared by who also sets it.
 */
#ifndef PYR_COLLECT_HEAP_LIVE_H
#define PYR_COLLECT_HEAP_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PYR_HEAP_FILTER_BITS = 1 << 18,
    PYR_HEAP_FILTER_WORDS = PYR_HEAP_FILTER_BITS / 64,
#ifdef PYR_HOSTILE
    PYR_HEAP_LIVE = 64, /* most blocks */
#else
    PYR_HEAP_LIVE = 16384,
#endif
};

/* A sampled block. */
typedef struct pyr_heap_block {
    double size;
    double bytes, count; /* that it stands for */
    double sampled;      /* at this distance */
    double distance;     /* the chance that it is here is that of a sample at this distance */
    int64_t born_ns;     /* monotonic */
    uint32_t site;
} pyr_heap_block;

typedef struct pyr_heap_live pyr_heap_live;

/* The filter. It stands outside of everything, so that a hook reaches it in one step. */
extern _Atomic uint64_t pyr_heap_filter[PYR_HEAP_FILTER_WORDS];

/* Blocks begin at multiples of 16. Which of them are sampled is random, so any bits will do. */
PYR_HOOK_SAFE static inline size_t pyr_heap_filter_bit(uintptr_t address)
{
    return (address >> 4) & (PYR_HEAP_FILTER_BITS - 1);
}

/* False: the block at `address` is certainly not sampled. */
PYR_HOOK_SAFE static inline bool pyr_heap_filter_has(uintptr_t address)
{
    size_t bit = pyr_heap_filter_bit(address);
    return atomic_load_explicit(&pyr_heap_filter[bit / 64], memory_order_relaxed) >> (bit % 64) & 1;
}

/* Who wants to know that a block is gone: its site is no longer held by it. Under the owner's lock.
 */
typedef struct pyr_heap_live_owner {
    void *context;
    void (*release)(void *context, uint32_t site);
} pyr_heap_live_owner;

/* An empty table; there is one a process at a time, since the filter is. NULL: no memory. Its
 * address space is kept for ever, since a hook may be in the middle of it: so it is never freed. */
pyr_heap_live *pyr_heap_live_new(pyr_heap_live_owner owner);

/* Takes the block at `address` out: whoever gets it owns its place, and ends with drop or restore.
 * Negative: not here. Any thread, wait-free. */
PYR_HOOK_SAFE int64_t pyr_heap_live_take(pyr_heap_live *live, uintptr_t address);

/* The block of a place that the caller has taken. */
PYR_HOOK_SAFE pyr_heap_block pyr_heap_live_block(const pyr_heap_live *live, int64_t place);

/* The block was freed. */
PYR_HOOK_SAFE void pyr_heap_live_drop(pyr_heap_live *live, int64_t place, uintptr_t address);

/* It was not: it stays. */
PYR_HOOK_SAFE void pyr_heap_live_restore(pyr_heap_live *live, int64_t place, uintptr_t address);

/* -------------------------------------------------------------------- the owner's lock ---- */

/* Adds a sampled block; its distances, `bytes` and `count` are those of its sample. It may be left
 * out by chance, for the sake of the bound, and others may be: all that stay stand for them.
 * Returns true when it was added, and then holds its site. `random` is a state of pyr_heap_random.
 */
PYR_HOOK_SAFE bool pyr_heap_live_add(pyr_heap_live *live, uintptr_t address, pyr_heap_block block,
                                     uint64_t *random);

/* Gives back one place if it was taken, or all that were. Until then the filter says yes for its
 * address, which may be the next block's. */
PYR_HOOK_SAFE void pyr_heap_live_sweep_place(pyr_heap_live *live, int64_t place);
PYR_HOOK_SAFE void pyr_heap_live_sweep(pyr_heap_live *live);

/* Forgets the blocks for which `is_gone` says yes; how many. */
size_t pyr_heap_live_drop_if(pyr_heap_live *live,
                             bool (*is_gone)(void *context, uintptr_t address,
                                             const pyr_heap_block *block),
                             void *context);

/* Calls `visit` for each block alive. */
void pyr_heap_live_each(pyr_heap_live *live,
                        void (*visit)(void *context, const pyr_heap_block *block), void *context);

/* Forgets all blocks, gives the memory back; no site hears of it. `alone`: no other thread runs. */
PYR_HOOK_SAFE void pyr_heap_live_clear(pyr_heap_live *live, bool alone);

/* Blocks alive now; the distance they are thinned to; blocks that found no place. */
PYR_HOOK_SAFE size_t pyr_heap_live_count(const pyr_heap_live *live);
PYR_HOOK_SAFE double pyr_heap_live_distance(const pyr_heap_live *live);
PYR_HOOK_SAFE uint64_t pyr_heap_live_misplaced(const pyr_heap_live *live);

/* Memory of all tables, if every page of them is touched: constant. */
size_t pyr_heap_live_memory(void);

#endif
