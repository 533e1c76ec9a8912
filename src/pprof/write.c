/* A profile in memory back into bytes; see the header. Owns only what lives during the call. */
#include "pprof/write.h"

#include "base/memory.h"
#include "pprof/writer.h"

typedef struct encoder {
    const pyr_profile *profile;
    pyr_pprof_writer *writer;
    uint64_t *locations; /* by frame; 0 = not written yet */
    pyr_buffer stack;    /* uint64_t, of the sample in hand */
    pyr_buffer labels;   /* pyr_pprof_label */
} encoder;

static uint64_t string_of(encoder *e, uint32_t index)
{
    const pyr_profile_text *text = &e->profile->strings[index];
    return pyr_pprof_writer_string(e->writer, text->data, text->length);
}

static const char *text_of(const encoder *e, uint32_t index)
{
    return index != 0 ? e->profile->strings[index].data : NULL;
}

static uint64_t location_of(encoder *e, uint32_t index)
{
    if (e->locations[index] == 0) {
        const pyr_profile_frame *frame = &e->profile->frames[index];
        const pyr_profile_function *what = &e->profile->functions[frame->function];
        uint64_t name = string_of(e, what->name), system_name = string_of(e, what->system_name);
        uint64_t function = pyr_pprof_writer_function_as(
            e->writer, name, system_name, string_of(e, what->file), what->start_line);
        e->locations[index] =
            pyr_pprof_writer_location_at(e->writer, function, frame->line, frame->address);
    }
    return e->locations[index];
}

static pyr_status write_sample(encoder *e, const pyr_profile_sample *sample)
{
    pyr_buffer_clear(&e->stack);
    pyr_buffer_clear(&e->labels);
    for (uint32_t i = 0; i < sample->frame_count; i++) {
        uint64_t id = location_of(e, e->profile->stack_frames[sample->frame_start + i]);
        pyr_buffer_append(&e->stack, &id, sizeof id);
    }
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_profile_label *label = &e->profile->labels[sample->label_start + i];
        const pyr_pprof_label copy = {
            .key = string_of(e, label->key),
            .text = string_of(e, label->text),
            .number = label->number,
            .unit = string_of(e, label->unit),
        };
        pyr_buffer_append(&e->labels, &copy, sizeof copy);
    }
    pyr_status status = e->stack.status != PYR_OK ? e->stack.status : e->labels.status;
    if (status == PYR_OK) {
        pyr_pprof_writer_sample(e->writer, (const uint64_t *)(const void *)e->stack.data,
                                sample->frame_count, e->profile->values + sample->value_start,
                                (const pyr_pprof_label *)(const void *)e->labels.data,
                                sample->label_count);
    }
    return status;
}

static pyr_status write_all(encoder *e)
{
    const pyr_profile *profile = e->profile;
    const char *binary = text_of(e, profile->main_binary);
    if (binary && *binary) {
        pyr_pprof_writer_mapping(e->writer, binary);
    }
    for (size_t i = 0; i < profile->type_count; i++) {
        pyr_pprof_writer_type(e->writer, text_of(e, profile->types[i].type),
                              text_of(e, profile->types[i].unit));
    }
    for (size_t i = 0; i < profile->comment_count; i++) {
        pyr_pprof_writer_comment(e->writer, profile->strings[profile->comments[i]].data);
    }
    for (size_t i = 0; i < profile->sample_count; i++) {
        pyr_status status = write_sample(e, &profile->samples[i]);
        if (status != PYR_OK) {
            return status;
        }
    }
    const pyr_pprof_summary summary = {
        .time_ns = profile->time_ns,
        .duration_ns = profile->duration_ns,
        .period_type = text_of(e, profile->period_type.type),
        .period_unit = text_of(e, profile->period_type.unit),
        .period = profile->period,
        .default_type = text_of(e, profile->default_type),
    };
    return pyr_pprof_writer_finish(e->writer, &summary);
}

pyr_status pyr_profile_write(const pyr_profile *profile, pyr_pprof_compression compression,
                             pyr_buffer *out)
{
    encoder e = {.profile = profile};
    pyr_buffer_init(&e.stack, SIZE_MAX / 2);
    pyr_buffer_init(&e.labels, SIZE_MAX / 2);
    e.writer = pyr_pprof_writer_new(out, compression);
    e.locations = pyr_memory_new(profile->frame_count, sizeof *e.locations);
    pyr_status status = e.writer && e.locations ? write_all(&e) : PYR_ENOMEM;
    pyr_pprof_writer_free(e.writer);
    pyr_memory_free(e.locations);
    pyr_buffer_fini(&e.stack);
    pyr_buffer_fini(&e.labels);
    return status;
}
