/* What functions and lines cost.
 *
 * Owns the tables while it adds up; the result belongs to the caller. One thread. Each
 * sample is walked once: time is linear in the frames of all samples.
 */
#include "cli/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/units.h"

int pyr_costs_count_type(const pyr_profile *profile, size_t type)
{
    static const char *const PAIRS[][2] = {
        {"cpu-time", "cpu-samples"},      {"wall-time", "wall-samples"}, {"cpu", "samples"},
        {"cpu-samples", "cpu-samples"},   {"wall", "samples"},           {"samples", "samples"},
        {"wall-samples", "wall-samples"},
    };
    const char *name = profile->strings[profile->types[type].type].data;
    for (size_t index = 0; index < sizeof PAIRS / sizeof PAIRS[0]; index++) {
        if (strcmp(name, PAIRS[index][0]) == 0) {
            return pyr_profile_find_type(profile, PAIRS[index][1]);
        }
    }
    return -1;
}

double pyr_costs_share_error(const pyr_costs *costs, int64_t part, double part_variance)
{
    double whole = (double)costs->total;
    double share = (double)part / whole;
    double rest_variance = costs->variance - part_variance;
    double variance = (1 - share) * (1 - share) * part_variance +
                      share * share * (rest_variance > 0 ? rest_variance : 0);
    return 1.96 * sqrt(variance) / fabs(whole);
}

/* `seen`: group -> 1 + the sample that counted it last, so that recursion counts once. */
static void add_sample(pyr_costs *costs, const pyr_profile *profile, const pyr_groups *groups,
                       size_t *seen, size_t index, int64_t value, double variance)
{
    const pyr_profile_sample *sample = &profile->samples[index];
    pyr_units_add(&costs->total, value);
    costs->variance += variance;
    for (uint32_t at = 0; at < sample->frame_count; at++) {
        uint32_t group = groups->of_frame[profile->stack_frames[sample->frame_start + at]];
        pyr_cost *cost = &costs->list[group];
        if (at == 0) {
            pyr_units_add(&cost->self, value);
            cost->self_variance += variance;
        }
        if (seen[group] != index + 1) {
            seen[group] = index + 1;
            pyr_units_add(&cost->total, value);
            cost->total_variance += variance;
        }
    }
}

static int compare(int64_t left, int64_t right)
{
    return (left < right) - (left > right);
}

static int compare_costs(const void *left, const void *right)
{
    const pyr_cost *first = left;
    const pyr_cost *second = right;
    int order = compare(first->self, second->self);
    order = order != 0 ? order : compare(first->total, second->total);
    order = order != 0 ? order : compare(second->group.name, first->group.name);
    order = order != 0 ? order : compare(second->group.file, first->group.file);
    return order != 0 ? order : compare(second->group.line, first->group.line);
}

/* Drops what has no value of this type at all, and sorts the rest. */
static void finish(pyr_costs *costs)
{
    size_t kept = 0;
    for (size_t index = 0; index < costs->count; index++) {
        if (costs->list[index].total != 0 || costs->list[index].self != 0) {
            costs->list[kept++] = costs->list[index];
        }
    }
    costs->count = kept;
    if (kept > 0) {
        qsort(costs->list, kept, sizeof *costs->list, compare_costs);
    }
}

double pyr_costs_variance(const int64_t *values, size_t type, int count_type)
{
    double value = (double)values[type];
    int64_t looks = count_type >= 0 ? values[count_type] : 0;
    return count_type >= 0 ? value * value / (double)(looks > 1 ? looks : 1) : 0;
}

pyr_status pyr_costs_init(pyr_costs *costs, const pyr_profile *profile, size_t type,
                          const pyr_groups *groups)
{
    int count_type = pyr_costs_count_type(profile, type);
    *costs = (pyr_costs){.count = groups->count, .sampled = count_type >= 0};
    costs->list = pyr_memory_new(groups->count + 1, sizeof *costs->list);
    size_t *seen = pyr_memory_new(groups->count + 1, sizeof *seen);
    if (costs->list == NULL || seen == NULL) {
        pyr_costs_fini(costs);
        pyr_memory_free(seen);
        return PYR_ENOMEM;
    }
    for (size_t index = 0; index < groups->count; index++) {
        costs->list[index].group = groups->list[index];
    }
    for (size_t index = 0; index < profile->sample_count; index++) {
        const int64_t *values = &profile->values[profile->samples[index].value_start];
        if (values[type] != 0) {
            add_sample(costs, profile, groups, seen, index, values[type],
                       pyr_costs_variance(values, type, count_type));
        }
    }
    finish(costs);
    pyr_memory_free(seen);
    return PYR_OK;
}

void pyr_costs_fini(pyr_costs *costs)
{
    pyr_memory_free(costs->list);
    *costs = (pyr_costs){0};
}
