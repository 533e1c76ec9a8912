/* The profiles that a question is about, added up into one.
 *
 * The answer is a pprof profile in memory, whose samples are sums, with the variance of each value
 * beside it; every view is made of that. One thread, with a view of the store between begin and
 * end.
 */
#ifndef PYR_QUERY_GATHER_H
#define PYR_QUERY_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/profile.h"
#include "query/question.h"
#include "store/view.h"

typedef enum pyr_gather_labels {
    PYR_GATHER_STACKS, /* samples differ by stack only */
    PYR_GATHER_LABELS, /* samples that differ in their texts stay apart */
} pyr_gather_labels;

typedef struct pyr_gathered {
    pyr_profile *profile; /* types: the one that was asked for, or all; the caller frees it */
    double *squares;      /* one a value of the profile; negative = unknown */
    size_t profiles;      /* that were added up, those in sums not counted one by one */
    size_t series, samples, damaged;
    int64_t first_ns; /* when the first profile, or sum, began; 0 without any */
    double seconds;   /* of all profiles together: seconds of one process */
    bool has_more;    /* rows were left out: there were too many */
} pyr_gathered;

/* Adds up. question->type "" gathers all types. PYR_ENOENT: no profile has the type that was asked
 * for, there is none at all, or no sample passes. Fini either way. */
PYR_MUST_USE pyr_status pyr_gather(pyr_view *view, const pyr_question *question,
                                   pyr_gather_labels labels, pyr_gathered *gathered);
void pyr_gathered_fini(pyr_gathered *gathered);

/* Series that a question is about, as ids (int64_t) into `ids`; and for each, a bit for every
 * condition that the samples must decide (uint32_t) into `open`. */
PYR_MUST_USE pyr_status pyr_question_series(pyr_view *view, const pyr_question *question,
                                            pyr_buffer *ids, pyr_buffer *open);

/* Calls `visit` for each profile that has a row which the question is about; the profile is whole.
 */
PYR_MUST_USE pyr_status pyr_question_each(pyr_view *view, const pyr_question *question,
                                          pyr_view_visit visit, void *context, size_t *damaged);

/* Which rows of one book fulfil the conditions that are left to samples; caches by book. */
typedef struct pyr_sieve pyr_sieve;

pyr_sieve *pyr_sieve_new(const pyr_question *question);
void pyr_sieve_free(pyr_sieve *sieve);

/* Prepares for a row of the scan. `open`: conditions that samples decide. */
PYR_MUST_USE pyr_status pyr_sieve_start(pyr_sieve *sieve, const pyr_view_row *row, uint32_t open);

/* True when a row of the block passes. */
bool pyr_sieve_passes(pyr_sieve *sieve, uint32_t stack, uint32_t list);

#endif
