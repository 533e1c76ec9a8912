/* The file of a flight recording; see the header. Pure. A slice's header is found by its place, a
 * multiple of 64, and by its checksum, so that no damage elsewhere hides it. */
#include "record/slices.h"

#include <string.h>
#include <zlib.h>

static const char FILE_MARK[12] = "PYRFLIGHT"; /* with its zeros */
static const uint32_t SLICE_MARK = 0x53525950; /* "PYRS" */

enum { FILE_VERSION = 1, HEAD_SUM = 12, SLICE_SUM = 4, SUMMED = 8 };

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

static void put_u64(uint8_t *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

static uint32_t checksum(const uint8_t *bytes, size_t length)
{
    return (uint32_t)crc32_z(0, bytes, length);
}

/* --------------------------------------------------------------------------------- writing --- */

void pyr_slices_write_head(const pyr_slices_head *head, uint8_t bytes[PYR_SLICES_HEAD_BYTES])
{
    memset(bytes, 0, PYR_SLICES_HEAD_BYTES);
    memcpy(bytes, FILE_MARK, sizeof FILE_MARK);
    put_u32(bytes + 16, FILE_VERSION);
    put_u64(bytes + 24, head->bytes);
    put_u64(bytes + 32, (uint64_t)head->pid);
    put_u64(bytes + 40, (uint64_t)head->start_ns);
    put_u32(bytes + HEAD_SUM, checksum(bytes + HEAD_SUM + 4, PYR_SLICES_HEAD_BYTES - HEAD_SUM - 4));
}

pyr_status pyr_slice_write(const pyr_slice *slice, pyr_buffer *out)
{
    static const uint8_t zeros[PYR_SLICE_STEP];
    uint8_t head[PYR_SLICE_STEP] = {0};
    uint32_t sum = checksum(slice->profile, slice->profile_length);
    sum = (uint32_t)crc32_z(sum, slice->document, slice->document_length);
    if (slice->profile_length > PYR_LIMIT_SLICES_BYTES ||
        slice->document_length > PYR_LIMIT_SLICES_BYTES) {
        return PYR_ETOOBIG;
    }
    put_u32(head, SLICE_MARK);
    put_u64(head + 8, slice->sequence);
    put_u64(head + 16, (uint64_t)slice->start_ns);
    put_u64(head + 24, (uint64_t)slice->end_ns);
    put_u64(head + 32, (uint64_t)slice->delivered_ns);
    put_u32(head + 40, (uint32_t)slice->profile_length);
    put_u32(head + 44, (uint32_t)slice->document_length);
    put_u32(head + 48, sum);
    put_u32(head + SLICE_SUM, checksum(head + SUMMED, sizeof head - SUMMED));
    size_t rest = (slice->profile_length + slice->document_length) % PYR_SLICE_STEP;
    (void)!pyr_buffer_append(out, head, sizeof head);
    (void)!pyr_buffer_append(out, slice->profile, slice->profile_length);
    (void)!pyr_buffer_append(out, slice->document, slice->document_length);
    (void)!pyr_buffer_append(out, zeros, rest > 0 ? PYR_SLICE_STEP - rest : 0);
    return out->status;
}

size_t pyr_slices_place(uint64_t file_bytes, size_t length, size_t *end)
{
    if (length > file_bytes / 4) {
        return 0;
    }
    size_t place = *end >= PYR_SLICES_HEAD_BYTES ? *end : PYR_SLICES_HEAD_BYTES;
    if (place > file_bytes - length) {
        place = PYR_SLICES_HEAD_BYTES;
    }
    *end = place + length;
    return place;
}

/* --------------------------------------------------------------------------------- reading --- */

pyr_status pyr_slices_read_head(const uint8_t *bytes, size_t length, pyr_slices_head *head)
{
    *head = (pyr_slices_head){0};
    if (length < PYR_SLICES_HEAD_BYTES || memcmp(bytes, FILE_MARK, sizeof FILE_MARK) != 0 ||
        get_u32(bytes + HEAD_SUM) !=
            checksum(bytes + HEAD_SUM + 4, PYR_SLICES_HEAD_BYTES - HEAD_SUM - 4)) {
        return PYR_EBAD;
    }
    if (get_u32(bytes + 16) != FILE_VERSION) {
        return PYR_EVERSION;
    }
    head->bytes = get_u64(bytes + 24);
    head->pid = (int64_t)get_u64(bytes + 32);
    head->start_ns = (int64_t)get_u64(bytes + 40);
    return PYR_OK;
}

/* True: a slice's header stands here; `whole`: and all of the slice. */
static int read_slice(const uint8_t *at, size_t left, pyr_slice *slice, int *whole)
{
    *whole = 0;
    if (left < PYR_SLICE_STEP || get_u32(at) != SLICE_MARK ||
        get_u32(at + SLICE_SUM) != checksum(at + SUMMED, PYR_SLICE_STEP - SUMMED)) {
        return 0;
    }
    *slice = (pyr_slice){
        .sequence = get_u64(at + 8),
        .start_ns = (int64_t)get_u64(at + 16),
        .end_ns = (int64_t)get_u64(at + 24),
        .delivered_ns = (int64_t)get_u64(at + 32),
        .profile = at + PYR_SLICE_STEP,
        .profile_length = get_u32(at + 40),
        .document_length = get_u32(at + 44),
    };
    slice->document = slice->profile;
    left -= PYR_SLICE_STEP;
    if (slice->profile_length > left || slice->document_length > left - slice->profile_length) {
        return 1;
    }
    slice->document += slice->profile_length;
    *whole = get_u32(at + 48) ==
             checksum(slice->profile, slice->profile_length + slice->document_length);
    return 1;
}

int pyr_slices_each(const uint8_t *bytes, size_t length,
                    int (*visit)(void *context, const pyr_slice *slice), void *context,
                    size_t *broken)
{
    size_t not_whole = 0;
    int ended = 0;
    for (size_t at = PYR_SLICES_HEAD_BYTES; at < length && !ended;) {
        pyr_slice slice;
        int whole;
        size_t step = PYR_SLICE_STEP;
        if (read_slice(bytes + at, length - at, &slice, &whole)) {
            not_whole += !whole;
            if (whole) {
                ended = visit(context, &slice);
                step += slice.profile_length + slice.document_length;
                step = (step + PYR_SLICE_STEP - 1) / PYR_SLICE_STEP * PYR_SLICE_STEP;
            }
        }
        at += step;
    }
    if (broken != NULL) {
        *broken = not_whole;
    }
    return ended;
}
