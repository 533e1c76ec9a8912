/* What functions (or lines) cost: self and total of one sample type, with the uncertainty that
 * sampling leaves. */
#ifndef PYR_CLI_COSTS_H
#define PYR_CLI_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cli/groups.h"
#include "pprof/profile.h"

typedef struct pyr_cost {
    pyr_group group;
    int64_t self, total; /* a recursive function counts once in a total */
    double self_variance, total_variance;
} pyr_cost;

typedef struct pyr_costs {
    pyr_cost *list; /* sorted: most self first, then most total */
    size_t count;
    int64_t total;
    double variance; /* of the total; 0 when the type has no known sampling error */
    bool sampled;    /* the variances mean something */
} pyr_costs;

/* Costs of the groups that have any. PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_costs_init(pyr_costs *costs, const pyr_profile *profile, size_t type,
                                       const pyr_groups *groups);
void pyr_costs_fini(pyr_costs *costs);

/* What a sample with these values adds to the variance of a sum; count_type as below. */
double pyr_costs_variance(const int64_t *values, size_t type, int count_type);

/* Half the width of the 95 % interval of part / whole, as a share.
 *
 * A sample of value v from n observations stands for n independent looks at random moments, of
 * value v / n each: its variance is v * v / n. A share p of a total T, of which the part has
 * variance A and the rest B, then has variance ((1 - p)^2 A + p^2 B) / T^2. */
double pyr_costs_share_error(const pyr_costs *costs, int64_t part, double part_variance);

/* Index of the sample type that counts the observations behind `type` ("cpu-samples" for
 * "cpu-time"), or -1 where the profile has none: then nothing is known of its sampling error. */
int pyr_costs_count_type(const pyr_profile *profile, size_t type);

#endif
