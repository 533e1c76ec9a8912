/* A window into pprof; see the header.
 *
 * Samples stream through the writer; what is kept here are the maps from the symbol table's ids to
 * the profile's, so that a name is looked up once. Pure but for allocation; the exporter's thread.
 * Writes the facts that a reader needs to judge a profile (losses, period) into comments, so that a
 * profile without its document stays meaningful.
 *
 * With a timeline, times stand on a grid of 1.024 us: far finer than the moment of a sample is
 * known (the stacks of one tick are copied within tens of microseconds), and ten bits a number less
 * for the compressor. Sums stay what they were, see round_values. The end time is the first label,
 * beside the values: what changes from sample to sample stands together. docs/internals/encode.md
 * has the figures.
 */
#include "encode/encode.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"

enum {
    LOCATIONS = PYR_LIMIT_FRAMES + 1, /* of a sample: its frames and the omitted ones */
    /* of a sample: its own, the program's and the end time */
    LABELS = PYR_LIMIT_LABELS + PYR_LIMIT_PROGRAM_LABELS + 1,
    CACHED_LOCATIONS = 1 << 20,
    CACHED_STRINGS = 1 << 17,
    NAMED_THREADS = 1 << 16,
    COMMENT_BYTES = 256,
    GRID_BITS = 10, /* times are multiples of 2^10 ns */
};

typedef struct encoding {
    const pyr_window *window;
    const pyr_symbols *symbols;
    pyr_pprof_writer *writer;
    pyr_map *locations; /* frame -> location id */
    pyr_map *strings;   /* string of the symbol table -> string of the profile */
    pyr_map *threads;   /* kernel id -> string of the symbol table: its name */
    int timeline;
    bool has_type[PYR_SAMPLE_TYPES]; /* the profile's sample types */
    int64_t epoch_offset_ns;
    int64_t cpu_carry_ns; /* CPU time not written yet, less than a step of the grid */
    uint64_t label_keys[PYR_LABEL_KEYS], label_units[PYR_LABEL_KEYS];
    uint64_t end_key;
    uint64_t location_ids[LOCATIONS];
    pyr_pprof_label labels[LABELS];
} encoding;

static uint64_t intern_text(encoding *encoder, const char *text)
{
    return pyr_pprof_writer_string(encoder->writer, text, strlen(text));
}

/* A full cache (PYR_ETOOBIG, PYR_ENOMEM) only costs time: the writer interns by itself. */
static void cache(pyr_map *map, uint64_t key, uint64_t value)
{
    (void)!pyr_map_put(map, key, value);
}

static uint64_t encode_string(encoding *encoder, uint32_t string)
{
    uint64_t index = 0;
    if (!pyr_map_get(encoder->strings, string, &index)) {
        size_t length;
        const char *text = pyr_symbols_text(encoder->symbols, string, &length);
        index = pyr_pprof_writer_string(encoder->writer, text, length);
        cache(encoder->strings, string, index);
    }
    return index;
}

static uint64_t encode_frame(encoding *encoder, const pyr_frame *frame)
{
    uint64_t id = 0;
    uint64_t key = (uint64_t)frame->function << 32 | frame->line;
    if (!pyr_map_get(encoder->locations, key, &id)) {
        pyr_function function = pyr_symbols_get(encoder->symbols, frame->function);
        uint64_t function_id =
            pyr_pprof_writer_function(encoder->writer, encode_string(encoder, function.name),
                                      encode_string(encoder, function.file), function.first_line);
        id = pyr_pprof_writer_location(encoder->writer, function_id, frame->line);
        cache(encoder->locations, key, id);
    }
    return id;
}

/* Datadog's words, which its backend knows. */
static uint64_t encode_omitted(encoding *encoder, uint32_t omitted)
{
    char name[48];
    snprintf(name, sizeof name, "<%" PRIu32 " frame%s omitted>", omitted, omitted == 1 ? "" : "s");
    uint64_t function =
        pyr_pprof_writer_function(encoder->writer, intern_text(encoder, name), 0, 0);
    return pyr_pprof_writer_location(encoder->writer, function, 0);
}

static int64_t floor_to_grid(int64_t time_ns)
{
    return (int64_t)((uint64_t)time_ns >> GRID_BITS << GRID_BITS);
}

/* In Unix time. The sum of hostile numbers may wrap, defined. */
static int64_t end_of(const encoding *encoder, const pyr_sample *sample)
{
    return (int64_t)((uint64_t)sample->end_ns + (uint64_t)encoder->epoch_offset_ns);
}

/* Puts times on the grid without changing sums. Wall time goes from one grid point to another, as
 * the samples of a thread do end to end, so what one loses the next one has. CPU time that is less
 * than a step is carried to the next sample that used some. */
static void round_values(encoding *encoder, const pyr_sample *sample, int64_t *values)
{
    uint64_t end_ns = (uint64_t)end_of(encoder, sample);
    uint64_t start_ns = end_ns - (uint64_t)values[PYR_SAMPLE_TYPE_WALL_TIME];
    values[PYR_SAMPLE_TYPE_WALL_TIME] = (int64_t)((uint64_t)floor_to_grid((int64_t)end_ns) -
                                                  (uint64_t)floor_to_grid((int64_t)start_ns));
    int64_t *cpu_ns = &values[PYR_SAMPLE_TYPE_CPU_TIME];
    if (*cpu_ns > 0) {
        uint64_t whole_ns = (uint64_t)*cpu_ns + (uint64_t)encoder->cpu_carry_ns;
        *cpu_ns = floor_to_grid((int64_t)whole_ns);
        encoder->cpu_carry_ns = (int64_t)(whole_ns - (uint64_t)*cpu_ns);
    }
}

/* The number of a sample's label, 0 where it has none. */
static int64_t number_of(const pyr_sample *sample, pyr_label_key key)
{
    for (uint32_t i = 0; i < sample->label_count; i++) {
        if (sample->labels[i].key == key) {
            return sample->labels[i].number;
        }
    }
    return 0;
}

/* Notes the thread names that samples have, for those that were taken before the name was known. */
static int learn_name(void *context, const pyr_sample *sample)
{
    encoding *encoder = context;
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_label *label = &sample->labels[i];
        if (label->key == PYR_LABEL_THREAD_NAME && label->text != 0) {
            cache(encoder->threads, (uint64_t)number_of(sample, PYR_LABEL_THREAD_NATIVE_ID),
                  label->text);
        }
    }
    return 0;
}

/* The name of a sample's thread that was not known when it was taken: what other samples of the
 * thread say, else its id, as Datadog does. */
static uint64_t encode_thread_name(encoding *encoder, const pyr_sample *sample)
{
    uint64_t name;
    uint64_t id = (uint64_t)number_of(sample, PYR_LABEL_THREAD_ID);
    uint64_t native_id = (uint64_t)number_of(sample, PYR_LABEL_THREAD_NATIVE_ID);
    if (pyr_map_get(encoder->threads, native_id, &name)) {
        return encode_string(encoder, (uint32_t)name);
    }
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, id);
    return intern_text(encoder, text);
}

/* A label for each that the program set. */
static size_t encode_program_labels(encoding *encoder, uint32_t set, size_t count)
{
    size_t length;
    const char *text = pyr_symbols_text(encoder->symbols, set, &length);
    const char *end = text + length;
    for (int i = 0; i < PYR_LIMIT_PROGRAM_LABELS && text < end; i++) {
        const char *stop = memchr(text, PYR_LABEL_RECORD, (size_t)(end - text));
        stop = stop ? stop : end;
        const char *value = memchr(text, PYR_LABEL_UNIT, (size_t)(stop - text));
        if (value && value > text && value + 1 < stop) {
            encoder->labels[count++] = (pyr_pprof_label){
                .key = pyr_pprof_writer_string(encoder->writer, text, (size_t)(value - text)),
                .text =
                    pyr_pprof_writer_string(encoder->writer, value + 1, (size_t)(stop - value - 1)),
            };
        }
        text = stop + 1;
    }
    return count;
}

static size_t encode_labels(encoding *encoder, const pyr_sample *sample)
{
    size_t count = 0;
    bool has_program_labels = false; /* there is room for one set */
    if (encoder->timeline && sample->end_ns != 0) {
        encoder->labels[count++] = (pyr_pprof_label){
            .key = encoder->end_key,
            .number = floor_to_grid(end_of(encoder, sample)),
        };
    }
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_label *label = &sample->labels[i];
        if ((unsigned)label->key >= PYR_LABEL_KEYS) {
            continue;
        }
        if (label->key == PYR_LABEL_PROGRAM) {
            count = has_program_labels ? count : encode_program_labels(encoder, label->text, count);
            has_program_labels = true;
            continue;
        }
        pyr_pprof_label *to = &encoder->labels[count];
        *to = (pyr_pprof_label){.key = encoder->label_keys[label->key]};
        if (pyr_label_is_number(label->key)) {
            to->number = label->number;
            to->unit = encoder->label_units[label->key];
        } else {
            to->text = label->text == 0 && label->key == PYR_LABEL_THREAD_NAME
                           ? encode_thread_name(encoder, sample)
                           : encode_string(encoder, label->text);
            if (to->text == 0) {
                continue; /* the format has no empty text */
            }
        }
        count++;
    }
    return count;
}

static int encode_sample(void *context, const pyr_sample *sample)
{
    encoding *encoder = context;
    size_t depth = 0;
    for (; depth < sample->frame_count; depth++) {
        encoder->location_ids[depth] = encode_frame(encoder, &sample->frames[depth]);
    }
    if (sample->omitted > 0) {
        encoder->location_ids[depth++] = encode_omitted(encoder, sample->omitted);
    }
    int64_t values[PYR_SAMPLE_TYPES] = {0};
    pyr_sample_type types[PYR_LIMIT_VALUES];
    size_t value_count = pyr_sample_kind_types(sample->kind, types);
    for (size_t i = 0; i < value_count; i++) {
        values[types[i]] = sample->values[i];
    }
    if (encoder->timeline && sample->end_ns != 0) {
        round_values(encoder, sample, values);
    }
    size_t column = 0;
    for (size_t i = 0; i < PYR_SAMPLE_TYPES; i++) { /* those that the profile has, moved up */
        if (encoder->has_type[i]) {
            values[column++] = values[i];
        }
    }
    pyr_pprof_writer_sample(encoder->writer, encoder->location_ids, depth, values, encoder->labels,
                            encode_labels(encoder, sample));
    return 0;
}

static void encode_comments(encoding *encoder)
{
    char text[COMMENT_BYTES];
    pyr_pprof_writer_comment(encoder->writer, "pyrometer " PYR_VERSION);
    for (int i = 0; i < PYR_LOSSES; i++) {
        pyr_loss reason = (pyr_loss)i;
        uint64_t lost = pyr_window_lost(encoder->window, reason);
        if (lost > 0) {
            snprintf(text, sizeof text, "lost %" PRIu64 ": %s (%s)", lost, pyr_loss_text(reason),
                     pyr_loss_id(reason));
            pyr_pprof_writer_comment(encoder->writer, text);
        }
    }
}

/* Which sample types the profile has; the first of them. */
static pyr_sample_type choose_types(encoding *encoder, uint32_t kinds)
{
    pyr_sample_type first = PYR_SAMPLE_TYPE_NONE;
    for (int kind = 0; kind < PYR_SAMPLE_KINDS; kind++) {
        pyr_sample_type types[PYR_LIMIT_VALUES];
        size_t count = pyr_sample_kind_types((pyr_sample_kind)kind, types);
        for (size_t i = 0; i < count && (kinds == 0 || (kinds >> kind & 1) != 0); i++) {
            encoder->has_type[types[i]] = true;
            first = types[i] < first ? types[i] : first;
        }
    }
    return first;
}

static pyr_status encode_window(encoding *encoder, const pyr_encode_options *options)
{
    pyr_sample_type default_type = choose_types(encoder, options->kinds);
    for (int i = 0; i < PYR_SAMPLE_TYPES; i++) {
        pyr_sample_type type = (pyr_sample_type)i;
        if (encoder->has_type[i]) {
            pyr_pprof_writer_type(encoder->writer, pyr_sample_type_name(type),
                                  pyr_sample_type_unit(type));
        }
    }
    if (options->executable) {
        pyr_pprof_writer_mapping(encoder->writer, options->executable);
    }
    for (int i = 0; i < PYR_LABEL_KEYS; i++) {
        pyr_label_key key = (pyr_label_key)i;
        encoder->label_keys[i] = intern_text(encoder, pyr_label_name(key));
        encoder->label_units[i] = intern_text(encoder, pyr_label_unit(key));
    }
    encoder->end_key = intern_text(encoder, "end_timestamp_ns");
    encode_comments(encoder);
    pyr_window_each(encoder->window, learn_name, encoder);
    pyr_window_each(encoder->window, encode_sample, encoder);
    int64_t start_ns = pyr_window_start_ns(encoder->window);
    const pyr_pprof_summary summary = {
        .time_ns = start_ns + encoder->epoch_offset_ns,
        .duration_ns = pyr_window_end_ns(encoder->window) - start_ns,
        .period_type = pyr_sample_type_name(PYR_SAMPLE_TYPE_CPU_TIME),
        .period_unit = pyr_sample_type_unit(PYR_SAMPLE_TYPE_CPU_TIME),
        .period = options->period_ns,
        .default_type = pyr_sample_type_name(default_type),
    };
    return pyr_pprof_writer_finish(encoder->writer, &summary);
}

pyr_status pyr_encode_pprof(const pyr_window *window, const pyr_encode_options *options,
                            pyr_buffer *out)
{
    pyr_status status = PYR_ENOMEM;
    encoding *made = pyr_memory_new(1, sizeof *made);
    if (!made) {
        return PYR_ENOMEM;
    }
    made->window = window;
    made->symbols = pyr_window_symbols(window);
    made->timeline = options->timeline;
    made->epoch_offset_ns = pyr_window_epoch_offset_ns(window);
    made->writer = pyr_pprof_writer_new(out, options->compression);
    made->locations = pyr_map_new(CACHED_LOCATIONS);
    made->strings = pyr_map_new(CACHED_STRINGS);
    made->threads = pyr_map_new(NAMED_THREADS);
    if (made->writer && made->locations && made->strings && made->threads) {
        status = encode_window(made, options);
    }
    pyr_pprof_writer_free(made->writer);
    pyr_map_free(made->locations);
    pyr_map_free(made->strings);
    pyr_map_free(made->threads);
    pyr_memory_free(made);
    return status;
}
