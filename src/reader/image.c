/* Reading a recorded memory image; the format stands in the header.
 *
 * Owns the uncompressed payload. A loaded image is constant: any thread may read it. Loading
 * allocates at most PYR_IMAGE_LIMIT_BYTES, whatever the image claims, and accepts only images whose
 * regions are ascending, apart, in user space and exactly as long as the payload.
 */
#include "reader/image.h"

#include <errno.h>
#include <string.h>

#include <zstd.h>

#include "base/memory.h"
#include "reader/kind.h"

enum { REGION_ENTRY_BYTES = 16 };

typedef struct region {
    pyr_addr addr;
    size_t length;
    const uint8_t *bytes; /* in the payload */
} region;

typedef struct image_reader {
    pyr_reader reader;
    uint8_t *payload;
    region *regions;
    size_t region_count;
} image_reader;

static uint64_t load(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

pyr_status pyr_image_read_facts(const uint8_t *image, size_t length, pyr_image_facts *facts)
{
    if (length < PYR_IMAGE_HEADER_BYTES || memcmp(image, "PYRIMAGE", 8) != 0 ||
        load(image + 8, 4) != 1 || load(image + 28, 4) != 0) {
        return PYR_EBAD;
    }
    uint64_t payload_bytes = load(image + 32, 8);
    facts->version = (uint32_t)load(image + 12, 4);
    facts->runtime = (pyr_addr)load(image + 16, 8);
    facts->region_count = (uint32_t)load(image + 24, 4);
    if (facts->region_count > PYR_IMAGE_LIMIT_REGIONS || payload_bytes > PYR_IMAGE_LIMIT_BYTES ||
        payload_bytes < (uint64_t)facts->region_count * REGION_ENTRY_BYTES) {
        return PYR_EBAD;
    }
    facts->payload_bytes = (size_t)payload_bytes;
    return PYR_OK;
}

/* Takes the region table from the payload; PYR_EBAD when it is not what the format says. */
static pyr_status take_regions(image_reader *image, size_t payload_bytes)
{
    const uint8_t *entry = image->payload;
    const uint8_t *bytes = image->payload + image->region_count * REGION_ENTRY_BYTES;
    size_t rest = payload_bytes - image->region_count * REGION_ENTRY_BYTES;
    pyr_addr end = 0;
    for (size_t i = 0; i < image->region_count; i++, entry += REGION_ENTRY_BYTES) {
        pyr_addr addr = (pyr_addr)load(entry, 8);
        uint64_t length = load(entry + 8, 8);
        if (length == 0 || length > rest || addr < end || !pyr_span_is_user(addr, (size_t)length)) {
            return PYR_EBAD;
        }
        image->regions[i] = (region){addr, (size_t)length, bytes};
        bytes += length;
        rest -= (size_t)length;
        end = addr + (size_t)length;
    }
    return rest == 0 ? PYR_OK : PYR_EBAD;
}

/* The region that holds `addr`, or NULL. */
static const region *find(const image_reader *image, pyr_addr addr)
{
    size_t low = 0;
    size_t high = image->region_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const region *candidate = &image->regions[middle];
        if (addr < candidate->addr) {
            high = middle;
        } else if (addr - candidate->addr >= candidate->length) {
            low = middle + 1;
        } else {
            return candidate;
        }
    }
    return NULL;
}

/* Copies up to `length` bytes from `addr`; the bytes before the first that is missing. */
static size_t copy(const image_reader *image, pyr_addr addr, uint8_t *destination, size_t length)
{
    size_t done = 0;
    while (done < length) {
        const region *holder = find(image, addr + done);
        if (!holder) {
            break;
        }
        size_t skip = addr + done - holder->addr;
        size_t piece = holder->length - skip;
        if (piece > length - done) {
            piece = length - done;
        }
        memcpy(destination + done, holder->bytes + skip, piece);
        done += piece;
    }
    return done;
}

static ssize_t transfer(pyr_reader *reader, const struct iovec *spans, size_t count,
                        const struct iovec *destination)
{
    const image_reader *image = (const image_reader *)reader;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t done = copy(image, (pyr_addr)spans[i].iov_base,
                           (uint8_t *)destination->iov_base + total, spans[i].iov_len);
        total += done;
        if (done < spans[i].iov_len) {
            break;
        }
    }
    if (total == 0) {
        errno = EFAULT;
        return -1;
    }
    return (ssize_t)total;
}

static const char *method(const pyr_reader *reader)
{
    (void)reader;
    return "image";
}

static void close_image(pyr_reader *reader)
{
    image_reader *image = (image_reader *)reader;
    pyr_memory_free(image->regions);
    pyr_memory_free(image->payload);
    pyr_memory_free(image);
}

static const pyr_reader_kind image_kind = {transfer, method, NULL, close_image};

pyr_status pyr_reader_open_image(const uint8_t *bytes, size_t length, pyr_reader **reader)
{
    pyr_image_facts facts;
    pyr_status status = pyr_image_read_facts(bytes, length, &facts);
    if (status != PYR_OK) {
        return status;
    }
    image_reader *image = pyr_memory_new(1, sizeof *image);
    if (!image) {
        return PYR_ENOMEM;
    }
    image->reader.kind = &image_kind;
    image->region_count = facts.region_count;
    image->regions = pyr_memory_new(facts.region_count, sizeof *image->regions);
    image->payload = pyr_memory_new(1, facts.payload_bytes);
    if (!image->regions || !image->payload) {
        status = PYR_ENOMEM;
        goto out;
    }
    size_t got = ZSTD_decompress(image->payload, facts.payload_bytes,
                                 bytes + PYR_IMAGE_HEADER_BYTES, length - PYR_IMAGE_HEADER_BYTES);
    status = got == facts.payload_bytes ? take_regions(image, facts.payload_bytes) : PYR_EBAD;
out:
    if (status != PYR_OK) {
        close_image(&image->reader);
        return status;
    }
    *reader = &image->reader;
    return PYR_OK;
}
