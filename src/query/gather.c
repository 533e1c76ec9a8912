/* Adding up; see the header.
 *
 * Works in the numbers of one book at a time: a row for each stack (and list of labels) that
 * passes, found by an array or a map. When the scan comes to the next book, and at the end, the
 * rows are emptied into the profile, whose strings, functions and frames are interned over all
 * books; samples of two books with one stack (and labels) become one, found by a hash with a secret
 * seed. So memory follows what is different, however long the range, and that is bounded.
 */
#include "query/gather.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "pprof/builder.h"
#include "pprof/intern.h"

enum {
    TYPES = 64,
    ROWS = 1 << 21,
    ROW_BYTES = 32 << 20,
    SAMPLES = 1 << 20,       /* of an answer */
    ANSWER_BYTES = 64 << 20, /* of all its samples */
    TEXT_BYTES = 1 << 28,
};

typedef struct gathering {
    pyr_view *view;
    const pyr_question *question;
    bool keeps_labels;
    pyr_gathered *out;
    pyr_sieve *sieve;
    const int64_t *series;
    const uint32_t *open;
    size_t series_count;
    pyr_map *series_place; /* series -> place in the two above */
    /* rows of the book at hand */
    const pyr_book *book;
    int64_t book_id;
    pyr_map *rows;    /* with labels */
    uint32_t *row_of; /* without: stack -> row + 1 */
    size_t stack_count;
    pyr_buffer keys;     /* uint64_t: stack and list */
    pyr_buffer values;   /* int64_t, type_count a row */
    pyr_buffer squares;  /* double, type_count a row */
    pyr_buffer row_here; /* uint32_t: row of each row of the block, UINT32_MAX = none */
    size_t row_count;
    /* the profile */
    pyr_profile_builder builder;
    pyr_intern *strings, *functions, *frames;
    pyr_map *sample_of; /* hash of a stack and labels -> sample */
    uint64_t seed;
    pyr_buffer all_squares;
    size_t type_count, samples;
    char types[TYPES][PYR_QUESTION_NAME_BYTES];
    char units[TYPES][PYR_QUESTION_NAME_BYTES];
    /* numbers of the book -> numbers of the profile, plus 1 */
    uint32_t *string_of, *frame_of;
} gathering;

/* ---------------------------------------------------------------------------- the profile ---- */

static pyr_status add_string(gathering *g, const char *text, size_t length, uint32_t *number)
{
    uint64_t index = 0;
    size_t before = pyr_intern_count(g->strings);
    pyr_status status = pyr_intern_add(g->strings, text, length, &index);
    if (status == PYR_OK && index == before) {
        pyr_profile_builder_string(&g->builder, text, length);
    }
    *number = (uint32_t)index;
    return status;
}

static pyr_status find_string(gathering *g, uint32_t string, uint32_t *number)
{
    pyr_status status = PYR_OK;
    if (g->string_of[string] == 0) {
        size_t length = 0;
        const char *text = pyr_book_text(g->book, string, &length);
        status = add_string(g, text, length, number);
        g->string_of[string] = *number + 1;
    }
    *number = g->string_of[string] - 1;
    return status;
}

static pyr_status find_frame(gathering *g, uint32_t frame, uint32_t *number)
{
    if (g->frame_of[frame] != 0) {
        *number = g->frame_of[frame] - 1;
        return PYR_OK;
    }
    pyr_book_frame of = pyr_book_frame_at(g->book, frame);
    pyr_book_function from = pyr_book_function_at(g->book, of.function);
    pyr_profile_function function = {.start_line = from.start_line};
    pyr_profile_frame made;
    uint64_t index = 0;
    memset(&made, 0, sizeof made); /* interned as bytes: padding too */
    memset(&function, 0, sizeof function);
    function.start_line = from.start_line;
    made.line = of.line;
    pyr_status status = find_string(g, from.name, &function.name);
    if (status == PYR_OK) {
        status = find_string(g, from.file, &function.file);
    }
    size_t before = pyr_intern_count(g->functions);
    if (status == PYR_OK) {
        status = pyr_intern_add(g->functions, &function, sizeof function, &index);
        made.function = (uint32_t)index;
    }
    if (status == PYR_OK && index == before) {
        status = pyr_buffer_append(&g->builder.functions, &function, sizeof function);
    }
    before = pyr_intern_count(g->frames);
    if (status == PYR_OK) {
        status = pyr_intern_add(g->frames, &made, sizeof made, &index);
    }
    if (status == PYR_OK && index == before) {
        status = pyr_buffer_append(&g->builder.frames, &made, sizeof made);
    }
    *number = (uint32_t)index;
    g->frame_of[frame] = *number + 1;
    return status;
}

static pyr_status add_labels(gathering *g, uint32_t list)
{
    pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(g->book, list, pairs);
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        pyr_profile_label label;
        memset(&label, 0, sizeof label); /* hashed as bytes: padding too */
        status = find_string(g, pairs[at].key, &label.key);
        if (status == PYR_OK) {
            status = find_string(g, pairs[at].value, &label.text);
        }
        if (status == PYR_OK && label.text != 0) {
            status = pyr_buffer_append(&g->builder.labels, &label, sizeof label);
        }
    }
    return status;
}

static void add_value(int64_t *sum, double *variance, int64_t value, double square)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = value > 0 ? INT64_MAX : INT64_MIN;
    }
    *variance = *variance < 0 || square < 0 ? -1 : *variance + square;
}

/* The sample that has the frames and labels that were appended since `start`, which go again then.
 */
static bool find_sample(gathering *g, const pyr_profile_sample *start, uint64_t *sample,
                        uint64_t *hash)
{
    pyr_buffer *frames = &g->builder.stack_frames;
    pyr_buffer *labels = &g->builder.labels;
    size_t frame_bytes = start->frame_start * sizeof(uint32_t);
    size_t label_bytes = start->label_start * sizeof(pyr_profile_label);
    *hash = pyr_hash_bytes(frames->data + frame_bytes, frames->length - frame_bytes, g->seed);
    *hash = pyr_hash_bytes(labels->data + label_bytes, labels->length - label_bytes, *hash);
    if (!pyr_map_get(g->sample_of, *hash, sample)) {
        return false;
    }
    frames->length = frame_bytes;
    labels->length = label_bytes;
    return true;
}

static pyr_status add_sample(gathering *g, size_t row)
{
    uint64_t key = 0;
    memcpy(&key, g->keys.data + row * sizeof key, sizeof key);
    pyr_profile_sample start = pyr_profile_builder_mark(&g->builder);
    pyr_status status = PYR_OK;
    uint32_t stack = (uint32_t)(key >> 32);
    while (stack != 0 && status == PYR_OK) {
        pyr_book_node node = pyr_book_node_at(g->book, stack);
        uint32_t frame = 0;
        status = find_frame(g, node.frame, &frame);
        if (status == PYR_OK) {
            status = pyr_buffer_append(&g->builder.stack_frames, &frame, sizeof frame);
        }
        stack = node.parent;
    }
    if (status == PYR_OK) {
        status = add_labels(g, (uint32_t)key);
    }
    if (status != PYR_OK) {
        return status;
    }
    size_t first = row * g->type_count;
    const int64_t *values = (const int64_t *)(const void *)g->values.data + first;
    const double *squares = (const double *)(const void *)g->squares.data + first;
    uint64_t sample = g->samples;
    uint64_t hash = 0;
    if (find_sample(g, &start, &sample, &hash)) {
        int64_t *sums = (int64_t *)(void *)g->builder.values.data + sample * g->type_count;
        double *variances = (double *)(void *)g->all_squares.data + sample * g->type_count;
        for (size_t type = 0; type < g->type_count; type++) {
            add_value(&sums[type], &variances[type], values[type], squares[type]);
        }
        return PYR_OK;
    }
    status = pyr_buffer_append(&g->builder.values, values, g->type_count * sizeof *values);
    if (status == PYR_OK) {
        status = pyr_buffer_append(&g->all_squares, squares, g->type_count * sizeof *squares);
    }
    if (status == PYR_OK) {
        status = pyr_map_put(g->sample_of, hash, sample);
    }
    pyr_profile_builder_sample(&g->builder, start);
    g->samples++;
    return status;
}

static bool is_full(const gathering *g)
{
    const pyr_profile_builder *made = &g->builder;
    size_t bytes = made->stack_frames.length + made->labels.length + made->samples.length +
                   made->values.length + g->all_squares.length;
    return g->samples >= SAMPLES || bytes >= ANSWER_BYTES;
}

static pyr_status empty_rows(gathering *g)
{
    pyr_status status = PYR_OK;
    for (size_t row = 0; row < g->row_count && status == PYR_OK; row++) {
        if (is_full(g)) {
            g->out->has_more = true;
            break;
        }
        status = add_sample(g, row);
    }
    pyr_buffer_clear(&g->keys);
    pyr_buffer_clear(&g->values);
    pyr_buffer_clear(&g->squares);
    pyr_map_clear(g->rows);
    g->row_count = 0;
    return status;
}

/* ---------------------------------------------------------------------------------- rows ---- */

static pyr_status change_book(gathering *g, const pyr_view_row *row)
{
    pyr_book_counts counts = pyr_book_count(row->book);
    pyr_status status = empty_rows(g);
    pyr_memory_free(g->row_of);
    pyr_memory_free(g->string_of);
    pyr_memory_free(g->frame_of);
    g->row_of = pyr_memory_new(counts.nodes + 1, sizeof *g->row_of);
    g->string_of = pyr_memory_new(counts.strings + 1, sizeof *g->string_of);
    g->frame_of = pyr_memory_new(counts.frames + 1, sizeof *g->frame_of);
    g->book = row->book;
    g->book_id = row->book_id;
    return status == PYR_OK && (g->row_of == NULL || g->string_of == NULL || g->frame_of == NULL)
               ? PYR_ENOMEM
               : status;
}

static pyr_status new_row(gathering *g, uint64_t key, uint32_t *row)
{
    if (g->row_count >= ROWS || g->values.length + g->squares.length >= ROW_BYTES) {
        g->out->has_more = true;
        return PYR_ETOOBIG;
    }
    size_t values = g->type_count * sizeof(int64_t);
    size_t squares = g->type_count * sizeof(double);
    if (pyr_buffer_append(&g->keys, &key, sizeof key) != PYR_OK ||
        pyr_buffer_reserve(&g->values, values) != PYR_OK ||
        pyr_buffer_reserve(&g->squares, squares) != PYR_OK) {
        return PYR_ENOMEM;
    }
    memset(g->values.data + g->values.length, 0, values);
    memset(g->squares.data + g->squares.length, 0, squares);
    g->values.length += values;
    g->squares.length += squares;
    *row = (uint32_t)g->row_count++;
    return PYR_OK;
}

static pyr_status find_row(gathering *g, uint32_t stack, uint32_t list, uint32_t *row)
{
    uint64_t key = (uint64_t)stack << 32 | (g->keeps_labels ? list : 0);
    uint64_t known = 0;
    if (!g->keeps_labels) {
        if (g->row_of[stack] != 0) {
            *row = g->row_of[stack] - 1;
            return PYR_OK;
        }
    } else if (pyr_map_get(g->rows, key, &known)) {
        *row = (uint32_t)known;
        return PYR_OK;
    }
    pyr_status status = new_row(g, key, row);
    if (status == PYR_OK && g->keeps_labels) {
        status = pyr_map_put(g->rows, key, *row);
    } else if (status == PYR_OK) {
        g->row_of[stack] = *row + 1;
    }
    return status;
}

/* The place of a type of the block in the answer; a new one where all types are wanted. */
static pyr_status find_type(gathering *g, const pyr_book *book, pyr_book_pair type, size_t *place)
{
    char name[PYR_QUESTION_NAME_BYTES];
    char unit[PYR_QUESTION_NAME_BYTES];
    size_t length = 0;
    const char *text = pyr_book_text(book, type.key, &length);
    (void)snprintf(name, sizeof name, "%.*s", (int)length, text);
    text = pyr_book_text(book, type.value, &length);
    (void)snprintf(unit, sizeof unit, "%.*s", (int)length, text);
    for (*place = 0; *place < g->type_count; (*place)++) {
        if (strcmp(g->types[*place], name) == 0 &&
            (strcmp(g->units[*place], unit) == 0 || g->units[*place][0] == '\0')) {
            memcpy(g->units[*place], unit, sizeof unit);
            return PYR_OK;
        }
    }
    return PYR_ENOENT;
}

static pyr_status add_type(gathering *g, const pyr_view_row *row, size_t type, size_t place,
                           bool *any)
{
    pyr_status status = pyr_block_values(row->block, row->packer, type);
    const int64_t *values = (const int64_t *)(const void *)row->block->values.data;
    const double *squares = (const double *)(const void *)row->block->squares.data;
    const uint32_t *rows = (const uint32_t *)(const void *)g->row_here.data;
    *any = true;
    if (status != PYR_OK) {
        return status == PYR_ENOENT ? PYR_OK : status;
    }
    int64_t *sums = (int64_t *)(void *)g->values.data;
    double *variances = (double *)(void *)g->squares.data;
    for (size_t at = 0; at < row->block->count; at++) {
        if (rows[at] == UINT32_MAX) {
            continue;
        }
        size_t to = rows[at] * g->type_count + place;
        add_value(&sums[to], &variances[to], values[at], squares[at]);
    }
    return PYR_OK;
}

/* Which rows of the block pass, and where they are added. */
static pyr_status place_rows(gathering *g, const pyr_view_row *row)
{
    const uint32_t *stacks = (const uint32_t *)(const void *)row->block->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)row->block->lists.data;
    pyr_buffer_clear(&g->row_here);
    if (pyr_buffer_reserve(&g->row_here, row->block->count * sizeof(uint32_t)) != PYR_OK) {
        return PYR_ENOMEM;
    }
    uint32_t *rows = (uint32_t *)(void *)g->row_here.data;
    for (size_t at = 0; at < row->block->count; at++) {
        rows[at] = UINT32_MAX;
        if (pyr_sieve_passes(g->sieve, stacks[at], lists[at])) {
            pyr_status status = find_row(g, stacks[at], lists[at], &rows[at]);
            if (status != PYR_OK && status != PYR_ETOOBIG) {
                return status;
            }
        }
    }
    return PYR_OK;
}

static void count(gathering *g, const pyr_view_row *row)
{
    pyr_gathered *out = g->out;
    out->profiles++;
    out->samples += row->samples;
    out->seconds += (double)(row->end_ns - row->start_ns) / 1e9;
    out->first_ns =
        out->first_ns == 0 || row->start_ns < out->first_ns ? row->start_ns : out->first_ns;
}

static pyr_status visit(void *context, const pyr_view_row *row)
{
    gathering *g = context;
    uint64_t place = 0;
    pyr_book_pair types[PYR_BOOK_LIST_PAIRS];
    size_t type_count = pyr_book_list_at(row->book, row->block->types, types);
    pyr_status status = PYR_OK;
    bool any = false;
    if (g->book != row->book || g->book_id != row->book_id) {
        status = change_book(g, row);
    }
    if (status == PYR_OK && pyr_map_get(g->series_place, (uint64_t)row->series, &place)) {
        status = pyr_sieve_start(g->sieve, row, g->open[place]);
    }
    if (status == PYR_OK) {
        status = place_rows(g, row);
    }
    for (size_t type = 0; type < type_count && status == PYR_OK; type++) {
        size_t to = 0;
        if (find_type(g, row->book, types[type], &to) == PYR_OK) {
            status = add_type(g, row, type, to, &any);
        }
    }
    if (status == PYR_OK) {
        count(g, row);
    }
    return status;
}

/* All types that the profiles have: their names come before the values. */
static pyr_status visit_types(void *context, const pyr_book *book, uint32_t list)
{
    gathering *g = context;
    pyr_book_pair types[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(book, list, types);
    for (size_t type = 0; type < count; type++) {
        size_t to = 0;
        if (find_type(g, book, types[type], &to) == PYR_OK || g->type_count == TYPES) {
            continue;
        }
        size_t length = 0;
        const char *text = pyr_book_text(book, types[type].key, &length);
        (void)snprintf(g->types[g->type_count], sizeof g->types[0], "%.*s", (int)length, text);
        text = pyr_book_text(book, types[type].value, &length);
        (void)snprintf(g->units[g->type_count], sizeof g->units[0], "%.*s", (int)length, text);
        g->type_count++;
    }
    return PYR_OK;
}

/* -------------------------------------------------------------------------------- in all ---- */

static pyr_status start(gathering *g)
{
    uint32_t number = 0;
    pyr_buffer_init(&g->keys, SIZE_MAX / 2);
    pyr_buffer_init(&g->values, SIZE_MAX / 2);
    pyr_buffer_init(&g->squares, SIZE_MAX / 2);
    pyr_buffer_init(&g->row_here, SIZE_MAX / 2);
    pyr_buffer_init(&g->all_squares, SIZE_MAX / 2);
    pyr_profile_builder_init(&g->builder);
    g->rows = pyr_map_new(ROWS);
    g->series_place = pyr_map_new(g->series_count + 1);
    g->strings = pyr_intern_new(1 << 22, TEXT_BYTES);
    g->functions = pyr_intern_new(1 << 22, TEXT_BYTES);
    g->frames = pyr_intern_new(1 << 22, TEXT_BYTES);
    g->sample_of = pyr_map_new(SAMPLES + 1);
    g->seed = pyr_hash_seed();
    g->sieve = pyr_sieve_new(g->question);
    if (g->rows == NULL || g->series_place == NULL || g->strings == NULL || g->functions == NULL ||
        g->frames == NULL || g->sample_of == NULL || g->sieve == NULL) {
        return PYR_ENOMEM;
    }
    pyr_status status = add_string(g, "", 0, &number);
    if (status == PYR_OK) { /* so that their bytes have an address */
        status = pyr_buffer_reserve(&g->builder.stack_frames, 1);
    }
    if (status == PYR_OK) {
        status = pyr_buffer_reserve(&g->builder.labels, 1);
    }
    for (size_t at = 0; at < g->series_count && status == PYR_OK; at++) {
        status = pyr_map_put(g->series_place, (uint64_t)g->series[at], at);
    }
    return status;
}

static pyr_status finish(gathering *g)
{
    pyr_status status = empty_rows(g);
    for (size_t type = 0; type < g->type_count && status == PYR_OK; type++) {
        pyr_profile_type made = {0};
        status = add_string(g, g->types[type], strlen(g->types[type]), &made.type);
        if (status == PYR_OK) {
            status = add_string(g, g->units[type], strlen(g->units[type]), &made.unit);
        }
        if (status == PYR_OK) {
            status = pyr_buffer_append(&g->builder.types, &made, sizeof made);
        }
        if (type == 0) {
            g->builder.head.default_type = made.type;
        }
    }
    if (status == PYR_OK) {
        g->builder.head.time_ns = g->out->first_ns;
        g->builder.head.duration_ns = (int64_t)(g->out->seconds * 1e9);
        status = pyr_profile_builder_finish(&g->builder, &g->out->profile);
    }
    size_t length = 0;
    g->out->squares = (double *)(void *)pyr_buffer_take(&g->all_squares, &length);
    return status;
}

static void end(gathering *g)
{
    pyr_buffer_fini(&g->keys);
    pyr_buffer_fini(&g->values);
    pyr_buffer_fini(&g->squares);
    pyr_buffer_fini(&g->row_here);
    pyr_buffer_fini(&g->all_squares);
    pyr_profile_builder_fini(&g->builder);
    pyr_map_free(g->rows);
    pyr_map_free(g->series_place);
    pyr_intern_free(g->strings);
    pyr_intern_free(g->functions);
    pyr_intern_free(g->frames);
    pyr_map_free(g->sample_of);
    pyr_sieve_free(g->sieve);
    pyr_memory_free(g->row_of);
    pyr_memory_free(g->string_of);
    pyr_memory_free(g->frame_of);
}

static pyr_status scan(gathering *g, pyr_view_visit with)
{
    pyr_status status =
        pyr_view_scan(g->view, g->series, g->series_count, g->question->from_ns,
                      g->question->until_ns, PYR_LEVEL_DAY, with, g, &g->out->damaged);
    return status == PYR_OK ? pyr_question_verdict(g->question) : status;
}

static pyr_status gather_series(gathering *g)
{
    pyr_status status = start(g);
    if (status == PYR_OK && g->question->type[0] == '\0') {
        status = pyr_view_each_types(g->view, g->series, g->series_count, g->question->from_ns,
                                     g->question->until_ns, visit_types, g);
    } else if (status == PYR_OK) {
        (void)snprintf(g->types[0], sizeof g->types[0], "%s", g->question->type);
        g->type_count = 1;
    }
    if (status == PYR_OK && g->type_count > 0) {
        status = scan(g, visit);
    }
    if (status == PYR_OK) {
        status = finish(g);
    }
    bool has_type = g->units[0][0] != '\0' || g->question->type[0] == '\0';
    bool is_empty = g->out->profiles == 0 || (g->question->count > 0 && g->samples == 0);
    end(g);
    return status == PYR_OK && (is_empty || !has_type) ? PYR_ENOENT : status;
}

pyr_status pyr_gather(pyr_view *view, const pyr_question *question, pyr_gather_labels labels,
                      pyr_gathered *gathered)
{
    *gathered = (pyr_gathered){0};
    pyr_buffer ids;
    pyr_buffer open;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    gathering *g = pyr_memory_new(1, sizeof *g);
    pyr_status status = g != NULL ? pyr_question_series(view, question, &ids, &open) : PYR_ENOMEM;
    if (status == PYR_OK) {
        g->view = view;
        g->question = question;
        g->keeps_labels = labels == PYR_GATHER_LABELS;
        g->out = gathered;
        g->series = (const int64_t *)(const void *)ids.data;
        g->open = (const uint32_t *)(const void *)open.data;
        g->series_count = ids.length / sizeof(int64_t);
        gathered->series = g->series_count;
        status = gather_series(g);
    }
    pyr_memory_free(g);
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    return status;
}

void pyr_gathered_fini(pyr_gathered *gathered)
{
    pyr_profile_free(gathered->profile);
    pyr_memory_free(gathered->squares);
    *gathered = (pyr_gathered){0};
}
