/* Collapsed stacks: "root;caller;leaf value" a line.
 *
 * Owns the call tree while it writes. One thread. The format has no escapes, and its readers split
 * at each semicolon and newline: these become \x3b and \n in letters.
 */
#include "cli/formats.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "cli/display.h"
#include "cli/message.h"
#include "cli/tree.h"

enum { FRAME_BYTES_MAXIMUM = 1 << 20 };

/* "name (file)" or "name (file:line)" of each group, once. */
static bool name_groups(const pyr_profile *profile, const pyr_groups *groups, pyr_buffer *names)
{
    bool good = true;
    for (size_t index = 0; index < groups->count; index++) {
        const pyr_group *group = &groups->list[index];
        const pyr_profile_text *parts[] = {&profile->strings[group->name],
                                           &profile->strings[group->file]};
        pyr_buffer_init(&names[index], FRAME_BYTES_MAXIMUM);
        for (size_t part = 0; part < 2; part++) {
            pyr_buffer clean;
            pyr_buffer_init(&clean, FRAME_BYTES_MAXIMUM);
            pyr_display_clean(&clean, parts[part]->data, parts[part]->length);
            if (part == 1 && clean.length > 0) {
                pyr_buffer_text(&names[index], " (");
            }
            for (size_t at = 0; at < clean.length; at++) {
                if (clean.data[at] == ';') {
                    pyr_buffer_text(&names[index], "\\x3b");
                } else {
                    pyr_buffer_append(&names[index], &clean.data[at], 1);
                }
            }
            if (part == 1 && clean.length > 0) {
                if (group->line > 0) {
                    pyr_buffer_format(&names[index], ":%" PRId64, group->line);
                }
                pyr_buffer_text(&names[index], ")");
            }
            good = good && clean.status == PYR_OK;
            pyr_buffer_fini(&clean);
        }
        good = good && names[index].status == PYR_OK;
    }
    return good;
}

static void write_stacks(const pyr_tree *tree, const pyr_buffer *names, uint32_t *path, FILE *out)
{
    for (size_t index = 0; index < tree->count; index++) {
        const pyr_tree_node *node = &tree->nodes[index];
        if (node->self == 0) {
            continue;
        }
        for (int64_t at = (int64_t)index; at != PYR_TREE_NONE; at = tree->nodes[at].parent) {
            path[tree->nodes[at].depth] = tree->nodes[at].group;
        }
        for (size_t depth = 0; depth <= node->depth; depth++) {
            fputs(depth > 0 ? ";" : "", out);
            pyr_display_write(&names[path[depth]], out);
        }
        fprintf(out, " %" PRId64 "\n", node->self);
    }
}

int pyr_format_collapsed(const pyr_conversion *conversion, FILE *out)
{
    const pyr_profile *profile = conversion->input->profile;
    pyr_groups groups;
    pyr_tree tree = {0};
    pyr_buffer *names = NULL;
    uint32_t *path = NULL;
    if (pyr_groups_init(&groups, profile, conversion->lines) != PYR_OK) {
        return pyr_message_no_memory();
    }
    int code = PYR_EXIT_GOOD;
    names = pyr_memory_new(groups.count + 1, sizeof *names);
    if (names == NULL || !name_groups(profile, &groups, names) ||
        pyr_tree_init(&tree, profile, conversion->selection->type, &groups) != PYR_OK) {
        code = pyr_message_no_memory();
        goto out;
    }
    path = pyr_memory_new(tree.count + 1, sizeof *path);
    if (path == NULL) {
        code = pyr_message_no_memory();
        goto out;
    }
    write_stacks(&tree, names, path, out);
out:
    for (size_t index = 0; names != NULL && index < groups.count; index++) {
        pyr_buffer_fini(&names[index]);
    }
    pyr_memory_free(names);
    pyr_memory_free(path);
    pyr_tree_fini(&tree);
    pyr_groups_fini(&groups);
    return code;
}
