/* Columns of sums; see the header and docs/design/0010-how-samples-are-kept.md.
 *
 * format, types, number of rows, then sections: lists and stacks; the types that each row has a
 * value of; and for each type the values of those rows, and their evidence. Rows stand by list,
 * then stack, so that lists are runs and stacks are small steps. Evidence says how many events of
 * equal size would vary as the value does, in eighths of a power of two: 0 is one event, 255 is
 * unknown; an empty section says 0 of all.
 *
 * Format 1, which is only read, has a value and an evidence of every row, 0 where it has none, and
 * no sets of types. Its values are varints.
 */
#include "store/block.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    FORMAT = 2,
    FORMAT_ALL_ROWS = 1,
    EVIDENCE_UNKNOWN = 255,
    EVIDENCE_STEPS = 8,
    ROWS = 1 << 22
};

/* ------------------------------------------------------------------------------ writing ---- */

typedef struct ranked { /* of a row, for sorting */
    uint64_t key;
    uint32_t row;
} ranked;

static int compare_places(const void *a, const void *b)
{
    const ranked *left = a;
    const ranked *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

pyr_status pyr_block_order(const pyr_sums *sums, pyr_buffer *order)
{
    const uint32_t *stacks = (const uint32_t *)(const void *)sums->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)sums->lists.data;
    ranked *places = pyr_memory_new(sums->count + 1, sizeof *places);
    pyr_status status = places != NULL ? PYR_OK : PYR_ENOMEM;
    for (size_t row = 0; row < sums->count && status == PYR_OK; row++) {
        places[row] = (ranked){(uint64_t)lists[row] << 32 | stacks[row], (uint32_t)row};
    }
    if (status == PYR_OK) {
        qsort(places, sums->count, sizeof *places, compare_places);
    }
    for (size_t at = 0; at < sums->count && status == PYR_OK; at++) {
        status = pyr_buffer_append(order, &places[at].row, sizeof places[at].row);
    }
    pyr_memory_free(places);
    return status;
}

static void write_keys(const pyr_sums *sums, const uint32_t *order, pyr_buffer *out)
{
    const uint32_t *stacks = (const uint32_t *)(const void *)sums->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)sums->lists.data;
    uint32_t list = 0;
    for (size_t at = 0; at < sums->count;) {
        uint32_t here = lists[order[at]];
        size_t end = at;
        while (end < sums->count && lists[order[end]] == here) {
            end++;
        }
        pyr_wire_append_varint(out, here - list);
        pyr_wire_append_varint(out, end - at);
        uint32_t stack = 0;
        for (; at < end; at++) {
            pyr_wire_append_varint(out, stacks[order[at]] - stack);
            stack = stacks[order[at]];
        }
        list = here;
    }
}

static uint8_t evidence(int64_t value, double square)
{
    if (square < 0) {
        return EVIDENCE_UNKNOWN;
    }
    double whole = (double)value * (double)value;
    if (square <= 0 || whole <= square) {
        return 0;
    }
    double steps = round(EVIDENCE_STEPS * log2(whole / square));
    return steps < EVIDENCE_UNKNOWN - 1 ? (uint8_t)steps : EVIDENCE_UNKNOWN - 1;
}

/* Which types each row has a value of. */
static pyr_status write_sets(const pyr_sums *sums, const uint32_t *order, pyr_packer *packer,
                             pyr_buffer *sets, pyr_buffer *out)
{
    const int64_t *values = (const int64_t *)(const void *)sums->values.data;
    for (size_t at = 0; at < sums->count; at++) {
        uint64_t set = pyr_sums_types_of(&values[order[at] * sums->type_count], sums->type_count);
        (void)pyr_buffer_append(sets, &set, sizeof set);
    }
    return sets->status == PYR_OK
               ? pyr_column_write_sets((const uint64_t *)(const void *)sets->data, sums->count,
                                       packer, out)
               : sets->status;
}

static pyr_status write_type(const pyr_sums *sums, const uint32_t *order, size_t type,
                             pyr_packer *packer, pyr_column *numbers, pyr_buffer *codes,
                             pyr_buffer *out)
{
    const int64_t *value = (const int64_t *)(const void *)sums->values.data;
    const double *square = (const double *)(const void *)sums->squares.data;
    uint8_t any_code = 0;
    pyr_column_clear(numbers);
    pyr_buffer_clear(codes);
    for (size_t at = 0; at < sums->count; at++) {
        size_t place = order[at] * sums->type_count + type;
        if (value[place] == 0) {
            continue;
        }
        uint8_t code = evidence(value[place], square[place]);
        pyr_column_add(numbers, value[place]);
        (void)pyr_buffer_append(codes, &code, 1);
        any_code |= code;
    }
    pyr_status status = pyr_column_write(numbers, packer, out);
    pyr_pack_section(packer, codes->data, any_code != 0 ? codes->length : 0, out);
    return status != PYR_OK ? status : codes->status;
}

pyr_status pyr_block_write(const pyr_sums *sums, const uint32_t *order, pyr_packer *packer,
                           pyr_buffer *out)
{
    pyr_buffer plain;
    pyr_buffer sets;
    pyr_column numbers;
    pyr_buffer_init(&plain, PYR_PACK_SECTION_BYTES - 1);
    pyr_buffer_init(&sets, ROWS * sizeof(uint64_t));
    pyr_column_init(&numbers);
    pyr_wire_append_varint(out, FORMAT);
    pyr_wire_append_varint(out, sums->types);
    pyr_wire_append_varint(out, sums->count);
    write_keys(sums, order, &plain);
    pyr_pack_section(packer, plain.data, plain.length, out);
    pyr_status status = plain.status;
    if (status == PYR_OK) {
        status = write_sets(sums, order, packer, &sets, out);
    }
    for (size_t type = 0; type < sums->type_count && status == PYR_OK; type++) {
        status = write_type(sums, order, type, packer, &numbers, &plain, out);
    }
    pyr_buffer_fini(&plain);
    pyr_buffer_fini(&sets);
    pyr_column_fini(&numbers);
    return status != PYR_OK ? status : out->status;
}

/* ------------------------------------------------------------------------------ reading ---- */

void pyr_block_init(pyr_block *block)
{
    *block = (pyr_block){0};
    pyr_buffer_init(&block->stacks, ROWS * sizeof(uint32_t));
    pyr_buffer_init(&block->lists, ROWS * sizeof(uint32_t));
    pyr_buffer_init(&block->values, ROWS * sizeof(int64_t));
    pyr_buffer_init(&block->squares, ROWS * sizeof(double));
    pyr_buffer_init(&block->scratch, PYR_PACK_SECTION_BYTES);
    pyr_buffer_init(&block->sets, ROWS * sizeof(uint64_t));
    pyr_column_init(&block->numbers);
}

void pyr_block_fini(pyr_block *block)
{
    pyr_buffer_fini(&block->stacks);
    pyr_buffer_fini(&block->lists);
    pyr_buffer_fini(&block->values);
    pyr_buffer_fini(&block->squares);
    pyr_buffer_fini(&block->scratch);
    pyr_buffer_fini(&block->sets);
    pyr_column_fini(&block->numbers);
}

static pyr_status read_keys(pyr_block *block, pyr_book_counts counts)
{
    pyr_wire_reader reader = {block->scratch.data, block->scratch.data + block->scratch.length};
    uint32_t *stacks = (uint32_t *)(void *)block->stacks.data;
    uint32_t *lists = (uint32_t *)(void *)block->lists.data;
    uint64_t list = 0;
    for (size_t row = 0; row < block->count;) {
        uint64_t step = 0;
        uint64_t rows = 0;
        pyr_status status = pyr_pack_read_below(&reader, counts.lists - list, &step);
        if (status == PYR_OK) {
            status = pyr_pack_read_below(&reader, block->count - row + 1, &rows);
        }
        list += step;
        uint64_t stack = 0;
        for (; rows > 0 && status == PYR_OK; rows--, row++) {
            status = pyr_pack_read_below(&reader, counts.nodes + 1 - stack, &step);
            stack += step;
            stacks[row] = (uint32_t)stack;
            lists[row] = (uint32_t)list;
        }
        if (status != PYR_OK || reader.at == reader.end) {
            return status == PYR_OK && row == block->count ? PYR_OK : PYR_EBAD;
        }
    }
    return PYR_OK;
}

static bool is_known(uint64_t format)
{
    return format == FORMAT || format == FORMAT_ALL_ROWS;
}

/* What stands before the first section, where *reader is left. */
static pyr_status read_head(pyr_block *block, const pyr_book *book, pyr_wire_reader *reader)
{
    size_t lists = pyr_book_count(book).lists;
    uint64_t types = 0;
    uint64_t rows = 0;
    pyr_status status = pyr_wire_varint(reader, &block->format);
    if (status == PYR_OK) {
        status = pyr_pack_read_below(reader, lists, &types);
    }
    if (status == PYR_OK) {
        status = pyr_pack_read_below(reader, ROWS, &rows);
    }
    if (status != PYR_OK || !is_known(block->format)) {
        return PYR_EBAD;
    }
    pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
    block->types = (uint32_t)types;
    block->type_count = pyr_book_list_at(book, block->types, pairs);
    block->count = (size_t)rows;
    return PYR_OK;
}

pyr_status pyr_block_open(pyr_block *block, const pyr_book *book, const void *bytes, size_t length)
{
    pyr_wire_reader reader = {bytes, (const uint8_t *)bytes + length};
    size_t skipped = 0;
    pyr_status status = read_head(block, book, &reader);
    size_t sections = block->format == FORMAT_ALL_ROWS ? 1 : 3; /* keys, and sets */
    for (size_t at = 0; at < sections && status == PYR_OK; at++) {
        status = pyr_pack_skip(&reader, &skipped);
    }
    block->columns = reader;
    return status == PYR_OK ? PYR_OK : PYR_EBAD;
}

pyr_status pyr_block_read(pyr_block *block, const pyr_book *book, pyr_packer *packer,
                          const void *bytes, size_t length)
{
    pyr_wire_reader reader = {bytes, (const uint8_t *)bytes + length};
    pyr_status status = read_head(block, book, &reader);
    if (status == PYR_OK) {
        status = pyr_pack_read(packer, &reader, &block->scratch);
    }
    if (status != PYR_OK || block->count > block->scratch.length) {
        return status == PYR_ENOMEM ? status : PYR_EBAD;
    }
    pyr_buffer_clear(&block->stacks);
    pyr_buffer_clear(&block->lists);
    if (pyr_buffer_reserve(&block->stacks, block->count * sizeof(uint32_t)) != PYR_OK ||
        pyr_buffer_reserve(&block->lists, block->count * sizeof(uint32_t)) != PYR_OK) {
        return PYR_ENOMEM;
    }
    status = read_keys(block, pyr_book_count(book));
    if (status == PYR_OK && block->format != FORMAT_ALL_ROWS) {
        status = pyr_column_read_sets(block->count, packer, &reader, &block->scratch, &block->sets);
    }
    block->columns = reader;
    return status == PYR_OK || status == PYR_ENOMEM ? status : PYR_EBAD;
}

pyr_status pyr_block_types(const void *bytes, size_t length, uint32_t *types)
{
    pyr_wire_reader reader = {bytes, (const uint8_t *)bytes + length};
    uint64_t format = 0;
    uint64_t number = 0;
    if (length == 0 || pyr_wire_varint(&reader, &format) != PYR_OK || !is_known(format) ||
        pyr_pack_read_below(&reader, PYR_BOOK_LISTS, &number) != PYR_OK) {
        return PYR_EBAD;
    }
    *types = (uint32_t)number;
    return PYR_OK;
}

static pyr_status read_all_rows(pyr_block *block)
{
    pyr_wire_reader reader = {block->scratch.data, block->scratch.data + block->scratch.length};
    int64_t *values = (int64_t *)(void *)block->values.data;
    for (size_t row = 0; row < block->count; row++) {
        if (pyr_pack_read_signed(&reader, &values[row]) != PYR_OK) {
            return PYR_EBAD;
        }
    }
    return PYR_OK;
}

static pyr_status read_values(pyr_block *block, size_t type)
{
    const uint64_t *sets = (const uint64_t *)(const void *)block->sets.data;
    int64_t *values = (int64_t *)(void *)block->values.data;
    for (size_t row = 0; row < block->count; row++) {
        values[row] = 0;
        if ((sets[row] >> type & 1) != 0 &&
            pyr_column_next(&block->numbers, &values[row]) != PYR_OK) {
            return PYR_EBAD;
        }
    }
    return PYR_OK;
}

static pyr_status read_evidence(pyr_block *block)
{
    const int64_t *values = (const int64_t *)(const void *)block->values.data;
    double *squares = (double *)(void *)block->squares.data;
    bool has_codes = block->scratch.length > 0;
    bool of_all = block->format == FORMAT_ALL_ROWS;
    size_t at = 0;
    for (size_t row = 0; row < block->count; row++) {
        uint8_t code = 0;
        if (has_codes && (of_all || values[row] != 0)) {
            if (at == block->scratch.length) {
                return PYR_EBAD;
            }
            code = block->scratch.data[at++];
        }
        double value = (double)values[row];
        squares[row] = code == EVIDENCE_UNKNOWN ? -1
                       : code == 0              ? value * value
                                   : value * value / exp2((double)code / EVIDENCE_STEPS);
    }
    return PYR_OK;
}

/* Finds the values of a type: varints in `scratch` with format 1, else `numbers`. */
static pyr_status find_values(pyr_block *block, pyr_packer *packer, size_t type,
                              pyr_wire_reader *reader)
{
    size_t length = 0;
    bool of_all = block->format == FORMAT_ALL_ROWS;
    size_t sections = of_all ? 2 : 3;
    *reader = block->columns;
    if (type >= PYR_SUMS_TYPES) {
        return PYR_EBAD;
    }
    for (size_t at = 0; at < sections * type; at++) {
        if (pyr_pack_skip(reader, &length) != PYR_OK) {
            return PYR_EBAD;
        }
    }
    pyr_status status = of_all ? pyr_pack_read(packer, reader, &block->scratch)
                               : pyr_column_read(&block->numbers, packer, reader);
    if (status != PYR_OK) {
        return status == PYR_ENOMEM ? status : PYR_EBAD;
    }
    bool is_empty = (of_all ? block->scratch.length : block->numbers.lengths.length) == 0;
    return is_empty ? PYR_ENOENT : PYR_OK;
}

pyr_status pyr_block_total(pyr_block *block, pyr_packer *packer, size_t type, int64_t *total)
{
    pyr_wire_reader reader;
    bool of_all = block->format == FORMAT_ALL_ROWS;
    pyr_status status = find_values(block, packer, type, &reader);
    pyr_wire_reader inner = {0};
    *total = 0;
    if (of_all && status == PYR_OK) {
        inner = (pyr_wire_reader){block->scratch.data, block->scratch.data + block->scratch.length};
    }
    while (status == PYR_OK &&
           (of_all ? inner.at < inner.end : block->numbers.at < block->numbers.lengths.length)) {
        int64_t value = 0;
        status = of_all ? pyr_pack_read_signed(&inner, &value)
                        : pyr_column_next(&block->numbers, &value);
        if (__builtin_add_overflow(*total, value, total)) {
            *total = value > 0 ? INT64_MAX : INT64_MIN;
        }
    }
    return status == PYR_OK || status == PYR_ENOENT || status == PYR_ENOMEM ? status : PYR_EBAD;
}

pyr_status pyr_block_values(pyr_block *block, pyr_packer *packer, size_t type)
{
    pyr_wire_reader reader;
    pyr_status status = find_values(block, packer, type, &reader);
    if (status != PYR_OK) {
        return status;
    }
    pyr_buffer_clear(&block->values);
    pyr_buffer_clear(&block->squares);
    if (pyr_buffer_reserve(&block->values, block->count * sizeof(int64_t)) != PYR_OK ||
        pyr_buffer_reserve(&block->squares, block->count * sizeof(double)) != PYR_OK) {
        return PYR_ENOMEM;
    }
    status = block->format == FORMAT_ALL_ROWS ? read_all_rows(block) : read_values(block, type);
    if (status == PYR_OK) {
        status = pyr_pack_read(packer, &reader, &block->scratch);
    }
    return status == PYR_OK ? read_evidence(block) : status == PYR_ENOMEM ? status : PYR_EBAD;
}
