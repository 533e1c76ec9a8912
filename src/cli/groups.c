/* Frames grouped by what they are shown as.
 *
 * Owns its arrays. One thread. Expects a merged profile, in which equal strings have one index.
 */
#include "cli/groups.h"

#include "base/memory.h"
#include "cli/pairs.h"

static pyr_status number_frames(pyr_groups *groups, const pyr_profile *profile, bool by_line,
                                pyr_pairs *functions, pyr_pairs *lines)
{
    for (size_t index = 0; index < profile->frame_count; index++) {
        const pyr_profile_frame *frame = &profile->frames[index];
        const pyr_profile_function *function = &profile->functions[frame->function];
        uint32_t number = 0;
        pyr_status status = pyr_pairs_add(functions, function->name, function->file, &number);
        if (status == PYR_OK) {
            /* A line number of more than 32 bits is no line number. */
            bool known = by_line && frame->line > 0 && frame->line <= UINT32_MAX;
            status = pyr_pairs_add(lines, number, known ? (uint32_t)frame->line : 0,
                                   &groups->of_frame[index]);
        }
        if (status != PYR_OK) {
            return status;
        }
    }
    return PYR_OK;
}

pyr_status pyr_groups_init(pyr_groups *groups, const pyr_profile *profile, bool by_line)
{
    pyr_status status = PYR_ENOMEM;
    pyr_pairs *functions = pyr_pairs_new();
    pyr_pairs *lines = pyr_pairs_new();
    *groups = (pyr_groups){.of_frame =
                               pyr_memory_new(profile->frame_count + 1, sizeof *groups->of_frame)};
    if (functions == NULL || lines == NULL || groups->of_frame == NULL) {
        goto out;
    }
    status = number_frames(groups, profile, by_line, functions, lines);
    if (status != PYR_OK) {
        goto out;
    }
    groups->count = pyr_pairs_count(lines);
    groups->list = pyr_memory_new(groups->count + 1, sizeof *groups->list);
    if (groups->list == NULL) {
        status = PYR_ENOMEM;
        goto out;
    }
    for (size_t index = 0; index < groups->count; index++) {
        pyr_pair line = pyr_pairs_at(lines, index);
        pyr_pair function = pyr_pairs_at(functions, line.first);
        groups->list[index] = (pyr_group){function.first, function.second, line.second};
    }
out:
    if (status != PYR_OK) {
        pyr_groups_fini(groups);
    }
    pyr_pairs_free(functions);
    pyr_pairs_free(lines);
    return status;
}

void pyr_groups_fini(pyr_groups *groups)
{
    pyr_memory_free(groups->list);
    pyr_memory_free(groups->of_frame);
    *groups = (pyr_groups){0};
}
