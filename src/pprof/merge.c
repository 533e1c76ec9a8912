/* The sum of profiles; see the header.
 *
 * Each table of the result is a set that numbers its entries (pyr_intern), so merging is: translate
 * an entry into the numbers of the result, look it up, add. A sample is the bytes of its frames and
 * sorted labels. Owns all until the builder turns the sets into a profile.
 */
#include "pprof/merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "pprof/builder.h"
#include "pprof/intern.h"

/* Table entries as they are interned: numbers of the result, no padding. */
typedef struct type_record {
    uint64_t name, unit;
} type_record;

typedef struct function_record {
    uint64_t name, system_name, file;
    int64_t start_line;
} function_record;

typedef struct frame_record {
    uint64_t function;
    int64_t line;
    uint64_t address;
} frame_record;

typedef struct label_record {
    uint64_t key, text;
    int64_t number;
    uint64_t unit;
} label_record;

typedef struct merger {
    pyr_intern *strings, *types, *functions, *frames, *comments;
    pyr_intern *samples; /* uint64_t frame count, the frames (uint64_t), label_records */
    pyr_buffer sums;     /* int64_t, a row of types a sample */
    pyr_buffer key;      /* the sample in hand */
    pyr_buffer labels;   /* its labels, to be sorted */
    uint64_t *string_at, *type_at, *frame_at; /* of the profile in hand: its index -> ours */
    pyr_merge_timestamps timestamps;
    pyr_profile head; /* times and single values */
} merger;

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return b > 0 ? INT64_MAX : INT64_MIN;
    }
    return sum;
}

static pyr_status add_string(merger *m, const pyr_profile *profile, uint32_t index, uint64_t *ours)
{
    const pyr_profile_text *text = &profile->strings[index];
    return pyr_intern_add(m->strings, text->data, text->length, ours);
}

static pyr_status add_type(merger *m, const pyr_profile *profile, const pyr_profile_type *type,
                           uint64_t *ours)
{
    type_record record;
    pyr_status status = add_string(m, profile, type->type, &record.name);
    if (status == PYR_OK) {
        status = add_string(m, profile, type->unit, &record.unit);
    }
    return status == PYR_OK ? pyr_intern_add(m->types, &record, sizeof record, ours) : status;
}

/* Takes `theirs` when the result has nothing yet. */
static pyr_status adopt(merger *m, const pyr_profile *profile, uint32_t theirs, uint32_t *own)
{
    uint64_t index = *own;
    pyr_status status = *own == 0 && theirs != 0 ? add_string(m, profile, theirs, &index) : PYR_OK;
    *own = (uint32_t)index;
    return status;
}

static pyr_status add_period(merger *m, const pyr_profile *profile)
{
    pyr_profile *head = &m->head;
    pyr_profile_type type = {0};
    if (profile->period_type.type == 0) {
        return PYR_OK;
    }
    pyr_status status = adopt(m, profile, profile->period_type.type, &type.type);
    if (status == PYR_OK) {
        status = adopt(m, profile, profile->period_type.unit, &type.unit);
    }
    if (head->period_type.type == 0) {
        head->period_type = type;
    }
    bool same = head->period_type.type == type.type && head->period_type.unit == type.unit;
    if (same && profile->period > head->period) {
        head->period = profile->period;
    }
    return status;
}

/* All but the samples, so that the number of types is known before the first sample. */
static pyr_status add_head(merger *m, const pyr_profile *profile)
{
    pyr_profile *head = &m->head;
    if (profile->time_ns != 0 && (head->time_ns == 0 || profile->time_ns < head->time_ns)) {
        head->time_ns = profile->time_ns;
    }
    head->duration_ns = add(head->duration_ns, profile->duration_ns);
    uint64_t index;
    pyr_status status = add_period(m, profile);
    if (status == PYR_OK) {
        status = adopt(m, profile, profile->default_type, &head->default_type);
    }
    if (status == PYR_OK) {
        status = adopt(m, profile, profile->main_binary, &head->main_binary);
    }
    for (size_t i = 0; i < profile->type_count && status == PYR_OK; i++) {
        status = add_type(m, profile, &profile->types[i], &index);
    }
    for (size_t i = 0; i < profile->comment_count && status == PYR_OK; i++) {
        uint64_t text;
        status = add_string(m, profile, profile->comments[i], &text);
        if (status == PYR_OK) {
            status = pyr_intern_add(m->comments, &text, sizeof text, &index);
        }
    }
    return status;
}

static pyr_status map_frames(merger *m, const pyr_profile *profile)
{
    uint64_t *function_at = pyr_memory_new(profile->function_count, sizeof *function_at);
    pyr_status status = function_at ? PYR_OK : PYR_ENOMEM;
    for (size_t i = 0; i < profile->function_count && status == PYR_OK; i++) {
        const pyr_profile_function *theirs = &profile->functions[i];
        const function_record record = {
            .name = m->string_at[theirs->name],
            .system_name = m->string_at[theirs->system_name],
            .file = m->string_at[theirs->file],
            .start_line = theirs->start_line,
        };
        status = pyr_intern_add(m->functions, &record, sizeof record, &function_at[i]);
    }
    for (size_t i = 0; i < profile->frame_count && status == PYR_OK; i++) {
        const pyr_profile_frame *theirs = &profile->frames[i];
        const frame_record record = {function_at[theirs->function], theirs->line, theirs->address};
        status = pyr_intern_add(m->frames, &record, sizeof record, &m->frame_at[i]);
    }
    pyr_memory_free(function_at);
    return status;
}

/* Fills the three translation tables. */
static pyr_status map_tables(merger *m, const pyr_profile *profile)
{
    m->string_at = pyr_memory_new(profile->string_count, sizeof *m->string_at);
    m->type_at = pyr_memory_new(profile->type_count, sizeof *m->type_at);
    m->frame_at = pyr_memory_new(profile->frame_count, sizeof *m->frame_at);
    if (!m->string_at || !m->type_at || !m->frame_at) {
        return PYR_ENOMEM;
    }
    pyr_status status = PYR_OK;
    for (size_t i = 0; i < profile->string_count && status == PYR_OK; i++) {
        status = add_string(m, profile, (uint32_t)i, &m->string_at[i]);
    }
    for (size_t i = 0; i < profile->type_count && status == PYR_OK; i++) {
        status = add_type(m, profile, &profile->types[i], &m->type_at[i]);
    }
    return status == PYR_OK ? map_frames(m, profile) : status;
}

static void unmap_tables(merger *m)
{
    pyr_memory_free(m->string_at);
    pyr_memory_free(m->type_at);
    pyr_memory_free(m->frame_at);
    m->string_at = m->type_at = m->frame_at = NULL;
}

static int compare_labels(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(label_record)); /* any order will do, if it is one */
}

static void append_labels(merger *m, const pyr_profile *profile, const pyr_profile_sample *sample)
{
    pyr_buffer_clear(&m->labels);
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_profile_label *label = &profile->labels[sample->label_start + i];
        if (m->timestamps == PYR_MERGE_DROP_TIMESTAMPS &&
            strcmp(profile->strings[label->key].data, "end_timestamp_ns") == 0) {
            continue;
        }
        const label_record record = {
            .key = m->string_at[label->key],
            .text = m->string_at[label->text],
            .number = label->number,
            .unit = m->string_at[label->unit],
        };
        pyr_buffer_append(&m->labels, &record, sizeof record);
    }
    if (m->labels.status == PYR_OK && m->labels.length > sizeof(label_record)) {
        qsort(m->labels.data, m->labels.length / sizeof(label_record), sizeof(label_record),
              compare_labels);
    }
    pyr_buffer_append(&m->key, m->labels.data, m->labels.length);
}

static pyr_status add_sample(merger *m, const pyr_profile *profile,
                             const pyr_profile_sample *sample)
{
    const uint64_t frame_count = sample->frame_count;
    pyr_buffer_clear(&m->key);
    pyr_buffer_append(&m->key, &frame_count, sizeof frame_count);
    for (uint32_t i = 0; i < sample->frame_count; i++) {
        uint64_t frame = m->frame_at[profile->stack_frames[sample->frame_start + i]];
        pyr_buffer_append(&m->key, &frame, sizeof frame);
    }
    append_labels(m, profile, sample);
    pyr_status status = m->labels.status != PYR_OK ? m->labels.status : m->key.status;
    uint64_t index;
    size_t known = pyr_intern_count(m->samples);
    if (status == PYR_OK) {
        status = pyr_intern_add(m->samples, m->key.data, m->key.length, &index);
    }
    if (status != PYR_OK) {
        return status;
    }
    size_t row = pyr_intern_count(m->types) * sizeof(int64_t);
    if (index == known) {
        status = pyr_buffer_reserve(&m->sums, row);
        if (status != PYR_OK) {
            return status;
        }
        memset(m->sums.data + m->sums.length, 0, row);
        m->sums.length += row;
    }
    for (size_t i = 0; i < profile->type_count; i++) {
        uint8_t *place = m->sums.data + index * row + m->type_at[i] * sizeof(int64_t);
        int64_t sum;
        memcpy(&sum, place, sizeof sum);
        sum = add(sum, profile->values[sample->value_start + i]);
        memcpy(place, &sum, sizeof sum);
    }
    return PYR_OK;
}

static pyr_status add_samples(merger *m, const pyr_profile *profile)
{
    pyr_status status = map_tables(m, profile);
    for (size_t i = 0; i < profile->sample_count && status == PYR_OK; i++) {
        status = add_sample(m, profile, &profile->samples[i]);
    }
    unmap_tables(m);
    return status;
}

/* ----------------------------------------------------------------------- into a profile ---- */

static void build_tables(const merger *m, pyr_profile_builder *b)
{
    size_t length;
    for (size_t i = 0; i < pyr_intern_count(m->strings); i++) {
        const void *text = pyr_intern_get(m->strings, i, &length);
        pyr_profile_builder_string(b, text, length);
    }
    for (size_t i = 0; i < pyr_intern_count(m->types); i++) {
        type_record r;
        memcpy(&r, pyr_intern_get(m->types, i, &length), sizeof r);
        const pyr_profile_type type = {(uint32_t)r.name, (uint32_t)r.unit};
        pyr_buffer_append(&b->types, &type, sizeof type);
    }
    for (size_t i = 0; i < pyr_intern_count(m->functions); i++) {
        function_record r;
        memcpy(&r, pyr_intern_get(m->functions, i, &length), sizeof r);
        const pyr_profile_function function = {
            .name = (uint32_t)r.name,
            .system_name = (uint32_t)r.system_name,
            .file = (uint32_t)r.file,
            .start_line = r.start_line,
        };
        pyr_buffer_append(&b->functions, &function, sizeof function);
    }
    for (size_t i = 0; i < pyr_intern_count(m->frames); i++) {
        frame_record r;
        memcpy(&r, pyr_intern_get(m->frames, i, &length), sizeof r);
        const pyr_profile_frame frame = {(uint32_t)r.function, r.line, r.address};
        pyr_buffer_append(&b->frames, &frame, sizeof frame);
    }
    for (size_t i = 0; i < pyr_intern_count(m->comments); i++) {
        uint64_t text;
        memcpy(&text, pyr_intern_get(m->comments, i, &length), sizeof text);
        const uint32_t comment = (uint32_t)text;
        pyr_buffer_append(&b->comments, &comment, sizeof comment);
    }
}

static void build_sample(const merger *m, pyr_profile_builder *b, size_t index)
{
    size_t length, row = pyr_intern_count(m->types) * sizeof(int64_t);
    const uint8_t *at = pyr_intern_get(m->samples, index, &length);
    const uint8_t *end = at + length;
    pyr_profile_sample start = pyr_profile_builder_mark(b);
    uint64_t frame_count, frame;
    memcpy(&frame_count, at, sizeof frame_count);
    at += sizeof frame_count;
    for (uint64_t i = 0; i < frame_count; i++, at += sizeof frame) {
        memcpy(&frame, at, sizeof frame);
        const uint32_t place = (uint32_t)frame;
        pyr_buffer_append(&b->stack_frames, &place, sizeof place);
    }
    for (label_record r; at < end; at += sizeof r) {
        memcpy(&r, at, sizeof r);
        const pyr_profile_label label = {
            .key = (uint32_t)r.key,
            .text = (uint32_t)r.text,
            .number = r.number,
            .unit = (uint32_t)r.unit,
        };
        pyr_buffer_append(&b->labels, &label, sizeof label);
    }
    pyr_buffer_append(&b->values, m->sums.data + index * row, row);
    pyr_profile_builder_sample(b, start);
}

static pyr_status build(const merger *m, pyr_profile **merged)
{
    pyr_profile_builder builder;
    pyr_profile_builder_init(&builder);
    builder.head = m->head;
    build_tables(m, &builder);
    for (size_t i = 0; i < pyr_intern_count(m->samples); i++) {
        build_sample(m, &builder, i);
    }
    pyr_status status = pyr_profile_builder_finish(&builder, merged);
    pyr_profile_builder_fini(&builder);
    return status;
}

static pyr_status merger_init(merger *m, pyr_merge_timestamps timestamps)
{
    *m = (merger){.timestamps = timestamps};
    pyr_buffer_init(&m->sums, SIZE_MAX / 2);
    pyr_buffer_init(&m->key, SIZE_MAX / 2);
    pyr_buffer_init(&m->labels, SIZE_MAX / 2);
    pyr_intern **const sets[] = {&m->strings, &m->types,    &m->functions,
                                 &m->frames,  &m->comments, &m->samples};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        *sets[i] = pyr_intern_new(UINT32_MAX, SIZE_MAX / 2);
        if (!*sets[i]) {
            return PYR_ENOMEM;
        }
    }
    uint64_t empty; /* string 0, by the format */
    return pyr_intern_add(m->strings, "", 0, &empty);
}

static void merger_fini(merger *m)
{
    pyr_intern_free(m->strings);
    pyr_intern_free(m->types);
    pyr_intern_free(m->functions);
    pyr_intern_free(m->frames);
    pyr_intern_free(m->comments);
    pyr_intern_free(m->samples);
    pyr_buffer_fini(&m->sums);
    pyr_buffer_fini(&m->key);
    pyr_buffer_fini(&m->labels);
}

pyr_status pyr_profile_merge(const pyr_profile *const *profiles, size_t count,
                             pyr_merge_timestamps timestamps, pyr_profile **merged)
{
    *merged = NULL;
    if (count == 0) {
        return PYR_EINVAL;
    }
    merger m;
    pyr_status status = merger_init(&m, timestamps);
    for (size_t i = 0; i < count && status == PYR_OK; i++) {
        status = add_head(&m, profiles[i]);
    }
    for (size_t i = 0; i < count && status == PYR_OK; i++) {
        status = add_samples(&m, profiles[i]);
    }
    if (status == PYR_OK) {
        status = build(&m, merged);
    }
    merger_fini(&m);
    return status;
}
