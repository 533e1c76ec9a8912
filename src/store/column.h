/* A column of numbers that look like noise, and a column of sets: what blocks and details are made
 * of. Private to store/.
 *
 * A number is kept as its length in bits with its sign, one byte, which compresses well, and the
 * bits below its highest, which do not compress at all and so are not tried. A byte-wise compressor
 * over varints loses a tenth against this. Reading treats the bytes as hostile.
 */
#ifndef PYR_STORE_COLUMN_H
#define PYR_STORE_COLUMN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "store/pack.h"

typedef struct pyr_column { /* one owner; used again for column after column */
    pyr_buffer lengths;     /* uint8_t a number */
    pyr_buffer bits;        /* from the lowest bit of the first byte on */
    uint64_t pending;       /* writing: bits that are no whole word yet */
    size_t used;            /* writing: how many of them; reading: bits that are read */
    size_t at;              /* reading: numbers that are read */
} pyr_column;

void pyr_column_init(pyr_column *column);
void pyr_column_fini(pyr_column *column);
void pyr_column_clear(pyr_column *column);

/* Appends a number. Errors stick and show when the column is written. */
void pyr_column_add(pyr_column *column, int64_t value);

/* How long a number is in bits: to choose between columns. */
static inline size_t pyr_column_bits(int64_t value)
{
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    return size != 0 ? (size_t)(64 - __builtin_clzll(size)) : 0;
}

/* Appends the column as two sections. Nothing more may be added to it then. */
PYR_MUST_USE pyr_status pyr_column_write(pyr_column *column, pyr_packer *packer, pyr_buffer *out);

/* Reads what write made, from its first number on. PYR_EBAD, PYR_EPARTIAL, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_column_read(pyr_column *column, pyr_packer *packer,
                                        pyr_wire_reader *reader);

/* The next number. PYR_EBAD: there is none. */
PYR_MUST_USE pyr_status pyr_column_next(pyr_column *column, int64_t *value);

/* Appends a set (of sample types, as bits) for each of `count` places as two sections: the
 * different sets, of which there are few, and which of them each place has. */
PYR_MUST_USE pyr_status pyr_column_write_sets(const uint64_t *sets, size_t count,
                                              pyr_packer *packer, pyr_buffer *out);

/* Fills `sets` (uint64_t a place), which is cleared; section is scratch. */
PYR_MUST_USE pyr_status pyr_column_read_sets(size_t count, pyr_packer *packer,
                                             pyr_wire_reader *reader, pyr_buffer *section,
                                             pyr_buffer *sets);

#endif
