/* The file of a flight recording: a header, and a ring of slices. A slice is a second or two of a
 * process as a profile and its document, complete in itself.
 *
 * Written slice by slice over the oldest ones; whatever moment the writer dies at, all slices but
 * the one being written are whole, since each has checksums. Read as hostile bytes. Everything here
 * is pure; numbers stand in the file in little endian.
 *
 *     bytes 0 to 63   header: "PYRFLIGHT", version, size, pid, start of the recording
 *     then            slices, each at a multiple of 64 and in one piece: 64 bytes of header,
 *                     profile, document. One that does not fit before the end stands in front
 */
#ifndef PYR_RECORD_SLICES_H
#define PYR_RECORD_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum {
    PYR_SLICE_STEP = 64,
    PYR_SLICES_HEAD_BYTES = PYR_SLICE_STEP,
    PYR_LIMIT_SLICES_BYTES = 1 << 30, /* of a file */
};

typedef struct pyr_slices_head {
    uint64_t bytes;   /* size of the file, header included */
    int64_t pid;      /* as the process itself saw it */
    int64_t start_ns; /* Unix time */
} pyr_slices_head;

typedef struct pyr_slice {
    uint64_t sequence;        /* rising */
    int64_t start_ns, end_ns; /* Unix time */
    int64_t delivered_ns; /* what ended by then had reached its target, or the disk; 0 = nothing */
    const uint8_t *profile;
    size_t profile_length;
    const uint8_t *document;
    size_t document_length;
} pyr_slice;

void pyr_slices_write_head(const pyr_slices_head *head, uint8_t bytes[PYR_SLICES_HEAD_BYTES]);

/* Appends the slice as it stands in a file, with its padding. PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_slice_write(const pyr_slice *slice, pyr_buffer *out);

/* Where a slice of `length` bytes goes in a file of `file_bytes`, when the last one ended at `*end`
 * (0: there was none); moves `*end`. 0: it is larger than a quarter of the file, write it nowhere.
 */
size_t pyr_slices_place(uint64_t file_bytes, size_t length, size_t *end);

/* Reads the header. PYR_EBAD: this is no flight recording; PYR_EVERSION: of another version. */
PYR_MUST_USE pyr_status pyr_slices_read_head(const uint8_t *bytes, size_t length,
                                             pyr_slices_head *head);

/* Calls `visit` for each whole slice, in the order of the file, until it returns non-zero, and
 * returns that; what it gets points into `bytes`. `broken` (may be NULL) counts headers whose slice
 * is not whole: one that was being written, and one that it was written over. */
int pyr_slices_each(const uint8_t *bytes, size_t length,
                    int (*visit)(void *context, const pyr_slice *slice), void *context,
                    size_t *broken);

#endif
