/* What changed between two profiles, function by function, and what of it is more than noise.
 *
 * The statistics are derived in docs/design/0002-differences.md.
 */
#ifndef PYR_PPROF_DIFF_H
#define PYR_PPROF_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef enum pyr_diff_correction {
    PYR_DIFF_EACH,       /* each function alone: one in twenty looks changed when none is */
    PYR_DIFF_FALSE_RATE, /* Benjamini-Hochberg: at most one in twenty of those shown is not */
    PYR_DIFF_BONFERRONI, /* not even one, in 19 of 20 comparisons: for gates */
} pyr_diff_correction;

typedef struct pyr_diff_options {
    const char *type; /* sample type by name; NULL = default type of `before` */
    double z;         /* half width of the interval in standard errors; 0 = 1.96, that is 95 % */
    pyr_diff_correction correction;
} pyr_diff_options;

/* One number before and after, in units of the type, per second if pyr_diff.per_second. */
typedef struct pyr_diff_measure {
    double before, after;
    double change;       /* after - before */
    double margin;       /* the interval is change +- margin; NAN = unknown */
    double doubt;        /* two-sided p-value of "no change"; NAN = unknown */
    bool is_significant; /* after the correction; false when unknown */
} pyr_diff_measure;

typedef struct pyr_diff_function {
    const char *name, *file; /* owned by the diff */
    pyr_diff_measure self;   /* at the leaf */
    pyr_diff_measure total;  /* anywhere on the stack, counted once a sample */
} pyr_diff_function;

typedef struct pyr_diff {
    pyr_diff_function *functions; /* largest change of total first */
    size_t count;
    pyr_diff_measure whole;  /* all samples together */
    const char *type, *unit; /* borrowed from `before` */
    bool per_second;         /* both durations are known; else the values are plain sums */
    void *storage;           /* of the texts; private */
} pyr_diff;

/* Compares two profiles; the caller frees the result. Functions are the same when name and file
 * are, so that moved lines do not hide a change. PYR_ENOENT: one of them lacks the type, or has it
 * in another unit; PYR_ENOMEM. One thread. Linear but for sorting the functions. */
PYR_MUST_USE pyr_status pyr_diff_new(const pyr_profile *before, const pyr_profile *after,
                                     const pyr_diff_options *options, pyr_diff **diff);

/* Frees; NULL is fine. */
void pyr_diff_free(pyr_diff *diff);

#endif
