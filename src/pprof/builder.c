/* Growing arrays that become a profile; see the header. Owns them until finish. */
#include "pprof/builder.h"

#include "base/memory.h"
#include "pprof/wire.h"

enum { ARRAYS = 10 };

/* All buffers in one list, so that init, fini and status cannot forget one. */
static void list(pyr_profile_builder *b, pyr_buffer *all[ARRAYS])
{
    pyr_buffer *const buffers[ARRAYS] = {&b->text,    &b->strings,      &b->types,  &b->functions,
                                         &b->frames,  &b->stack_frames, &b->labels, &b->values,
                                         &b->samples, &b->comments};
    for (size_t i = 0; i < ARRAYS; i++) {
        all[i] = buffers[i];
    }
}

void pyr_profile_builder_init(pyr_profile_builder *builder)
{
    *builder = (pyr_profile_builder){0};
    pyr_buffer_init(&builder->text, SIZE_MAX / 2);
    pyr_buffer_init(&builder->values, SIZE_MAX / 2);
    /* The others are indexed by 32 bits. */
    pyr_buffer_init(&builder->strings, UINT32_MAX * sizeof(pyr_profile_text));
    pyr_buffer_init(&builder->types, UINT32_MAX * sizeof(pyr_profile_type));
    pyr_buffer_init(&builder->functions, UINT32_MAX * sizeof(pyr_profile_function));
    pyr_buffer_init(&builder->frames, UINT32_MAX * sizeof(pyr_profile_frame));
    pyr_buffer_init(&builder->stack_frames, UINT32_MAX * sizeof(uint32_t));
    pyr_buffer_init(&builder->labels, UINT32_MAX * sizeof(pyr_profile_label));
    pyr_buffer_init(&builder->samples, UINT32_MAX * sizeof(pyr_profile_sample));
    pyr_buffer_init(&builder->comments, UINT32_MAX * sizeof(uint32_t));
}

static void give(pyr_buffer *buffer, void *array, size_t length)
{
    buffer->data = array;
    buffer->length = buffer->capacity = length;
}

void pyr_profile_builder_reopen(pyr_profile_builder *builder, pyr_profile *profile)
{
    size_t text = 0;
    for (size_t i = 0; i < profile->string_count; i++) {
        text += profile->strings[i].length + 1;
    }
    pyr_profile_builder_init(builder);
    builder->head = *profile;
    give(&builder->text, profile->arena, text);
#define GIVE(array, number)                                                                        \
    give(&builder->array, profile->array, profile->number * sizeof *profile->array)
    GIVE(strings, string_count);
    GIVE(types, type_count);
    GIVE(functions, function_count);
    GIVE(frames, frame_count);
    GIVE(stack_frames, stack_frame_count);
    GIVE(labels, label_count);
    GIVE(values, value_count);
    GIVE(samples, sample_count);
    GIVE(comments, comment_count);
#undef GIVE
    pyr_memory_free(profile);
}

void pyr_profile_builder_fini(pyr_profile_builder *builder)
{
    pyr_buffer *all[ARRAYS];
    list(builder, all);
    for (size_t i = 0; i < ARRAYS; i++) {
        pyr_buffer_fini(all[i]);
    }
}

pyr_status pyr_profile_builder_status(const pyr_profile_builder *builder)
{
    pyr_profile_builder copy = *builder; /* the list is of writable buffers */
    pyr_buffer *all[ARRAYS];
    list(&copy, all);
    for (size_t i = 0; i < ARRAYS; i++) {
        if (all[i]->status != PYR_OK) {
            return all[i]->status;
        }
    }
    return PYR_OK;
}

void pyr_profile_builder_string(pyr_profile_builder *builder, const void *bytes, size_t length)
{
    size_t before = builder->text.length;
    pyr_wire_append_text(&builder->text, bytes, length);
    const pyr_profile_text entry = {NULL, builder->text.length - before};
    pyr_buffer_append(&builder->text, "", 1);
    pyr_buffer_append(&builder->strings, &entry, sizeof entry);
}

pyr_profile_sample pyr_profile_builder_mark(const pyr_profile_builder *builder)
{
    return (pyr_profile_sample){
        .frame_start = (uint32_t)(builder->stack_frames.length / sizeof(uint32_t)),
        .label_start = (uint32_t)(builder->labels.length / sizeof(pyr_profile_label)),
        .value_start = builder->values.length / sizeof(int64_t),
    };
}

void pyr_profile_builder_sample(pyr_profile_builder *builder, pyr_profile_sample start)
{
    pyr_profile_sample now = pyr_profile_builder_mark(builder);
    start.frame_count = now.frame_start - start.frame_start;
    start.label_count = now.label_start - start.label_start;
    pyr_buffer_append(&builder->samples, &start, sizeof start);
}

pyr_status pyr_profile_builder_finish(pyr_profile_builder *builder, pyr_profile **result)
{
    *result = NULL;
    pyr_status status = pyr_profile_builder_status(builder);
    pyr_profile *profile = status == PYR_OK ? pyr_memory_new(1, sizeof *profile) : NULL;
    if (!profile) {
        return status == PYR_OK ? PYR_ENOMEM : status;
    }
    *profile = builder->head;
    size_t length;
    char *text = (char *)pyr_buffer_take(&builder->text, &length);
    profile->arena = text;
/* Gives a buffer's bytes to the profile as an array of its elements. malloc aligns them. */
#define TAKE(array, number)                                                                        \
    profile->array = (void *)pyr_buffer_take(&builder->array, &length);                            \
    profile->number = length / sizeof *profile->array
    TAKE(strings, string_count);
    TAKE(types, type_count);
    TAKE(functions, function_count);
    TAKE(frames, frame_count);
    TAKE(stack_frames, stack_frame_count);
    TAKE(labels, label_count);
    TAKE(values, value_count);
    TAKE(samples, sample_count);
    TAKE(comments, comment_count);
#undef TAKE
    for (size_t i = 0; i < profile->string_count; i++) {
        profile->strings[i].data = text;
        text += profile->strings[i].length + 1;
    }
    *result = profile;
    return PYR_OK;
}
