/* Fuzzes os/maps. Input: a text. Every mapping must lie in the text and be a range, the position
 * must go on, and a mapping that is written out again must be read as the same one. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/maps.h"

enum { LINE_BYTES = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* True when the numbers and flags of a mapping survive being written and read. */
static bool is_read_again(const pyr_mapping *mapping)
{
    char line[LINE_BYTES];
    pyr_mapping again;
    size_t position = 0;
    int length = snprintf(line, sizeof line,
                          "%" PRIx64 "-%" PRIx64 " %c%c%c%c %" PRIx64 " %" PRIx32 ":%" PRIx32
                          " %" PRIu64 "\n",
                          mapping->start, mapping->end, mapping->is_readable ? 'r' : '-',
                          mapping->is_writable ? 'w' : '-', mapping->is_executable ? 'x' : '-',
                          mapping->is_shared ? 's' : 'p', mapping->offset, mapping->device_major,
                          mapping->device_minor, mapping->inode);
    return pyr_maps_next(line, (size_t)length, &position, &again) == PYR_OK &&
           again.start == mapping->start && again.end == mapping->end &&
           again.offset == mapping->offset && again.inode == mapping->inode &&
           again.device_major == mapping->device_major &&
           again.device_minor == mapping->device_minor &&
           again.is_readable == mapping->is_readable && again.is_writable == mapping->is_writable &&
           again.is_executable == mapping->is_executable && again.is_shared == mapping->is_shared;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    pyr_mapping mapping;
    size_t position = 0, before = 0;
    pyr_status status;
    while ((status = pyr_maps_next(text, size, &position, &mapping)) == PYR_OK) {
        if (position <= before || position > size || mapping.start >= mapping.end ||
            mapping.path < text || mapping.path_length > (size_t)(text + size - mapping.path) ||
            memchr(mapping.path, '\n', mapping.path_length) || !is_read_again(&mapping)) {
            abort();
        }
        before = position;
    }
    if (position != before || (status == PYR_ENOENT) != (position == size)) {
        abort();
    }
    return 0;
}
