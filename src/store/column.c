/* Columns of numbers and of sets; see the header. Owns the bytes of one column at a time; never
 * trusts what it reads: a column that ends early is an error, whatever its lengths say.
 */
#include "store/column.h"

#include <string.h>

#include "pprof/intern.h"

enum { NEGATIVE = 0x80, LENGTH = 0x7f, WORD = 64 };

void pyr_column_init(pyr_column *column)
{
    *column = (pyr_column){0};
    pyr_buffer_init(&column->lengths, PYR_PACK_SECTION_BYTES - 1);
    pyr_buffer_init(&column->bits, PYR_PACK_SECTION_BYTES - 1);
}

void pyr_column_fini(pyr_column *column)
{
    pyr_buffer_fini(&column->lengths);
    pyr_buffer_fini(&column->bits);
}

void pyr_column_clear(pyr_column *column)
{
    pyr_buffer_clear(&column->lengths);
    pyr_buffer_clear(&column->bits);
    column->pending = 0;
    column->used = 0;
    column->at = 0;
}

/* Bits below the highest: at most 63 of them. */
static uint64_t low_bits(uint64_t bits, size_t count)
{
    return bits & ((UINT64_C(1) << count) - 1);
}

static void append_pending(pyr_column *column, size_t bytes)
{
    uint8_t word[sizeof column->pending];
    for (size_t at = 0; at < bytes; at++) {
        word[at] = (uint8_t)(column->pending >> (8 * at));
    }
    (void)pyr_buffer_append(&column->bits, word, bytes);
    column->pending = 0;
    column->used = 0;
}

void pyr_column_add(pyr_column *column, int64_t value)
{
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    size_t length = pyr_column_bits(value);
    uint8_t code = (uint8_t)(length | (value < 0 ? NEGATIVE : 0));
    (void)pyr_buffer_append(&column->lengths, &code, sizeof code);
    if (length < 2) {
        return;
    }
    size_t count = length - 1;
    uint64_t bits = low_bits(size, count);
    column->pending |= bits << column->used;
    if (column->used + count < WORD) {
        column->used += count;
        return;
    }
    size_t taken = WORD - column->used; /* 1 to 64 */
    append_pending(column, sizeof column->pending);
    column->used = count - taken;
    column->pending = column->used > 0 ? bits >> taken : 0;
}

pyr_status pyr_column_write(pyr_column *column, pyr_packer *packer, pyr_buffer *out)
{
    append_pending(column, (column->used + 7) / 8);
    pyr_pack_section(packer, column->lengths.data, column->lengths.length, out);
    pyr_pack_plain(column->bits.data, column->bits.length, out);
    return column->lengths.status != PYR_OK ? column->lengths.status
           : column->bits.status != PYR_OK  ? column->bits.status
                                            : out->status;
}

pyr_status pyr_column_read(pyr_column *column, pyr_packer *packer, pyr_wire_reader *reader)
{
    pyr_column_clear(column);
    pyr_status status = pyr_pack_read(packer, reader, &column->lengths);
    return status == PYR_OK ? pyr_pack_read(packer, reader, &column->bits) : status;
}

pyr_status pyr_column_next(pyr_column *column, int64_t *value)
{
    if (column->at == column->lengths.length) {
        return PYR_EBAD;
    }
    uint8_t code = column->lengths.data[column->at++];
    size_t length = code & LENGTH;
    uint64_t size = length;
    if (length > WORD) {
        return PYR_EBAD;
    }
    if (length > 1) {
        size_t count = length - 1;
        size_t first = column->used / 8;
        size_t shift = column->used % 8;
        uint64_t bits = 0;
        if (column->used + count > 8 * column->bits.length) {
            return PYR_EBAD;
        }
        size_t last = (column->used + count + 7) / 8;
        const uint8_t *bytes = column->bits.data;
        for (size_t at = first; at < last && at < first + sizeof bits; at++) {
            bits |= (uint64_t)bytes[at] << (8 * (at - first));
        }
        bits >>= shift;
        if (last > first + sizeof bits) { /* a ninth byte, so shift is not 0 */
            bits |= (uint64_t)bytes[last - 1] << (WORD - shift);
        }
        size = low_bits(bits, count) | UINT64_C(1) << count;
        column->used += count;
    }
    *value = (int64_t)((code & NEGATIVE) != 0 ? -size : size);
    return PYR_OK;
}

pyr_status pyr_column_write_sets(const uint64_t *sets, size_t count, pyr_packer *packer,
                                 pyr_buffer *out)
{
    pyr_intern *different = pyr_intern_new(count + 1, (count + 1) * sizeof *sets);
    pyr_buffer plain;
    pyr_buffer numbers;
    pyr_buffer_init(&plain, PYR_PACK_SECTION_BYTES - 1);
    pyr_buffer_init(&numbers, PYR_PACK_SECTION_BYTES - 1);
    pyr_status status = different != NULL ? PYR_OK : PYR_ENOMEM;
    uint64_t number = 0;
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        if (at == 0 || sets[at] != sets[at - 1]) {
            status = pyr_intern_add(different, &sets[at], sizeof sets[at], &number);
        }
        pyr_wire_append_varint(&numbers, number);
    }
    for (size_t set = 0; status == PYR_OK && set < pyr_intern_count(different); set++) {
        size_t length = 0;
        uint64_t bits = 0;
        memcpy(&bits, pyr_intern_get(different, set, &length), sizeof bits);
        pyr_wire_append_varint(&plain, bits);
    }
    pyr_pack_section(packer, plain.data, plain.length, out);
    pyr_pack_section(packer, numbers.data, numbers.length, out);
    status = status != PYR_OK           ? status
             : plain.status != PYR_OK   ? plain.status
             : numbers.status != PYR_OK ? numbers.status
                                        : out->status;
    pyr_buffer_fini(&plain);
    pyr_buffer_fini(&numbers);
    pyr_intern_free(different);
    return status;
}

pyr_status pyr_column_read_sets(size_t count, pyr_packer *packer, pyr_wire_reader *reader,
                                pyr_buffer *section, pyr_buffer *sets)
{
    pyr_buffer different;
    pyr_buffer_init(&different, PYR_PACK_SECTION_BYTES);
    pyr_buffer_clear(sets);
    pyr_status status = pyr_pack_read(packer, reader, section);
    pyr_wire_reader inner = {section->data, section->data + section->length};
    while (status == PYR_OK && inner.at < inner.end) {
        uint64_t set = 0;
        status = pyr_wire_varint(&inner, &set);
        if (status == PYR_OK) {
            status = pyr_buffer_append(&different, &set, sizeof set);
        }
    }
    if (status == PYR_OK) {
        status = pyr_pack_read(packer, reader, section);
        inner = (pyr_wire_reader){section->data, section->data + section->length};
    }
    if (status == PYR_OK) { /* a number has a byte at least */
        status = count <= section->length ? pyr_buffer_reserve(sets, count * sizeof(uint64_t) + 1)
                                          : PYR_EBAD;
    }
    const uint64_t *known = (const uint64_t *)(const void *)different.data;
    uint64_t *found = (uint64_t *)(void *)sets->data;
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        uint64_t number = 0;
        status = pyr_pack_read_below(&inner, different.length / sizeof *known, &number);
        if (status == PYR_OK) {
            found[at] = known[number];
        }
    }
    sets->length = status == PYR_OK ? count * sizeof *found : 0;
    pyr_buffer_fini(&different);
    return status;
}
