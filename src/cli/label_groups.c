/* Samples grouped by the value of one label.
 *
 * Owns the groups. One thread. Texts are compared by their string index (the profile is merged, so
 * equal texts have one index), numbers by their 64 bits.
 */
#include "cli/label_groups.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cli/costs.h"
#include "cli/pairs.h"
#include "cli/units.h"

enum { KIND_NONE, KIND_TEXT, KIND_NUMBER };

static pyr_status number_of(pyr_pairs *kinds, pyr_pairs *numbers, const pyr_profile_label *label,
                            uint32_t *number)
{
    if (label == NULL) {
        return pyr_pairs_add(kinds, KIND_NONE, 0, number);
    }
    if (label->text != 0) {
        return pyr_pairs_add(kinds, KIND_TEXT, label->text, number);
    }
    uint64_t bits = (uint64_t)label->number;
    uint32_t id = 0;
    pyr_status status = pyr_pairs_add(numbers, (uint32_t)(bits >> 32), (uint32_t)bits, &id);
    return status == PYR_OK ? pyr_pairs_add(kinds, KIND_NUMBER, id, number) : status;
}

static int compare_groups(const void *left, const void *right)
{
    const pyr_label_group *first = left;
    const pyr_label_group *second = right;
    int order = (first->value < second->value) - (first->value > second->value);
    return order != 0 ? order
                      : (first->samples < second->samples) - (first->samples > second->samples);
}

pyr_status pyr_label_groups_init(pyr_label_groups *groups, const pyr_profile *profile, size_t type,
                                 const char *key)
{
    *groups = (pyr_label_groups){0};
    int count_type = pyr_costs_count_type(profile, type);
    pyr_status status = PYR_ENOMEM;
    pyr_pairs *kinds = pyr_pairs_new();
    pyr_pairs *numbers = pyr_pairs_new();
    size_t capacity = 0;
    if (kinds == NULL || numbers == NULL) {
        goto out;
    }
    for (size_t index = 0; index < profile->sample_count; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        const int64_t *values = &profile->values[sample->value_start];
        const pyr_profile_label *label = pyr_profile_find_label(profile, sample, key);
        groups->labelled += label != NULL;
        if (values[type] == 0) {
            continue;
        }
        uint32_t number = 0;
        status = number_of(kinds, numbers, label, &number);
        if (status != PYR_OK) {
            goto out;
        }
        if (number == groups->count) { /* the first of its group */
            if (number == capacity) {
                capacity = capacity == 0 ? 64 : capacity * 2;
                pyr_label_group *list =
                    pyr_memory_resize(groups->list, capacity, sizeof *groups->list);
                if (list == NULL) {
                    status = PYR_ENOMEM;
                    goto out;
                }
                groups->list = list;
            }
            groups->list[groups->count++] = (pyr_label_group){.label = label};
        }
        pyr_label_group *group = &groups->list[number];
        pyr_units_add(&group->value, values[type]);
        group->variance += pyr_costs_variance(values, type, count_type);
        if (count_type >= 0) {
            pyr_units_add(&group->samples, values[count_type]);
        } else {
            group->samples = -1;
        }
    }
    if (groups->count > 0) {
        qsort(groups->list, groups->count, sizeof *groups->list, compare_groups);
    }
    status = PYR_OK;
out:
    if (status != PYR_OK) {
        pyr_label_groups_fini(groups);
    }
    pyr_pairs_free(kinds);
    pyr_pairs_free(numbers);
    return status;
}

void pyr_label_groups_fini(pyr_label_groups *groups)
{
    pyr_memory_free(groups->list);
    *groups = (pyr_label_groups){0};
}
