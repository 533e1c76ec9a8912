/* Memory images: the bytes of a process that a tool has read, kept to be read again elsewhere.
 *
 * An image lets the production code run on an interpreter that is not there: tests replay recorded
 * Pythons, and an image in a bug report replays what its sender saw. A recording reader stands in
 * front of another reader and keeps each page that passes; it can be saved as an image.
 *
 * Format 1, little endian:
 *
 *     8  magic "PYRIMAGE"
 *     4  format, 1
 *     4  PY_VERSION_HEX of the interpreter, 0 when not known
 *     8  address of _PyRuntime, 0 when not known
 *     4  number of regions
 *     4  reserved, 0
 *     8  bytes of the payload before compression
 *     *  one zstd frame: the payload, which is
 *            for each region, ascending and apart: 8 address, 8 length (not 0)
 *            the bytes of all regions, in that order
 *
 * A loaded image is hostile until proved: every number is checked before anything is read.
 */
#ifndef PYR_READER_IMAGE_H
#define PYR_READER_IMAGE_H

#include "base/buffer.h"
#include "reader/reader.h"

enum {
    PYR_IMAGE_LIMIT_REGIONS = 1 << 16,
    PYR_IMAGE_LIMIT_BYTES = 1 << 26, /* payload, uncompressed */
    PYR_IMAGE_HEADER_BYTES = 40,
};

typedef struct pyr_image_facts {
    uint32_t version; /* PY_VERSION_HEX */
    uint32_t region_count;
    pyr_addr runtime; /* _PyRuntime */
    size_t payload_bytes;
} pyr_image_facts;

/* Pure: what the header says. PYR_EBAD for anything but a well-formed header. */
PYR_MUST_USE pyr_status pyr_image_read_facts(const uint8_t *image, size_t length,
                                             pyr_image_facts *facts);

/* A reader that passes everything through `inner` (borrowed until close) and keeps each 4 KiB page
 * touched, as it was first seen. One thread at a time. PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_reader_open_recording(pyr_reader *inner, pyr_reader **recording);

/* Appends the image of all pages a recording has kept. PYR_EINVAL when the reader is no recording,
 * PYR_ETOOBIG, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_recording_save(const pyr_reader *recording, uint32_t version,
                                           pyr_addr runtime, pyr_buffer *out);

#endif
