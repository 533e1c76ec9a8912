/* Values over time; see the header.
 *
 * Walks the profiles as gather.c does, but adds their rows to the steps that they cover: a window
 * of a minute is no peak every fourth step of fifteen seconds. What a row is split by is looked up
 * once for each list, or leaf, of a book. One thread.
 */
#include "query/trend.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "pprof/intern.h"
#include "query/gather.h"
#include "store/labels.h"

typedef struct drawing {
    pyr_trend *trend;
    const pyr_question *question;
    const char *by;
    bool by_function;
    pyr_intern *names; /* of lines */
    pyr_sieve *sieve;
    const int64_t *series;
    const uint32_t *open;
    size_t series_count;
    uint32_t *line_of_series; /* line + 1; 0: the samples decide */
    pyr_map *series_place;
    const pyr_book *book;
    int64_t book_id;
    uint32_t *line_of; /* list or stack -> line + 1 */
    size_t line_of_count;
    bool has_type;
} drawing;

static pyr_status line_number(drawing *d, const char *name, size_t length, uint32_t *line)
{
    uint64_t index = 0;
    pyr_status status = pyr_intern_add(d->names, name, length, &index);
    if (status == PYR_ETOOBIG) {
        /* Line 0 was made for these when the drawing began. */
        index = 0;
        status = PYR_OK;
    }
    *line = (uint32_t)index;
    return status;
}

static pyr_status name_series(void *context, const pyr_view_series *series)
{
    drawing *d = context;
    uint64_t place = 0;
    if (!pyr_map_get(d->series_place, (uint64_t)series->id, &place)) {
        return PYR_OK;
    }
    const char *at = series->labels;
    const char *name = NULL;
    const char *value = NULL;
    while (pyr_labels_next(&at, series->labels + series->labels_length, &name, &value)) {
        if (strcmp(name, d->by) == 0) {
            uint32_t line = 0;
            pyr_status status = line_number(d, value, strlen(value), &line);
            d->line_of_series[place] = line + 1;
            return status;
        }
    }
    return PYR_OK;
}

static pyr_status line_of_row(drawing *d, uint32_t stack, uint32_t list, uint32_t *line)
{
    uint32_t key = d->by_function ? stack : list;
    if (d->line_of[key] != 0) {
        *line = d->line_of[key] - 1;
        return PYR_OK;
    }
    const char *name = d->by_function ? "<no stack>" : "";
    size_t length = strlen(name);
    if (d->by_function && stack != 0) {
        pyr_book_frame frame = pyr_book_frame_at(d->book, pyr_book_node_at(d->book, stack).frame);
        name = pyr_book_text(d->book, pyr_book_function_at(d->book, frame.function).name, &length);
    } else if (!d->by_function) {
        pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
        size_t count = pyr_book_list_at(d->book, list, pairs);
        for (size_t at = 0; at < count; at++) {
            size_t key_length = 0;
            const char *key_text = pyr_book_text(d->book, pairs[at].key, &key_length);
            if (key_length == strlen(d->by) && memcmp(key_text, d->by, key_length) == 0) {
                name = pyr_book_text(d->book, pairs[at].value, &length);
            }
        }
    }
    pyr_status status = line_number(d, name, length, line);
    d->line_of[key] = *line + 1;
    return status;
}

static pyr_status change_book(drawing *d, const pyr_view_row *row)
{
    pyr_book_counts counts = pyr_book_count(row->book);
    size_t wanted = (d->by_function ? counts.nodes : counts.lists) + 1;
    if (d->book == row->book && d->book_id == row->book_id && d->line_of_count == wanted) {
        return PYR_OK;
    }
    pyr_memory_free(d->line_of);
    d->line_of = pyr_memory_new(wanted, sizeof *d->line_of);
    d->line_of_count = wanted;
    d->book = row->book;
    d->book_id = row->book_id;
    return d->line_of != NULL ? PYR_OK : PYR_ENOMEM;
}

static void add(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = value > 0 ? INT64_MAX : INT64_MIN;
    }
}

/* The steps that a profile covers; those after the last belong to it. */
typedef struct reach {
    size_t first, last;
    int64_t start_ns, length_ns;
} reach;

static reach reach_of(const pyr_trend *trend, const pyr_view_row *row)
{
    reach r = {
        .first = (size_t)((row->start_ns - trend->start_ns) / trend->step_ns),
        .start_ns = row->start_ns,
        .length_ns = row->end_ns - row->start_ns,
    };
    r.last = r.first;
    if (row->level == PYR_LEVEL_PROFILE && r.length_ns > 0) { /* a step holds whole sums */
        r.last = (size_t)((row->end_ns - 1 - trend->start_ns) / trend->step_ns);
    }
    r.last = r.last < trend->steps ? r.last : trend->steps - 1;
    r.first = r.first < r.last ? r.first : r.last;
    return r;
}

/* Gives each step its part of a value, and what division leaves to the last: the sum is exact. */
static void spread(const pyr_trend *trend, pyr_trend_line *line, const reach *over, int64_t value)
{
    int64_t left = value;
    for (size_t step = over->first; step < over->last; step++) {
        int64_t begin = trend->start_ns + (int64_t)step * trend->step_ns;
        int64_t end = begin + trend->step_ns;
        begin = begin > over->start_ns ? begin : over->start_ns;
        int64_t part = (int64_t)((double)value * ((double)(end - begin) / (double)over->length_ns));
        part = (value > 0 ? part > left : part < left) ? left : part;
        add(&line->values[step], part);
        left -= part;
    }
    add(&line->values[over->last], left);
    add(&line->sum, value);
}

static bool find_type(const drawing *d, const pyr_view_row *row, size_t *type)
{
    pyr_book_pair types[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(row->book, row->block->types, types);
    for (*type = 0; *type < count; (*type)++) {
        size_t length = 0;
        const char *name = pyr_book_text(row->book, types[*type].key, &length);
        if (length == strlen(d->question->type) && memcmp(name, d->question->type, length) == 0) {
            const char *unit = pyr_book_text(row->book, types[*type].value, &length);
            (void)snprintf(d->trend->unit, sizeof d->trend->unit, "%.*s", (int)length, unit);
            return true;
        }
    }
    return false;
}

/* Counts a profile; false: nothing of it is asked for. */
static bool begin(drawing *d, const pyr_view_row *row, size_t *type, uint64_t *place)
{
    d->trend->profiles++;
    bool is_asked_for =
        find_type(d, row, type) && pyr_map_get(d->series_place, (uint64_t)row->series, place);
    d->has_type = d->has_type || is_asked_for;
    return is_asked_for;
}

static pyr_status visit(void *context, const pyr_view_row *row)
{
    drawing *d = context;
    pyr_trend *trend = d->trend;
    uint64_t place = 0;
    size_t type = 0;
    if (!begin(d, row, &type, &place)) {
        return PYR_OK;
    }
    pyr_status status = change_book(d, row);
    if (status == PYR_OK) {
        status = pyr_sieve_start(d->sieve, row, d->open[place]);
    }
    if (status == PYR_OK) {
        status = pyr_block_values(row->block, row->packer, type);
    }
    if (status != PYR_OK) {
        return status == PYR_ENOENT ? PYR_OK : status;
    }
    const reach over = reach_of(trend, row);
    const int64_t *values = (const int64_t *)(const void *)row->block->values.data;
    const uint32_t *stacks = (const uint32_t *)(const void *)row->block->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)row->block->lists.data;
    uint32_t fixed = d->by == NULL ? 1 : d->line_of_series[place];
    for (size_t at = 0; at < row->block->count && status == PYR_OK; at++) {
        if (values[at] == 0 || !pyr_sieve_passes(d->sieve, stacks[at], lists[at])) {
            continue;
        }
        uint32_t line = fixed - 1;
        if (fixed == 0) {
            status = line_of_row(d, stacks[at], lists[at], &line);
        }
        if (status == PYR_OK) {
            spread(trend, &trend->lines[line], &over, values[at]);
        }
    }
    return status;
}

/* A sum is one step's only where steps are made of such spans and begin where they do, or where
 * there is one step. */
static pyr_level coarsest(const pyr_trend *trend)
{
    pyr_level level = PYR_LEVEL_DAY;
    while (trend->steps > 1 && (trend->step_ns % pyr_level_ns(level) != 0 ||
                                trend->start_ns % pyr_level_ns(level) != 0)) {
        level--;
    }
    return level;
}

/* Where all rows of a profile pass and belong to one line. */
static pyr_status visit_total(void *context, const pyr_view_row *row)
{
    drawing *d = context;
    pyr_trend *trend = d->trend;
    uint64_t place = 0;
    size_t type = 0;
    int64_t total = 0;
    if (!begin(d, row, &type, &place)) {
        return PYR_OK;
    }
    pyr_status status = pyr_block_total(row->block, row->packer, type, &total);
    if (status == PYR_OK && total != 0) {
        const reach over = reach_of(trend, row);
        spread(trend, &trend->lines[d->by == NULL ? 0 : d->line_of_series[place] - 1], &over,
               total);
    }
    return status == PYR_ENOENT ? PYR_OK : status;
}

static bool needs_rows(const drawing *d)
{
    bool needs = d->by_function;
    for (size_t at = 0; at < d->question->count; at++) {
        needs = needs || d->question->conditions[at].place != PYR_CONDITION_LABEL;
    }
    for (size_t at = 0; at < d->series_count; at++) {
        needs = needs || d->open[at] != 0 || (d->by != NULL && d->line_of_series[at] == 0);
    }
    return needs;
}

static int compare_lines(const void *a, const void *b)
{
    const pyr_trend_line *left = a;
    const pyr_trend_line *right = b;
    return (left->sum < right->sum) - (left->sum > right->sum);
}

static pyr_status start(drawing *d, pyr_view *view)
{
    pyr_trend *trend = d->trend;
    uint32_t line = 0;
    trend->lines = pyr_memory_new(PYR_TREND_LINES, sizeof *trend->lines);
    int64_t *values = pyr_memory_new(PYR_TREND_LINES * trend->steps, sizeof *values);
    trend->storage = values;
    d->names = pyr_intern_new(PYR_TREND_LINES, 1 << 22);
    d->sieve = pyr_sieve_new(d->question);
    d->series_place = pyr_map_new(d->series_count + 1);
    d->line_of_series = pyr_memory_new(d->series_count + 1, sizeof *d->line_of_series);
    if (trend->lines == NULL || values == NULL || d->names == NULL || d->sieve == NULL ||
        d->series_place == NULL || d->line_of_series == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t at = 0; at < PYR_TREND_LINES; at++) {
        trend->lines[at].values = values + at * trend->steps;
    }
    const char *first = d->by == NULL ? "" : "(other)";
    pyr_status status = line_number(d, first, strlen(first), &line);
    for (size_t at = 0; at < d->series_count && status == PYR_OK; at++) {
        status = pyr_map_put(d->series_place, (uint64_t)d->series[at], at);
    }
    if (status == PYR_OK && d->by != NULL && !d->by_function) {
        status = pyr_view_each_series(view, NULL, d->question->from_ns, d->question->until_ns,
                                      name_series, d);
    }
    return status;
}

/* Gives the lines their names, which move to the trend, and drops those without a value. */
static pyr_status finish(drawing *d)
{
    pyr_trend *trend = d->trend;
    size_t count = pyr_intern_count(d->names);
    size_t bytes = 0;
    size_t length = 0;
    for (size_t at = 0; at < count; at++) {
        (void)pyr_intern_get(d->names, at, &length);
        bytes += length;
    }
    size_t values = PYR_TREND_LINES * trend->steps * sizeof(int64_t);
    int64_t *moved = pyr_memory_resize(trend->storage, values + bytes + 1, 1);
    if (moved == NULL) {
        return PYR_ENOMEM;
    }
    trend->storage = moved;
    char *text = (char *)moved + values;
    for (size_t at = 0; at < count; at++) {
        pyr_trend_line *line = &trend->lines[at];
        const void *name = pyr_intern_get(d->names, at, &line->name_length);
        memcpy(text, name, line->name_length);
        line->name = text;
        line->values = moved + at * trend->steps;
        text += line->name_length;
    }
    qsort(trend->lines, count, sizeof *trend->lines, compare_lines);
    while (count > 1 && trend->lines[count - 1].sum == 0) {
        count--;
    }
    trend->count = count;
    return PYR_OK;
}

pyr_status pyr_trend_init(pyr_trend *trend, pyr_view *view, const pyr_question *question,
                          int64_t step_ns, const char *by)
{
    *trend = (pyr_trend){.start_ns = question->from_ns, .step_ns = step_ns};
    int64_t range = question->until_ns - question->from_ns;
    if (step_ns <= 0 || range <= 0 || range / step_ns >= PYR_TREND_STEPS) {
        return PYR_EINVAL;
    }
    trend->steps = (size_t)((range + step_ns - 1) / step_ns);
    pyr_buffer ids;
    pyr_buffer open;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    drawing d = {
        .trend = trend,
        .question = question,
        .by = by,
        .by_function = by != NULL && strcmp(by, "function") == 0,
    };
    pyr_status status = pyr_question_series(view, question, &ids, &open);
    d.series = (const int64_t *)(const void *)ids.data;
    d.open = (const uint32_t *)(const void *)open.data;
    d.series_count = ids.length / sizeof(int64_t);
    if (status == PYR_OK) {
        status = start(&d, view);
    }
    if (status == PYR_OK) {
        bool by_row = needs_rows(&d);
        status = (by_row ? pyr_view_scan : pyr_view_scan_totals)(
            view, d.series, d.series_count, question->from_ns, question->until_ns, coarsest(trend),
            by_row ? visit : visit_total, &d, &trend->damaged);
        status = status == PYR_OK ? pyr_question_verdict(question) : status;
    }
    if (status == PYR_OK) {
        status = finish(&d);
    }
    pyr_intern_free(d.names);
    pyr_sieve_free(d.sieve);
    pyr_map_free(d.series_place);
    pyr_memory_free(d.line_of_series);
    pyr_memory_free(d.line_of);
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    return status == PYR_OK && !d.has_type ? PYR_ENOENT : status;
}

void pyr_trend_fini(pyr_trend *trend)
{
    pyr_memory_free(trend->lines);
    pyr_memory_free(trend->storage);
    trend->lines = NULL;
    trend->storage = NULL;
}
