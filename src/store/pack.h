/* Bytes of the store's values: sections that are compressed one by one, so that a query pays for
 * those that it looks at. Private to store/.
 *
 * A section is: length, stored length, bytes; numbers are varints. Stored as it is where zstd does
 * not make it smaller; a byte that is repeated throughout is stored once. Reading treats the bytes
 * as hostile: a store may be damaged.
 */
#ifndef PYR_STORE_PACK_H
#define PYR_STORE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/wire.h"

enum { PYR_PACK_SECTION_BYTES = 1 << 28 }; /* most of one section, uncompressed */

typedef struct pyr_packer pyr_packer; /* zstd's memory, used again and again; one thread */

/* NULL: no memory. */
pyr_packer *pyr_packer_new(void);
void pyr_packer_free(pyr_packer *packer);

/* Appends bytes as a section. Errors stick in `out`. */
void pyr_pack_section(pyr_packer *packer, const void *bytes, size_t length, pyr_buffer *out);

/* The same without a try to compress: for what is known to be noise. */
void pyr_pack_plain(const void *bytes, size_t length, pyr_buffer *out);

/* Reads the next section into `section`, which is cleared. PYR_EBAD, PYR_EPARTIAL, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_pack_read(pyr_packer *packer, pyr_wire_reader *reader,
                                      pyr_buffer *section);

/* Steps over the next section without uncompressing it. */
PYR_MUST_USE pyr_status pyr_pack_skip(pyr_wire_reader *reader, size_t *length);

/* Signed numbers as varints: small ones of either sign are short. */
static inline void pyr_pack_signed(pyr_buffer *out, int64_t value)
{
    pyr_wire_append_varint(out, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

PYR_MUST_USE static inline pyr_status pyr_pack_read_signed(pyr_wire_reader *reader, int64_t *value)
{
    uint64_t number = 0;
    pyr_status status = pyr_wire_varint(reader, &number);
    *value = (int64_t)((number >> 1) ^ (~(number & 1) + 1));
    return status;
}

/* Reads a number that must be below `end`. */
PYR_MUST_USE static inline pyr_status pyr_pack_read_below(pyr_wire_reader *reader, uint64_t end,
                                                          uint64_t *value)
{
    pyr_status status = pyr_wire_varint(reader, value);
    return status == PYR_OK && *value >= end ? PYR_EBAD : status;
}

#endif
