/* Stacks kept as long as somebody holds them, as a tree: stacks with the same callers share them.
 *
 * A stack is known by the node of its leaf. Bounded, all memory reserved at creation. One owner,
 * under its lock; adding and releasing are hook safe.
 */
#ifndef PYR_COLLECT_HEAP_STACKS_H
#define PYR_COLLECT_HEAP_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/sample.h"
#include "model/symbols.h"

enum {
#ifdef PYR_HOSTILE
    PYR_HEAP_NODES = 1 << 10,
#else
    PYR_HEAP_NODES = 1 << 16,
#endif
};

typedef struct pyr_heap_stacks pyr_heap_stacks;

/* NULL: no memory. */
pyr_heap_stacks *pyr_heap_stacks_new(void);
void pyr_heap_stacks_free(pyr_heap_stacks *stacks);

/* The node of a stack (leaf first, `omitted` frames cut at the root end), held once more; 0: there
 * is no room, and nothing was held. */
PYR_HOOK_SAFE uint32_t pyr_heap_stacks_hold(pyr_heap_stacks *stacks, const pyr_frame *frames,
                                            uint32_t count, uint32_t omitted);

/* Ends one hold. */
PYR_HOOK_SAFE void pyr_heap_stacks_release(pyr_heap_stacks *stacks, uint32_t node);

/* The stack of a node: its frames, leaf first, into `frames`; returns how many. */
uint32_t pyr_heap_stacks_get(const pyr_heap_stacks *stacks, uint32_t node,
                             pyr_frame frames[PYR_LIMIT_FRAMES], uint32_t *omitted);

/* Takes the names of all nodes from one table to another. */
void pyr_heap_stacks_renew(pyr_heap_stacks *stacks, const pyr_symbols *from, pyr_symbols *to);

/* Forgets everything, gives the memory back. */
PYR_HOOK_SAFE void pyr_heap_stacks_clear(pyr_heap_stacks *stacks);

/* Nodes in use. */
size_t pyr_heap_stacks_count(const pyr_heap_stacks *stacks);

/* Memory of the tree, if every page of it is touched: constant. */
size_t pyr_heap_stacks_memory(void);

#endif
