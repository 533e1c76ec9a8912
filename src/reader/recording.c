/* A reader that keeps what passes through it, to be saved as an image (reader/image.h).
 *
 * It asks the inner reader for whole pages, keeps each as it was first seen and answers from its
 * own copy, so that a replay of the image sees what the first run saw. Owns the pages; one thread
 * at a time; not for a running profiler.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/map.h"
#include "base/memory.h"
#include "reader/image.h"
#include "reader/kind.h"

enum { PAGE_BYTES = 4096, MAXIMUM_PAGES = PYR_IMAGE_LIMIT_REGIONS / 8, COMPRESSION_LEVEL = 19 };

typedef struct page {
    pyr_addr addr;
    uint8_t bytes[PAGE_BYTES];
} page;

typedef struct recording_reader {
    pyr_reader reader;
    pyr_reader *inner;
    page **pages; /* in order of appearance */
    size_t page_count;
    pyr_map *by_addr; /* address of a page -> its index */
} recording_reader;

/* The kept page at `addr`, read now if it is new; NULL when it cannot be read or kept. */
static const page *obtain(recording_reader *recording, pyr_addr addr)
{
    uint64_t index;
    if (pyr_map_get(recording->by_addr, addr, &index)) {
        return recording->pages[index];
    }
    page *fresh = recording->page_count < MAXIMUM_PAGES ? pyr_memory_new(1, sizeof *fresh) : NULL;
    if (!fresh) {
        return NULL;
    }
    fresh->addr = addr;
    if (pyr_reader_read(recording->inner, addr, fresh->bytes, PAGE_BYTES) != PYR_OK ||
        pyr_map_put(recording->by_addr, addr, recording->page_count) != PYR_OK) {
        pyr_memory_free(fresh);
        return NULL;
    }
    recording->pages[recording->page_count++] = fresh;
    return fresh;
}

static ssize_t transfer(pyr_reader *reader, const struct iovec *spans, size_t count,
                        const struct iovec *destination)
{
    recording_reader *recording = (recording_reader *)reader;
    uint8_t *out = destination->iov_base;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        pyr_addr addr = (pyr_addr)spans[i].iov_base;
        pyr_addr end = addr + spans[i].iov_len;
        while (addr < end) {
            size_t skip = addr % PAGE_BYTES;
            size_t piece = PAGE_BYTES - skip < end - addr ? PAGE_BYTES - skip : end - addr;
            const page *kept = obtain(recording, addr - skip);
            if (!kept) {
                goto out;
            }
            memcpy(out + total, kept->bytes + skip, piece);
            total += piece;
            addr += piece;
        }
    }
out:
    if (total == 0) {
        errno = EFAULT;
        return -1;
    }
    return (ssize_t)total;
}

static const char *method(const pyr_reader *reader)
{
    (void)reader;
    return "recording";
}

static void close_recording(pyr_reader *reader)
{
    recording_reader *recording = (recording_reader *)reader;
    for (size_t i = 0; i < recording->page_count; i++) {
        pyr_memory_free(recording->pages[i]);
    }
    pyr_memory_free(recording->pages);
    pyr_map_free(recording->by_addr);
    pyr_memory_free(recording);
}

static const pyr_reader_kind recording_kind = {transfer, method, NULL, close_recording};

pyr_status pyr_reader_open_recording(pyr_reader *inner, pyr_reader **reader)
{
    recording_reader *recording = pyr_memory_new(1, sizeof *recording);
    if (!recording) {
        return PYR_ENOMEM;
    }
    recording->reader.kind = &recording_kind;
    recording->inner = inner;
    recording->pages = pyr_memory_new(MAXIMUM_PAGES, sizeof(page *));
    recording->by_addr = pyr_map_new(MAXIMUM_PAGES);
    if (!recording->pages || !recording->by_addr) {
        close_recording(&recording->reader);
        return PYR_ENOMEM;
    }
    *reader = &recording->reader;
    return PYR_OK;
}

static int compare_pages(const void *left, const void *right)
{
    const page *a = *(page *const *)left;
    const page *b = *(page *const *)right;
    return (a->addr > b->addr) - (a->addr < b->addr);
}

static void append_number(pyr_buffer *out, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    (void)pyr_buffer_append(out, bytes, size); /* the error sticks in the buffer */
}

/* The payload: adjacent pages become one region. */
static void append_payload(pyr_buffer *payload, page *const *pages, size_t count,
                           uint32_t *region_count)
{
    *region_count = 0;
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count; next++) {
            if (pages[next]->addr != pages[next - 1]->addr + PAGE_BYTES) {
                break;
            }
        }
        append_number(payload, pages[first]->addr, 8);
        append_number(payload, (next - first) * PAGE_BYTES, 8);
        ++*region_count;
    }
    for (size_t i = 0; i < count; i++) {
        (void)pyr_buffer_append(payload, pages[i]->bytes, PAGE_BYTES);
    }
}

static pyr_status append_compressed(pyr_buffer *out, const pyr_buffer *payload)
{
    size_t bound = ZSTD_compressBound(payload->length);
    pyr_status status = pyr_buffer_reserve(out, bound);
    if (status != PYR_OK) {
        return status;
    }
    size_t got = ZSTD_compress(out->data + out->length, bound, payload->data, payload->length,
                               COMPRESSION_LEVEL);
    if (ZSTD_isError(got)) {
        return PYR_ENOMEM;
    }
    out->length += got;
    return PYR_OK;
}

pyr_status pyr_recording_save(const pyr_reader *reader, uint32_t version, pyr_addr runtime,
                              pyr_buffer *out)
{
    if (reader->kind != &recording_kind) {
        return PYR_EINVAL;
    }
    const recording_reader *recording = (const recording_reader *)reader;
    size_t count = recording->page_count;
    page **sorted = pyr_memory_new(count, sizeof(page *));
    if (!sorted) {
        return PYR_ENOMEM;
    }
    if (count > 0) {
        memcpy(sorted, recording->pages, count * sizeof(page *));
        qsort(sorted, count, sizeof(page *), compare_pages);
    }
    pyr_buffer payload;
    uint32_t region_count;
    pyr_buffer_init(&payload, PYR_IMAGE_LIMIT_BYTES);
    append_payload(&payload, sorted, count, &region_count);
    pyr_memory_free(sorted);
    pyr_status status = payload.status;
    if (status == PYR_OK) {
        (void)pyr_buffer_append(out, "PYRIMAGE", 8);
        append_number(out, 1, 4);
        append_number(out, version, 4);
        append_number(out, runtime, 8);
        append_number(out, region_count, 4);
        append_number(out, 0, 4);
        append_number(out, payload.length, 8);
        status = out->status;
    }
    if (status == PYR_OK) {
        status = append_compressed(out, &payload);
    }
    pyr_buffer_fini(&payload);
    return status;
}
