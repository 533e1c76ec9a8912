/* The protobuf wire format: numbers and fields, written and read.
 *
 * Pure: the reader never allocates, never looks past its end and never recurses. Any thread.
 * Source: protobuf.dev/programming-guides/encoding.
 */
#ifndef PYR_PPROF_WIRE_H
#define PYR_PPROF_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

typedef enum pyr_wire_type {
    PYR_WIRE_VARINT = 0,
    PYR_WIRE_FIXED64 = 1,
    PYR_WIRE_BYTES = 2,
    PYR_WIRE_GROUP = 3,
    PYR_WIRE_GROUP_END = 4,
    PYR_WIRE_FIXED32 = 5,
} pyr_wire_type;

/* What is still to be read. */
typedef struct pyr_wire_reader {
    const uint8_t *at, *end;
} pyr_wire_reader;

typedef struct pyr_wire_field {
    uint32_t number;
    pyr_wire_type type;
    uint64_t value; /* of a VARINT; of others it means nothing */
    /* The bytes of the value. For BYTES the content; for VARINT the varint itself, so that a
     * repeated number reads the same packed and unpacked. */
    pyr_wire_reader body;
} pyr_wire_field;

/* What the functions of the same name without "_long" do, for numbers of any length. */
PYR_MUST_USE pyr_status pyr_wire_next_long(pyr_wire_reader *reader, pyr_wire_field *field);
PYR_MUST_USE pyr_status pyr_wire_varint_long(pyr_wire_reader *reader, uint64_t *value);
void pyr_wire_append_varint_long(pyr_buffer *buffer, uint64_t value);

/* Reads one number. PYR_OK; PYR_ENOENT at the end; PYR_EPARTIAL when the bytes end inside it;
 * PYR_EBAD. After an error reader->at stands where it stood. */
PYR_MUST_USE static inline pyr_status pyr_wire_varint(pyr_wire_reader *reader, uint64_t *value)
{
    const uint8_t *at = reader->at;
    size_t left = (size_t)(reader->end - at);
    if (left > 0 && at[0] < 0x80) {
        *value = at[0];
        reader->at = at + 1;
        return PYR_OK;
    }
    if (left > 1 && at[1] < 0x80) {
        *value = (uint64_t)(at[0] & 0x7F) | (uint64_t)at[1] << 7;
        reader->at = at + 2;
        return PYR_OK;
    }
    return pyr_wire_varint_long(reader, value);
}

/* Reads the next field; the same results. A group comes back as one field of type GROUP without a
 * body.
 *
 * A window has a hundred thousand fields, nearly all of them with a tag of one byte: those are read
 * in place. */
PYR_MUST_USE static inline pyr_status pyr_wire_next(pyr_wire_reader *reader, pyr_wire_field *field)
{
    const uint8_t *at = reader->at;
    if (at == reader->end) {
        return PYR_ENOENT;
    }
    pyr_wire_reader next = {at + 1, reader->end};
    unsigned type = at[0] & 7;
    if (at[0] >= 8 && at[0] < 0x80 && (type == PYR_WIRE_VARINT || type == PYR_WIRE_BYTES) &&
        pyr_wire_varint(&next, &field->value) == PYR_OK) {
        field->number = at[0] >> 3;
        field->type = (pyr_wire_type)type;
        if (type == PYR_WIRE_VARINT) {
            field->body = (pyr_wire_reader){at + 1, next.at};
            reader->at = next.at;
            return PYR_OK;
        }
        if (field->value <= (size_t)(next.end - next.at)) {
            field->body = (pyr_wire_reader){next.at, next.at + field->value};
            reader->at = field->body.end;
            return PYR_OK;
        }
    }
    return pyr_wire_next_long(reader, field);
}

/* Appends a number. Errors stick in the buffer. */
static inline void pyr_wire_append_varint(pyr_buffer *buffer, uint64_t value)
{
    if (value < 0x80 && buffer->status == PYR_OK && buffer->length < buffer->capacity) {
        buffer->data[buffer->length++] = (uint8_t)value;
    } else {
        pyr_wire_append_varint_long(buffer, value);
    }
}

/* Appends a field of type VARINT, even when it is 0. */
void pyr_wire_append_number(pyr_buffer *buffer, uint32_t number, uint64_t value);

/* The same, left out when 0, which is what a reader assumes of an absent field. */
void pyr_wire_append_nonzero(pyr_buffer *buffer, uint32_t number, uint64_t value);

/* Appends a field of type BYTES. */
void pyr_wire_append_bytes(pyr_buffer *buffer, uint32_t number, const void *bytes, size_t length);

/* Appends text, which must be UTF-8 in protobuf: bytes that are not become U+FFFD. No tag. */
pyr_status pyr_wire_append_text(pyr_buffer *buffer, const char *text, size_t length);

#endif
