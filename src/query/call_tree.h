/* The call tree of one type of what was gathered: callers above callees, by function. */
#ifndef PYR_QUERY_CALL_TREE_H
#define PYR_QUERY_CALL_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "query/gather.h"

typedef struct pyr_call_node {
    uint32_t function; /* of the profile; of those with one name and file the first */
    int32_t parent;    /* -1 at the root */
    int32_t depth;
    int64_t self, total;
} pyr_call_node;

typedef struct pyr_call_tree {
    pyr_call_node *nodes; /* a parent before its children; node 0 is the root of all */
    size_t count;
    int64_t cut; /* values of nodes that were cut, now the selfs of those above them */
} pyr_call_tree;

/* Builds the tree, and keeps at most `most` nodes: those with the largest totals, so that what is
 * cut is a whole branch each time, and counts as its caller's own. PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_call_tree_init(pyr_call_tree *tree, const pyr_gathered *gathered,
                                           size_t type, size_t most);
void pyr_call_tree_fini(pyr_call_tree *tree);

#endif
