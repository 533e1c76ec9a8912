/* pyrometer report: functions or lines by self and total.
 *
 * Owns the costs and the table while it prints. One thread. What a limit cuts off is a row of its
 * own, so that the self column adds up to the total in the header.
 */
#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"

static void add_string(pyr_table *table, const pyr_report *view, uint32_t string)
{
    const pyr_profile_text *text = &view->input.profile->strings[string];
    pyr_table_add(table, text->data, text->length);
}

static int compare_totals(const void *left, const void *right)
{
    const pyr_cost *first = left;
    const pyr_cost *second = right;
    int order = (first->total < second->total) - (first->total > second->total);
    return order != 0 ? order : (first->self < second->self) - (first->self > second->self);
}

static void add_rest(const pyr_report *view, pyr_table *table, const pyr_costs *costs, size_t shown)
{
    int64_t self = 0;
    for (size_t index = shown; index < costs->count; index++) {
        pyr_units_add(&self, costs->list[index].self);
    }
    char text[PYR_UNITS_BYTES];
    snprintf(text, sizeof text, "… %zu more (--limit 0 shows all)", costs->count - shown);
    pyr_report_add_value(table, view, self);
    pyr_report_add_percent(table, self, costs->total);
    for (int column = 0; column < 4; column++) {
        pyr_table_add_text(table, "");
    }
    pyr_table_add_text(table, text);
    pyr_table_add_text(table, "");
    pyr_table_style_row(table, PYR_TABLE_DIM);
}

static int print_costs(const pyr_report *view, const pyr_costs *costs, size_t shown)
{
    static const pyr_table_column COLUMNS[] = {
        {"self", true}, {"%", true}, {"±", true},         {"total", true},
        {"%", true},    {"±", true}, {"function", false}, {"file", false},
    };
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return pyr_message_no_memory();
    }
    for (size_t index = 0; index < shown; index++) {
        const pyr_cost *cost = &costs->list[index];
        pyr_report_add_value(table, view, cost->self);
        pyr_report_add_percent(table, cost->self, costs->total);
        pyr_report_add_error(table, costs, cost->self, cost->self_variance);
        pyr_report_add_value(table, view, cost->total);
        pyr_report_add_percent(table, cost->total, costs->total);
        pyr_report_add_error(table, costs, cost->total, cost->total_variance);
        add_string(table, view, cost->group.name);
        pyr_report_add_place(table, view, &cost->group);
    }
    if (shown < costs->count) {
        add_rest(view, table, costs, shown);
    }
    int code = pyr_report_print(view, table);
    pyr_table_free(table);
    return code;
}

static int json_costs(const pyr_report *view, const pyr_costs *costs, size_t shown)
{
    pyr_json json = pyr_report_json_begin(view);
    pyr_json_begin(&json, view->lines ? "lines" : "functions", '[');
    for (size_t index = 0; index < shown; index++) {
        const pyr_cost *cost = &costs->list[index];
        pyr_json_begin(&json, NULL, '{');
        pyr_report_json_group(&json, view, &cost->group);
        pyr_json_integer(&json, "self", cost->self);
        pyr_json_real(&json, "self_share", pyr_report_share(cost->self, costs->total));
        pyr_report_json_error(&json, "self_error", costs, cost->self, cost->self_variance);
        pyr_json_integer(&json, "total", cost->total);
        pyr_json_real(&json, "total_share", pyr_report_share(cost->total, costs->total));
        pyr_report_json_error(&json, "total_error", costs, cost->total, cost->total_variance);
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    pyr_json_integer(&json, "not_shown", (int64_t)(costs->count - shown));
    pyr_report_json_end(&json);
    return PYR_EXIT_GOOD;
}

int pyr_report_functions(const pyr_report *view)
{
    pyr_groups groups;
    pyr_costs costs;
    if (pyr_groups_init(&groups, view->input.profile, view->lines) != PYR_OK) {
        return pyr_message_no_memory();
    }
    int code = PYR_EXIT_GOOD;
    if (pyr_costs_init(&costs, view->input.profile, view->selection.type, &groups) != PYR_OK) {
        code = pyr_message_no_memory();
    } else {
        size_t shown = view->limit == 0 || view->limit > costs.count ? costs.count : view->limit;
        if (view->sort != NULL && strcmp(view->sort, "total") == 0 && costs.count > 0) {
            qsort(costs.list, costs.count, sizeof *costs.list, compare_totals);
        }
        code = view->json ? json_costs(view, &costs, shown) : print_costs(view, &costs, shown);
        pyr_costs_fini(&costs);
    }
    pyr_groups_fini(&groups);
    return code;
}
