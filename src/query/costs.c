/* Sums a function, and their comparison; see the header. One thread.
 *
 * A sample is walked once, with a mark for each group that it has counted already: recursion counts
 * once in a total.
 */
#include "query/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pprof/intern.h"

static const double Z_95 = 1.959964;
static const double ALPHA = 0.05;

typedef struct group_key {
    uint32_t name, file;
    int64_t line;
} group_key;

typedef struct summing {
    const pyr_gathered *gathered;
    pyr_cost_table *table;
    pyr_cost_group group;
    pyr_intern *groups, *texts;
    uint32_t *of_frame; /* frame -> group */
    uint32_t *marks;    /* group -> number of the last sample that it was counted for */
} summing;

static void add(int64_t *sum, double *square, int64_t value, double more)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = value > 0 ? INT64_MAX : INT64_MIN;
    }
    *square = *square < 0 || more < 0 ? -1 : *square + more;
}

static pyr_status text_number(summing *s, const char *text, size_t length, uint32_t *number)
{
    uint64_t index = 0;
    pyr_status status = pyr_intern_add(s->texts, text, length, &index);
    *number = (uint32_t)index;
    return status;
}

static pyr_status place_frame(summing *s, size_t frame)
{
    const pyr_profile *profile = s->gathered->profile;
    const pyr_profile_function *function = &profile->functions[profile->frames[frame].function];
    const pyr_profile_text *name = &profile->strings[function->name];
    const pyr_profile_text *file = &profile->strings[function->file];
    pyr_cost cost = {.name = name->data,
                     .name_length = name->length,
                     .file = file->data,
                     .file_length = file->length};
    group_key key;
    uint64_t index = 0;
    memset(&key, 0, sizeof key);
    if (s->group == PYR_COST_PACKAGE) {
        cost.name = pyr_package_of(file->data, file->length, &cost.name_length);
        cost.file = "";
        cost.file_length = 0;
    } else if (s->group == PYR_COST_FILE) {
        cost.name = cost.file;
        cost.name_length = cost.file_length;
    } else if (s->group == PYR_COST_LINE) {
        cost.line = key.line = profile->frames[frame].line;
    }
    pyr_status status = text_number(s, cost.name, cost.name_length, &key.name);
    if (status == PYR_OK) {
        status = text_number(s, cost.file, cost.file_length, &key.file);
    }
    if (status == PYR_OK) {
        status = pyr_intern_add(s->groups, &key, sizeof key, &index);
    }
    if (status == PYR_OK && index == s->table->count) {
        s->table->list[s->table->count++] = cost;
    }
    s->of_frame[frame] = (uint32_t)index;
    return status;
}

static void add_samples(summing *s, size_t type)
{
    const pyr_profile *profile = s->gathered->profile;
    for (size_t index = 0; index < profile->sample_count; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        int64_t value = profile->values[sample->value_start + type];
        double square = s->gathered->squares[sample->value_start + type];
        if (value == 0) {
            continue;
        }
        add(&s->table->whole, &s->table->whole_square, value, square);
        for (uint32_t at = 0; at < sample->frame_count; at++) {
            uint32_t group = s->of_frame[profile->stack_frames[sample->frame_start + at]];
            pyr_cost *cost = &s->table->list[group];
            if (at == 0) {
                add(&cost->self, &cost->self_square, value, square);
            }
            if (s->marks[group] != index + 1) {
                s->marks[group] = (uint32_t)(index + 1);
                add(&cost->total, &cost->total_square, value, square);
            }
        }
    }
}

pyr_status pyr_cost_table_init(pyr_cost_table *table, const pyr_gathered *gathered, size_t type,
                               pyr_cost_group group)
{
    const pyr_profile *profile = gathered->profile;
    *table = (pyr_cost_table){0};
    summing s = {.gathered = gathered, .table = table, .group = group};
    s.groups = pyr_intern_new(profile->frame_count + 1, SIZE_MAX / 2);
    s.texts = pyr_intern_new(SIZE_MAX / 1024, SIZE_MAX / 2);
    s.of_frame = pyr_memory_new(profile->frame_count + 1, sizeof *s.of_frame);
    s.marks = pyr_memory_new(profile->frame_count + 1, sizeof *s.marks);
    table->list = pyr_memory_new(profile->frame_count + 1, sizeof *table->list);
    pyr_status status = s.groups != NULL && s.texts != NULL && s.of_frame != NULL &&
                                s.marks != NULL && table->list != NULL
                            ? PYR_OK
                            : PYR_ENOMEM;
    for (size_t frame = 0; frame < profile->frame_count && status == PYR_OK; frame++) {
        status = place_frame(&s, frame);
    }
    if (status == PYR_OK) {
        add_samples(&s, type);
    }
    pyr_intern_free(s.groups);
    pyr_intern_free(s.texts);
    pyr_memory_free(s.of_frame);
    pyr_memory_free(s.marks);
    return status;
}

void pyr_cost_table_fini(pyr_cost_table *table)
{
    pyr_memory_free(table->list);
    *table = (pyr_cost_table){0};
}

static int by_text(const pyr_cost *a, const pyr_cost *b)
{
    size_t shorter = a->name_length < b->name_length ? a->name_length : b->name_length;
    int order = shorter > 0 ? memcmp(a->name, b->name, shorter) : 0;
    return order != 0 ? order
                      : (a->name_length > b->name_length) - (a->name_length < b->name_length);
}

static int compare_totals(const void *a, const void *b)
{
    const pyr_cost *left = a;
    const pyr_cost *right = b;
    return left->total != right->total ? (left->total < right->total ? 1 : -1)
                                       : by_text(left, right);
}

static int compare_selfs(const void *a, const void *b)
{
    const pyr_cost *left = a;
    const pyr_cost *right = b;
    return left->self != right->self ? (left->self < right->self ? 1 : -1) : by_text(left, right);
}

void pyr_cost_table_sort(pyr_cost_table *table, bool by_self)
{
    if (table->count > 1) {
        qsort(table->list, table->count, sizeof *table->list,
              by_self ? compare_selfs : compare_totals);
    }
}

/* ----------------------------------------------------------------------------- comparing ---- */

static pyr_change measure(int64_t before, double before_square, double before_seconds,
                          int64_t after, double after_square, double after_seconds)
{
    pyr_change change = {
        .before = (double)before / before_seconds,
        .after = (double)after / after_seconds,
        .margin = NAN,
        .doubt = NAN,
    };
    change.change = change.after - change.before;
    if (before_square >= 0 && after_square >= 0) {
        double error = sqrt(before_square / before_seconds / before_seconds +
                            after_square / after_seconds / after_seconds);
        change.margin = Z_95 * error;
        change.doubt = error > 0 ? erfc(fabs(change.change) / error / sqrt(2.0)) : 1;
    }
    return change;
}

static int compare_doubts(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Benjamini and Hochberg: the largest doubt that still counts. */
static double threshold(double *doubts, size_t count)
{
    double limit = -1;
    if (count > 1) {
        qsort(doubts, count, sizeof *doubts, compare_doubts);
    }
    for (size_t at = 0; at < count; at++) {
        if (doubts[at] <= ALPHA * (double)(at + 1) / (double)count) {
            limit = doubts[at];
        }
    }
    return limit;
}

static pyr_status correct(pyr_comparison *comparison)
{
    double *selfs = pyr_memory_new(comparison->count + 1, sizeof *selfs);
    double *totals = pyr_memory_new(comparison->count + 1, sizeof *totals);
    size_t self_count = 0;
    size_t total_count = 0;
    if (selfs == NULL || totals == NULL) {
        pyr_memory_free(selfs);
        pyr_memory_free(totals);
        return PYR_ENOMEM;
    }
    for (size_t at = 0; at < comparison->count; at++) {
        const pyr_comparison_row *row = &comparison->list[at];
        if (isfinite(row->self.doubt) && (row->self.before != 0 || row->self.after != 0)) {
            selfs[self_count++] = row->self.doubt;
        }
        if (isfinite(row->total.doubt) && (row->total.before != 0 || row->total.after != 0)) {
            totals[total_count++] = row->total.doubt;
        }
    }
    double self_limit = threshold(selfs, self_count);
    double total_limit = threshold(totals, total_count);
    for (size_t at = 0; at < comparison->count; at++) {
        pyr_comparison_row *row = &comparison->list[at];
        row->self.is_significant = isfinite(row->self.doubt) && row->self.doubt <= self_limit;
        row->total.is_significant = isfinite(row->total.doubt) && row->total.doubt <= total_limit;
    }
    pyr_memory_free(selfs);
    pyr_memory_free(totals);
    return PYR_OK;
}

static int compare_changes(const void *a, const void *b)
{
    double left = fabs(((const pyr_comparison_row *)a)->total.change);
    double right = fabs(((const pyr_comparison_row *)b)->total.change);
    return (left < right) - (left > right);
}

static pyr_status key_of(pyr_intern *texts, const pyr_cost *cost, group_key *key)
{
    uint64_t name = 0;
    uint64_t file = 0;
    memset(key, 0, sizeof *key);
    pyr_status status = pyr_intern_add(texts, cost->name, cost->name_length, &name);
    if (status == PYR_OK) {
        status = pyr_intern_add(texts, cost->file, cost->file_length, &file);
    }
    key->name = (uint32_t)name;
    key->file = (uint32_t)file;
    key->line = cost->line;
    return status;
}

static pyr_status match(pyr_comparison *comparison, const pyr_cost_table *table, bool is_after,
                        pyr_intern *texts, pyr_intern *keys)
{
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < table->count && status == PYR_OK; at++) {
        group_key key;
        uint64_t index = 0;
        status = key_of(texts, &table->list[at], &key);
        if (status == PYR_OK) {
            status = pyr_intern_add(keys, &key, sizeof key, &index);
        }
        if (status == PYR_OK) {
            pyr_comparison_row *row = &comparison->list[index];
            *(is_after ? &row->after : &row->before) = &table->list[at];
            comparison->count = index + 1 > comparison->count ? index + 1 : comparison->count;
        }
    }
    return status;
}

pyr_status pyr_comparison_init(pyr_comparison *comparison, const pyr_cost_table *before,
                               double before_seconds, const pyr_cost_table *after,
                               double after_seconds)
{
    static const pyr_cost none;
    bool known = before_seconds > 0 && after_seconds > 0;
    before_seconds = known ? before_seconds : 1;
    after_seconds = known ? after_seconds : 1;
    *comparison = (pyr_comparison){0};
    size_t most = before->count + after->count + 1;
    comparison->list = pyr_memory_new(most, sizeof *comparison->list);
    pyr_intern *texts = pyr_intern_new(SIZE_MAX / 1024, SIZE_MAX / 2);
    pyr_intern *keys = pyr_intern_new(most, SIZE_MAX / 2);
    pyr_status status =
        comparison->list != NULL && texts != NULL && keys != NULL ? PYR_OK : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = match(comparison, before, false, texts, keys);
    }
    if (status == PYR_OK) {
        status = match(comparison, after, true, texts, keys);
    }
    for (size_t at = 0; at < comparison->count && status == PYR_OK; at++) {
        pyr_comparison_row *row = &comparison->list[at];
        const pyr_cost *a = row->before != NULL ? row->before : &none;
        const pyr_cost *b = row->after != NULL ? row->after : &none;
        row->self = measure(a->self, a->self_square, before_seconds, b->self, b->self_square,
                            after_seconds);
        row->total = measure(a->total, a->total_square, before_seconds, b->total, b->total_square,
                             after_seconds);
    }
    if (status == PYR_OK) {
        comparison->whole = measure(before->whole, before->whole_square, before_seconds,
                                    after->whole, after->whole_square, after_seconds);
        comparison->whole.is_significant =
            isfinite(comparison->whole.doubt) && comparison->whole.doubt <= ALPHA;
        status = correct(comparison);
    }
    if (status == PYR_OK && comparison->count > 1) {
        qsort(comparison->list, comparison->count, sizeof *comparison->list, compare_changes);
    }
    pyr_intern_free(texts);
    pyr_intern_free(keys);
    return status;
}

void pyr_comparison_fini(pyr_comparison *comparison)
{
    pyr_memory_free(comparison->list);
    *comparison = (pyr_comparison){0};
}
