/* A set of byte strings that gives each different one a number: 0, 1, 2, ...
 *
 * Serves texts and, as their bytes, records without padding. Bounded, seeded against chosen
 * collisions. One owner, one thread at a time.
 */
#ifndef PYR_PPROF_INTERN_H
#define PYR_PPROF_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_intern pyr_intern;

/* An empty set that holds at most `max_count` strings of `max_bytes` in all. NULL: no memory. */
pyr_intern *pyr_intern_new(size_t max_count, size_t max_bytes);

/* Frees it; NULL is fine. */
void pyr_intern_free(pyr_intern *intern);

/* The number of `bytes`, which is copied when it is new (then *index == count - 1). PYR_ENOMEM,
 * PYR_ETOOBIG: *index is untouched. */
PYR_MUST_USE pyr_status pyr_intern_add(pyr_intern *intern, const void *bytes, size_t length,
                                       uint64_t *index);

/* The bytes of number `index`, which must exist; valid until the next add. Unaligned. */
const void *pyr_intern_get(const pyr_intern *intern, uint64_t index, size_t *length);

size_t pyr_intern_count(const pyr_intern *intern);

#endif
