/* pyrometer report --tree: the call tree, callers above callees.
 *
 * Owns the tree and the table while it prints. One thread. Calls below --min-pct are summed up in
 * one row among their siblings, so that children and self add up to their caller's total.
 */
#include "cli/report.h"

#include <math.h>
#include <stdio.h>

#include "cli/message.h"
#include "cli/tree.h"

enum { DEPTH_SHOWN = 60, CALL_BYTES = 2048 };

typedef struct tree_walk {
    const pyr_report *view;
    const pyr_tree *tree;
    const pyr_groups *groups;
    pyr_table *table; /* of the two, one is NULL */
    pyr_json *json;
} tree_walk;

static bool is_small(const tree_walk *walk, int64_t total)
{
    double least = walk->view->least_percent / 100;
    return fabs((double)total) < least * fabs((double)walk->tree->total);
}

/* Deeper calls are no longer moved to the right: a stack of hundreds must stay readable. */
static int indent_of(size_t depth)
{
    return (int)(2 * (depth < DEPTH_SHOWN ? depth : DEPTH_SHOWN));
}

static void show_node(const tree_walk *walk, const pyr_tree_node *node)
{
    const pyr_report *view = walk->view;
    const pyr_group *group = &walk->groups->list[node->group];
    if (walk->json != NULL) {
        pyr_json_begin(walk->json, NULL, '{');
        pyr_report_json_group(walk->json, view, group);
        pyr_json_integer(walk->json, "depth", (int64_t)node->depth);
        pyr_json_integer(walk->json, "self", node->self);
        pyr_json_integer(walk->json, "total", node->total);
        pyr_json_real(walk->json, "total_share", pyr_report_share(node->total, walk->tree->total));
        pyr_json_end(walk->json, '}');
        return;
    }
    pyr_table *table = walk->table;
    char call[CALL_BYTES];
    snprintf(call, sizeof call, "%*s%s", indent_of(node->depth), "",
             view->input.profile->strings[group->name].data);
    pyr_report_add_value(table, view, node->total);
    pyr_report_add_percent(table, node->total, walk->tree->total);
    pyr_report_add_value(table, view, node->self);
    pyr_table_add_text(table, call);
    pyr_report_add_place(table, view, group);
}

/* What is too small to be shown among siblings, as one row. `first` is the first small one:
 * siblings are sorted, so all after it are small too. */
static void show_small(const tree_walk *walk, int64_t first)
{
    int64_t total = 0;
    size_t count = 0;
    size_t depth = walk->tree->nodes[first].depth;
    for (int64_t at = first; at != PYR_TREE_NONE; at = walk->tree->nodes[at].next_sibling) {
        pyr_units_add(&total, walk->tree->nodes[at].total);
        count++;
    }
    if (walk->json != NULL) {
        pyr_json_begin(walk->json, NULL, '{');
        pyr_json_integer(walk->json, "smaller", (int64_t)count);
        pyr_json_integer(walk->json, "depth", (int64_t)depth);
        pyr_json_integer(walk->json, "total", total);
        pyr_json_real(walk->json, "total_share", pyr_report_share(total, walk->tree->total));
        pyr_json_end(walk->json, '}');
        return;
    }
    char call[CALL_BYTES];
    snprintf(call, sizeof call, "%*s… %zu smaller", indent_of(depth), "", count);
    pyr_report_add_value(walk->table, walk->view, total);
    pyr_report_add_percent(walk->table, total, walk->tree->total);
    pyr_table_add_text(walk->table, "");
    pyr_table_add_text(walk->table, call);
    pyr_table_add_text(walk->table, "");
    pyr_table_style_row(walk->table, PYR_TABLE_DIM);
}

/* Preorder without recursion. A node is left for its next sibling, else for its parent's. */
static void walk_tree(const tree_walk *walk)
{
    int64_t at = walk->tree->first_root;
    while (at != PYR_TREE_NONE) {
        const pyr_tree_node *node = &walk->tree->nodes[at];
        bool small = is_small(walk, node->total);
        if (small) {
            show_small(walk, at);
        } else {
            show_node(walk, node);
        }
        if (!small && node->first_child != PYR_TREE_NONE) {
            at = node->first_child;
            continue;
        }
        int64_t next = small ? PYR_TREE_NONE : node->next_sibling;
        while (next == PYR_TREE_NONE && node->parent != PYR_TREE_NONE) {
            node = &walk->tree->nodes[node->parent];
            next = node->next_sibling;
        }
        at = next;
    }
}

int pyr_report_tree(const pyr_report *view)
{
    static const pyr_table_column COLUMNS[] = {
        {"total", true}, {"%", true}, {"self", true}, {"call", false}, {"file", false}};
    int code = PYR_EXIT_GOOD;
    pyr_groups groups;
    pyr_tree tree = {0};
    if (pyr_groups_init(&groups, view->input.profile, view->lines) != PYR_OK) {
        return pyr_message_no_memory();
    }
    tree_walk walk = {.view = view, .tree = &tree, .groups = &groups};
    if (pyr_tree_init(&tree, view->input.profile, view->selection.type, &groups) != PYR_OK) {
        code = pyr_message_no_memory();
        goto out;
    }
    if (view->json) {
        pyr_json json = pyr_report_json_begin(view);
        walk.json = &json;
        pyr_json_begin(&json, "tree", '[');
        walk_tree(&walk);
        pyr_json_end(&json, ']');
        pyr_report_json_end(&json);
        goto out;
    }
    walk.table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (walk.table == NULL) {
        code = pyr_message_no_memory();
        goto out;
    }
    walk_tree(&walk);
    code = pyr_report_print(view, walk.table);
out:
    pyr_table_free(walk.table);
    pyr_tree_fini(&tree);
    pyr_groups_fini(&groups);
    return code;
}
