/* Frames grouped by what they are shown as: a function (name and file), or a line of it. */
#ifndef PYR_CLI_GROUPS_H
#define PYR_CLI_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef struct pyr_group {
    uint32_t name, file; /* strings of the profile */
    int64_t line;        /* 0 when grouped by function, or unknown */
} pyr_group;

typedef struct pyr_groups {
    pyr_group *list;
    size_t count;
    uint32_t *of_frame; /* frame -> index in list */
} pyr_groups;

/* PYR_ENOMEM, PYR_ETOOBIG; nothing is left behind then. */
PYR_MUST_USE pyr_status pyr_groups_init(pyr_groups *groups, const pyr_profile *profile,
                                        bool by_line);
void pyr_groups_fini(pyr_groups *groups);

#endif
