/* Lanes and wait pairs; see the header. One thread; pairs are matched within a profile. */
#include "query/moments.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "pprof/intern.h"

enum { LANES = 4096, TEXT_BYTES = 1 << 24, PAIRS = 1 << 16 };

/* ---------------------------------------------------------------------------------- lanes ---- */

typedef struct span {
    uint32_t lane, name, state;
    int64_t start, length;
} span;

static int compare_spans(const void *a, const void *b)
{
    const span *left = a;
    const span *right = b;
    return left->lane != right->lane ? (left->lane < right->lane ? -1 : 1)
                                     : (left->start > right->start) - (left->start < right->start);
}

static const pyr_profile_text *text_of(const pyr_profile *profile, const pyr_profile_sample *sample,
                                       const char *key)
{
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, key);
    return &profile->strings[label != NULL ? label->text : 0];
}

static const pyr_profile_text *leaf_of(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    if (sample->frame_count == 0) {
        return &profile->strings[0];
    }
    const pyr_profile_frame *frame = &profile->frames[profile->stack_frames[sample->frame_start]];
    return &profile->strings[profile->functions[frame->function].name];
}

typedef struct lanes {
    pyr_intern *lanes, *names, *states;
    pyr_buffer spans;
    int64_t ids[LANES]; /* of threads */
} lanes;

static pyr_status number(pyr_intern *intern, const pyr_profile_text *text, uint32_t *result)
{
    uint64_t index = 0;
    pyr_status status = pyr_intern_add(intern, text->data, text->length, &index);
    *result = (uint32_t)index;
    return status;
}

/* A thread is its name and its native id, since names may be shared. */
static pyr_status find_lane(lanes *l, const pyr_profile *profile, const pyr_profile_sample *sample,
                            const char *by, uint32_t *lane)
{
    char key[1100];
    const pyr_profile_text *name = text_of(profile, sample, by);
    const pyr_profile_label *id = pyr_profile_find_label(profile, sample, "thread native id");
    bool is_thread = strcmp(by, "thread name") == 0 && id != NULL;
    size_t used = name->length < sizeof key - 16 ? name->length : sizeof key - 16;
    int64_t thread = is_thread ? id->number : 0;
    uint64_t index = 0;
    memcpy(key, name->data, used);
    key[used] = '\0';
    memcpy(key + used + 1, &thread, sizeof thread);
    pyr_status status = pyr_intern_add(l->lanes, key, used + 1 + sizeof thread, &index);
    if (status == PYR_OK) {
        l->ids[index] = thread;
        *lane = (uint32_t)index;
    }
    return status;
}

static pyr_status add_span(lanes *l, const pyr_profile *profile, const pyr_profile_sample *sample,
                           const char *by, int wall)
{
    const pyr_profile_label *end = pyr_profile_find_label(profile, sample, "end_timestamp_ns");
    int64_t length = profile->values[sample->value_start + (size_t)wall];
    if (end == NULL || end->text != 0 || length <= 0 ||
        l->spans.length / sizeof(span) >= PYR_LANES_SPANS) {
        return PYR_OK;
    }
    span made = {.length = length};
    if (__builtin_sub_overflow(end->number, profile->time_ns, &made.start) ||
        __builtin_sub_overflow(made.start, length, &made.start)) {
        return PYR_OK;
    }
    pyr_status status = find_lane(l, profile, sample, by, &made.lane);
    if (status == PYR_ETOOBIG) {
        return PYR_OK; /* more lanes than anybody looks at */
    }
    if (status == PYR_OK) {
        status = number(l->names, leaf_of(profile, sample), &made.name);
    }
    if (status == PYR_OK) {
        status = number(l->states, text_of(profile, sample, "state"), &made.state);
    }
    return status == PYR_OK ? pyr_buffer_append(&l->spans, &made, sizeof made) : status;
}

static void write_names(pyr_answer *answer, const char *key, const pyr_intern *names)
{
    pyr_answer_begin(answer, key, '[');
    for (size_t at = 0; at < pyr_intern_count(names); at++) {
        size_t length = 0;
        const char *text = pyr_intern_get(names, at, &length);
        pyr_answer_text(answer, NULL, text, length);
    }
    pyr_answer_end(answer, ']');
}

static void write_spans(pyr_answer *answer, const lanes *l)
{
    const span *spans = (const span *)(const void *)l->spans.data;
    size_t count = l->spans.length / sizeof *spans;
    pyr_answer_begin(answer, "lanes", '[');
    for (size_t at = 0; at < count;) {
        uint32_t lane = spans[at].lane;
        size_t length = 0;
        const char *name = pyr_intern_get(l->lanes, lane, &length);
        pyr_answer_begin(answer, NULL, '{');
        pyr_answer_string(answer, "name", name);
        pyr_answer_integer(answer, "id", l->ids[lane]);
        pyr_answer_begin(answer, "spans", '[');
        for (; at < count && spans[at].lane == lane; at++) {
            pyr_answer_begin(answer, NULL, '[');
            pyr_answer_integer(answer, NULL, spans[at].start);
            pyr_answer_integer(answer, NULL, spans[at].length);
            pyr_answer_integer(answer, NULL, spans[at].name);
            pyr_answer_integer(answer, NULL, spans[at].state);
            pyr_answer_end(answer, ']');
        }
        pyr_answer_end(answer, ']');
        pyr_answer_end(answer, '}');
    }
    pyr_answer_end(answer, ']');
}

pyr_status pyr_lanes_write(pyr_answer *answer, const pyr_profile *profile, const char *by)
{
    int wall = pyr_profile_find_type(profile, "wall-time");
    wall = wall >= 0 ? wall : pyr_profile_find_type(profile, "wall");
    lanes *l = pyr_memory_new(1, sizeof *l);
    if (l == NULL || wall < 0) {
        pyr_memory_free(l);
        return l == NULL ? PYR_ENOMEM : PYR_ENOENT;
    }
    l->lanes = pyr_intern_new(LANES, TEXT_BYTES);
    l->names = pyr_intern_new(PYR_LANES_SPANS, TEXT_BYTES);
    l->states = pyr_intern_new(LANES, TEXT_BYTES);
    pyr_buffer_init(&l->spans, SIZE_MAX / 2);
    pyr_status status =
        l->lanes != NULL && l->names != NULL && l->states != NULL ? PYR_OK : PYR_ENOMEM;
    for (size_t at = 0; at < profile->sample_count && status == PYR_OK; at++) {
        status = add_span(l, profile, &profile->samples[at], by, wall);
    }
    if (status == PYR_OK && l->spans.length == 0) {
        status = PYR_ENOENT;
    }
    if (status == PYR_OK) {
        qsort(l->spans.data, l->spans.length / sizeof(span), sizeof(span), compare_spans);
        write_names(answer, "names", l->names);
        write_names(answer, "states", l->states);
        write_spans(answer, l);
    }
    pyr_intern_free(l->lanes);
    pyr_intern_free(l->names);
    pyr_intern_free(l->states);
    pyr_buffer_fini(&l->spans);
    pyr_memory_free(l);
    return status;
}

/* ---------------------------------------------------------------------------------- pairs ---- */

typedef struct pair_row {
    int64_t wait, count;
} pair_row;

struct pyr_pair_table {
    pyr_intern *keys; /* kind, waiter, its file, holder, its file: texts with NULs */
    pyr_buffer rows;  /* pair_row */
};

pyr_pair_table *pyr_pair_table_new(void)
{
    pyr_pair_table *table = pyr_memory_new(1, sizeof *table);
    if (table != NULL) {
        pyr_buffer_init(&table->rows, PAIRS * sizeof(pair_row));
        table->keys = pyr_intern_new(PAIRS, TEXT_BYTES);
        if (table->keys == NULL) {
            pyr_memory_free(table);
            table = NULL;
        }
    }
    return table;
}

void pyr_pair_table_free(pyr_pair_table *table)
{
    if (table != NULL) {
        pyr_intern_free(table->keys);
        pyr_buffer_fini(&table->rows);
        pyr_memory_free(table);
    }
}

static void append_place(pyr_buffer *key, const pyr_profile *profile,
                         const pyr_profile_sample *sample)
{
    const pyr_profile_text *name = leaf_of(profile, sample);
    (void)pyr_buffer_append(key, name->data, name->length + 1);
    if (sample->frame_count == 0) {
        (void)pyr_buffer_append(key, "", 1);
        return;
    }
    const pyr_profile_frame *frame = &profile->frames[profile->stack_frames[sample->frame_start]];
    const pyr_profile_text *file = &profile->strings[profile->functions[frame->function].file];
    (void)pyr_buffer_append(key, file->data, file->length + 1);
}

static pyr_status add_pair(pyr_pair_table *table, const pyr_profile *profile, const char *kind,
                           const pyr_profile_sample *waiter, const pyr_profile_sample *holder,
                           int64_t wait)
{
    pyr_buffer key;
    uint64_t index = 0;
    size_t before = pyr_intern_count(table->keys);
    pyr_buffer_init(&key, 1 << 16);
    (void)pyr_buffer_append(&key, kind, strlen(kind) + 1);
    append_place(&key, profile, waiter);
    append_place(&key, profile, holder);
    pyr_status status = key.status;
    if (status == PYR_OK) {
        status = pyr_intern_add(table->keys, key.data, key.length, &index);
    }
    if (status == PYR_OK && index == before) {
        const pair_row none = {0, 0};
        status = pyr_buffer_append(&table->rows, &none, sizeof none);
    }
    if (status == PYR_OK) {
        pair_row *row = (pair_row *)(void *)table->rows.data + index;
        row->count++;
        if (__builtin_add_overflow(row->wait, wait, &row->wait)) {
            row->wait = INT64_MAX;
        }
    }
    pyr_buffer_fini(&key);
    return status == PYR_ETOOBIG ? PYR_OK : status;
}

typedef struct pair_kind {
    const char *name, *waits, *blocks;
} pair_kind;

static const pair_kind KINDS[] = {
    {"lock", "lock-acquire-wait", "lock-hold-blocking"},
    {"gil", "gil-wait", "gil-hold-blocking"},
};

static pyr_status add_kind(pyr_pair_table *table, const pyr_profile *profile, const pair_kind *kind)
{
    int waits = pyr_profile_find_type(profile, kind->waits);
    int blocks = pyr_profile_find_type(profile, kind->blocks);
    pyr_map *holders = pyr_map_new(profile->sample_count + 1); /* pair id -> sample */
    pyr_status status = holders != NULL ? PYR_OK : PYR_ENOMEM;
    for (int round = 0; round < 2 && waits >= 0 && blocks >= 0; round++) {
        for (size_t at = 0; at < profile->sample_count && status == PYR_OK; at++) {
            const pyr_profile_sample *sample = &profile->samples[at];
            const pyr_profile_label *pair = pyr_profile_find_label(profile, sample, "pair id");
            size_t type = (size_t)(round == 0 ? blocks : waits);
            int64_t value = profile->values[sample->value_start + type];
            uint64_t holder = 0;
            if (pair == NULL || pair->text != 0 || value <= 0) {
                continue;
            }
            if (round == 0) {
                status = pyr_map_put(holders, (uint64_t)pair->number, at);
            } else if (pyr_map_get(holders, (uint64_t)pair->number, &holder)) {
                status =
                    add_pair(table, profile, kind->name, sample, &profile->samples[holder], value);
            }
        }
    }
    pyr_map_free(holders);
    return status;
}

pyr_status pyr_pair_table_add(pyr_pair_table *table, const pyr_profile *profile)
{
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < sizeof KINDS / sizeof KINDS[0] && status == PYR_OK; at++) {
        status = add_kind(table, profile, &KINDS[at]);
    }
    return status;
}

typedef struct ranked_pair {
    int64_t wait;
    size_t index;
} ranked_pair;

static int compare_pairs(const void *a, const void *b)
{
    const ranked_pair *left = a;
    const ranked_pair *right = b;
    return left->wait != right->wait ? (left->wait < right->wait ? 1 : -1)
                                     : (left->index > right->index) - (left->index < right->index);
}

static void write_pair(pyr_answer *answer, const pyr_pair_table *table, size_t index)
{
    static const char *const KEYS[] = {"kind", "waiter", "waiter_file", "holder", "holder_file"};
    const pair_row *row = (const pair_row *)(const void *)table->rows.data + index;
    size_t length = 0;
    const char *text = pyr_intern_get(table->keys, index, &length);
    pyr_answer_begin(answer, NULL, '{');
    for (size_t at = 0; at < sizeof KEYS / sizeof KEYS[0]; at++) {
        pyr_answer_string(answer, KEYS[at], text);
        text += strlen(text) + 1;
    }
    pyr_answer_integer(answer, "wait", row->wait);
    pyr_answer_integer(answer, "count", row->count);
    pyr_answer_end(answer, '}');
}

pyr_status pyr_pair_table_write(pyr_pair_table *table, pyr_answer *answer, const char *key,
                                size_t most)
{
    size_t count = pyr_intern_count(table->keys);
    const pair_row *rows = (const pair_row *)(const void *)table->rows.data;
    ranked_pair *ranked = pyr_memory_new(count + 1, sizeof *ranked);
    if (ranked == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t at = 0; at < count; at++) {
        ranked[at] = (ranked_pair){rows[at].wait, at};
    }
    if (count > 1) {
        qsort(ranked, count, sizeof *ranked, compare_pairs);
    }
    pyr_answer_begin(answer, key, '[');
    for (size_t at = 0; at < count && at < most; at++) {
        write_pair(answer, table, ranked[at].index);
    }
    pyr_answer_end(answer, ']');
    pyr_memory_free(ranked);
    return PYR_OK;
}
