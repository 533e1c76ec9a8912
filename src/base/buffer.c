/* Growing byte buffers; see the header. Pure but for allocation. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void pyr_buffer_init(pyr_buffer *buffer, size_t maximum)
{
    *buffer = (pyr_buffer){.maximum = maximum, .status = PYR_OK};
}

void pyr_buffer_fini(pyr_buffer *buffer)
{
    pyr_memory_free(buffer->data);
    pyr_buffer_init(buffer, buffer->maximum);
}

pyr_status pyr_buffer_reserve(pyr_buffer *buffer, size_t length)
{
    if (buffer->status != PYR_OK) {
        return buffer->status;
    }
    if (length > buffer->maximum - buffer->length) {
        return buffer->status = PYR_ETOOBIG;
    }
    size_t needed = buffer->length + length;
    if (needed <= buffer->capacity) {
        return PYR_OK;
    }
    /* Never more than the maximum: whoever fills the capacity must not pass it. */
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    if (capacity > buffer->maximum) {
        capacity = buffer->maximum;
    }
    while (capacity < needed) {
        capacity = capacity > buffer->maximum / 2 ? buffer->maximum : capacity * 2;
    }
    /* A byte beside the capacity takes the NUL of a text that fills it. */
    uint8_t *data = pyr_memory_resize(buffer->data, capacity + (capacity < SIZE_MAX), 1);
    if (!data) {
        return buffer->status = PYR_ENOMEM;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return PYR_OK;
}

pyr_status pyr_buffer_append_slowly(pyr_buffer *buffer, const void *bytes, size_t length)
{
    pyr_status status = pyr_buffer_reserve(buffer, length);
    if (status == PYR_OK && length > 0) {
        memcpy(buffer->data + buffer->length, bytes, length);
        buffer->length += length;
    }
    return status;
}

pyr_status pyr_buffer_text(pyr_buffer *buffer, const char *text)
{
    return pyr_buffer_append(buffer, text, strlen(text));
}

pyr_status pyr_buffer_format(pyr_buffer *buffer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int needed = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (needed < 0) {
        return buffer->status = PYR_EINVAL;
    }
    if (needed == 0) {
        return buffer->status; /* nothing may be reserved yet, so there is no place for a NUL */
    }
    pyr_status status = pyr_buffer_reserve(buffer, (size_t)needed);
    if (status != PYR_OK) {
        return status;
    }
    va_start(list, format);
    (void)vsnprintf((char *)buffer->data + buffer->length, (size_t)needed + 1, format, list);
    va_end(list);
    buffer->length += (size_t)needed;
    return PYR_OK;
}

void pyr_buffer_clear(pyr_buffer *buffer)
{
    buffer->length = 0;
    buffer->status = PYR_OK;
}

uint8_t *pyr_buffer_take(pyr_buffer *buffer, size_t *length)
{
    uint8_t *data = buffer->data;
    *length = buffer->length;
    pyr_buffer_init(buffer, buffer->maximum);
    return data;
}
