/* libdeflate over a whole body; see the header.
 *
 * Holds nothing. The body's last four bytes say how large the content is: they are believed only as
 * far as the maximum and the format allow, and what does not come out at exactly that is left to
 * zlib, which knows every case. So hostile bytes cost at most both.
 */
#include "server/gunzip.h"

#include <libdeflate.h>

enum { GZIP_BYTES = 18, MOST_RATIO = 1032 }; /* header and trailer; what deflate can reach */

static size_t size_said(const uint8_t *end)
{
    return (size_t)end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
}

bool pyr_gunzip(const void *bytes, size_t length, pyr_buffer *out)
{
    const uint8_t *in = bytes;
    if (length < GZIP_BYTES || in[0] != 0x1F || in[1] != 0x8B) {
        return false;
    }
    size_t size = size_said(in + length);
    if (size == 0 || size > out->maximum || size / MOST_RATIO > length) {
        return false;
    }
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    if (decompressor == NULL) {
        return false;
    }
    size_t taken = 0;
    size_t made = 0;
    bool good = pyr_buffer_reserve(out, size) == PYR_OK &&
                libdeflate_gzip_decompress_ex(decompressor, in, length, out->data, size, &taken,
                                              &made) == LIBDEFLATE_SUCCESS &&
                taken == length && made == size;
    libdeflate_free_decompressor(decompressor);
    out->length = good ? size : 0;
    return good;
}
