/* What profiling itself cost and lost, as the documents that come with profiles say. */
#ifndef PYR_SERVER_OWN_COST_H
#define PYR_SERVER_OWN_COST_H

#include <jansson.h>
#include <stddef.h>

enum { PYR_OWN_LOSSES = 15 };

typedef struct pyr_own_cost { /* doubles: documents hold any number, and sums must not overflow */
    double windows;           /* documents */
    double cpu_ns, window_ns; /* of one process */
    double bytes;             /* the most that one held */
    double lost[PYR_OWN_LOSSES]; /* by kind */
} pyr_own_cost;

/* What agents call the kind of a loss; the last one, "other", stands for all that are not known
 * here: senders may say what they like, and must not fill /metrics. */
const char *pyr_own_cost_loss(size_t kind);

/* Adds what a document says; one that says nothing, or is NULL, adds nothing but itself. */
void pyr_own_cost_add_document(pyr_own_cost *cost, const json_t *document);

void pyr_own_cost_add(pyr_own_cost *cost, const pyr_own_cost *other);

#endif
