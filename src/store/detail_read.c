/* Single samples back out of their columns; see detail.h. What the bytes say is hostile: every
 * number is checked, and arithmetic wraps instead of overflowing. Owns its sections while it reads.
 */
#include "store/detail.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "store/detail_format.h"

void pyr_detail_init(pyr_detail *detail)
{
    *detail = (pyr_detail){0};
    pyr_buffer_init(&detail->rows, PYR_DETAIL_SAMPLES * sizeof(uint32_t));
    pyr_buffer_init(&detail->moments, PYR_DETAIL_SAMPLES * sizeof(int64_t));
    pyr_buffer_init(&detail->extras, PYR_DETAIL_SAMPLES * sizeof(uint32_t));
    pyr_buffer_init(&detail->values, SIZE_MAX / 2);
    pyr_buffer_init(&detail->numbers, SIZE_MAX / 2);
    pyr_buffer_init(&detail->ends, PYR_DETAIL_SAMPLES * sizeof(uint32_t));
}

void pyr_detail_fini(pyr_detail *detail)
{
    pyr_buffer_fini(&detail->rows);
    pyr_buffer_fini(&detail->moments);
    pyr_buffer_fini(&detail->extras);
    pyr_buffer_fini(&detail->values);
    pyr_buffer_fini(&detail->numbers);
    pyr_buffer_fini(&detail->ends);
}

typedef struct reading {
    pyr_detail *detail;
    pyr_block *block;
    pyr_packer *packer;
    pyr_wire_reader outer, inner;
    pyr_buffer section;
    pyr_buffer firsts; /* uint8_t a sample: it is the first of its lane */
    pyr_buffer masks;  /* uint64_t a sample: the types that it has a value of */
    uint64_t format;
    uint64_t ways[PYR_SUMS_TYPES];
    uint64_t *expected;        /* a row: set of types, see read_masks */
    pyr_detail_guess *guesses; /* a row */
    uint32_t *last;            /* of each row: the place after its last sample that has the type */
    pyr_column column;
} reading;

static bool is_old(const reading *r)
{
    return r->format != PYR_DETAIL_FORMAT;
}

static bool is_whole(const reading *r)
{
    return r->format == PYR_DETAIL_FORMAT_WHOLE;
}

static pyr_status next_section(reading *r)
{
    pyr_status status = pyr_pack_read(r->packer, &r->outer, &r->section);
    r->inner = (pyr_wire_reader){r->section.data, r->section.data + r->section.length};
    return status;
}

static pyr_status read_extras(reading *r, size_t strings)
{
    uint64_t count = 0;
    pyr_status status = next_section(r);
    if (status == PYR_OK) {
        status = pyr_pack_read_below(&r->inner, PYR_DETAIL_SAMPLES, &count);
    }
    for (uint64_t extra = 0; extra < count && status == PYR_OK; extra++) {
        uint64_t length = 0;
        status = pyr_pack_read_below(&r->inner, PYR_DETAIL_NUMBERS + 1, &length);
        for (uint64_t at = 0; at < length && status == PYR_OK; at++) {
            pyr_detail_number number = {0};
            uint64_t key = 0;
            uint64_t unit = 0;
            status = pyr_pack_read_below(&r->inner, strings, &key);
            if (status == PYR_OK) {
                status = pyr_pack_read_below(&r->inner, strings, &unit);
            }
            if (status == PYR_OK) {
                status = pyr_pack_read_signed(&r->inner, &number.value);
            }
            number.key = (uint32_t)key;
            number.unit = (uint32_t)unit;
            if (status == PYR_OK) {
                status = pyr_buffer_append(&r->detail->numbers, &number, sizeof number);
            }
        }
        uint32_t end = (uint32_t)(r->detail->numbers.length / sizeof(pyr_detail_number));
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->detail->ends, &end, sizeof end);
        }
    }
    return status;
}

static pyr_status read_moments(reading *r)
{
    pyr_buffer lanes;
    pyr_buffer_init(&lanes, PYR_DETAIL_SAMPLES + 1);
    pyr_wire_reader lane = {0};
    uint64_t grain = 0;
    pyr_status status = pyr_wire_varint(&r->outer, &grain);
    if (status == PYR_OK) {
        status = next_section(r);
    }
    if (status == PYR_OK) {
        status = pyr_buffer_reserve(&lanes, 1); /* so that its bytes have an address */
    }
    if (status == PYR_OK) {
        status = pyr_buffer_append(&lanes, r->section.data, r->section.length);
    }
    if (status == PYR_OK) {
        lane = (pyr_wire_reader){lanes.data, lanes.data + lanes.length};
        status = is_old(r) ? next_section(r) : pyr_column_read(&r->column, r->packer, &r->outer);
    }
    uint64_t left = 0;
    uint64_t ticks = 0;
    for (size_t at = 0; at < r->detail->count && status == PYR_OK; at++) {
        int64_t step = 0;
        uint8_t first = left == 0;
        if (left == 0) {
            status = pyr_pack_read_below(&lane, PYR_DETAIL_SAMPLES, &left);
            ticks = 0;
        }
        if (status == PYR_OK && left == 0) {
            status = PYR_EBAD;
        }
        left--;
        if (status == PYR_OK) {
            status = is_old(r) ? pyr_pack_read_signed(&r->inner, &step)
                               : pyr_column_next(&r->column, &step);
        }
        ticks += (uint64_t)step;
        int64_t moment = (int64_t)(ticks * grain);
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->firsts, &first, sizeof first);
        }
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->detail->moments, &moment, sizeof moment);
        }
    }
    pyr_buffer_fini(&lanes);
    return status;
}

static pyr_status next_row(reading *r, size_t row_count, uint32_t before, uint32_t *row)
{
    int64_t step = 0;
    uint64_t number = 0;
    if (is_whole(r)) {
        pyr_status status = pyr_pack_read_below(&r->inner, row_count, &number);
        *row = (uint32_t)number;
        return status;
    }
    pyr_status status = pyr_pack_read_signed(&r->inner, &step);
    number = (uint64_t)pyr_detail_guess_after(r->guesses, before) + (uint64_t)step;
    if (status == PYR_OK && number >= row_count) {
        status = PYR_EBAD;
    }
    if (status == PYR_OK) {
        *row = (uint32_t)number;
        pyr_detail_guess_learn(r->guesses, before, *row);
    }
    return status;
}

static pyr_status read_rows(reading *r, size_t row_count)
{
    size_t extras = r->detail->ends.length / sizeof(uint32_t);
    pyr_status status = next_section(r);
    uint32_t number = 0;
    for (size_t at = 0; at < r->detail->count && status == PYR_OK; at++) {
        status = next_row(r, row_count, r->firsts.data[at] != 0 ? 0 : number, &number);
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->detail->rows, &number, sizeof number);
        }
    }
    if (status == PYR_OK) {
        status = next_section(r);
    }
    int64_t extra = 0;
    for (size_t at = 0; at < r->detail->count && status == PYR_OK; at++) {
        int64_t step = 0;
        status = pyr_pack_read_signed(&r->inner, &step);
        if (status == PYR_OK && (step < -extra || step >= (int64_t)extras - extra)) {
            status = PYR_EBAD;
        }
        extra += status == PYR_OK ? step : 0;
        number = (uint32_t)extra;
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->detail->extras, &number, sizeof number);
        }
    }
    return status;
}

/* What the sums of a type leave of each row for its last sample, which is found too. */
static pyr_status find_rests(reading *r, size_t type)
{
    const uint64_t *masks = (const uint64_t *)(const void *)r->masks.data;
    const uint32_t *rows = (const uint32_t *)(const void *)r->detail->rows.data;
    memset(r->last, 0, r->block->count * sizeof *r->last);
    for (size_t at = 0; at < r->detail->count; at++) {
        if ((masks[at] >> type & 1) != 0) {
            r->last[rows[at]] = (uint32_t)at + 1;
        }
    }
    pyr_status status = pyr_block_values(r->block, r->packer, type);
    if (status == PYR_ENOENT) { /* all rows are 0 */
        size_t bytes = r->block->count * sizeof(int64_t);
        pyr_buffer_clear(&r->block->values);
        status = pyr_buffer_reserve(&r->block->values, bytes + 1);
        if (status == PYR_OK) {
            memset(r->block->values.data, 0, bytes);
        }
    }
    return status;
}

static pyr_status read_masks(reading *r)
{
    pyr_status status =
        r->block->type_count <= PYR_SUMS_TYPES
            ? pyr_column_read_sets(r->detail->count, r->packer, &r->outer, &r->section, &r->masks)
            : PYR_EBAD;
    if (status != PYR_OK || is_old(r)) {
        return status;
    }
    /* They are differences from what is expected; see write_unexpected. */
    const uint32_t *rows = (const uint32_t *)(const void *)r->detail->rows.data;
    uint64_t *masks = (uint64_t *)(void *)r->masks.data;
    if (r->block->sets.length != r->block->count * sizeof *r->expected) {
        return PYR_EBAD; /* a block of a format that no such detail was written with */
    }
    if (r->block->count > 0) {
        memcpy(r->expected, r->block->sets.data, r->block->sets.length);
    }
    for (size_t at = 0; at < r->detail->count; at++) {
        masks[at] ^= r->expected[rows[at]];
        r->expected[rows[at]] = masks[at];
    }
    return PYR_OK;
}

static pyr_status read_way(reading *r, size_t type)
{
    return pyr_pack_read_below(&r->outer, PYR_DETAIL_WAYS | PYR_DETAIL_REST, &r->ways[type]);
}

static pyr_status read_column(reading *r)
{
    return is_whole(r) ? next_section(r) : pyr_column_read(&r->column, r->packer, &r->outer);
}

static pyr_status read_type(reading *r, size_t type)
{
    const int64_t *moments = (const int64_t *)(const void *)r->detail->moments.data;
    const uint64_t *masks = (const uint64_t *)(const void *)r->masks.data;
    const uint32_t *rows = (const uint32_t *)(const void *)r->detail->rows.data;
    int64_t *rests = NULL;
    int64_t last_same = 0;
    bool has_same = false;
    pyr_status status = is_old(r) ? read_way(r, type) : PYR_OK;
    uint64_t way = r->ways[type];
    if (status == PYR_OK && (way & PYR_DETAIL_REST) != 0) {
        status = is_whole(r) ? PYR_EBAD : find_rests(r, type);
        rests = (int64_t *)(void *)r->block->values.data;
        way &= ~(uint64_t)PYR_DETAIL_REST;
    }
    if (status == PYR_OK && way >= PYR_DETAIL_WAYS) {
        status = PYR_EBAD;
    }
    if (status == PYR_OK && is_old(r)) {
        status = read_column(r);
    }
    for (size_t at = 0; at < r->detail->count && status == PYR_OK; at++) {
        int64_t value = 0;
        bool first = r->firsts.data[at] != 0;
        has_same = has_same && !first;
        if ((masks[at] & UINT64_C(1) << type) != 0) {
            if (rests != NULL && r->last[rows[at]] == at + 1) {
                value = rests[rows[at]];
            } else {
                uint64_t from = way == PYR_DETAIL_FROM_LAST && !first ? (uint64_t)moments[at - 1]
                                : way == PYR_DETAIL_FROM_SAME && has_same ? (uint64_t)last_same
                                                                          : (uint64_t)moments[at];
                status = is_whole(r) ? pyr_pack_read_signed(&r->inner, &value)
                                     : pyr_column_next(&r->column, &value);
                value = (int64_t)((uint64_t)value +
                                  (way == PYR_DETAIL_PLAIN ? 0 : (uint64_t)moments[at] - from));
                if (rests != NULL) {
                    rests[rows[at]] = (int64_t)((uint64_t)rests[rows[at]] - (uint64_t)value);
                }
            }
            last_same = moments[at];
            has_same = true;
        }
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->detail->values, &value, sizeof value);
        }
    }
    return status;
}

static pyr_status read_parts(reading *r, const pyr_book *book)
{
    pyr_status status = read_extras(r, pyr_book_count(book).strings);
    if (status == PYR_OK) {
        status = read_moments(r);
    }
    if (status == PYR_OK) {
        status = read_rows(r, r->block->count);
    }
    if (status == PYR_OK) {
        status = read_masks(r);
    }
    for (size_t type = 0; !is_old(r) && type < r->block->type_count && status == PYR_OK; type++) {
        status = read_way(r, type);
    }
    if (status == PYR_OK && !is_old(r)) {
        status = read_column(r);
    }
    for (size_t type = 0; type < r->block->type_count && status == PYR_OK; type++) {
        status = read_type(r, type);
    }
    return status;
}

pyr_status pyr_detail_read(pyr_detail *detail, const pyr_book *book, pyr_block *block,
                           pyr_packer *packer, const void *bytes, size_t length)
{
    reading r = {
        .detail = detail,
        .block = block,
        .packer = packer,
        .outer = {bytes, (const uint8_t *)bytes + length},
    };
    pyr_buffer_init(&r.section, PYR_PACK_SECTION_BYTES);
    pyr_buffer_init(&r.firsts, PYR_DETAIL_SAMPLES);
    pyr_buffer_init(&r.masks, PYR_DETAIL_SAMPLES * sizeof(uint64_t));
    pyr_column_init(&r.column);
    r.guesses = pyr_memory_new(block->count + 1, sizeof *r.guesses);
    r.last = pyr_memory_new(block->count + 1, sizeof *r.last);
    r.expected = pyr_memory_new(block->count + 1, sizeof *r.expected);
    uint64_t count = 0;
    pyr_status status =
        r.guesses != NULL && r.last != NULL && r.expected != NULL ? PYR_OK : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = pyr_wire_varint(&r.outer, &r.format);
    }
    if (status == PYR_OK) {
        status = pyr_pack_read_below(&r.outer, PYR_DETAIL_SAMPLES, &count);
    }
    if (status == PYR_OK && is_old(&r) && r.format != PYR_DETAIL_FORMAT_APART && !is_whole(&r)) {
        status = PYR_EBAD;
    }
    detail->count = (size_t)count;
    detail->type_count = block->type_count;
    if (status == PYR_OK) {
        status = read_parts(&r, book);
    }
    pyr_buffer_fini(&r.section);
    pyr_buffer_fini(&r.firsts);
    pyr_buffer_fini(&r.masks);
    pyr_column_fini(&r.column);
    pyr_memory_free(r.guesses);
    pyr_memory_free(r.last);
    pyr_memory_free(r.expected);
    return status == PYR_OK || status == PYR_ENOMEM ? status : PYR_EBAD;
}
