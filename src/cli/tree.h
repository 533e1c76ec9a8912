/* The call tree of one sample type: callers above callees, most first. */
#ifndef PYR_CLI_TREE_H
#define PYR_CLI_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cli/groups.h"
#include "pprof/profile.h"

enum { PYR_TREE_NONE = -1 };

typedef struct pyr_tree_node {
    uint32_t group;
    int64_t parent, next_sibling, first_child; /* node, or PYR_TREE_NONE */
    size_t depth;                              /* 0 = root */
    int64_t self, total;
} pyr_tree_node;

typedef struct pyr_tree {
    pyr_tree_node *nodes; /* a parent comes before its children */
    size_t count;
    int64_t first_root; /* roots are siblings */
    int64_t total;
} pyr_tree;

/* Adds up samples that have a value of `type`. PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_tree_init(pyr_tree *tree, const pyr_profile *profile, size_t type,
                                      const pyr_groups *groups);
void pyr_tree_fini(pyr_tree *tree);

#endif
