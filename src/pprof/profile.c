/* A profile in memory: freeing it and the few questions that everybody asks. Owns nothing. */
#include "pprof/profile.h"

#include <string.h>

#include "base/memory.h"

void pyr_profile_free(pyr_profile *profile)
{
    if (!profile) {
        return;
    }
    pyr_memory_free(profile->strings);
    pyr_memory_free(profile->types);
    pyr_memory_free(profile->functions);
    pyr_memory_free(profile->frames);
    pyr_memory_free(profile->stack_frames);
    pyr_memory_free(profile->labels);
    pyr_memory_free(profile->values);
    pyr_memory_free(profile->samples);
    pyr_memory_free(profile->comments);
    pyr_memory_free(profile->arena);
    pyr_memory_free(profile);
}

static int is_text(const pyr_profile *profile, uint32_t string, const char *text)
{
    return strcmp(profile->strings[string].data, text) == 0;
}

int pyr_profile_find_type(const pyr_profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->type_count; i++) {
        if (is_text(profile, profile->types[i].type, name)) {
            return (int)i;
        }
    }
    return -1;
}

int pyr_profile_default_type(const pyr_profile *profile)
{
    int found = -1;
    if (profile->default_type != 0) {
        found = pyr_profile_find_type(profile, profile->strings[profile->default_type].data);
    }
    return found >= 0 ? found : (int)profile->type_count - 1;
}

const pyr_profile_label *pyr_profile_find_label(const pyr_profile *profile,
                                                const pyr_profile_sample *sample, const char *key)
{
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_profile_label *label = &profile->labels[sample->label_start + i];
        if (is_text(profile, label->key, key)) {
            return label;
        }
    }
    return NULL;
}
