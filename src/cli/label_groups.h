/* Samples grouped by the value of one label: threads, states, exception types. */
#ifndef PYR_CLI_LABEL_GROUPS_H
#define PYR_CLI_LABEL_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef struct pyr_label_group {
    const pyr_profile_label *label; /* one of the group; NULL = samples without the label */
    int64_t value;
    double variance; /* as in costs.h */
    int64_t samples; /* observations; -1 where the profile does not count them */
} pyr_label_group;

typedef struct pyr_label_groups {
    pyr_label_group *list; /* most value first */
    size_t count;
    size_t labelled; /* samples that have the label, whatever their value */
} pyr_label_groups;

/* Groups of the samples with a value of `type`. PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_label_groups_init(pyr_label_groups *groups, const pyr_profile *profile,
                                              size_t type, const char *key);
void pyr_label_groups_fini(pyr_label_groups *groups);

#endif
