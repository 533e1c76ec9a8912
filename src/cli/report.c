/* pyrometer report: where the time goes, as text or JSON.
 *
 * Owns the input. One thread. The views are in report_functions.c, report_tree.c and
 * report_labels.c.
 */
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"

enum { LIMIT_DEFAULT = 30 };

static int64_t sum_of(const pyr_profile *profile, size_t type)
{
    int64_t sum = 0;
    for (size_t index = 0; index < profile->sample_count; index++) {
        pyr_units_add(&sum, profile->values[profile->samples[index].value_start + type]);
    }
    return sum;
}

static void json_types(const pyr_profile *profile, int preferred)
{
    pyr_json json = {.out = stdout};
    pyr_json_begin(&json, NULL, '[');
    for (size_t type = 0; type < profile->type_count; type++) {
        pyr_json_begin(&json, NULL, '{');
        pyr_json_string(&json, "type", profile->strings[profile->types[type].type].data);
        pyr_json_string(&json, "unit", profile->strings[profile->types[type].unit].data);
        pyr_json_integer(&json, "total", sum_of(profile, type));
        pyr_json_boolean(&json, "default", (int)type == preferred);
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    fputc('\n', stdout);
}

static int list_types(const pyr_report *view)
{
    static const pyr_table_column COLUMNS[] = {
        {"type", false}, {"unit", false}, {"total", true}, {"", false}};
    const pyr_profile *profile = view->input.profile;
    int preferred = pyr_profile_default_type(profile);
    if (view->json) {
        json_types(profile, preferred);
        return PYR_EXIT_GOOD;
    }
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return pyr_message_no_memory();
    }
    for (size_t type = 0; type < profile->type_count; type++) {
        char total[PYR_UNITS_BYTES];
        const char *unit = profile->strings[profile->types[type].unit].data;
        pyr_units_single(total, (double)sum_of(profile, type), unit);
        pyr_table_add_text(table, profile->strings[profile->types[type].type].data);
        pyr_table_add_text(table, unit);
        pyr_table_add_text(table, total);
        pyr_table_add_text(table, (int)type == preferred ? "default" : "");
    }
    pyr_status status = pyr_table_print(table, stdout);
    pyr_table_free(table);
    return status == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
}

static int show(const pyr_report *view)
{
    return view->by != NULL ? pyr_report_labels(view)
           : view->tree     ? pyr_report_tree(view)
                            : pyr_report_functions(view);
}

static int check(const pyr_report *view)
{
    if (view->tree && view->by != NULL) {
        return pyr_message_wrong("--tree and --by cannot be shown together; choose one");
    }
    if (view->sort != NULL && strcmp(view->sort, "self") != 0 && strcmp(view->sort, "total") != 0) {
        return pyr_message_wrong("--sort cannot be \"%s\"; give it self or total", view->sort);
    }
    return PYR_EXIT_GOOD;
}

int pyr_command_report(int argc, char **argv)
{
    pyr_report view = {.limit = LIMIT_DEFAULT, .least_percent = 0.5};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to show", NULL},
        PYR_SELECT_TYPE_OPTION(&view.select),
        {PYR_OPTION_FLAG, 0, "list-types", NULL, "show the sample types with their sums",
         &view.list_types},
        {PYR_OPTION_FLAG, 0, "lines", NULL, "lines instead of functions", &view.lines},
        {PYR_OPTION_FLAG, 0, "tree", NULL, "call tree, callers above callees", &view.tree},
        {PYR_OPTION_TEXT, 0, "by", "LABEL", "groups by a label: thread, state, exception ...",
         &view.by},
        {PYR_OPTION_TEXT, 0, "sort", "COLUMN", "self (default) or total", &view.sort},
        {PYR_OPTION_COUNT, 'n', "limit", "COUNT", "functions shown (default 30; 0 = all)",
         &view.limit},
        {PYR_OPTION_PERCENT, 0, "min-pct", "PERCENT",
         "calls of a tree that are shown (default 0.5)", &view.least_percent},
        {PYR_OPTION_FLAG, 0, "json", NULL, "exact numbers as JSON", &view.json},
        PYR_SELECT_OPTIONS(&view.select),
    };
    const pyr_usage usage = {
        .command = "report",
        .operands = "FILE...",
        .about = "Shows where the time goes, by function. Several profiles, or the profiles of a "
                 "folder, are\nadded up. \"self\" is the cost of a function's own lines, "
                 "\"total\" includes what it calls.\n± is the 95 % interval that sampling leaves "
                 "on a percentage.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = SIZE_MAX,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    int code = check(&view);
    if (code == PYR_EXIT_GOOD) {
        code = pyr_input_open(&view.input, argv, count, PYR_INPUT_SUMS);
        if (code == PYR_EXIT_GOOD && view.list_types) {
            code = list_types(&view);
        } else if (code == PYR_EXIT_GOOD) {
            code = pyr_select(&view.select, view.input.profile, &view.selection);
            if (code == PYR_EXIT_GOOD) {
                view.scale = pyr_units_scale((double)view.selection.kept, view.selection.unit);
                code = show(&view);
            }
        }
        pyr_input_close(&view.input);
    }
    return code;
}
