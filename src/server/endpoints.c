/* Counts of requests become samples of the profile that they came with; see the header. Stateless;
 * a worker's thread. */
#include "server/endpoints.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "pprof/builder.h"

static const char TYPE[] = "requests";

static uint32_t add_string(pyr_profile_builder *builder, const char *text)
{
    uint32_t index = (uint32_t)(builder->strings.length / sizeof(pyr_profile_text));
    pyr_profile_builder_string(builder, text, strlen(text));
    return index;
}

/* Makes the new type the first one, of which all samples so far have nothing: the type that viewers
 * show without being told is the last. */
static pyr_status add_type(pyr_profile_builder *builder)
{
    size_t count = builder->types.length / sizeof(pyr_profile_type);
    size_t samples = builder->samples.length / sizeof(pyr_profile_sample);
    pyr_profile_type made = {.type = add_string(builder, TYPE)};
    made.unit = add_string(builder, "count");
    pyr_buffer values;
    pyr_buffer_init(&values, builder->values.maximum);
    pyr_status status = pyr_buffer_reserve(&values, (count + 1) * samples * sizeof(int64_t) + 1);
    if (status == PYR_OK) {
        status = pyr_buffer_append(&builder->types, &made, sizeof made);
    }
    if (status != PYR_OK) {
        pyr_buffer_fini(&values);
        return status;
    }
    pyr_profile_type *types = (pyr_profile_type *)(void *)builder->types.data;
    memmove(types + 1, types, count * sizeof *types);
    types[0] = made;
    pyr_profile_sample *all = (pyr_profile_sample *)(void *)builder->samples.data;
    for (size_t at = 0; at < samples; at++) {
        static const int64_t none = 0;
        const uint8_t *old = builder->values.data + all[at].value_start * sizeof(int64_t);
        all[at].value_start = values.length / sizeof(int64_t);
        (void)pyr_buffer_append(&values, &none, sizeof none);
        (void)pyr_buffer_append(&values, old, count * sizeof(int64_t));
    }
    pyr_buffer_fini(&builder->values);
    builder->values = values;
    return values.status;
}

static void add_count(pyr_profile_builder *builder, uint32_t key, const char *endpoint,
                      int64_t count)
{
    static const int64_t none = 0;
    size_t types = builder->types.length / sizeof(pyr_profile_type);
    pyr_profile_sample start = pyr_profile_builder_mark(builder);
    pyr_profile_label label = {.key = key, .text = add_string(builder, endpoint)};
    (void)pyr_buffer_append(&builder->labels, &label, sizeof label);
    (void)pyr_buffer_append(&builder->values, &count, sizeof count);
    for (size_t type = 1; type < types; type++) {
        (void)pyr_buffer_append(&builder->values, &none, sizeof none);
    }
    pyr_profile_builder_sample(builder, start);
}

static void add_counts(pyr_profile_builder *builder, uint32_t key, const json_t *counts)
{
    const char *endpoint = NULL;
    json_t *count = NULL;
    int64_t others = 0;
    size_t used = 0;
    /* The iteration wants a pointer to what may change; it only reads. */
    json_object_foreach((json_t *)(uintptr_t)counts, endpoint, count)
    {
        int64_t number = json_integer_value(count);
        if (number <= 0 || endpoint[0] == '\0') {
            continue;
        }
        if (used++ < PYR_ENDPOINTS) {
            add_count(builder, key, endpoint, number);
        } else if (__builtin_add_overflow(others, number, &others)) {
            others = INT64_MAX;
        }
    }
    if (others > 0) {
        add_count(builder, key, "(other)", others);
    }
}

static bool has_counts(const json_t *counts)
{
    const char *endpoint = NULL;
    json_t *count = NULL;
    json_object_foreach((json_t *)(uintptr_t)counts, endpoint, count)
    {
        if (json_integer_value(count) > 0 && endpoint[0] != '\0') {
            return true;
        }
    }
    return false;
}

pyr_status pyr_endpoints_add(pyr_profile **profile, const json_t *counts, const char *key)
{
    pyr_profile_builder builder;
    if (!has_counts(counts) || pyr_profile_find_type(*profile, TYPE) >= 0) {
        return PYR_OK;
    }
    pyr_profile_builder_reopen(&builder, *profile);
    *profile = NULL;
    pyr_status status = add_type(&builder);
    if (status == PYR_OK) {
        add_counts(&builder, add_string(&builder, key), counts);
        status = pyr_profile_builder_finish(&builder, profile);
    }
    pyr_profile_builder_fini(&builder);
    return status;
}
