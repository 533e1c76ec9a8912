/* Cells of report tables and members of its JSON, as all views show them.
 *
 * Owns nothing. One thread.
 */
#include "cli/report.h"

#include <stdio.h>

#include "cli/header.h"
#include "cli/message.h"

enum { PLACE_BYTES = 4200 };

void pyr_report_add_value(pyr_table *table, const pyr_report *view, int64_t value)
{
    char text[PYR_UNITS_BYTES];
    pyr_units_format(text, view->scale, (double)value);
    pyr_table_add_text(table, text);
}

double pyr_report_share(int64_t part, int64_t whole)
{
    return whole != 0 ? (double)part / (double)whole : 0;
}

void pyr_report_add_percent(pyr_table *table, int64_t part, int64_t whole)
{
    char text[PYR_UNITS_BYTES];
    pyr_units_percent(text, pyr_report_share(part, whole));
    pyr_table_add_text(table, text);
}

void pyr_report_add_error(pyr_table *table, const pyr_costs *costs, int64_t part, double variance)
{
    char text[PYR_UNITS_BYTES] = "";
    if (costs->sampled && costs->total != 0) {
        snprintf(text, sizeof text, "±%.1f", 100 * pyr_costs_share_error(costs, part, variance));
    }
    pyr_table_add_text(table, text);
}

void pyr_report_add_place(pyr_table *table, const pyr_report *view, const pyr_group *group)
{
    char place[PLACE_BYTES];
    const char *file = view->input.profile->strings[group->file].data;
    if (group->line > 0) {
        snprintf(place, sizeof place, "%s:%lld", file, (long long)group->line);
    } else {
        snprintf(place, sizeof place, "%s", file);
    }
    pyr_table_add_text(table, place);
}

int pyr_report_print(const pyr_report *view, const pyr_table *table)
{
    pyr_header_print(stdout, &view->input, &view->selection);
    return pyr_table_print(table, stdout) == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
}

static void json_string_of(pyr_json *json, const char *key, const pyr_report *view, uint32_t string)
{
    const pyr_profile_text *text = &view->input.profile->strings[string];
    pyr_json_text(json, key, text->data, text->length);
}

void pyr_report_json_group(pyr_json *json, const pyr_report *view, const pyr_group *group)
{
    json_string_of(json, "function", view, group->name);
    json_string_of(json, "file", view, group->file);
    if (group->line > 0) {
        pyr_json_integer(json, "line", group->line);
    }
}

void pyr_report_json_error(pyr_json *json, const char *key, const pyr_costs *costs, int64_t part,
                           double variance)
{
    if (costs->sampled && costs->total != 0) {
        pyr_json_real(json, key, pyr_costs_share_error(costs, part, variance));
    } else {
        pyr_json_null(json, key);
    }
}

pyr_json pyr_report_json_begin(const pyr_report *view)
{
    pyr_json json = {.out = stdout};
    pyr_json_begin(&json, NULL, '{');
    pyr_header_json(&json, &view->input, &view->selection);
    return json;
}

void pyr_report_json_end(pyr_json *json)
{
    pyr_json_end(json, '}');
    fputc('\n', json->out);
}
