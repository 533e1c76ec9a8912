/* Numbers for pairs of numbers, in order of first use: the way call trees, lines and threads are
 * told apart without comparing texts. */
#ifndef PYR_CLI_PAIRS_H
#define PYR_CLI_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_pair {
    uint32_t first, second;
} pyr_pair;

typedef struct pyr_pairs pyr_pairs;

/* NULL: no memory. */
pyr_pairs *pyr_pairs_new(void);
void pyr_pairs_free(pyr_pairs *pairs);

/* The number of the pair, from 0 on; a new one when it was not seen before. PYR_ENOMEM or
 * PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_pairs_add(pyr_pairs *pairs, uint32_t first, uint32_t second,
                                      uint32_t *number);

/* How many there are, and the pair with a number. */
size_t pyr_pairs_count(const pyr_pairs *pairs);
pyr_pair pyr_pairs_at(const pyr_pairs *pairs, size_t number);

#endif
