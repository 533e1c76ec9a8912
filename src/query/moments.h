/* What happened when, in one profile: lanes of threads or tasks; and who waited for whom. */
#ifndef PYR_QUERY_MOMENTS_H
#define PYR_QUERY_MOMENTS_H

#include "base/status.h"
#include "pprof/profile.h"
#include "query/answer.h"

enum { PYR_LANES_SPANS = 200000 };

/* Writes the lanes of a profile's samples with moments: "names" (functions, leaf), "states", and
 * for each lane its "spans" as [start and length in nanoseconds after the profile's start, name,
 * state], in the order of time. `by` is the label that makes a lane, "thread name" or "task name".
 * PYR_ENOENT: no sample has a moment. */
PYR_MUST_USE pyr_status pyr_lanes_write(pyr_answer *answer, const pyr_profile *profile,
                                        const char *by);

/* Pairs of a waiter and a holder (label `pair id`), added up by their functions and kind. */
typedef struct pyr_pair_table pyr_pair_table;

/* NULL: no memory. */
pyr_pair_table *pyr_pair_table_new(void);
void pyr_pair_table_free(pyr_pair_table *table);

/* Adds the pairs of a profile. */
PYR_MUST_USE pyr_status pyr_pair_table_add(pyr_pair_table *table, const pyr_profile *profile);

/* Writes them as a list under `key`, the longest waits first, at most `most`. */
PYR_MUST_USE pyr_status pyr_pair_table_write(pyr_pair_table *table, pyr_answer *answer,
                                             const char *key, size_t most);

#endif
