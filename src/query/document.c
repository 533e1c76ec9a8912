/* The page's document; see the header. Owns its tables while it writes. */
#include "query/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"

enum { ENTRIES = 1 << 23 };

/* Numbers for pairs of numbers, in order of appearance. */
typedef struct pairs {
    pyr_map *numbers;
    pyr_buffer list; /* uint64_t */
} pairs;

typedef struct writing {
    const pyr_gathered *gathered;
    pairs stacks;      /* (parent + 1, frame) */
    pairs threads;     /* (string of the name, 0) */
    pairs states;      /* (string, 0) */
    pairs places;      /* (stack + 1, thread) */
    pairs samples;     /* (place, state + 1) */
    pyr_buffer values; /* int64_t, type_count a sample */
    uint32_t no_stack; /* frame that stands for none; the one after the profile's */
    size_t negative;
} writing;

static pyr_status pairs_init(pairs *p)
{
    p->numbers = pyr_map_new(ENTRIES);
    pyr_buffer_init(&p->list, ENTRIES * sizeof(uint64_t));
    return p->numbers != NULL ? PYR_OK : PYR_ENOMEM;
}

static void pairs_fini(pairs *p)
{
    pyr_map_free(p->numbers);
    pyr_buffer_fini(&p->list);
}

static size_t pairs_count(const pairs *p)
{
    return p->list.length / sizeof(uint64_t);
}

static uint64_t pairs_at(const pairs *p, size_t index)
{
    uint64_t pair = 0;
    memcpy(&pair, p->list.data + index * sizeof pair, sizeof pair);
    return pair;
}

static pyr_status pairs_add(pairs *p, uint32_t first, uint32_t second, uint32_t *number)
{
    uint64_t pair = (uint64_t)first << 32 | second;
    uint64_t known = 0;
    if (pyr_map_get(p->numbers, pair, &known)) {
        *number = (uint32_t)known;
        return PYR_OK;
    }
    *number = (uint32_t)pairs_count(p);
    pyr_status status = pyr_map_put(p->numbers, pair, *number);
    return status == PYR_OK ? pyr_buffer_append(&p->list, &pair, sizeof pair) : status;
}

static pyr_status add_stack(writing *w, const pyr_profile_sample *sample, uint32_t *stack)
{
    uint32_t parent = 0;
    pyr_status status = PYR_OK;
    for (uint32_t left = sample->frame_count; left > 0 && status == PYR_OK; left--) {
        uint32_t frame = w->gathered->profile->stack_frames[sample->frame_start + left - 1];
        status = pairs_add(&w->stacks, parent, frame, stack);
        parent = *stack + 1;
    }
    if (sample->frame_count == 0) {
        status = pairs_add(&w->stacks, 0, w->no_stack, stack);
    }
    return status;
}

static uint32_t text_of(const writing *w, const pyr_profile_sample *sample, const char *key)
{
    const pyr_profile_label *label = pyr_profile_find_label(w->gathered->profile, sample, key);
    return label != NULL ? label->text : 0;
}

static pyr_status add_sample(writing *w, const pyr_profile_sample *sample, const int64_t *values)
{
    size_t types = w->gathered->profile->type_count;
    uint32_t stack = 0;
    uint32_t thread = 0;
    uint32_t state = 0;
    uint32_t place = 0;
    uint32_t number = 0;
    pyr_status status = add_stack(w, sample, &stack);
    if (status == PYR_OK) {
        status = pairs_add(&w->threads, text_of(w, sample, "thread name"), 0, &thread);
    }
    uint32_t text = text_of(w, sample, "state");
    if (status == PYR_OK && text != 0) {
        status = pairs_add(&w->states, text, 0, &state);
        state++;
    }
    if (status == PYR_OK) {
        status = pairs_add(&w->places, stack, thread, &place);
    }
    if (status == PYR_OK) {
        status = pairs_add(&w->samples, place, state, &number);
    }
    if (status != PYR_OK) {
        return status;
    }
    if (w->values.length == number * types * sizeof *values) {
        return pyr_buffer_append(&w->values, values, types * sizeof *values);
    }
    int64_t *sums = (int64_t *)(void *)w->values.data + number * types;
    for (size_t type = 0; type < types; type++) {
        if (__builtin_add_overflow(sums[type], values[type], &sums[type])) {
            sums[type] = INT64_MAX;
        }
    }
    return PYR_OK;
}

static pyr_status add_samples(writing *w)
{
    const pyr_profile *profile = w->gathered->profile;
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const int64_t *values = &profile->values[profile->samples[index].value_start];
        bool negative = false;
        bool any = false;
        for (size_t type = 0; type < profile->type_count; type++) {
            negative = negative || values[type] < 0;
            any = any || values[type] != 0;
        }
        w->negative += negative;
        if (any && !negative) {
            status = add_sample(w, &profile->samples[index], values);
        }
    }
    return status;
}

/* --------------------------------------------------------------------------------- writing ---- */

static void write_pair(pyr_answer *answer, int64_t first, int64_t second)
{
    pyr_answer_begin(answer, NULL, '[');
    pyr_answer_integer(answer, NULL, first);
    pyr_answer_integer(answer, NULL, second);
    pyr_answer_end(answer, ']');
}

static int64_t bounded_line(int64_t line)
{
    return line > 0 && line <= INT32_MAX ? line : 0;
}

static void write_symbols(pyr_answer *answer, const writing *w)
{
    const pyr_profile *profile = w->gathered->profile;
    size_t strings = profile->string_count;
    pyr_answer_begin(answer, "strings", '[');
    for (size_t at = 0; at < strings; at++) {
        pyr_answer_text(answer, NULL, profile->strings[at].data, profile->strings[at].length);
    }
    pyr_answer_string(answer, NULL, "<no stack>");
    pyr_answer_end(answer, ']');
    pyr_answer_begin(answer, "functions", '[');
    for (size_t at = 0; at < profile->function_count; at++) {
        const pyr_profile_function *function = &profile->functions[at];
        pyr_answer_begin(answer, NULL, '[');
        pyr_answer_integer(answer, NULL, function->name);
        pyr_answer_integer(answer, NULL, function->file);
        pyr_answer_integer(answer, NULL, bounded_line(function->start_line));
        pyr_answer_end(answer, ']');
    }
    pyr_answer_begin(answer, NULL, '[');
    pyr_answer_integer(answer, NULL, (int64_t)strings);
    pyr_answer_integer(answer, NULL, 0);
    pyr_answer_integer(answer, NULL, 0);
    pyr_answer_end(answer, ']');
    pyr_answer_end(answer, ']');
    pyr_answer_begin(answer, "frames", '[');
    for (size_t at = 0; at < profile->frame_count; at++) {
        write_pair(answer, profile->frames[at].function, bounded_line(profile->frames[at].line));
    }
    write_pair(answer, (int64_t)profile->function_count, 0);
    pyr_answer_end(answer, ']');
}

static void write_tables(pyr_answer *answer, const writing *w)
{
    pyr_answer_begin(answer, "stacks", '[');
    for (size_t at = 0; at < pairs_count(&w->stacks); at++) {
        uint64_t pair = pairs_at(&w->stacks, at);
        write_pair(answer, (int64_t)(pair >> 32) - 1, (int64_t)(uint32_t)pair);
    }
    pyr_answer_end(answer, ']');
    pyr_answer_begin(answer, "threads", '[');
    for (size_t at = 0; at < pairs_count(&w->threads); at++) {
        write_pair(answer, (int64_t)(pairs_at(&w->threads, at) >> 32), 0);
    }
    pyr_answer_end(answer, ']');
    pyr_answer_begin(answer, "states", '[');
    for (size_t at = 0; at < pairs_count(&w->states); at++) {
        pyr_answer_integer(answer, NULL, (int64_t)(pairs_at(&w->states, at) >> 32));
    }
    pyr_answer_end(answer, ']');
}

static void write_samples(pyr_answer *answer, const writing *w)
{
    size_t types = w->gathered->profile->type_count;
    const int64_t *values = (const int64_t *)(const void *)w->values.data;
    pyr_answer_begin(answer, "samples", '[');
    for (size_t at = 0; at < pairs_count(&w->samples); at++) {
        uint64_t sample = pairs_at(&w->samples, at);
        uint64_t place = pairs_at(&w->places, (size_t)(sample >> 32));
        pyr_answer_begin(answer, NULL, '[');
        pyr_answer_integer(answer, NULL, (int64_t)(place >> 32));
        pyr_answer_integer(answer, NULL, (int64_t)(uint32_t)place);
        pyr_answer_integer(answer, NULL, (int64_t)(uint32_t)sample - 1);
        pyr_answer_begin(answer, NULL, '[');
        for (size_t type = 0; type < types; type++) {
            pyr_answer_integer(answer, NULL, values[at * types + type]);
        }
        pyr_answer_end(answer, ']');
        pyr_answer_end(answer, ']');
    }
    pyr_answer_end(answer, ']');
}

static void write_row(pyr_answer *answer, const char *label, const char *format, double value)
{
    char text[64];
    (void)snprintf(text, sizeof text, format, value);
    pyr_answer_begin(answer, NULL, '[');
    pyr_answer_string(answer, NULL, label);
    pyr_answer_string(answer, NULL, text);
    pyr_answer_end(answer, ']');
}

static void write_notes(pyr_answer *answer, const writing *w)
{
    const pyr_gathered *gathered = w->gathered;
    char note[160];
    pyr_answer_begin(answer, "notes", '[');
    if (w->negative > 0) {
        (void)snprintf(note, sizeof note, "%zu samples with negative values are left out.",
                       w->negative);
        pyr_answer_string(answer, NULL, note);
    }
    if (gathered->has_more) {
        pyr_answer_string(answer, NULL,
                          "There is more than fits one answer; choose a shorter time or a filter.");
    }
    if (gathered->damaged > 0) {
        (void)snprintf(note, sizeof note, "%zu damaged profiles are left out.", gathered->damaged);
        pyr_answer_string(answer, NULL, note);
    }
    pyr_answer_end(answer, ']');
    pyr_answer_begin(answer, "rows", '[');
    write_row(answer, "processes and versions (series)", "%.0f", (double)gathered->series);
    write_row(answer, "samples", "%.0f", (double)gathered->samples);
    write_row(answer, "process seconds", "%.0f", gathered->seconds);
    pyr_answer_end(answer, ']');
}

static void write(pyr_answer *answer, const writing *w, const char *title)
{
    const pyr_gathered *gathered = w->gathered;
    const pyr_profile *profile = gathered->profile;
    int cpu = pyr_profile_find_type(profile, "cpu-time");
    pyr_answer_begin(answer, NULL, '{');
    pyr_answer_string(answer, "title", title);
    pyr_answer_big(answer, "start_ns", gathered->first_ns);
    pyr_answer_integer(answer, "duration_ns", profile->duration_ns);
    pyr_answer_integer(answer, "default", cpu >= 0 ? cpu : 0);
    pyr_answer_begin(answer, "types", '[');
    for (size_t type = 0; type < profile->type_count; type++) {
        pyr_answer_begin(answer, NULL, '{');
        pyr_answer_string(answer, "type", profile->strings[profile->types[type].type].data);
        pyr_answer_string(answer, "unit", profile->strings[profile->types[type].unit].data);
        pyr_answer_end(answer, '}');
    }
    pyr_answer_end(answer, ']');
    write_symbols(answer, w);
    write_tables(answer, w);
    write_samples(answer, w);
    write_notes(answer, w);
    pyr_answer_end(answer, '}');
}

pyr_status pyr_document_write(pyr_answer *answer, const pyr_gathered *gathered, const char *title)
{
    writing w = {.gathered = gathered, .no_stack = (uint32_t)gathered->profile->frame_count};
    pairs *const all[] = {&w.stacks, &w.threads, &w.states, &w.places, &w.samples};
    pyr_status status = PYR_OK;
    pyr_buffer_init(&w.values, SIZE_MAX / 2);
    for (size_t at = 0; at < sizeof all / sizeof all[0]; at++) {
        pyr_status made = pairs_init(all[at]);
        status = status == PYR_OK ? made : status;
    }
    if (status == PYR_OK) {
        status = add_samples(&w);
    }
    if (status == PYR_OK) {
        write(answer, &w, title);
        status = answer->out->status;
    }
    for (size_t at = 0; at < sizeof all / sizeof all[0]; at++) {
        pairs_fini(all[at]);
    }
    pyr_buffer_fini(&w.values);
    return status;
}
