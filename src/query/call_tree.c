/* The call tree; see the header. Nothing recurses: stacks may be of any depth. One thread. */
#include "query/call_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "query/call_graph.h"

enum { NODES = 1 << 22 };

typedef struct growing {
    pyr_buffer nodes;   /* pyr_call_node */
    pyr_map *children;  /* parent and function -> node */
    uint32_t *of_frame; /* frame -> first function with its name and file */
} growing;

static pyr_status unify(growing *g, const pyr_profile *profile)
{
    uint32_t *first = pyr_functions_unify(profile);
    g->of_frame = pyr_memory_new(profile->frame_count + 1, sizeof *g->of_frame);
    pyr_status status = first != NULL && g->of_frame != NULL ? PYR_OK : PYR_ENOMEM;
    for (size_t frame = 0; frame < profile->frame_count && status == PYR_OK; frame++) {
        g->of_frame[frame] = first[profile->frames[frame].function];
    }
    pyr_memory_free(first);
    return status;
}

static pyr_status child_of(growing *g, int32_t parent, uint32_t function, int32_t *child)
{
    uint64_t key = (uint64_t)(uint32_t)parent << 32 | function;
    uint64_t known = 0;
    if (pyr_map_get(g->children, key, &known)) {
        *child = (int32_t)known;
        return PYR_OK;
    }
    const pyr_call_node *above = (const pyr_call_node *)(const void *)g->nodes.data + parent;
    const pyr_call_node node = {.function = function, .parent = parent, .depth = above->depth + 1};
    *child = (int32_t)(g->nodes.length / sizeof node);
    pyr_status status = pyr_buffer_append(&g->nodes, &node, sizeof node);
    return status == PYR_OK ? pyr_map_put(g->children, key, (uint64_t)*child) : status;
}

static void add(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = value > 0 ? INT64_MAX : INT64_MIN;
    }
}

static pyr_status grow(growing *g, const pyr_profile *profile, size_t type)
{
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        int64_t value = profile->values[sample->value_start + type];
        int32_t node = 0;
        for (uint32_t left = sample->frame_count; left > 0 && value != 0 && status == PYR_OK;
             left--) {
            uint32_t frame = profile->stack_frames[sample->frame_start + left - 1];
            status = child_of(g, node, g->of_frame[frame], &node);
        }
        add(&((pyr_call_node *)(void *)g->nodes.data)[node].self, status == PYR_OK ? value : 0);
    }
    return status;
}

static int compare_totals(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left < right) - (left > right);
}

/* The least total that stays: the `most`-th largest. */
static pyr_status find_least(const pyr_call_tree *tree, size_t most, int64_t *least)
{
    int64_t *totals = pyr_memory_new(tree->count + 1, sizeof *totals);
    if (totals == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t at = 0; at < tree->count; at++) {
        totals[at] = tree->nodes[at].total;
    }
    qsort(totals, tree->count, sizeof *totals, compare_totals);
    *least = totals[most];
    pyr_memory_free(totals);
    return PYR_OK;
}

static pyr_status cut(pyr_call_tree *tree, size_t most)
{
    int64_t least = 0;
    int32_t *moved = pyr_memory_new(tree->count + 1, sizeof *moved);
    pyr_status status = moved != NULL ? find_least(tree, most, &least) : PYR_ENOMEM;
    size_t kept = 1;
    for (size_t at = 1; at < tree->count && status == PYR_OK; at++) {
        pyr_call_node node = tree->nodes[at];
        int32_t parent = moved[node.parent];
        /* A total is at least that of any below it, so a cut node's children are cut too. */
        bool stays =
            node.total > least && kept < most && parent >= 0 && (node.parent == 0 || parent > 0);
        if (!stays) {
            moved[at] = -1;
            if (parent >= 0) {
                add(&tree->nodes[parent].self, node.total);
                add(&tree->cut, node.total);
            }
            continue;
        }
        node.parent = parent;
        moved[at] = (int32_t)kept;
        tree->nodes[kept++] = node;
    }
    tree->count = status == PYR_OK ? kept : tree->count;
    pyr_memory_free(moved);
    return status;
}

pyr_status pyr_call_tree_init(pyr_call_tree *tree, const pyr_gathered *gathered, size_t type,
                              size_t most)
{
    static const pyr_call_node ROOT = {.function = UINT32_MAX, .parent = -1};
    growing g = {.children = pyr_map_new(NODES)};
    size_t length = 0;
    *tree = (pyr_call_tree){0};
    pyr_buffer_init(&g.nodes, NODES * sizeof(pyr_call_node));
    pyr_status status = g.children != NULL ? unify(&g, gathered->profile) : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = pyr_buffer_append(&g.nodes, &ROOT, sizeof ROOT);
    }
    if (status == PYR_OK) {
        status = grow(&g, gathered->profile, type);
    }
    tree->count = g.nodes.length / sizeof(pyr_call_node);
    tree->nodes = (pyr_call_node *)(void *)pyr_buffer_take(&g.nodes, &length);
    for (size_t at = tree->count; at > 0 && status == PYR_OK; at--) {
        pyr_call_node *node = &tree->nodes[at - 1];
        add(&node->total, node->self);
        if (node->parent >= 0) {
            add(&tree->nodes[node->parent].total, node->total);
        }
    }
    if (status == PYR_OK && most > 0 && tree->count > most) {
        status = cut(tree, most);
    }
    pyr_map_free(g.children);
    pyr_memory_free(g.of_frame);
    return status;
}

void pyr_call_tree_fini(pyr_call_tree *tree)
{
    pyr_memory_free(tree->nodes);
    *tree = (pyr_call_tree){0};
}
