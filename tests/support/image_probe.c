/* A shared library for record_image.py: records the interpreter that has loaded it. Loaded through
 * ctypes, which releases the GIL around the call. */
#include <stdio.h>
#include <string.h>

#include "reader/image.h"
#include "support/image_stacks.h"

__attribute__((visibility("default"))) int
image_record(uint64_t runtime, uint32_t version, const char *image_path, const char *text_path);

static int write_file(const char *path, const pyr_buffer *bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file) {
        return PYR_EIO;
    }
    size_t written = fwrite(bytes->data, 1, bytes->length, file);
    return fclose(file) == 0 && written == bytes->length ? PYR_OK : PYR_EIO;
}

/* Reads all stacks through a recording, writes the image of what was read, and the stacks that a
 * replay of that image gives. PYR_ETORN: the replay differs from the first run. */
int image_record(uint64_t runtime, uint32_t version, const char *image_path, const char *text_path)
{
    pyr_reader *self, *recording, *replay;
    pyr_buffer image, first, second;
    pyr_buffer_init(&image, 1 << 22);
    pyr_buffer_init(&first, 1 << 20);
    pyr_buffer_init(&second, 1 << 20);
    pyr_status status = pyr_reader_open_self(&self);
    if (status == PYR_OK) {
        status = pyr_reader_open_recording(self, &recording);
    }
    if (status == PYR_OK) {
        status = image_stacks_write(recording, runtime, version, &first);
    }
    if (status == PYR_OK) {
        status = pyr_recording_save(recording, version, runtime, &image);
    }
    if (status == PYR_OK) {
        status = pyr_reader_open_image(image.data, image.length, &replay);
    }
    if (status == PYR_OK) {
        status = image_stacks_write(replay, runtime, version, &second);
    }
    if (status == PYR_OK &&
        (first.length != second.length || memcmp(first.data, second.data, first.length) != 0)) {
        status = PYR_ETORN;
    }
    if (status == PYR_OK) {
        status = write_file(image_path, &image);
    }
    return status == PYR_OK ? write_file(text_path, &second) : status;
}
