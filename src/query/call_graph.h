/* Who calls whom: the edges between the functions of what was gathered. */
#ifndef PYR_QUERY_CALL_GRAPH_H
#define PYR_QUERY_CALL_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "query/gather.h"

typedef struct pyr_call_edge {
    uint32_t caller,
        callee;    /* functions of the profile; of those with one name and file the first */
    int64_t value; /* of samples that have this call on their stack, each counted once */
} pyr_call_edge;

typedef struct pyr_call_graph {
    pyr_call_edge *edges; /* largest first */
    size_t count;
} pyr_call_graph;

/* Makes the graph of one type. PYR_ENOMEM. One thread. */
PYR_MUST_USE pyr_status pyr_call_graph_init(pyr_call_graph *graph, const pyr_gathered *gathered,
                                            size_t type);
void pyr_call_graph_fini(pyr_call_graph *graph);

/* For each function the first one with its name and file; function_count of them, which the caller
 * frees with pyr_memory_free. NULL: no memory. */
uint32_t *pyr_functions_unify(const pyr_profile *profile);

#endif
