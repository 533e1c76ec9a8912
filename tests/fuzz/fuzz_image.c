/* Fuzzes the loader of images, and all that reads an interpreter: layout, threads, stacks, names,
 * lines, dictionaries.
 *
 * Input: first byte 0: the rest is an image file. Else it chooses one of the recorded interpreters,
 * and the rest are lies of 8 bytes each: which read of the run, where in its bytes, what happens to
 * them. So memory is as hostile as it can be: it changes between two reads of the same place.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "reader/image.h"
#include "reader/kind.h"
#include "support/image_stacks.h"

enum { LIE_BYTES = 8, MAXIMUM_LIES = 64, TEXT_BYTES = 1 << 20, REMEMBERED = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const versions[] = {"3.11.2", "3.11.7", "3.12.1", "3.13.0", "3.14.8", "3.15.0"};

enum { VERSIONS = sizeof versions / sizeof versions[0] };

typedef struct lie {
    uint16_t read; /* the n-th span of the run */
    uint16_t place;
    uint8_t kind;
    uint8_t value[3];
} lie;

typedef struct liar {
    pyr_reader reader;
    pyr_reader *inner;
    const lie *lies;
    size_t lie_count;
    size_t reads;
    pyr_addr seen[REMEMBERED]; /* addresses that were asked for: good material for lies */
} liar;

static void tell(liar *self, const lie *lie, uint8_t *bytes, size_t length)
{
    size_t at = lie->place % length;
    uint64_t word = 0;
    size_t width = length - at < 8 ? length - at : 8;
    memcpy(&word, bytes + at, width);
    uint32_t value = lie->value[0] | (uint32_t)lie->value[1] << 8 | (uint32_t)lie->value[2] << 16;
    switch (lie->kind % 6) {
    case 0:
        word = value;
        break;
    case 1:
        word = UINT64_MAX - value;
        break;
    case 2: /* another address of the run, or beside it */
        word = self->seen[lie->value[0]] + (uint64_t)(int8_t)lie->value[1] * 8;
        break;
    case 3:
        word ^= (uint64_t)lie->value[0] << (8 * (lie->value[1] % 8));
        break;
    case 4:
        word += (uint64_t)(int8_t)lie->value[0] * 8;
        break;
    case 5:
        word = (uint64_t)value << (lie->value[2] % 40);
        break;
    }
    memcpy(bytes + at, &word, width);
}

static ssize_t transfer(pyr_reader *reader, const struct iovec *spans, size_t count,
                        const struct iovec *destination)
{
    liar *self = (liar *)reader;
    uint8_t *bytes = destination->iov_base;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t read = self->reads++;
        self->seen[read % REMEMBERED] = (pyr_addr)spans[i].iov_base;
        if (pyr_reader_read(self->inner, (pyr_addr)spans[i].iov_base, bytes + total,
                            spans[i].iov_len) != PYR_OK) {
            break;
        }
        for (size_t j = 0; j < self->lie_count; j++) {
            if (self->lies[j].read == (uint16_t)read) {
                tell(self, &self->lies[j], bytes + total, spans[i].iov_len);
            }
        }
        total += spans[i].iov_len;
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
    return "liar";
}

static void close_nothing(pyr_reader *reader)
{
    (void)reader;
}

static const pyr_reader_kind liar_kind = {transfer, method, NULL, close_nothing};

static void load_image(const uint8_t *data, size_t size)
{
    pyr_reader *reader;
    pyr_image_facts facts;
    uint8_t bytes[64];
    if (pyr_reader_open_image(data, size, &reader) == PYR_OK) {
        if (pyr_image_read_facts(data, size, &facts) != PYR_OK) {
            abort();
        }
        (void)!pyr_reader_read(reader, facts.runtime, bytes, sizeof bytes);
        pyr_reader_close(reader);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct {
        pyr_reader *reader;
        pyr_image_facts facts;
        uint8_t *bytes;
    } images[VERSIONS];
    if (size == 0) {
        return 0;
    }
    if (data[0] == 0) {
        load_image(data + 1, size - 1);
        return 0;
    }
    size_t chosen = data[0] % VERSIONS;
    if (!images[chosen].reader) {
        char path[512];
        size_t length;
        (void)snprintf(path, sizeof path, PYR_TESTS_FOLDER "/images/%s.img", versions[chosen]);
        uint8_t *image = image_file_read(path, &length);
        if (!image || pyr_image_read_facts(image, length, &images[chosen].facts) != PYR_OK ||
            pyr_reader_open_image(image, length, &images[chosen].reader) != PYR_OK) {
            abort();
        }
        images[chosen].bytes = image;
    }
    lie lies[MAXIMUM_LIES];
    size_t count = (size - 1) / LIE_BYTES;
    count = count < MAXIMUM_LIES ? count : MAXIMUM_LIES;
    memcpy(lies, data + 1, count * LIE_BYTES);
    liar self = {{&liar_kind}, images[chosen].reader, lies, count, 0, {0}};
    pyr_buffer text;
    pyr_buffer_init(&text, TEXT_BYTES);
    pyr_status status = image_stacks_write(&self.reader, images[chosen].facts.runtime,
                                           images[chosen].facts.version, &text);
    if (count == 0 && status != PYR_OK) {
        abort();
    }
    pyr_buffer_fini(&text);
    return 0;
}
