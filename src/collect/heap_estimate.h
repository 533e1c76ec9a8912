/* The mathematics of the memory collector: when to sample an allocation, and what a sample stands
 * for. Derivation and measurements: docs/design/0008-heap-estimates.md.
 *
 * Along the bytes that a thread allocates lie points of a Poisson process, `distance` bytes apart
 * in the mean; an allocation with a point in it is sampled. A sample's weight is unbiased, and
 * corrected by what the thread's samples so far told too much or too little, so that totals come
 * out near exact. Numbers only, no memory; any thread, one a state.
 */
#ifndef PYR_COLLECT_HEAP_ESTIMATE_H
#define PYR_COLLECT_HEAP_ESTIMATE_H

#include <stdint.h>

#include "base/status.h"

/* What one sample stands for. */
typedef struct pyr_heap_weight {
    double bytes, count;   /* that it stands for, corrected */
    double variance_bytes; /* estimate of its share in the variance of a sum of weights */
    double variance_count;
} pyr_heap_weight;

/* A thread's account: what it allocated and what its samples said so far. */
typedef struct pyr_heap_account {
    double carry_bytes, carry_count; /* allocated and not said yet; below 0: said too much */
    double squares, cubes;           /* sums of what samples said of counts */
    double variance;                 /* estimate: of the carried bytes */
} pyr_heap_account;

/* Estimates of variances, of bytes. */
typedef struct pyr_heap_errors {
    double totals;  /* of what samples said of all that was allocated */
    double sampled; /* sum over all samples so far, each for itself */
    double live;    /* of that, what belongs to blocks that are alive */
    double thinned; /* what thinning the live blocks adds */
} pyr_heap_errors;

/* The next number of a generator (its state is any number but 0), uniform. */
PYR_HOOK_SAFE uint64_t pyr_heap_random(uint64_t *state);

/* Uniform in [0, 1). */
PYR_HOOK_SAFE double pyr_heap_uniform(uint64_t *state);

/* Bytes to the next point: exponential with mean `distance`, at least 1, at most 2^60. */
PYR_HOOK_SAFE int64_t pyr_heap_draw(uint64_t *state, double distance);

/* The chance that an allocation of `size` bytes is sampled at this distance. */
PYR_HOOK_SAFE double pyr_heap_chance(double size, double distance);

/* A sampled allocation of `size` bytes; `bytes_before` bytes in `count_before` allocations were
 * made since the thread's last sample. */
PYR_HOOK_SAFE pyr_heap_weight pyr_heap_weigh(pyr_heap_account *account, double size,
                                             double distance, double bytes_before,
                                             double count_before);

/* The same, for a sampled allocation that could not be recorded: later ones speak for it. */
PYR_HOOK_SAFE void pyr_heap_miss(pyr_heap_account *account, double size, double distance,
                                 double bytes_before, double count_before);

/* Adds what a live block (sampled at one distance, maybe thinned to another) says of the error. */
void pyr_heap_errors_add(pyr_heap_errors *errors, double size, double sampled, double thinned_to);

/* The variance of the sum of all live blocks: smaller than that of their samples, since the sum of
 * all that was allocated is known better. */
double pyr_heap_live_variance(const pyr_heap_errors *errors);

/* An interval that covers the truth in 95 of 100 cases, from a sum of weights and the sum of their
 * variances. Of few samples it is not symmetric. Both ends are 0 or more. */
void pyr_heap_interval(double sum, double variance, double *low, double *high);

#endif
