/* pyrometer diff: what changed between two profiles, noise told apart from change.
 *
 * Owns both inputs and the difference. One thread. The statistics are those of pprof/diff.h; this
 * file shows them and decides what --fail-on finds.
 */
#include "pprof/diff.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/header.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/select.h"
#include "cli/table.h"
#include "cli/units.h"

enum { LIMIT_DEFAULT = 30, FINDINGS_SHOWN = 10 };

typedef struct side {
    pyr_input input;
    pyr_selection selection;
} side;

typedef struct comparison {
    pyr_select_arguments select;
    bool all, json;
    const char *fail_on;
    double allowed; /* share of the total before that a function may grow by; from fail_on */
    size_t limit;
    side before, after;
    pyr_diff *diff;
    pyr_scale scale;
} comparison;

/* --------------------------------------------------------------------------------- table ---- */

static void add_number(pyr_table *table, const comparison *view, double value, bool sign)
{
    char text[PYR_UNITS_BYTES];
    char cell[PYR_UNITS_BYTES + 8];
    pyr_units_format(text, view->scale, value);
    snprintf(cell, sizeof cell, "%s%s", sign && value > 0 ? "+" : "", text);
    pyr_table_add_text(table, cell);
}

static void add_margin(pyr_table *table, const comparison *view, double margin)
{
    char text[PYR_UNITS_BYTES];
    char cell[PYR_UNITS_BYTES + 8] = "";
    if (!isnan(margin)) {
        pyr_units_format(text, view->scale, margin);
        snprintf(cell, sizeof cell, "±%s", text);
    }
    pyr_table_add_text(table, cell);
}

static void add_row(pyr_table *table, const comparison *view, const pyr_diff_measure *total,
                    const pyr_diff_measure *self, const char *name, const char *file)
{
    add_number(table, view, total->before, false);
    add_number(table, view, total->after, false);
    add_number(table, view, total->change, true);
    add_margin(table, view, total->margin);
    if (self != NULL) {
        add_number(table, view, self->change, true);
        add_margin(table, view, self->margin);
    } else {
        pyr_table_add_text(table, "");
        pyr_table_add_text(table, "");
    }
    pyr_table_add_text(table, name);
    pyr_table_add_text(table, file);
    bool changed = total->is_significant || (self != NULL && self->is_significant);
    bool known = !isnan(total->margin);
    pyr_table_style_row(table, known && !changed   ? PYR_TABLE_DIM
                               : !known            ? PYR_TABLE_PLAIN
                               : total->change > 0 ? PYR_TABLE_WORSE
                                                   : PYR_TABLE_BETTER);
}

/* False for functions that have samples of other types only. */
static bool has_value(const pyr_diff_function *function)
{
    return function->total.before != 0 || function->total.after != 0;
}

/* A change outside the noise; where nothing is known of the noise, any change. */
static bool is_shown(const comparison *view, const pyr_diff_function *function)
{
    bool known = !isnan(function->total.margin);
    return (view->all && has_value(function)) || function->total.is_significant ||
           function->self.is_significant || (!known && function->total.change != 0);
}

static void print_side(const char *title, const side *one)
{
    printf("%s\n", title);
    pyr_header_print(stdout, &one->input, &one->selection);
}

static int print_table(const comparison *view)
{
    static const pyr_table_column COLUMNS[] = {
        {"before", true},  {"after", true}, {"change", true},    {"±", true},
        {"of self", true}, {"±", true},     {"function", false}, {"file", false},
    };
    const pyr_diff *diff = view->diff;
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return pyr_message_no_memory();
    }
    add_row(table, view, &diff->whole, NULL, "(all)", "");
    size_t shown = 0;
    size_t cut = 0;
    size_t noise = 0;
    for (size_t index = 0; index < diff->count; index++) {
        const pyr_diff_function *function = &diff->functions[index];
        if (!is_shown(view, function)) {
            noise += has_value(function);
        } else if (view->limit != 0 && shown == view->limit) {
            cut++;
        } else {
            add_row(table, view, &function->total, &function->self, function->name, function->file);
            shown++;
        }
    }
    print_side("Before", &view->before);
    print_side("After", &view->after);
    printf("%s of %s%s, in total with calls; ± is the interval that sampling leaves (95 %%).\n\n",
           diff->per_second ? "Change per second" : "Change", diff->type,
           diff->per_second ? " (of one process)" : "");
    pyr_status status = pyr_table_print(table, stdout);
    pyr_table_free(table);
    if (status != PYR_OK) {
        return pyr_message_no_memory();
    }
    if (cut > 0) {
        printf("\n%zu more changed (--limit 0 shows all).", cut);
    }
    if (noise > 0) {
        printf("\n%zu functions did not change by more than the noise (--all shows them).", noise);
    }
    if (cut + noise > 0) {
        putchar('\n');
    }
    if (!diff->per_second) {
        printf("\nA profile does not say its duration, so plain sums are compared.\n");
    }
    return PYR_EXIT_GOOD;
}

/* ---------------------------------------------------------------------------------- JSON ---- */

static void json_measure(pyr_json *json, const char *key, const pyr_diff_measure *measure)
{
    pyr_json_begin(json, key, '{');
    pyr_json_real(json, "before", measure->before);
    pyr_json_real(json, "after", measure->after);
    pyr_json_real(json, "change", measure->change);
    pyr_json_real(json, "margin", measure->margin);
    pyr_json_real(json, "doubt", measure->doubt);
    pyr_json_boolean(json, "significant", measure->is_significant);
    pyr_json_end(json, '}');
}

static void json_side(pyr_json *json, const char *key, const side *one)
{
    pyr_json_begin(json, key, '{');
    pyr_header_json(json, &one->input, &one->selection);
    pyr_json_end(json, '}');
}

static void print_json(const comparison *view)
{
    const pyr_diff *diff = view->diff;
    pyr_json json = {.out = stdout};
    pyr_json_begin(&json, NULL, '{');
    json_side(&json, "before", &view->before);
    json_side(&json, "after", &view->after);
    pyr_json_string(&json, "type", diff->type);
    pyr_json_string(&json, "unit", diff->unit);
    pyr_json_boolean(&json, "per_second", diff->per_second);
    json_measure(&json, "whole", &diff->whole);
    pyr_json_begin(&json, "functions", '[');
    size_t shown = 0;
    for (size_t index = 0; index < diff->count; index++) {
        const pyr_diff_function *function = &diff->functions[index];
        if (is_shown(view, function) && (view->limit == 0 || shown < view->limit)) {
            pyr_json_begin(&json, NULL, '{');
            pyr_json_string(&json, "function", function->name);
            pyr_json_string(&json, "file", function->file);
            json_measure(&json, "self", &function->self);
            json_measure(&json, "total", &function->total);
            pyr_json_end(&json, '}');
            shown++;
        }
    }
    pyr_json_end(&json, ']');
    pyr_json_integer(&json, "not_shown", (int64_t)(diff->count - shown));
    pyr_json_end(&json, '}');
    putchar('\n');
}

/* ------------------------------------------------------------------------------- fail-on ---- */

static bool grew(const comparison *view, const pyr_diff_measure *measure)
{
    return measure->is_significant &&
           measure->change > view->allowed * fabs(view->diff->whole.before);
}

static void tell(const comparison *view, const char *name, const pyr_diff_measure *measure)
{
    double whole = fabs(view->diff->whole.before);
    if (whole > 0) {
        pyr_message_note("%s grew by %.1f %% ±%.1f of the total before, more than the %s allowed",
                         name, 100 * measure->change / whole, 100 * measure->margin / whole,
                         view->fail_on);
    } else {
        pyr_message_note("%s grew from nothing, more than the %s allowed", name, view->fail_on);
    }
}

static int find_growth(const comparison *view)
{
    const pyr_diff *diff = view->diff;
    size_t findings = 0;
    if (isnan(diff->whole.margin)) {
        return pyr_message_wrong("--fail-on cannot tell change from noise: the profiles do not "
                                 "count the samples of %s; choose another --type",
                                 diff->type);
    }
    if (diff->whole.before == 0 && diff->whole.after == 0) {
        return pyr_message_wrong(
            "--fail-on has nothing to compare: neither side has a sample of %s "
            "that these options choose",
            diff->type);
    }
    if (grew(view, &diff->whole)) {
        tell(view, "all together", &diff->whole);
        findings++;
    }
    for (size_t index = 0; index < diff->count; index++) {
        const pyr_diff_function *function = &diff->functions[index];
        bool total = grew(view, &function->total);
        if (total || grew(view, &function->self)) {
            if (findings < FINDINGS_SHOWN) {
                tell(view, function->name, total ? &function->total : &function->self);
            }
            findings++;
        }
    }
    if (findings > FINDINGS_SHOWN) {
        pyr_message_note("and %zu more functions", findings - FINDINGS_SHOWN);
    }
    return findings > 0 ? PYR_EXIT_FINDING : PYR_EXIT_GOOD;
}

/* ------------------------------------------------------------------------------ the rest ---- */

/* Samples of different moments stay apart, since each is an observation of its own. */
static int open_side(side *one, char *const *path, const pyr_select_arguments *select)
{
    int code = pyr_input_open(&one->input, path, 1, PYR_INPUT_TIMELINE);
    return code == PYR_EXIT_GOOD ? pyr_select(select, one->input.profile, &one->selection) : code;
}

static int compare(comparison *view, char *const *paths)
{
    int code = open_side(&view->before, &paths[0], &view->select);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    view->select.type = view->before.selection.type_name;
    code = open_side(&view->after, &paths[1], &view->select);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    /* A gate that is asked about each function must not fail by chance: Bonferroni. */
    pyr_diff_options options = {
        .type = view->select.type,
        .correction = view->fail_on != NULL ? PYR_DIFF_BONFERRONI : PYR_DIFF_FALSE_RATE,
    };
    pyr_status status =
        pyr_diff_new(view->before.input.profile, view->after.input.profile, &options, &view->diff);
    if (status == PYR_ENOENT) {
        return pyr_message_wrong("%s has %s in another unit than %s; they cannot be compared",
                                 paths[1], view->select.type, paths[0]);
    }
    if (status != PYR_OK) {
        return pyr_message_no_memory();
    }
    char suffix[PYR_UNITS_BYTES];
    double largest = fmax(fabs(view->diff->whole.before), fabs(view->diff->whole.after));
    view->scale = pyr_units_scale(largest, view->diff->unit);
    snprintf(suffix, sizeof suffix, "%s%s", view->scale.suffix, view->diff->per_second ? "/s" : "");
    view->scale.suffix = suffix;
    if (view->json) {
        print_json(view);
    } else {
        code = print_table(view);
    }
    return code == PYR_EXIT_GOOD && view->fail_on != NULL ? find_growth(view) : code;
}

static int read_allowed(comparison *view)
{
    if (view->fail_on == NULL) {
        return PYR_EXIT_GOOD;
    }
    if (!pyr_options_percent(view->fail_on, &view->allowed)) {
        return pyr_message_wrong("--fail-on cannot be \"%s\"; give it a percentage between 0 and "
                                 "100, such as 5%%",
                                 view->fail_on);
    }
    view->allowed /= 100;
    return PYR_EXIT_GOOD;
}

int pyr_command_diff(int argc, char **argv)
{
    comparison view = {.limit = LIMIT_DEFAULT};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to show", NULL},
        PYR_SELECT_TYPE_OPTION(&view.select),
        {PYR_OPTION_FLAG, 0, "all", NULL, "also what changed by no more than the noise", &view.all},
        {PYR_OPTION_COUNT, 'n', "limit", "COUNT", "functions shown (default 30; 0 = all)",
         &view.limit},
        {PYR_OPTION_FLAG, 0, "json", NULL, "exact numbers as JSON", &view.json},
        {PYR_OPTION_TEXT, 0, "fail-on", "PERCENT",
         "exit with 1 if anything grew by more than this part of the total", &view.fail_on},
        PYR_SELECT_OPTIONS(&view.select),
    };
    const pyr_usage usage = {
        .command = "diff",
        .operands = "BEFORE AFTER",
        .about = "Compares two profiles (or folders of profiles) function by function, per second, "
                 "and leaves out\nwhat differs by chance.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 2,
        .most_operands = 2,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    int code = read_allowed(&view);
    if (code == PYR_EXIT_GOOD) {
        code = compare(&view, argv);
    }
    pyr_diff_free(view.diff);
    pyr_input_close(&view.before.input);
    pyr_input_close(&view.after.input);
    return code;
}
