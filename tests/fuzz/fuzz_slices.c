/* Fuzz target: flight recordings. Slices are found in hostile bytes, and again with their checksums
 * mended, so that what stands behind those is reached too. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "record/slices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct range {
    const uint8_t *start, *end, *last;
    size_t count;
} range;

static int check(void *context, const pyr_slice *slice)
{
    range *file = context;
    const uint8_t *end = slice->document + slice->document_length;
    if (slice->profile < file->start + 2 * PYR_SLICE_STEP ||
        slice->document != slice->profile + slice->profile_length || end > file->end ||
        slice->profile < file->last) {
        abort();
    }
    file->last = end;
    return ++file->count == 1000;
}

static void read_file(const uint8_t *bytes, size_t size)
{
    pyr_slices_head head;
    range file = {.start = bytes, .end = bytes + size, .last = bytes};
    size_t broken;
    (void)!pyr_slices_read_head(bytes, size, &head);
    (void)pyr_slices_each(bytes, size, check, &file, &broken);
    if (broken > size / PYR_SLICE_STEP || (file.count == 1000) != (file.count >= 1000)) {
        abort();
    }
}

static void mend(uint8_t *at, size_t from, size_t to)
{
    uint32_t sum = (uint32_t)crc32_z(0, at + to, 64 - to);
    for (size_t i = 0; i < 4; i++) {
        at[from + i] = (uint8_t)(sum >> 8 * i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_file(data, size);
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data, size);
    for (size_t at = 64; at + 64 <= size; at += 64) {
        if (memcmp(copy + at, "PYRS", 4) == 0) {
            mend(copy + at, 4, 8);
        }
    }
    if (size >= 64) {
        mend(copy, 12, 16);
    }
    read_file(copy, size);
    free(copy);
    return 0;
}
