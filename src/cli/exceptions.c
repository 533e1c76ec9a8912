/* pyrometer exceptions: what is raised where, how often, and whether it is caught.
 *
 * Owns the input and the rows. One thread. A row is an exception type and the line that raised it;
 * of the places that caught it, the one that caught most is shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/commands.h"
#include "cli/header.h"
#include "cli/input.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/pairs.h"
#include "cli/select.h"
#include "cli/site.h"
#include "cli/table.h"
#include "cli/units.h"

enum { LIMIT_DEFAULT = 30, YES, IN_C, NO, UNKNOWN, OUTCOMES };

static const char TYPE[] = "exception-samples";

typedef struct row {
    uint32_t type;   /* string, 0 = not known */
    uint32_t sample; /* one of the row's, for its place */
    int64_t raised, outcomes[OUTCOMES];
    uint32_t caught_at; /* string: the place that caught most; 0 = none */
    int64_t caught_most;
} row;

typedef struct view {
    pyr_select_arguments select;
    bool json;
    size_t limit;
    pyr_input input;
    pyr_selection selection;
    row *rows;
    size_t count;
} view;

static uint32_t text_of(const pyr_profile *profile, const pyr_profile_sample *sample,
                        const char *key)
{
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, key);
    return label != NULL ? label->text : 0;
}

static int outcome_of(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    const char *text = profile->strings[text_of(profile, sample, "handled")].data;
    return strcmp(text, "yes") == 0    ? YES
           : strcmp(text, "in C") == 0 ? IN_C
           : strcmp(text, "no") == 0   ? NO
                                       : UNKNOWN;
}

static int compare_rows(const void *left, const void *right)
{
    const row *first = left;
    const row *second = right;
    int order = (first->raised < second->raised) - (first->raised > second->raised);
    return order != 0 ? order : (first->sample > second->sample) - (first->sample < second->sample);
}

/* Adds up the places where each row was caught; `caught` has them as (row, place). */
static pyr_status find_places(view *shown, pyr_pairs *caught, const uint32_t *row_of_sample)
{
    const pyr_profile *profile = shown->input.profile;
    int64_t *sums = pyr_memory_new(profile->sample_count + 1, sizeof *sums);
    if (sums == NULL) {
        return PYR_ENOMEM;
    }
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        uint32_t place = text_of(profile, sample, "caught at"), number = 0;
        if (row_of_sample[index] == UINT32_MAX || place == 0) {
            continue;
        }
        status = pyr_pairs_add(caught, row_of_sample[index], place, &number);
        if (status == PYR_OK) {
            row *of = &shown->rows[row_of_sample[index]];
            pyr_units_add(&sums[number],
                          profile->values[sample->value_start + shown->selection.type]);
            if (sums[number] > of->caught_most) {
                of->caught_most = sums[number];
                of->caught_at = place;
            }
        }
    }
    pyr_memory_free(sums);
    return status;
}

static pyr_status add_up(view *shown)
{
    const pyr_profile *profile = shown->input.profile;
    pyr_pairs *pairs = pyr_pairs_new();
    pyr_pairs *caught = pyr_pairs_new();
    uint32_t *row_of_sample = pyr_memory_new(profile->sample_count + 1, sizeof *row_of_sample);
    pyr_status status = PYR_ENOMEM;
    shown->rows = pyr_memory_new(profile->sample_count + 1, sizeof *shown->rows);
    if (pairs == NULL || caught == NULL || row_of_sample == NULL || shown->rows == NULL) {
        goto out;
    }
    status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        int64_t value = profile->values[sample->value_start + shown->selection.type];
        uint32_t type = text_of(profile, sample, "exception type"), number = 0;
        row_of_sample[index] = UINT32_MAX;
        if (value == 0) {
            continue;
        }
        status = pyr_pairs_add(pairs, type, pyr_site_frame(profile, sample), &number);
        if (status == PYR_OK) {
            row *of = &shown->rows[number];
            if (number == shown->count) {
                *of = (row){.type = type, .sample = (uint32_t)index};
                shown->count++;
            }
            row_of_sample[index] = number;
            pyr_units_add(&of->raised, value);
            pyr_units_add(&of->outcomes[outcome_of(profile, sample)], value);
        }
    }
    if (status == PYR_OK) {
        status = find_places(shown, caught, row_of_sample);
    }
    if (status == PYR_OK && shown->count > 0) {
        qsort(shown->rows, shown->count, sizeof *shown->rows, compare_rows);
    }
out:
    pyr_pairs_free(pairs);
    pyr_pairs_free(caught);
    pyr_memory_free(row_of_sample);
    return status;
}

/* "yes", "yes 98 %, in C 2 %" */
static void describe_outcome(const row *of, char *text, size_t size)
{
    static const char *const WORDS[OUTCOMES] = {
        [YES] = "yes", [IN_C] = "in C", [NO] = "no", [UNKNOWN] = "?"};
    size_t used = 0;
    text[0] = '\0';
    for (int outcome = YES; outcome < OUTCOMES; outcome++) {
        double percent = 100.0 * (double)of->outcomes[outcome] / (double)of->raised;
        if (of->outcomes[outcome] == of->raised) {
            snprintf(text, size, "%s", WORDS[outcome]);
            return;
        }
        if (of->outcomes[outcome] > 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s %.0f %%", used > 0 ? ", " : "",
                                     WORDS[outcome], percent);
        }
    }
}

static double rate_of(const view *shown, int64_t raised)
{
    int64_t duration_ns = shown->input.profile->duration_ns;
    return duration_ns > 0 ? (double)raised / ((double)duration_ns / 1e9) : 0;
}

static const char *name_of(const view *shown, const row *of)
{
    return of->type != 0 ? shown->input.profile->strings[of->type].data : "(not sampled)";
}

static int print_rows(const view *shown)
{
    static const pyr_table_column COLUMNS[] = {
        {"raised", true},     {"%", true},        {"a second", true},  {"exception", false},
        {"raised at", false}, {"handled", false}, {"caught at", false}};
    const pyr_profile *profile = shown->input.profile;
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return pyr_message_no_memory();
    }
    size_t rows = shown->limit != 0 && shown->limit < shown->count ? shown->limit : shown->count;
    for (size_t index = 0; index < rows; index++) {
        const row *of = &shown->rows[index];
        char text[PYR_SITE_BYTES];
        pyr_units_single(text, (double)of->raised, "count");
        pyr_table_add_text(table, text);
        pyr_units_percent(text, (double)of->raised / (double)shown->selection.kept);
        pyr_table_add_text(table, text);
        snprintf(text, sizeof text, "%.1f", rate_of(shown, of->raised));
        pyr_table_add_text(table, text);
        pyr_table_add_text(table, name_of(shown, of));
        pyr_site_text(profile, &profile->samples[of->sample], text);
        pyr_table_add_text(table, text);
        describe_outcome(of, text, sizeof text);
        pyr_table_add_text(table, text);
        pyr_table_add_text(table, of->caught_at ? profile->strings[of->caught_at].data : "");
    }
    pyr_header_print(stdout, &shown->input, &shown->selection);
    pyr_status status = pyr_table_print(table, stdout);
    if (status == PYR_OK && rows < shown->count) {
        printf("\n%zu more; --limit 0 shows all\n", shown->count - rows);
    }
    pyr_table_free(table);
    return status == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
}

static int json_rows(const view *shown)
{
    const pyr_profile *profile = shown->input.profile;
    pyr_json json = {.out = stdout};
    pyr_json_begin(&json, NULL, '{');
    pyr_header_json(&json, &shown->input, &shown->selection);
    pyr_json_begin(&json, "exceptions", '[');
    for (size_t index = 0; index < shown->count; index++) {
        const row *of = &shown->rows[index];
        char text[PYR_SITE_BYTES];
        pyr_site_text(profile, &profile->samples[of->sample], text);
        pyr_json_begin(&json, NULL, '{');
        pyr_json_string(&json, "type", name_of(shown, of));
        pyr_json_string(&json, "raised_at", text);
        pyr_json_integer(&json, "raised", of->raised);
        pyr_json_real(&json, "per_second", rate_of(shown, of->raised));
        pyr_json_integer(&json, "handled", of->outcomes[YES]);
        pyr_json_integer(&json, "handled_in_c", of->outcomes[IN_C]);
        pyr_json_integer(&json, "unhandled", of->outcomes[NO]);
        pyr_json_integer(&json, "unknown", of->outcomes[UNKNOWN]);
        if (of->caught_at != 0) {
            pyr_json_string(&json, "caught_at", profile->strings[of->caught_at].data);
        } else {
            pyr_json_null(&json, "caught_at");
        }
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    pyr_json_end(&json, '}');
    fputc('\n', stdout);
    return PYR_EXIT_GOOD;
}

int pyr_command_exceptions(int argc, char **argv)
{
    view shown = {.limit = LIMIT_DEFAULT, .select = {.type = TYPE, .parked = true}};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to show", NULL},
        {PYR_OPTION_COUNT, 'n', "limit", "COUNT", "rows shown (default 30; 0 = all)", &shown.limit},
        {PYR_OPTION_FLAG, 0, "json", NULL, "exact numbers as JSON", &shown.json},
        PYR_SELECT_OPTIONS(&shown.select),
    };
    const pyr_usage usage = {
        .command = "exceptions",
        .operands = "FILE...",
        .about = "Shows which exceptions were raised, by type and line, how often, and what became "
                 "of them:\n\"yes\" caught by a try, \"in C\" swallowed or passed on by a C "
                 "function, \"no\" nobody caught it.\n",
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
    int code = pyr_input_open(&shown.input, argv, count, PYR_INPUT_SUMS);
    if (code == PYR_EXIT_GOOD && pyr_profile_find_type(shown.input.profile, TYPE) < 0) {
        code = pyr_message_wrong("the profile has no exceptions; they are collected with Python "
                                 "that has sys.monitoring, unless EXCEPTION_ENABLED is false; "
                                 "`pyrometer report --by 'handling exception'` shows by time which "
                                 "ones were handled");
    }
    if (code == PYR_EXIT_GOOD) {
        code = pyr_select(&shown.select, shown.input.profile, &shown.selection);
    }
    if (code == PYR_EXIT_GOOD) {
        code = add_up(&shown) != PYR_OK ? pyr_message_no_memory()
               : shown.json             ? json_rows(&shown)
                                        : print_rows(&shown);
    }
    pyr_memory_free(shown.rows);
    pyr_input_close(&shown.input);
    return code;
}
