/* Call trees.
 *
 * Owns the nodes. One thread. Nothing recurses, since stacks of a foreign file may be of any depth.
 */
#include "cli/tree.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cli/pairs.h"
#include "cli/units.h"

/* One pair a node: (number of the parent + 1, group). Leaves of samples go to `leaves`. */
static pyr_status number_nodes(const pyr_profile *profile, size_t type, const pyr_groups *groups,
                               pyr_pairs *numbers, uint32_t *leaves)
{
    for (size_t index = 0; index < profile->sample_count; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        if (profile->values[sample->value_start + type] == 0) {
            continue;
        }
        uint32_t parent = 0;
        for (uint32_t at = sample->frame_count; at > 0; at--) {
            uint32_t frame = profile->stack_frames[sample->frame_start + at - 1];
            uint32_t node = 0;
            pyr_status status = pyr_pairs_add(numbers, parent, groups->of_frame[frame], &node);
            if (status != PYR_OK) {
                return status;
            }
            parent = node + 1;
        }
        leaves[index] = parent; /* 0 = no frames, which input.c rules out */
    }
    return PYR_OK;
}

static void add_up(pyr_tree *tree, const pyr_profile *profile, size_t type, const uint32_t *leaves)
{
    for (size_t index = 0; index < profile->sample_count; index++) {
        int64_t value = profile->values[profile->samples[index].value_start + type];
        if (value != 0 && leaves[index] > 0) {
            pyr_units_add(&tree->nodes[leaves[index] - 1].self, value);
            pyr_units_add(&tree->total, value);
        }
    }
    for (size_t index = tree->count; index > 0; index--) {
        pyr_tree_node *node = &tree->nodes[index - 1];
        pyr_units_add(&node->total, node->self);
        if (node->parent != PYR_TREE_NONE) {
            pyr_units_add(&tree->nodes[node->parent].total, node->total);
        }
    }
}

typedef struct entry { /* what sorting needs of a node */
    uint64_t size;     /* of its total: in a difference it may be negative */
    uint32_t node;
} entry;

static int compare_entries(const void *left, const void *right)
{
    const entry *first = left;
    const entry *second = right;
    int order = (first->size > second->size) - (first->size < second->size);
    return order != 0 ? order : (first->node < second->node) - (first->node > second->node);
}

/* Pushes nodes to the front of their parent's list, least first: lists end up with most first. */
static pyr_status link_nodes(pyr_tree *tree)
{
    entry *order = pyr_memory_new(tree->count + 1, sizeof *order);
    if (order == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t index = 0; index < tree->count; index++) {
        int64_t total = tree->nodes[index].total;
        uint64_t size = total < 0 ? 0 - (uint64_t)total : (uint64_t)total;
        order[index] = (entry){size, (uint32_t)index};
    }
    qsort(order, tree->count, sizeof *order, compare_entries);
    tree->first_root = PYR_TREE_NONE;
    for (size_t index = 0; index < tree->count; index++) {
        pyr_tree_node *node = &tree->nodes[order[index].node];
        int64_t *first = node->parent == PYR_TREE_NONE ? &tree->first_root
                                                       : &tree->nodes[node->parent].first_child;
        node->next_sibling = *first;
        *first = order[index].node;
    }
    pyr_memory_free(order);
    return PYR_OK;
}

pyr_status pyr_tree_init(pyr_tree *tree, const pyr_profile *profile, size_t type,
                         const pyr_groups *groups)
{
    *tree = (pyr_tree){0};
    pyr_status status = PYR_ENOMEM;
    pyr_pairs *numbers = pyr_pairs_new();
    uint32_t *leaves = pyr_memory_new(profile->sample_count + 1, sizeof *leaves);
    if (numbers == NULL || leaves == NULL) {
        goto out;
    }
    status = number_nodes(profile, type, groups, numbers, leaves);
    if (status != PYR_OK) {
        goto out;
    }
    tree->count = pyr_pairs_count(numbers);
    tree->nodes = pyr_memory_new(tree->count + 1, sizeof *tree->nodes);
    if (tree->nodes == NULL) {
        status = PYR_ENOMEM;
        goto out;
    }
    for (size_t index = 0; index < tree->count; index++) {
        pyr_pair pair = pyr_pairs_at(numbers, index);
        int64_t parent = (int64_t)pair.first - 1; /* 0 becomes PYR_TREE_NONE */
        tree->nodes[index] = (pyr_tree_node){
            .group = pair.second,
            .parent = parent,
            .next_sibling = PYR_TREE_NONE,
            .first_child = PYR_TREE_NONE,
            .depth = parent == PYR_TREE_NONE ? 0 : tree->nodes[parent].depth + 1,
        };
    }
    add_up(tree, profile, type, leaves);
    status = link_nodes(tree);
out:
    if (status != PYR_OK) {
        pyr_tree_fini(tree);
    }
    pyr_pairs_free(numbers);
    pyr_memory_free(leaves);
    return status;
}

void pyr_tree_fini(pyr_tree *tree)
{
    pyr_memory_free(tree->nodes);
    *tree = (pyr_tree){0};
}
