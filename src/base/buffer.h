/* A growing byte buffer with a maximum given at creation (after curl's dynbuf).
 *
 * One owner, one thread at a time. Errors stick: after a failed append every later append fails
 * with the same status, so a writer may append many times and check once.
 */
#ifndef PYR_BASE_BUFFER_H
#define PYR_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

typedef struct pyr_buffer {
    uint8_t *data; /* NULL while empty */
    size_t length;
    size_t capacity;
    size_t maximum;
    pyr_status status; /* first failure, sticky */
} pyr_buffer;

/* An empty buffer that never holds more than `maximum` bytes. Allocates nothing. */
void pyr_buffer_init(pyr_buffer *buffer, size_t maximum);

/* Frees the bytes; the buffer may be used again as if just initialised. */
void pyr_buffer_fini(pyr_buffer *buffer);

/* What the function below does when there is no room yet. */
pyr_status pyr_buffer_append_slowly(pyr_buffer *buffer, const void *bytes, size_t length);

/* Appends bytes: PYR_ETOOBIG past the maximum, PYR_ENOMEM; nothing is appended on failure. In
 * place, because the profiles that pass through a server are appended in pieces of a few bytes. */
static inline pyr_status pyr_buffer_append(pyr_buffer *buffer, const void *bytes, size_t length)
{
    if (buffer->status == PYR_OK && length > 0 && length <= buffer->capacity - buffer->length) {
        memcpy(buffer->data + buffer->length, bytes, length);
        buffer->length += length;
        return PYR_OK;
    }
    return pyr_buffer_append_slowly(buffer, bytes, length);
}

/* Appends printf-formatted text, without its terminating NUL. */
pyr_status pyr_buffer_format(pyr_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a NUL-terminated text, without its NUL. */
pyr_status pyr_buffer_text(pyr_buffer *buffer, const char *text);

/* Makes room for `length` more bytes; then data + length may be written and length advanced. */
pyr_status pyr_buffer_reserve(pyr_buffer *buffer, size_t length);

/* Length 0, status OK, capacity kept. */
void pyr_buffer_clear(pyr_buffer *buffer);

/* Gives the bytes to the caller (free with pyr_memory_free) and leaves the buffer empty;
 * NULL when empty. */
uint8_t *pyr_buffer_take(pyr_buffer *buffer, size_t *length);

#endif
