/* What a row of the table of profiles stands for: a profile as it came, or the sum of the rows of
 * the level below that one series has in an hour, or in a day. Pure. */
#ifndef PYR_STORE_LEVEL_H
#define PYR_STORE_LEVEL_H

#include <stdint.h>

static const int64_t PYR_HOUR_NS = INT64_C(3600000000000);
static const int64_t PYR_DAY_NS = INT64_C(86400000000000);

typedef enum pyr_level { /* as they stand in the file */
                         PYR_LEVEL_PROFILE = 0,
                         PYR_LEVEL_HOUR = 1,
                         PYR_LEVEL_DAY = 2,
} pyr_level;

/* The span of a sum, which begins at a multiple of it. */
static inline int64_t pyr_level_ns(pyr_level level)
{
    return level == PYR_LEVEL_DAY ? PYR_DAY_NS : level == PYR_LEVEL_HOUR ? PYR_HOUR_NS : 1;
}

#endif
