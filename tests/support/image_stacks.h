/* All stacks of an interpreter as text, by the production code: for recorded images and the tests
 * that replay them. */
#ifndef PYR_SUPPORT_IMAGE_STACKS_H
#define PYR_SUPPORT_IMAGE_STACKS_H

#include "base/buffer.h"
#include "reader/reader.h"

/* Appends, for each thread, a line
 *     thread "NAME" [handling TYPE] [omitted N] [no root]
 * and its frames, leaf first, "  QUALIFIED NAME FILE:LINE" (FILE without its folders). Threads come
 * in the order of their names. */
PYR_MUST_USE pyr_status image_stacks_write(pyr_reader *reader, pyr_addr runtime, uint32_t version,
                                           pyr_buffer *out);

/* Reads a whole file: bytes to be freed by pyr_memory_free, NULL when there is none. */
uint8_t *image_file_read(const char *path, size_t *length);

#endif
