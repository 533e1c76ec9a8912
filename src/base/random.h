/* Random numbers for sampling: fast, not secret. One owner a state; hook safe. */
#ifndef PYR_BASE_RANDOM_H
#define PYR_BASE_RANDOM_H

#include <stdint.h>

#include "base/status.h"

/* The next number (xorshift64*); `state` must not be 0. */
PYR_HOOK_SAFE uint64_t pyr_random_next(uint64_t *state);

/* A distance of the Poisson process with `mean` (at least 1) events between two: how many events
 * until the next one to sample, 1 at least, geometrically distributed. At most 2^53. */
PYR_HOOK_SAFE int64_t pyr_random_gap(uint64_t *state, double mean);

#endif
