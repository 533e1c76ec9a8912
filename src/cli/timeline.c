/* Samples laid out in time.
 *
 * Owns lanes and runs. One thread. All times lie between 0 and INT64_MAX, whatever the file says,
 * so that differences of two never overflow. Rounding may make two runs of a thread overlap by a
 * little: the later one then starts where the earlier one ends.
 */
#include "cli/timeline.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cli/units.h"

static const pyr_profile_label *end_label(const pyr_profile *profile, size_t index)
{
    const pyr_profile_label *label =
        pyr_profile_find_label(profile, &profile->samples[index], "end_timestamp_ns");
    return label != NULL && label->text == 0 && label->number > 0 ? label : NULL;
}

static bool has_times(const pyr_profile *profile)
{
    for (size_t index = 0; index < profile->sample_count; index++) {
        if (end_label(profile, index) != NULL) {
            return true;
        }
    }
    return false;
}

static int compare_runs(const void *left, const void *right)
{
    const pyr_timeline_run *first = left;
    const pyr_timeline_run *second = right;
    int order = (first->start_ns > second->start_ns) - (first->start_ns < second->start_ns);
    order =
        order != 0 ? order : (first->end_ns > second->end_ns) - (first->end_ns < second->end_ns);
    return order != 0 ? order : (first->sample > second->sample) - (first->sample < second->sample);
}

/* Counts the runs of each lane, and gives lanes their place in the array. */
static void place_lanes(pyr_timeline *lanes, const pyr_profile *profile, size_t type,
                        const pyr_thread_list *threads)
{
    for (size_t index = 0; index < profile->sample_count; index++) {
        int64_t length = profile->values[profile->samples[index].value_start + type];
        if (length <= 0) {
            continue;
        }
        if (lanes->measured && end_label(profile, index) == NULL) {
            pyr_units_add(&lanes->untimed, length);
        } else {
            lanes->list[threads->of_sample[index]].count++;
        }
    }
    size_t next = 0;
    for (size_t lane = 0; lane < lanes->count; lane++) {
        lanes->list[lane].thread = threads->list[lane];
        lanes->list[lane].first = next;
        next += lanes->list[lane].count;
        lanes->list[lane].count = 0;
    }
}

static void add_runs(pyr_timeline *lanes, const pyr_profile *profile, size_t type,
                     const pyr_thread_list *threads)
{
    int64_t start_ns = profile->time_ns > 0 ? profile->time_ns : 0;
    for (size_t index = 0; index < profile->sample_count; index++) {
        int64_t length = profile->values[profile->samples[index].value_start + type];
        const pyr_profile_label *end = end_label(profile, index);
        if (length <= 0 || (lanes->measured && end == NULL)) {
            continue;
        }
        pyr_timeline_lane *lane = &lanes->list[threads->of_sample[index]];
        pyr_timeline_run *run = &lanes->runs[lane->first + lane->count++];
        run->sample = (uint32_t)index;
        if (lanes->measured) {
            run->end_ns = end->number;
            run->start_ns = length < end->number ? end->number - length : 0;
        } else {
            run->start_ns = lane->count > 1 ? run[-1].end_ns : start_ns;
            run->end_ns = run->start_ns;
            pyr_units_add(&run->end_ns, length);
        }
    }
}

static void separate_runs(pyr_timeline *lanes)
{
    for (size_t index = 0; index < lanes->count; index++) {
        pyr_timeline_run *runs = &lanes->runs[lanes->list[index].first];
        size_t count = lanes->list[index].count;
        if (count > 0) {
            qsort(runs, count, sizeof *runs, compare_runs);
        }
        for (size_t at = 1; at < count; at++) {
            if (runs[at].start_ns < runs[at - 1].end_ns) {
                runs[at].start_ns = runs[at - 1].end_ns;
            }
            if (runs[at].end_ns < runs[at].start_ns) {
                runs[at].end_ns = runs[at].start_ns;
            }
        }
    }
}

pyr_status pyr_timeline_init(pyr_timeline *lanes, const pyr_profile *profile, size_t type)
{
    pyr_thread_list threads;
    *lanes = (pyr_timeline){.measured = has_times(profile)};
    pyr_status status = pyr_thread_list_init(&threads, profile);
    if (status != PYR_OK) {
        return status;
    }
    lanes->count = threads.count;
    lanes->list = pyr_memory_new(threads.count + 1, sizeof *lanes->list);
    lanes->runs = pyr_memory_new(profile->sample_count + 1, sizeof *lanes->runs);
    if (lanes->list == NULL || lanes->runs == NULL) {
        pyr_timeline_fini(lanes);
        status = PYR_ENOMEM;
    } else {
        place_lanes(lanes, profile, type, &threads);
        add_runs(lanes, profile, type, &threads);
        separate_runs(lanes);
    }
    pyr_thread_list_fini(&threads);
    return status;
}

void pyr_timeline_fini(pyr_timeline *lanes)
{
    pyr_memory_free(lanes->list);
    pyr_memory_free(lanes->runs);
    *lanes = (pyr_timeline){0};
}
