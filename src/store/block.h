/* The sums of a profile as bytes: columns, each compressed by itself. Private to store/ but for
 * reading, which query/ does. Pure but for memory; one thread at a time. */
#ifndef PYR_STORE_BLOCK_H
#define PYR_STORE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "store/book.h"
#include "store/column.h"
#include "store/pack.h"
#include "store/sums.h"

/* Appends the sums in the order of `order` (rows; see pyr_block_order). */
PYR_MUST_USE pyr_status pyr_block_write(const pyr_sums *sums, const uint32_t *order,
                                        pyr_packer *packer, pyr_buffer *out);

/* Fills `order` (uint32_t a row) with the rows by list, then stack: how they are written. */
PYR_MUST_USE pyr_status pyr_block_order(const pyr_sums *sums, pyr_buffer *order);

/* A block that is being read; storage is used again for the next. */
typedef struct pyr_block {
    uint32_t types; /* list of the book */
    size_t type_count;
    size_t count;             /* rows */
    pyr_buffer stacks, lists; /* uint32_t a row */
    pyr_buffer values;        /* int64_t a row, of the type that was asked for last */
    pyr_buffer squares;       /* double a row; negative = unknown */
    pyr_buffer scratch;
    uint64_t format;
    pyr_buffer sets;         /* uint64_t a row: the types that it has a value of; not in format 1 */
    pyr_column numbers;      /* scratch too */
    pyr_wire_reader columns; /* borrowed from the bytes */
} pyr_block;

void pyr_block_init(pyr_block *block);
void pyr_block_fini(pyr_block *block);

/* Reads everything but the values. `bytes` must stay until the values are read. All numbers are
 * checked against the book. PYR_EBAD: damaged. */
PYR_MUST_USE pyr_status pyr_block_read(pyr_block *block, const pyr_book *book, pyr_packer *packer,
                                       const void *bytes, size_t length);

/* The same without stacks and lists: of this only totals can be asked for. */
PYR_MUST_USE pyr_status pyr_block_open(pyr_block *block, const pyr_book *book, const void *bytes,
                                       size_t length);

/* The sum of the values of one type, which saturates. PYR_ENOENT: all are 0. */
PYR_MUST_USE pyr_status pyr_block_total(pyr_block *block, pyr_packer *packer, size_t type,
                                        int64_t *total);

/* Reads the list of types alone, of which the first 16 bytes are enough. PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_block_types(const void *bytes, size_t length, uint32_t *types);

/* Reads the values of one type. PYR_ENOENT: all are 0. */
PYR_MUST_USE pyr_status pyr_block_values(pyr_block *block, pyr_packer *packer, size_t type);

#endif
