/* A profile as sums in the numbers of a book: one row for each stack and set of texts (labels whose
 * value is text: thread name, state, endpoint). What is left of single samples, their moments and
 * numeric labels, is in detail.h. Private to store/ but for reading, which query/ does.
 *
 * One owner, one thread at a time. Arrays belong to the sums.
 */
#ifndef PYR_STORE_SUMS_H
#define PYR_STORE_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map.h"
#include "base/status.h"
#include "pprof/profile.h"
#include "store/book.h"

enum { PYR_SUMS_TYPES = 64 }; /* sample types of one profile */

typedef struct pyr_sums {
    uint32_t types; /* list of the book: (type, unit) */
    size_t type_count;
    size_t count; /* rows */
    size_t samples;
    pyr_buffer stacks, lists; /* uint32_t a row */
    pyr_buffer values;        /* int64_t, type_count a row */
    /* double, type_count a row: the variance of the value as design note 0002 estimates it, the sum
     * of squares of independent events; negative = unknown. */
    pyr_buffer squares;
    pyr_map *rows; /* stack and list -> row */
} pyr_sums;

/* Empty, for profiles of these types. */
PYR_MUST_USE pyr_status pyr_sums_init(pyr_sums *sums, uint32_t types, size_t type_count);
void pyr_sums_fini(pyr_sums *sums);

/* Adds values to the row of a stack and list; *row says which. Sums saturate. */
PYR_MUST_USE pyr_status pyr_sums_add(pyr_sums *sums, uint32_t stack, uint32_t list,
                                     const int64_t *values, const double *squares, size_t *row);

/* The set of types whose value is not 0. Pure. */
uint64_t pyr_sums_types_of(const int64_t *values, size_t type_count);

typedef struct pyr_sums_place { /* of a sample in the sums */
    uint64_t types;             /* set of those that it has a value of */
    uint32_t row;
} pyr_sums_place;

/* Makes the sums of a profile, with its symbols in `book`. `places`, unless NULL, gets the place of
 * each sample (pyr_sums_place). PYR_ETOOBIG: the book is full; fini either way. */
PYR_MUST_USE pyr_status pyr_sums_of_profile(pyr_sums *sums, const pyr_profile *profile,
                                            pyr_book *book, pyr_buffer *places);

#endif
