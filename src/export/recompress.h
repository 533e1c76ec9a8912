/* Bytes, compressed as another receiver wants them. Pure but for allocation. */
#ifndef PYR_EXPORT_RECOMPRESS_H
#define PYR_EXPORT_RECOMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/compress.h"

/* Appends `bytes`, which are raw, gzip or zstd, to `out` as `kind`; `out` bounds it, and `most` the
 * uncompressed size. PYR_ETOOBIG, PYR_ENOMEM, and as pyr_decompress. */
PYR_MUST_USE pyr_status pyr_recompress(const uint8_t *bytes, size_t length, size_t most,
                                       pyr_pprof_compression kind, pyr_buffer *out);

#endif
