/* Counts of requests as a profile, merged with the one that they came with; see the header.
 * Stateless; a worker's thread. */
#include "server/endpoints.h"

#include <string.h>

#include "pprof/builder.h"
#include "pprof/merge.h"

enum { TEXT_TYPE = 1, TEXT_UNIT, TEXT_KEY, TEXT_OTHER, TEXTS };

static const char *const TEXT[TEXTS] = {"", "requests", "count", "trace endpoint", "(other)"};

static void add_count(pyr_profile_builder *builder, const char *endpoint, int64_t count)
{
    pyr_profile_sample start = pyr_profile_builder_mark(builder);
    pyr_profile_label label = {.key = TEXT_KEY, .text = TEXT_OTHER};
    if (endpoint != NULL) {
        label.text = (uint32_t)(builder->strings.length / sizeof(pyr_profile_text));
        pyr_profile_builder_string(builder, endpoint, strlen(endpoint));
    }
    (void)pyr_buffer_append(&builder->labels, &label, sizeof label);
    (void)pyr_buffer_append(&builder->values, &count, sizeof count);
    pyr_profile_builder_sample(builder, start);
}

static pyr_status make(const json_t *counts, pyr_profile **made)
{
    pyr_profile_builder builder;
    const pyr_profile_type type = {TEXT_TYPE, TEXT_UNIT};
    const char *endpoint = NULL;
    json_t *count = NULL;
    int64_t others = 0;
    size_t used = 0;
    pyr_profile_builder_init(&builder);
    for (size_t at = 0; at < TEXTS; at++) {
        pyr_profile_builder_string(&builder, TEXT[at], strlen(TEXT[at]));
    }
    (void)pyr_buffer_append(&builder.types, &type, sizeof type);
    /* The iteration wants a pointer to what may change; it only reads. */
    json_object_foreach((json_t *)(uintptr_t)counts, endpoint, count)
    {
        int64_t number = json_integer_value(count);
        if (number <= 0 || endpoint[0] == '\0') {
            continue;
        }
        if (used++ < PYR_ENDPOINTS) {
            add_count(&builder, endpoint, number);
        } else if (__builtin_add_overflow(others, number, &others)) {
            others = INT64_MAX;
        }
    }
    if (others > 0) {
        add_count(&builder, NULL, others);
    }
    pyr_status status = used > 0 ? pyr_profile_builder_finish(&builder, made) : PYR_OK;
    pyr_profile_builder_fini(&builder);
    return status;
}

pyr_status pyr_endpoints_add(pyr_profile **profile, const json_t *counts)
{
    pyr_profile *requests = NULL;
    pyr_profile *both = NULL;
    pyr_status status = json_is_object(counts) ? make(counts, &requests) : PYR_OK;
    if (status == PYR_OK && requests != NULL) {
        /* Requests first: the type that viewers show without being told is the last. */
        const pyr_profile *const pair[] = {requests, *profile};
        status = pyr_profile_merge(pair, 2, PYR_MERGE_KEEP_TIMESTAMPS, &both);
    }
    if (both != NULL) {
        pyr_profile_free(*profile);
        *profile = both;
    }
    pyr_profile_free(requests);
    return status;
}
