/* The side of the heap sampler that the memory collector sees: start, stop, and what was found.
 *
 * One sampler a process; one owner (a collector) at a time. Any thread but hooks.
 */
#ifndef PYR_COLLECT_HEAP_ACCOUNT_H
#define PYR_COLLECT_HEAP_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/collector.h"
#include "collect/heap_sites.h"
#include "unwind/native_stack.h"

typedef struct pyr_heap_stats {
    uint64_t events; /* allocations sampled */
    uint64_t missed; /* of which there is no record: the lock was held, or names changed */
    uint64_t misplaced, overflows;
    uint64_t unseen_frees;          /* found when an address was used again, or is in no mapping */
    double distance, live_distance; /* bytes */
    double live_variance;           /* of the sum of live bytes, as of the last look */
    size_t live, sites;
    bool is_pushed; /* the budget overrules the distance set by hand */
} pyr_heap_stats;

/* Makes the sampler of this process, once, and gives it to `owner`, for whom all is empty.
 * `native_stacks` is borrowed until the close; NULL: samples of C code have one frame of it.
 * PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_heap_open(const void *owner, const pyr_collect_context *context,
                                      pyr_native_stacks *native_stacks);

/* From now on allocations are sampled; from now on not. Live blocks are followed in between too.
 * A stop returns when no hook uses anything of the context. */
void pyr_heap_start(const void *owner);
void pyr_heap_stop(const void *owner);

/* The owner has gone: everything is forgotten. */
void pyr_heap_close(const void *owner);

/* Forgets all live blocks: some may have been freed unseen. */
void pyr_heap_forget_live(void);

/* Looks at all live blocks, and calls `visit` for each site that has any or at which something was
 * allocated in this window; ends the window where `ends`. `thread` may be NULL. Called under the
 * sampler's lock, a part of the sites at a time. */
typedef struct pyr_heap_visit {
    pyr_frame *frames; /* leaf first; the visitor may change all of this */
    uint32_t frame_count, omitted;
    const pyr_heap_thread *thread;
    const pyr_heap_site *site;
} pyr_heap_visit;

void pyr_heap_each(const void *owner, bool ends,
                   void (*visit)(void *context, pyr_heap_visit *found), void *context);

/* Calls `name` for each thread of a site, which may fill in its name. */
void pyr_heap_each_thread(const void *owner, void (*name)(void *context, pyr_heap_thread *thread),
                          void *context);

/* Takes the names from one table of symbols to another. */
void pyr_heap_renew(const void *owner, pyr_symbols *symbols);

void pyr_heap_get_stats(pyr_heap_stats *stats);

/* Around fork. The child's sampler is empty, stopped and nobody's. */
void pyr_heap_prefork(void);
void pyr_heap_postfork_parent(void);
PYR_HOOK_SAFE void pyr_heap_postfork_child(void);

#endif
