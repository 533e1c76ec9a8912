/* The single samples of a profile, where they have moments or numeric labels: what its sums lose.
 * Private to store/.
 *
 * Pure but for memory. Sums and detail together give every sample back: its row (stack and texts),
 * its values, its moment (label end_timestamp_ns) and its other numeric labels.
 */
#ifndef PYR_STORE_DETAIL_H
#define PYR_STORE_DETAIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/profile.h"
#include "store/block.h"
#include "store/book.h"
#include "store/pack.h"
#include "store/sums.h"

/* Appends the samples of a profile, whose sample n is in row places[n].row of its block, which has
 * the sums in this order. Nothing is appended when no sample has a numeric label: the sums say all.
 */
PYR_MUST_USE pyr_status pyr_detail_write(const pyr_profile *profile, const pyr_sums_place *places,
                                         const pyr_sums *sums, const uint32_t *order,
                                         pyr_book *book, pyr_packer *packer, pyr_buffer *out);

typedef struct pyr_detail_number {
    uint32_t key, unit; /* strings of the book; unit 0 = none */
    int64_t value;
} pyr_detail_number;

typedef struct pyr_detail {
    size_t count, type_count;
    pyr_buffer rows;    /* uint32_t a sample */
    pyr_buffer moments; /* int64_t a sample; 0 = none */
    pyr_buffer extras;  /* uint32_t a sample, into ends; the numbers of extra n end at ends[n] */
    pyr_buffer values;  /* int64_t, type after type, `count` each */
    pyr_buffer numbers; /* pyr_detail_number */
    pyr_buffer ends;    /* uint32_t */
} pyr_detail;

void pyr_detail_init(pyr_detail *detail);
void pyr_detail_fini(pyr_detail *detail);

/* Reads what write made, with the block that it belongs to, whose values are others afterwards.
 * PYR_EBAD: damaged. */
PYR_MUST_USE pyr_status pyr_detail_read(pyr_detail *detail, const pyr_book *book, pyr_block *block,
                                        pyr_packer *packer, const void *bytes, size_t length);

#endif
