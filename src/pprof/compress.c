/* zlib and zstd behind two small shapes; see the header.
 *
 * Owns the library's stream object. The libraries write straight into the output buffer, so no byte
 * is copied twice; their levels are those of docs/internals/pprof.md, where they are measured.
 */
#include "pprof/compress.h"

#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* for custom memory: ZSTD_createCCtx_advanced */
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/memory.h"

enum { GZIP_LEVEL = 6, ZSTD_LEVEL = 3, GZIP_WRAPPER = 16, CHUNK = 16 * 1024 };

/* Window of a zstd stream that is accepted: what levels up to 19 use, more only where the output
 * may be as large. Else a few bytes of header could ask for 128 MiB. */
enum { WINDOW_LOG_MIN = 23, WINDOW_LOG_MAX = 27 };

struct pyr_compressor {
    pyr_buffer *out;
    pyr_pprof_compression kind;
    z_stream gzip;
    ZSTD_CCtx *zstd;
};

static void *zlib_allocate(void *context, unsigned count, unsigned size)
{
    (void)context;
    return pyr_memory_new(count, size);
}

static void zlib_release(void *context, void *block)
{
    (void)context;
    pyr_memory_free(block);
}

static void *zstd_allocate(void *context, size_t size)
{
    (void)context;
    return pyr_memory_resize(NULL, size, 1); /* zstd zeroes what it needs zeroed */
}

static const ZSTD_customMem zstd_memory = {zstd_allocate, zlib_release, NULL};

/* Makes some room behind the bytes of `out`: how much, or 0 when it is full or memory is out. */
static size_t make_room(pyr_buffer *out)
{
    size_t left = out->maximum - out->length;
    size_t room = left < CHUNK ? left : CHUNK;
    if (room == 0 || pyr_buffer_reserve(out, room) != PYR_OK) {
        return 0;
    }
    room = out->capacity - out->length; /* may pass the maximum of a small buffer */
    return room < left ? room : left;
}

static pyr_status no_room(const pyr_buffer *out)
{
    return out->status != PYR_OK ? out->status : PYR_ETOOBIG;
}

static pyr_status zstd_status(size_t result)
{
    return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? PYR_ENOMEM : PYR_EBAD;
}

pyr_compressor *pyr_compressor_new(pyr_buffer *out, pyr_pprof_compression kind)
{
    pyr_compressor *compressor = pyr_memory_new(1, sizeof *compressor);
    if (!compressor) {
        return NULL;
    }
    compressor->out = out;
    compressor->kind = kind;
    compressor->gzip.zalloc = zlib_allocate;
    compressor->gzip.zfree = zlib_release;
    int good = kind == PYR_PPROF_RAW;
    if (kind == PYR_PPROF_GZIP) {
        good = deflateInit2(&compressor->gzip, GZIP_LEVEL, Z_DEFLATED, MAX_WBITS + GZIP_WRAPPER,
                            MAX_MEM_LEVEL - 1, Z_DEFAULT_STRATEGY) == Z_OK;
    } else if (kind == PYR_PPROF_ZSTD) {
        compressor->zstd = ZSTD_createCCtx_advanced(zstd_memory);
        good = compressor->zstd &&
               !ZSTD_isError(
                   ZSTD_CCtx_setParameter(compressor->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
               !ZSTD_isError(ZSTD_CCtx_setParameter(compressor->zstd, ZSTD_c_checksumFlag, 1));
    }
    if (!good) {
        pyr_compressor_free(compressor);
        return NULL;
    }
    return compressor;
}

void pyr_compressor_free(pyr_compressor *compressor)
{
    if (compressor) {
        (void)deflateEnd(&compressor->gzip); /* refuses what was never opened */
        (void)ZSTD_freeCCtx(compressor->zstd);
        pyr_memory_free(compressor);
    }
}

static pyr_status gzip_write(pyr_compressor *compressor, const void *bytes, size_t length, int end)
{
    z_stream *stream = &compressor->gzip;
    pyr_buffer *out = compressor->out;
    const uint8_t *at = bytes;
    for (;;) {
        size_t room = make_room(out);
        if (room == 0) {
            return no_room(out);
        }
        uInt part = length > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)length;
        uInt space = room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)room;
        stream->next_in = (Bytef *)at; /* zlib does not write to it */
        stream->avail_in = part;
        stream->next_out = out->data + out->length;
        stream->avail_out = space;
        int result = deflate(stream, end && part == length ? Z_FINISH : Z_NO_FLUSH);
        out->length += space - stream->avail_out;
        at += part - stream->avail_in;
        length -= part - stream->avail_in;
        if (result == Z_STREAM_END || (!end && length == 0 && stream->avail_out > 0)) {
            return PYR_OK;
        }
        if (result != Z_OK && result != Z_BUF_ERROR) {
            return PYR_EBAD;
        }
    }
}

static pyr_status zstd_write(pyr_compressor *compressor, const void *bytes, size_t length, int end)
{
    pyr_buffer *out = compressor->out;
    ZSTD_inBuffer input = {bytes, length, 0};
    for (;;) {
        size_t room = make_room(out);
        if (room == 0) {
            return no_room(out);
        }
        ZSTD_outBuffer output = {out->data + out->length, room, 0};
        size_t left = ZSTD_compressStream2(compressor->zstd, &output, &input,
                                           end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left)) {
            return zstd_status(left);
        }
        out->length += output.pos;
        if (end ? left == 0 : input.pos == input.size) {
            return PYR_OK;
        }
    }
}

static pyr_status deliver(pyr_compressor *compressor, const void *bytes, size_t length, int end)
{
    switch (compressor->kind) {
    case PYR_PPROF_GZIP:
        return gzip_write(compressor, bytes, length, end);
    case PYR_PPROF_ZSTD:
        return zstd_write(compressor, bytes, length, end);
    default:
        return pyr_buffer_append(compressor->out, bytes, length);
    }
}

pyr_status pyr_compressor_write(pyr_compressor *compressor, const void *bytes, size_t length)
{
    return length == 0 ? PYR_OK : deliver(compressor, bytes, length, 0);
}

pyr_status pyr_compressor_finish(pyr_compressor *compressor)
{
    return deliver(compressor, NULL, 0, 1);
}

pyr_pprof_compression pyr_compression_detect(const uint8_t *bytes, size_t length)
{
    static const uint8_t gzip[] = {0x1F, 0x8B}, zstd[] = {0x28, 0xB5, 0x2F, 0xFD};
    if (length > 0 && memcmp(bytes, gzip, length < sizeof gzip ? length : sizeof gzip) == 0) {
        return PYR_PPROF_GZIP;
    }
    if (length > 0 && memcmp(bytes, zstd, length < sizeof zstd ? length : sizeof zstd) == 0) {
        return PYR_PPROF_ZSTD;
    }
    return PYR_PPROF_RAW;
}

static pyr_status gunzip(z_stream *stream, const uint8_t *bytes, size_t length, pyr_buffer *out)
{
    for (;;) {
        uint8_t spare; /* takes the byte too many, when `out` is full but the stream may be over */
        size_t room = make_room(out);
        if (out->status != PYR_OK) {
            return out->status;
        }
        uInt part = length > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)length;
        uInt space = room == 0 ? 1 : room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)room;
        stream->next_in = (Bytef *)bytes; /* zlib does not write to it */
        stream->avail_in = part;
        stream->next_out = room == 0 ? &spare : out->data + out->length;
        stream->avail_out = space;
        int result = inflate(stream, Z_NO_FLUSH);
        size_t made = space - stream->avail_out;
        bytes += part - stream->avail_in;
        length -= part - stream->avail_in;
        if (room == 0 && made > 0) {
            return PYR_ETOOBIG;
        }
        out->length += made;
        if (result == Z_STREAM_END) {
            if (length == 0) {
                return PYR_OK;
            }
            result = inflateReset(stream); /* another member follows */
        } else if (result == Z_BUF_ERROR || (result == Z_OK && length == 0 && made == 0)) {
            return PYR_EPARTIAL; /* it wants input, and there is none */
        }
        if (result != Z_OK) {
            return result == Z_MEM_ERROR ? PYR_ENOMEM : PYR_EBAD;
        }
    }
}

static pyr_status unzstd(ZSTD_DCtx *stream, const uint8_t *bytes, size_t length, pyr_buffer *out)
{
    ZSTD_inBuffer input = {bytes, length, 0};
    for (;;) {
        uint8_t spare; /* as in gunzip */
        size_t room = make_room(out);
        if (out->status != PYR_OK) {
            return out->status;
        }
        ZSTD_outBuffer output = {room == 0 ? &spare : out->data + out->length, room == 0 ? 1 : room,
                                 0};
        size_t before = input.pos;
        size_t left = ZSTD_decompressStream(stream, &output, &input);
        if (ZSTD_isError(left)) {
            return zstd_status(left);
        }
        if (room == 0 && output.pos > 0) {
            return PYR_ETOOBIG;
        }
        out->length += output.pos;
        if (left == 0 && input.pos == input.size) {
            return PYR_OK;
        }
        if (output.pos == 0 && input.pos == before) {
            return PYR_EPARTIAL;
        }
    }
}

pyr_status pyr_decompress(const uint8_t *bytes, size_t length, pyr_buffer *out)
{
    pyr_status status;
    switch (pyr_compression_detect(bytes, length)) {
    case PYR_PPROF_GZIP: {
        z_stream stream = {.zalloc = zlib_allocate, .zfree = zlib_release};
        if (inflateInit2(&stream, MAX_WBITS + GZIP_WRAPPER) != Z_OK) {
            return PYR_ENOMEM;
        }
        status = gunzip(&stream, bytes, length, out);
        (void)inflateEnd(&stream);
        return status;
    }
    case PYR_PPROF_ZSTD: {
        ZSTD_DCtx *stream = ZSTD_createDCtx_advanced(zstd_memory);
        if (!stream) {
            return PYR_ENOMEM;
        }
        int window_log = WINDOW_LOG_MIN;
        while (window_log < WINDOW_LOG_MAX && out->maximum >> window_log > 1) {
            window_log++;
        }
        (void)ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, window_log);
        status = unzstd(stream, bytes, length, out);
        (void)ZSTD_freeDCtx(stream);
        return status;
    }
    default:
        return pyr_buffer_append(out, bytes, length);
    }
}
