/* speedscope's own JSON.
 *
 * Owns groups, threads and the order of samples while it writes. One thread. Samples of a thread
 * stand in the order of their time where they have one, so that speedscope's time order means
 * something.
 */
#include "cli/formats.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/groups.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/thread_list.h"
#include "cli/units.h"

enum { TITLE_BYTES = 512 };

typedef struct ordered { /* a sample, its thread and time */
    uint32_t thread, sample;
    int64_t time_ns;
} ordered;

typedef struct writer {
    const pyr_profile *profile;
    pyr_json json;
    pyr_groups groups;
    pyr_thread_list threads;
    ordered *order;
    size_t negative; /* values left out: speedscope refuses them */
} writer;

static int compare_ordered(const void *left, const void *right)
{
    const ordered *first = left;
    const ordered *second = right;
    int order = (first->thread > second->thread) - (first->thread < second->thread);
    order = order != 0 ? order
                       : (first->time_ns > second->time_ns) - (first->time_ns < second->time_ns);
    return order != 0 ? order : (first->sample > second->sample) - (first->sample < second->sample);
}

static void sort_samples(writer *target)
{
    const pyr_profile *profile = target->profile;
    for (size_t index = 0; index < profile->sample_count; index++) {
        const pyr_profile_label *end =
            pyr_profile_find_label(profile, &profile->samples[index], "end_timestamp_ns");
        target->order[index] = (ordered){target->threads.of_sample[index], (uint32_t)index,
                                         end != NULL ? end->number : 0};
    }
    if (profile->sample_count > 0) {
        qsort(target->order, profile->sample_count, sizeof *target->order, compare_ordered);
    }
}

static void write_frames(writer *target)
{
    pyr_json *json = &target->json;
    const pyr_profile_text *strings = target->profile->strings;
    pyr_json_begin(json, "shared", '{');
    pyr_json_begin(json, "frames", '[');
    for (size_t index = 0; index < target->groups.count; index++) {
        const pyr_group *group = &target->groups.list[index];
        pyr_json_begin(json, NULL, '{');
        pyr_json_text(json, "name", strings[group->name].data, strings[group->name].length);
        if (strings[group->file].length > 0) {
            pyr_json_text(json, "file", strings[group->file].data, strings[group->file].length);
        }
        if (group->line > 0) {
            pyr_json_integer(json, "line", group->line);
        }
        pyr_json_end(json, '}');
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
}

static void write_stack(writer *target, const pyr_profile_sample *sample)
{
    pyr_json_begin(&target->json, NULL, '[');
    for (uint32_t at = sample->frame_count; at > 0; at--) {
        uint32_t frame = target->profile->stack_frames[sample->frame_start + at - 1];
        pyr_json_integer(&target->json, NULL, target->groups.of_frame[frame]);
    }
    pyr_json_end(&target->json, ']');
}

static const char *unit_of(const char *unit)
{
    static const char *const KNOWN[] = {"nanoseconds", "microseconds", "milliseconds", "seconds",
                                        "bytes"};
    for (size_t index = 0; index < sizeof KNOWN / sizeof KNOWN[0]; index++) {
        if (strcmp(unit, KNOWN[index]) == 0) {
            return unit;
        }
    }
    return "none";
}

static int64_t value_of(const writer *target, const ordered *one, size_t type)
{
    return target->profile->values[target->profile->samples[one->sample].value_start + type];
}

/* One profile of a thread (order[0] to order[count - 1]) and a type; nothing when it has no value.
 */
static bool write_profile(writer *target, const ordered *order, size_t count, size_t type)
{
    const pyr_profile *profile = target->profile;
    pyr_json *json = &target->json;
    int64_t sum = 0;
    for (size_t index = 0; index < count; index++) {
        int64_t value = value_of(target, &order[index], type);
        target->negative += value < 0;
        pyr_units_add(&sum, value > 0 ? value : 0);
    }
    if (sum == 0) {
        return false;
    }
    char thread[TITLE_BYTES / 2];
    char title[TITLE_BYTES];
    pyr_thread_list_title(profile, &target->threads.list[order[0].thread], thread, sizeof thread);
    snprintf(title, sizeof title, "%s: %.200s", thread,
             profile->strings[profile->types[type].type].data);
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "type", "sampled");
    pyr_json_string(json, "name", title);
    pyr_json_string(json, "unit", unit_of(profile->strings[profile->types[type].unit].data));
    pyr_json_integer(json, "startValue", 0);
    pyr_json_integer(json, "endValue", sum);
    pyr_json_begin(json, "samples", '[');
    for (size_t index = 0; index < count; index++) {
        if (value_of(target, &order[index], type) > 0) {
            write_stack(target, &profile->samples[order[index].sample]);
        }
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "weights", '[');
    for (size_t index = 0; index < count; index++) {
        int64_t value = value_of(target, &order[index], type);
        if (value > 0) {
            pyr_json_integer(json, NULL, value);
        }
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
    return true;
}

/* Returns the index of the profile to show first: the first one of the chosen type, with the most
 * threads' work left to the viewer. */
static size_t write_profiles(writer *target, size_t chosen)
{
    const pyr_profile *profile = target->profile;
    size_t written = 0;
    size_t active = SIZE_MAX;
    for (size_t start = 0; start < profile->sample_count;) {
        size_t end = start;
        while (end < profile->sample_count &&
               target->order[end].thread == target->order[start].thread) {
            end++;
        }
        for (size_t type = 0; type < profile->type_count; type++) {
            if (write_profile(target, &target->order[start], end - start, type)) {
                active = type == chosen && active == SIZE_MAX ? written : active;
                written++;
            }
        }
        start = end;
    }
    return active == SIZE_MAX ? 0 : active;
}

int pyr_format_speedscope(const pyr_conversion *conversion, FILE *out)
{
    int code = PYR_EXIT_GOOD;
    writer target = {.profile = conversion->input->profile, .json = {.out = out}};
    target.order = pyr_memory_new(target.profile->sample_count + 1, sizeof *target.order);
    if (target.order == NULL ||
        pyr_groups_init(&target.groups, target.profile, conversion->lines) != PYR_OK ||
        pyr_thread_list_init(&target.threads, target.profile) != PYR_OK) {
        code = pyr_message_no_memory();
        goto out;
    }
    sort_samples(&target);
    pyr_json *json = &target.json;
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    pyr_json_string(json, "name", conversion->title);
    pyr_json_string(json, "exporter", "pyrometer " PYR_VERSION);
    write_frames(&target);
    pyr_json_begin(json, "profiles", '[');
    size_t active = write_profiles(&target, conversion->selection->type);
    pyr_json_end(json, ']');
    pyr_json_integer(json, "activeProfileIndex", (int64_t)active);
    pyr_json_end(json, '}');
    fputc('\n', out);
    if (target.negative > 0) {
        pyr_message_note("%zu negative values are left out; speedscope takes none",
                         target.negative);
    }
out:
    pyr_memory_free(target.order);
    pyr_groups_fini(&target.groups);
    pyr_thread_list_fini(&target.threads);
    return code;
}
