/* Values of the target; see the header.
 *
 * Heads are read first and tell how much there is; then the rest, never more than the caller has
 * room for. No span reaches beyond the object it is for, so that an object at the end of a mapping
 * reads as well as any.
 *
 * Owns nothing. Any thread, one at a time per batch. Every length is bounded, every loop counted.
 */
#include "cpython/objects.h"

#include <string.h>

#include "base/load.h"
#include "base/utf8.h"
#include "cpython/dict.h"
#include "cpython/layout_fields.h"

enum {
    WORD = sizeof(pyr_addr),
    HEAD_BYTES = 64,        /* no head of a str, bytes or int object is longer */
    PIECE_CHARACTERS = 256, /* decoded at a time */
    LONGEST_TEXT = 1 << 30,
    /* Bits of a str's state (all versions): interned:2 kind:3 compact:1 ascii:1 */
    KIND_SHIFT = 2,
    KIND_MASK = 7,
    COMPACT_BIT = 1 << 5,
    ASCII_BIT = 1 << 6,
    DIGIT_BITS = 30, /* of a Python int */
    LONGEST_INT_DIGITS = 3,
    REPLACEMENT = 0xFFFD,
    EXCEPTION_STACK_LIMIT = 64, /* nested generators that handle nothing */
};

/* tp_flags (Include/object.h) */
static const uint64_t TYPE_HAS_INLINE_VALUES = UINT64_C(1) << 2;
static const uint64_t TYPE_HAS_MANAGED_DICT = UINT64_C(1) << 4;
static const uint64_t TYPE_IS_HEAP = UINT64_C(1) << 9;
static const uint64_t TYPE_IS_STR = UINT64_C(1) << 28;

/* ------------------------------------------------------------------------ strings, numbers ---- */

pyr_status pyr_text_describe(const pyr_layout *layout, const uint8_t *head, pyr_text *text)
{
    uint64_t length = pyr_load_u64(head, layout->unicode_length);
    uint32_t state = pyr_load_u32(head, layout->unicode_state);
    uint8_t kind = state >> KIND_SHIFT & KIND_MASK;
    bool is_ascii = (state & ASCII_BIT) != 0;
    if ((kind != 1 && kind != 2 && kind != 4) || (is_ascii && kind != 1) || length > LONGEST_TEXT) {
        return PYR_EBAD;
    }
    *text = (pyr_text){.length = (size_t)length, .kind = kind, .is_ascii = is_ascii};
    if (state & COMPACT_BIT) {
        text->offset = is_ascii ? layout->unicode_ascii : layout->unicode_compact;
    }
    return PYR_OK;
}

static uint32_t character_at(const uint8_t *characters, size_t index, uint8_t kind)
{
    uint32_t character = 0;
    memcpy(&character, characters + index * kind, kind); /* little endian, as all we run on */
    bool is_surrogate = character >= 0xD800 && character < 0xE000;
    return character == 0 || is_surrogate || character > 0x10FFFF ? REPLACEMENT : character;
}

/* Writes one character; its bytes, or 0 when they do not fit. */
static size_t encode(uint32_t character, char *out, size_t room)
{
    size_t bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    if (bytes > room) {
        return 0;
    }
    if (bytes == 1) {
        out[0] = (char)character;
        return 1;
    }
    for (size_t i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    out[0] = (char)((0xF00 >> bytes & 0xFF) | character);
    return bytes;
}

size_t pyr_text_decode(const uint8_t *characters, size_t count, uint8_t kind, char *out,
                       size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = encode(character_at(characters, i, kind), out + used, size - 1 - used);
        if (bytes == 0) {
            break;
        }
        used += bytes;
    }
    out[used] = 0;
    return used;
}

pyr_status pyr_object_text(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr, char *out,
                           size_t size, size_t *length)
{
    uint8_t head[HEAD_BYTES];
    uint8_t piece[PIECE_CHARACTERS * 4];
    pyr_text text;
    size_t used = 0;
    out[0] = 0;
    if (layout->unicode_ascii > sizeof head ||
        pyr_reader_read(reader, addr, head, layout->unicode_ascii) != PYR_OK) {
        return PYR_EFAULT;
    }
    pyr_status status = pyr_text_describe(layout, head, &text);
    if (status != PYR_OK) {
        return status;
    }
    pyr_addr characters = addr + text.offset;
    if (text.offset == 0) { /* instances of subclasses keep them elsewhere */
        status = pyr_reader_read_addr(reader, addr + layout->unicode_compact, &characters);
    }
    /* A character gives at least one byte, so no more of them than bytes are needed. */
    size_t wanted = text.length < size - 1 ? text.length : size - 1;
    for (size_t done = 0, count; status == PYR_OK && done < wanted; done += count) {
        count = wanted - done < PIECE_CHARACTERS ? wanted - done : PIECE_CHARACTERS;
        status = pyr_reader_read(reader, characters + done * text.kind, piece, count * text.kind);
        if (status == PYR_OK) {
            used += pyr_text_decode(piece, count, text.kind, out + used, size - used);
        }
    }
    if (status != PYR_OK) {
        out[0] = 0;
        return status;
    }
    if (length) {
        *length = used;
    }
    return PYR_OK;
}

pyr_status pyr_object_bytes(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr,
                            uint8_t *out, size_t capacity, size_t *length)
{
    uint64_t size;
    if (pyr_reader_read(reader, addr + layout->var_size, &size, sizeof size) != PYR_OK) {
        return PYR_EFAULT;
    }
    if (size > PYR_LIMIT_BYTECODE_BYTES) {
        return PYR_EBAD;
    }
    *length = (size_t)size;
    return size > capacity ? PYR_ETOOBIG
                           : pyr_reader_read(reader, addr + layout->bytes_data, out, (size_t)size);
}

pyr_status pyr_int_decode(const pyr_layout *layout, const uint8_t *bytes, uint64_t *magnitude,
                          bool *is_negative)
{
    uint64_t tag = pyr_load_u64(bytes, layout->long_tag);
    uint64_t digits;
    if (layout->minor < 12) {
        *is_negative = (int64_t)tag < 0; /* 3.11: ob_size, negative for negative numbers */
        digits = *is_negative ? 0 - tag : tag;
    } else {
        *is_negative = (tag & 3) == 2; /* lv_tag: sign 0 plus, 1 zero, 2 minus */
        digits = (tag & 3) == 1 ? 0 : tag >> 3;
    }
    if (digits > LONGEST_INT_DIGITS) {
        return PYR_ETOOBIG;
    }
    uint64_t value = 0;
    for (size_t i = (size_t)digits; i > 0; i--) {
        if (value >> (64 - DIGIT_BITS) != 0) {
            return PYR_ETOOBIG;
        }
        value = value << DIGIT_BITS | pyr_load_u32(bytes, layout->long_digits + (i - 1) * 4);
    }
    *magnitude = value;
    return PYR_OK;
}

/* ----------------------------------------------------------------------------------- types ---- */

pyr_status pyr_object_type(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr,
                           pyr_addr *type)
{
    return pyr_reader_read_addr(reader, addr + layout->object_type, type);
}

bool pyr_type_is_str(pyr_reader *reader, const pyr_layout *layout, pyr_addr type)
{
    uint64_t flags;
    return pyr_reader_read(reader, type + layout->type_flags, &flags, sizeof flags) == PYR_OK &&
           (flags & TYPE_IS_STR);
}

/* The C string at `addr`, repaired and cut to `size`; ends at the first NUL. */
static pyr_status read_c_string(pyr_reader *reader, pyr_addr addr, char *out, size_t size,
                                size_t *length)
{
    char text[PYR_LIMIT_NAME_BYTES];
    size_t used = 0;
    while (used < sizeof text) {
        /* Up to the end of an aligned piece at most: what lies beyond the NUL is in its page. */
        size_t piece = 64 - (addr + used) % 64;
        if (piece > sizeof text - used) {
            piece = sizeof text - used;
        }
        if (pyr_reader_read(reader, addr + used, text + used, piece) != PYR_OK) {
            return PYR_EFAULT;
        }
        const char *end = memchr(text + used, 0, piece);
        if (end) {
            used = (size_t)(end - text);
            break;
        }
        used += piece;
    }
    *length = pyr_utf8_repair(text, used, out, size);
    return used > 0 ? PYR_OK : PYR_EBAD;
}

/* Writes "module." of a class made in Python; the bytes written, 0 when it is not known. */
static size_t write_module(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                           pyr_addr type_dict, char *out, size_t size)
{
    pyr_dict dict;
    pyr_addr module = 0;
    size_t length;
    if (pyr_dict_open(reader, layout, type_dict, &dict) != PYR_OK ||
        pyr_dict_find(reader, batch, layout, &dict, "__module__", &module, NULL) != PYR_OK ||
        pyr_object_text(reader, layout, module, out, size, &length) != PYR_OK || length == 0 ||
        length + 1 >= size || strcmp(out, "builtins") == 0) {
        return 0;
    }
    out[length] = '.';
    return length + 1;
}

pyr_status pyr_object_type_name(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                                pyr_addr type, char *out, size_t size, size_t *length)
{
    pyr_addr name, dict, qualname;
    uint64_t flags;
    out[0] = 0;
    if (pyr_reader_read_addr(reader, type + layout->type_name, &name) != PYR_OK ||
        pyr_reader_read(reader, type + layout->type_flags, &flags, sizeof flags) != PYR_OK) {
        return PYR_EFAULT;
    }
    pyr_status status = read_c_string(reader, name, out, size, length);
    /* A dot: a type made in C, whose name has the module in it. */
    if (status != PYR_OK || !(flags & TYPE_IS_HEAP) || memchr(out, '.', *length)) {
        return status;
    }
    if (pyr_reader_read_addr(reader, type + layout->type_dict, &dict) != PYR_OK ||
        pyr_reader_read_addr(reader, type + layout->type_qualname, &qualname) != PYR_OK) {
        return PYR_OK;
    }
    /* The qualified name goes behind the module; the bare one is put back if that fails. */
    char bare[PYR_LIMIT_NAME_BYTES];
    size_t bare_length = pyr_utf8_repair(out, *length, bare, sizeof bare);
    size_t module = write_module(reader, batch, layout, dict, out, size);
    if (pyr_object_text(reader, layout, qualname, out + module, size - module, length) != PYR_OK ||
        *length == 0) {
        *length = pyr_utf8_repair(bare, bare_length, out + module, size - module);
    }
    *length += module;
    return PYR_OK;
}

/* ------------------------------------------------------------------------------ attributes ---- */

pyr_status pyr_instance_locate(const pyr_layout *layout, pyr_addr object,
                               const uint8_t before[PYR_INSTANCE_BEFORE], uint64_t flags,
                               uint64_t basicsize, pyr_addr *dict, pyr_addr *values)
{
    pyr_addr word_4 = pyr_load_addr(before, 0); /* 4 words before the object */
    pyr_addr word_3 = pyr_load_addr(before, WORD);
    *dict = 0;
    *values = 0;
    if (!(flags & TYPE_HAS_MANAGED_DICT)) {
        return PYR_ENOTSUP;
    }
    switch (layout->instance_shape) {
    case PYR_INSTANCE_311:
        *dict = word_3;
        *values = word_4;
        break;
    case PYR_INSTANCE_312:
        *dict = word_3 & 1 ? 0 : word_3;
        *values = word_3 & 1 ? word_3 + 1 : 0;
        break;
    case PYR_INSTANCE_313:
        *dict = word_3;
        *values = flags & TYPE_HAS_INLINE_VALUES ? object + basicsize : 0;
        break;
    }
    if (*dict == 0 && *values == 0) {
        return PYR_ENOENT;
    }
    *values += layout->values_items;
    return PYR_OK;
}

/* Opens whatever holds the attributes of an instance. */
static pyr_status open_attributes(pyr_reader *reader, const pyr_layout *layout, pyr_addr object,
                                  pyr_dict *attributes)
{
    uint8_t before[PYR_INSTANCE_BEFORE];
    pyr_addr type, dict, values, keys;
    uint64_t flags, basicsize;
    if (pyr_object_type(reader, layout, object, &type) != PYR_OK ||
        pyr_reader_read(reader, type + layout->type_flags, &flags, sizeof flags) != PYR_OK ||
        pyr_reader_read(reader, type + layout->type_basicsize, &basicsize, sizeof basicsize) !=
            PYR_OK ||
        pyr_reader_read_addr(reader, type + layout->type_cached_keys, &keys) != PYR_OK ||
        pyr_reader_read(reader, object - sizeof before, before, sizeof before) != PYR_OK) {
        return PYR_EFAULT;
    }
    pyr_status status =
        pyr_instance_locate(layout, object, before, flags, basicsize, &dict, &values);
    if (status != PYR_OK) {
        return status;
    }
    return dict != 0 ? pyr_dict_open(reader, layout, dict, attributes)
                     : pyr_dict_open_keys(reader, layout, keys, values, attributes);
}

pyr_status pyr_object_attribute(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                                pyr_addr object, const char *name, pyr_addr *value)
{
    pyr_dict attributes;
    pyr_status status = open_attributes(reader, layout, object, &attributes);
    if (status == PYR_OK) {
        status = pyr_dict_find(reader, batch, layout, &attributes, name, value, NULL);
    }
    return status == PYR_OK && *value == 0 ? PYR_ENOENT : status;
}

/* ------------------------------------------------------------------------------ exceptions ---- */

pyr_status pyr_object_exception_type(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                                     pyr_addr exc_info, char *out, size_t size, size_t *length)
{
    out[0] = 0;
    for (int i = 0; i < EXCEPTION_STACK_LIMIT && exc_info != 0; i++) {
        pyr_addr value, type;
        if (pyr_reader_read_addr(reader, exc_info + layout->err_value, &value) != PYR_OK) {
            return PYR_EFAULT;
        }
        if (value != 0) {
            pyr_status status = pyr_object_type(reader, layout, value, &type);
            if (status == PYR_OK) {
                status = pyr_object_type_name(reader, batch, layout, type, out, size, length);
            }
            if (status != PYR_OK || strcmp(out, "NoneType") != 0) {
                return status;
            }
            out[0] = 0; /* None: this entry handles nothing */
        }
        if (pyr_reader_read_addr(reader, exc_info + layout->err_previous, &exc_info) != PYR_OK) {
            return PYR_EFAULT;
        }
    }
    return PYR_ENOENT;
}
