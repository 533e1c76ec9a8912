/* Sections and numbers of the store's values; see the header. Owns zstd's two contexts. */
#include "store/pack.h"

#include <stdbool.h>
#include <string.h>
#include <zstd.h>

#include "base/memory.h"

enum {
    LEVEL = 3, /* docs/design/0010: what more costs and saves */
    SCRATCH_BYTES = 1 << 18,
};

struct pyr_packer {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *decompress;
    pyr_buffer packed; /* scratch: a profile has some fifty sections */
};

pyr_packer *pyr_packer_new(void)
{
    pyr_packer *packer = pyr_memory_new(1, sizeof *packer);
    if (packer == NULL) {
        return NULL;
    }
    pyr_buffer_init(&packer->packed, SIZE_MAX / 2);
    packer->compress = ZSTD_createCCtx();
    packer->decompress = ZSTD_createDCtx();
    if (packer->compress == NULL || packer->decompress == NULL) {
        pyr_packer_free(packer);
        return NULL;
    }
    return packer;
}

void pyr_packer_free(pyr_packer *packer)
{
    if (packer != NULL) {
        (void)ZSTD_freeCCtx(packer->compress);
        (void)ZSTD_freeDCtx(packer->decompress);
        pyr_buffer_fini(&packer->packed);
        pyr_memory_free(packer);
    }
}

void pyr_pack_plain(const void *bytes, size_t length, pyr_buffer *out)
{
    pyr_wire_append_varint(out, length);
    if (length > 0) {
        pyr_wire_append_varint(out, length);
        (void)pyr_buffer_append(out, bytes, length);
    }
}

static bool is_one_byte(const uint8_t *bytes, size_t length)
{
    return memcmp(bytes, bytes + 1, length - 1) == 0;
}

void pyr_pack_section(pyr_packer *packer, const void *bytes, size_t length, pyr_buffer *out)
{
    pyr_wire_append_varint(out, length);
    if (length == 0) {
        return;
    }
    pyr_buffer *packed = &packer->packed;
    size_t bound = ZSTD_compressBound(length);
    size_t stored = length;
    pyr_buffer_clear(packed);
    if (length > 1 && is_one_byte(bytes, length)) {
        pyr_wire_append_varint(out, 1);
        (void)pyr_buffer_append(out, bytes, 1);
        return;
    }
    if (length > 24 && pyr_buffer_reserve(packed, bound) == PYR_OK) {
        size_t result =
            ZSTD_compressCCtx(packer->compress, packed->data, bound, bytes, length, LEVEL);
        if (!ZSTD_isError(result) && result < length) {
            stored = result;
        }
    }
    pyr_wire_append_varint(out, stored);
    (void)pyr_buffer_append(out, stored < length ? packed->data : bytes, stored);
    if (packed->capacity > SCRATCH_BYTES) {
        pyr_buffer_fini(packed);
    }
}

static pyr_status read_lengths(pyr_wire_reader *reader, uint64_t *length, uint64_t *stored)
{
    *stored = 0;
    pyr_status status = pyr_pack_read_below(reader, PYR_PACK_SECTION_BYTES, length);
    if (status == PYR_OK && *length > 0) {
        status = pyr_pack_read_below(reader, *length + 1, stored);
    }
    if (status == PYR_OK && *stored > (uint64_t)(reader->end - reader->at)) {
        status = PYR_EPARTIAL;
    }
    return status;
}

pyr_status pyr_pack_read(pyr_packer *packer, pyr_wire_reader *reader, pyr_buffer *section)
{
    uint64_t length = 0;
    uint64_t stored = 0;
    pyr_buffer_clear(section);
    pyr_status status = pyr_buffer_reserve(section, 1); /* so that its bytes have an address */
    if (status == PYR_OK) {
        status = read_lengths(reader, &length, &stored);
    }
    if (status != PYR_OK || length == 0) {
        return status;
    }
    status = pyr_buffer_reserve(section, (size_t)length);
    if (status != PYR_OK) {
        return status;
    }
    if (stored == length) {
        status = pyr_buffer_append(section, reader->at, (size_t)length);
    } else if (stored == 1) {
        memset(section->data, reader->at[0], (size_t)length);
        section->length = (size_t)length;
    } else {
        size_t result = ZSTD_decompressDCtx(packer->decompress, section->data, (size_t)length,
                                            reader->at, (size_t)stored);
        if (ZSTD_isError(result) || result != length) {
            return PYR_EBAD;
        }
        section->length = (size_t)length;
    }
    reader->at += stored;
    return status;
}

pyr_status pyr_pack_skip(pyr_wire_reader *reader, size_t *length)
{
    uint64_t whole = 0;
    uint64_t stored = 0;
    pyr_status status = read_lengths(reader, &whole, &stored);
    if (status == PYR_OK) {
        reader->at += stored;
        *length = (size_t)whole;
    }
    return status;
}
