/* Protobuf wire format; see the header. Pure, owns nothing. */
#include "pprof/wire.h"

#include "base/load.h"
#include "base/utf8.h"

enum { VARINT_BYTES = 10, NUMBER_MAX = (1 << 29) - 1, GROUP_DEPTH = 100 };

#define LAST_BITS UINT64_C(0x8080808080808080)

/* Eight bytes of seven bits each as one number of 56 bits. */
static uint64_t squeeze(uint64_t bytes)
{
    bytes = (bytes & UINT64_C(0x007F007F007F007F)) | (bytes & UINT64_C(0x7F007F007F007F00)) >> 1;
    bytes = (bytes & UINT64_C(0x00003FFF00003FFF)) | (bytes & UINT64_C(0x3FFF00003FFF0000)) >> 2;
    return (bytes & UINT64_C(0x0FFFFFFF)) | (bytes & UINT64_C(0x0FFFFFFF00000000)) >> 4;
}

pyr_status pyr_wire_varint_long(pyr_wire_reader *reader, uint64_t *value)
{
    const uint8_t *at = reader->at;
    if (at == reader->end) {
        return PYR_ENOENT;
    }
    uint64_t result = 0;
    unsigned shift = 0;
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && reader->end - at >= 8) {
        /* Eight bytes at once: moments and the numbers of threads have as many. */
        uint64_t word = pyr_load_u64(at, 0);
        uint64_t ends = ~word & LAST_BITS;
        result = squeeze(word & ~LAST_BITS & (ends ^ (ends - 1))); /* up to the first end */
        if (ends != 0) {
            reader->at = at + __builtin_ctzll(ends) / 8 + 1;
            *value = result;
            return PYR_OK;
        }
        at += 8;
        shift = 56;
    }
    for (; at < reader->end; shift += 7) {
        uint8_t byte = *at++;
        result |= (uint64_t)(byte & 0x7F) << shift;
        if (shift == 63 && byte > 1) {
            return PYR_EBAD; /* longer than ten bytes, or more than 64 bits */
        }
        if (byte < 0x80) {
            reader->at = at;
            *value = result;
            return PYR_OK;
        }
    }
    return PYR_EPARTIAL;
}

/* One field without the content of a group: its opening and its end are fields of their own. */
static pyr_status step(pyr_wire_reader *reader, pyr_wire_field *field)
{
    pyr_wire_reader next = *reader;
    uint64_t tag, length = 0;
    pyr_status status = pyr_wire_varint(&next, &tag);
    if (status != PYR_OK) {
        return status;
    }
    if (tag >> 3 == 0 || tag >> 3 > NUMBER_MAX) {
        return PYR_EBAD;
    }
    *field = (pyr_wire_field){.number = (uint32_t)(tag >> 3), .type = (pyr_wire_type)(tag & 7)};
    field->body.at = next.at;
    switch (field->type) {
    case PYR_WIRE_VARINT:
        status = pyr_wire_varint(&next, &field->value);
        length = (uint64_t)(next.at - field->body.at);
        next.at = field->body.at;
        break;
    case PYR_WIRE_BYTES:
        status = pyr_wire_varint(&next, &length);
        field->body.at = next.at;
        break;
    case PYR_WIRE_FIXED64:
        length = 8;
        break;
    case PYR_WIRE_FIXED32:
        length = 4;
        break;
    case PYR_WIRE_GROUP:
    case PYR_WIRE_GROUP_END:
        break;
    default:
        return PYR_EBAD;
    }
    if (status == PYR_ENOENT || (status == PYR_OK && length > (uint64_t)(next.end - next.at))) {
        status = PYR_EPARTIAL;
    }
    if (status != PYR_OK) {
        return status;
    }
    field->body.end = next.at + length;
    reader->at = field->body.end;
    return PYR_OK;
}

/* Skips to the end of the group that was just opened. Nested groups are counted, not matched by
 * number: no field of a profile is a group, so all that matters is where it ends. */
static pyr_status skip_group(pyr_wire_reader *reader)
{
    pyr_wire_field field;
    for (unsigned depth = 1; depth > 0;) {
        pyr_status status = step(reader, &field);
        if (status != PYR_OK) {
            return status == PYR_ENOENT ? PYR_EPARTIAL : status;
        }
        if (field.type == PYR_WIRE_GROUP_END) {
            depth--;
        } else if (field.type == PYR_WIRE_GROUP && ++depth > GROUP_DEPTH) {
            return PYR_EBAD;
        }
    }
    return PYR_OK;
}

pyr_status pyr_wire_next_long(pyr_wire_reader *reader, pyr_wire_field *field)
{
    const uint8_t *start = reader->at;
    pyr_status status = step(reader, field);
    if (status == PYR_OK && field->type == PYR_WIRE_GROUP) {
        status = skip_group(reader);
    } else if (status == PYR_OK && field->type == PYR_WIRE_GROUP_END) {
        status = PYR_EBAD;
    }
    if (status != PYR_OK) {
        reader->at = start;
    }
    return status;
}

void pyr_wire_append_varint_long(pyr_buffer *buffer, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES];
    size_t length = 0;
    while (value >= 0x80) {
        bytes[length++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[length++] = (uint8_t)value;
    pyr_buffer_append(buffer, bytes, length);
}

void pyr_wire_append_number(pyr_buffer *buffer, uint32_t number, uint64_t value)
{
    pyr_wire_append_varint(buffer, (uint64_t)number << 3 | PYR_WIRE_VARINT);
    pyr_wire_append_varint(buffer, value);
}

void pyr_wire_append_nonzero(pyr_buffer *buffer, uint32_t number, uint64_t value)
{
    if (value != 0) {
        pyr_wire_append_number(buffer, number, value);
    }
}

void pyr_wire_append_bytes(pyr_buffer *buffer, uint32_t number, const void *bytes, size_t length)
{
    pyr_wire_append_varint(buffer, (uint64_t)number << 3 | PYR_WIRE_BYTES);
    pyr_wire_append_varint(buffer, length);
    pyr_buffer_append(buffer, bytes, length);
}

pyr_status pyr_wire_append_text(pyr_buffer *buffer, const char *text, size_t length)
{
    if (pyr_utf8_valid(text, length) == length) {
        return pyr_buffer_append(buffer, text, length);
    }
    /* Each byte may become the three of U+FFFD, and a NUL follows. */
    size_t room = length < SIZE_MAX / 4 ? length * 3 + 1 : SIZE_MAX;
    pyr_status status = pyr_buffer_reserve(buffer, room);
    if (status == PYR_OK) {
        char *out = (char *)buffer->data + buffer->length;
        buffer->length += pyr_utf8_repair(text, length, out, room);
    }
    return status;
}
