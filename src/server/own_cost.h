/* What profiling itself cost and lost, as the documents that come with profiles say. */
#ifndef PYR_SERVER_OWN_COST_H
#define PYR_SERVER_OWN_COST_H

#include <jansson.h>

typedef struct pyr_own_cost { /* doubles: documents hold any number, and sums must not overflow */
    double windows;           /* documents */
    double cpu_ns, window_ns; /* of one process */
    double bytes;             /* the most that one held */
    double lost;
} pyr_own_cost;

/* Adds what a document says; one that says nothing, or is NULL, adds nothing but itself. */
void pyr_own_cost_add_document(pyr_own_cost *cost, const json_t *document);

void pyr_own_cost_add(pyr_own_cost *cost, const pyr_own_cost *other);

#endif
