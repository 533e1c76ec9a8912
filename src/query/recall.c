/* Single samples back out of the store; see the header.
 *
 * The tables of the book are taken over whole, so that numbers stay what they are: a profile is
 * made for one answer, and the book's tables are as large as a day's symbols. Owns what it builds
 * until it is done.
 */
#include "query/recall.h"

#include <string.h>

#include "base/memory.h"
#include "pprof/builder.h"

typedef struct recalling {
    pyr_view *view;
    pyr_profile **profile;
    const pyr_view_row *row;
    const pyr_book *book;
    pyr_profile_builder builder;
    pyr_buffer values; /* of the sums: int64_t, type after type */
    pyr_detail detail;
    bool has_detail;
    uint32_t moment_key; /* string: end_timestamp_ns */
} recalling;

static pyr_status take_tables(recalling *r)
{
    static const char MOMENT[] = "end_timestamp_ns";
    pyr_book_counts counts = pyr_book_count(r->book);
    for (uint32_t at = 0; at < counts.strings; at++) {
        size_t length = 0;
        const char *text = pyr_book_text(r->book, at, &length);
        pyr_profile_builder_string(&r->builder, text, length);
    }
    pyr_profile_builder_string(&r->builder, MOMENT, sizeof MOMENT - 1);
    r->moment_key = (uint32_t)counts.strings;
    for (uint32_t at = 0; at < counts.functions; at++) {
        pyr_book_function from = pyr_book_function_at(r->book, at);
        const pyr_profile_function function = {from.name, 0, from.file, from.start_line};
        (void)pyr_buffer_append(&r->builder.functions, &function, sizeof function);
    }
    for (uint32_t at = 0; at < counts.frames; at++) {
        pyr_book_frame from = pyr_book_frame_at(r->book, at);
        const pyr_profile_frame frame = {from.function, from.line, 0};
        (void)pyr_buffer_append(&r->builder.frames, &frame, sizeof frame);
    }
    pyr_book_pair types[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(r->book, r->row->block->types, types);
    for (size_t at = 0; at < count; at++) {
        const pyr_profile_type type = {types[at].key, types[at].value};
        (void)pyr_buffer_append(&r->builder.types, &type, sizeof type);
    }
    return pyr_profile_builder_status(&r->builder);
}

static void add_stack_and_texts(recalling *r, size_t row)
{
    const uint32_t *stacks = (const uint32_t *)(const void *)r->row->block->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)r->row->block->lists.data;
    for (uint32_t stack = stacks[row]; stack != 0;) {
        pyr_book_node node = pyr_book_node_at(r->book, stack);
        (void)pyr_buffer_append(&r->builder.stack_frames, &node.frame, sizeof node.frame);
        stack = node.parent;
    }
    pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(r->book, lists[row], pairs);
    for (size_t at = 0; at < count; at++) {
        const pyr_profile_label label = {.key = pairs[at].key, .text = pairs[at].value};
        (void)pyr_buffer_append(&r->builder.labels, &label, sizeof label);
    }
}

static void add_numbers(recalling *r, size_t sample)
{
    const uint32_t *ends = (const uint32_t *)(const void *)r->detail.ends.data;
    const int64_t *moments = (const int64_t *)(const void *)r->detail.moments.data;
    uint32_t extra = ((const uint32_t *)(const void *)r->detail.extras.data)[sample];
    const pyr_detail_number *numbers =
        (const pyr_detail_number *)(const void *)r->detail.numbers.data;
    for (uint32_t at = extra > 0 ? ends[extra - 1] : 0; at < ends[extra]; at++) {
        const pyr_profile_label label = {
            .key = numbers[at].key, .number = numbers[at].value, .unit = numbers[at].unit};
        (void)pyr_buffer_append(&r->builder.labels, &label, sizeof label);
    }
    if (moments[sample] != 0) {
        const pyr_profile_label label = {.key = r->moment_key, .number = moments[sample]};
        (void)pyr_buffer_append(&r->builder.labels, &label, sizeof label);
    }
}

static void add_samples(recalling *r)
{
    size_t types = r->row->block->type_count;
    size_t count = r->has_detail ? r->detail.count : r->row->block->count;
    const int64_t *values =
        (const int64_t *)(const void *)(r->has_detail ? r->detail.values.data : r->values.data);
    const uint32_t *rows = (const uint32_t *)(const void *)r->detail.rows.data;
    for (size_t sample = 0; sample < count; sample++) {
        pyr_profile_sample start = pyr_profile_builder_mark(&r->builder);
        add_stack_and_texts(r, r->has_detail ? rows[sample] : sample);
        if (r->has_detail) {
            add_numbers(r, sample);
        }
        for (size_t type = 0; type < types; type++) {
            (void)pyr_buffer_append(&r->builder.values, &values[type * count + sample],
                                    sizeof *values);
        }
        pyr_profile_builder_sample(&r->builder, start);
    }
}

/* The values of all types, where there are no single samples. */
static pyr_status read_sums(recalling *r)
{
    size_t bytes = r->row->block->count * sizeof(int64_t);
    pyr_status status = PYR_OK;
    for (size_t type = 0; type < r->row->block->type_count && status == PYR_OK; type++) {
        status = pyr_block_values(r->row->block, r->row->packer, type);
        if (status == PYR_OK) {
            status = pyr_buffer_append(&r->values, r->row->block->values.data, bytes);
        } else if (status == PYR_ENOENT) {
            status = pyr_buffer_reserve(&r->values, bytes + 1);
            if (status == PYR_OK) {
                memset(r->values.data + r->values.length, 0, bytes);
                r->values.length += bytes;
            }
        }
    }
    return status;
}

static pyr_status visit(void *context, const pyr_view_row *row)
{
    recalling *r = context;
    r->row = row;
    r->book = row->book;
    pyr_status status = pyr_view_detail(r->view, row, &r->detail);
    r->has_detail = status == PYR_OK;
    if (status == PYR_ENOENT) {
        status = read_sums(r);
    }
    if (status == PYR_OK) {
        status = take_tables(r);
    }
    if (status == PYR_OK) {
        add_samples(r);
        r->builder.head.time_ns = row->start_ns;
        r->builder.head.duration_ns = row->end_ns - row->start_ns;
        status = pyr_profile_builder_finish(&r->builder, r->profile);
    }
    pyr_detail_fini(&r->detail);
    return status;
}

pyr_status pyr_recall(pyr_view *view, int64_t number, pyr_profile **profile)
{
    recalling *r = pyr_memory_new(1, sizeof *r);
    *profile = NULL;
    if (r == NULL) {
        return PYR_ENOMEM;
    }
    r->view = view;
    r->profile = profile;
    pyr_buffer_init(&r->values, SIZE_MAX / 2);
    pyr_profile_builder_init(&r->builder);
    pyr_status status = pyr_view_profile(view, number, visit, r);
    pyr_profile_builder_fini(&r->builder);
    pyr_buffer_fini(&r->values);
    pyr_memory_free(r);
    return status;
}
