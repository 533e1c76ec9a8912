/* The parts of `pyrometer report`: one view each, over a selection of samples.
 *
 * A view prints the header and its table, or with --json one object with the same facts.
 * Each returns the exit code, after one line about what went wrong. */
#ifndef PYR_CLI_REPORT_H
#define PYR_CLI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/costs.h"
#include "cli/groups.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/select.h"
#include "cli/table.h"
#include "cli/units.h"

typedef struct pyr_report {
    pyr_select_arguments select;
    bool lines, tree, json, list_types;
    const char *by, *sort;
    size_t limit; /* 0 = all */
    double least_percent;
    pyr_input input;
    pyr_selection selection;
    pyr_scale scale; /* of all values of the view */
} pyr_report;

int pyr_report_functions(const pyr_report *view);
int pyr_report_tree(const pyr_report *view);
int pyr_report_labels(const pyr_report *view);

/* Cells and members that the views share. An error cell is empty where nothing is known. */
void pyr_report_add_value(pyr_table *table, const pyr_report *view, int64_t value);
void pyr_report_add_percent(pyr_table *table, int64_t part, int64_t whole);
void pyr_report_add_error(pyr_table *table, const pyr_costs *costs, int64_t part, double variance);
void pyr_report_add_place(pyr_table *table, const pyr_report *view, const pyr_group *group);
void pyr_report_json_group(pyr_json *json, const pyr_report *view, const pyr_group *group);
void pyr_report_json_error(pyr_json *json, const char *key, const pyr_costs *costs, int64_t part,
                           double variance);
pyr_json pyr_report_json_begin(const pyr_report *view);
void pyr_report_json_end(pyr_json *json);
int pyr_report_print(const pyr_report *view, const pyr_table *table);

/* part / whole, 0 of nothing. */
double pyr_report_share(int64_t part, int64_t whole);

#endif
