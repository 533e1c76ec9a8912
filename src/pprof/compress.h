/* gzip and zstd in one shape: a streaming compressor into a buffer, and the way back.
 *
 * One owner, one thread at a time. All memory, that of the libraries too, comes from base/memory.
 */
#ifndef PYR_PPROF_COMPRESS_H
#define PYR_PPROF_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

typedef enum pyr_pprof_compression {
    PYR_PPROF_RAW,
    PYR_PPROF_GZIP, /* files: what Go's reader takes */
    PYR_PPROF_ZSTD, /* uploads */
} pyr_pprof_compression;

typedef struct pyr_compressor pyr_compressor;

/* A compressor into `out`, which it borrows. NULL: no memory, or an unknown kind. */
pyr_compressor *pyr_compressor_new(pyr_buffer *out, pyr_pprof_compression kind);

/* Frees it, finished or not; NULL is fine. */
void pyr_compressor_free(pyr_compressor *compressor);

/* Compresses bytes. PYR_ETOOBIG when `out` is full, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_compressor_write(pyr_compressor *compressor, const void *bytes,
                                             size_t length);

/* Writes what is still held back and the end of the stream. Only free may follow. */
PYR_MUST_USE pyr_status pyr_compressor_finish(pyr_compressor *compressor);

/* What untrusted bytes are, by their first bytes; a beginning of a magic number counts as it. */
pyr_pprof_compression pyr_compression_detect(const uint8_t *bytes, size_t length);

/* Appends the uncompressed bytes to `out`, whose maximum bounds them: PYR_ETOOBIG past it,
 * PYR_EPARTIAL when the stream ends too early, PYR_EBAD, PYR_ENOMEM. Several gzip members or zstd
 * frames one after another are one stream. Raw bytes are copied. */
PYR_MUST_USE pyr_status pyr_decompress(const uint8_t *bytes, size_t length, pyr_buffer *out);

#endif
