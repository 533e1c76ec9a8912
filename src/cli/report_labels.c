/* pyrometer report --by LABEL: how the value divides among threads, states, exception types.
 *
 * Owns the groups and the table while it prints. One thread. Samples without the label are a group
 * of their own, so that the groups add up.
 */
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

#include "cli/label_groups.h"
#include "cli/message.h"

static const char NONE[] = "(without)";

/* What people say, and the label's key in the profile; a key that the profile has is meant itself.
 */
static const char *label_key(const pyr_profile *profile, const char *word)
{
    static const char *const WORDS[][2] = {
        {"thread", "thread name"}, {"exception", "exception type"}, {"task", "task name"},
        {"lock", "lock name"},     {"endpoint", "trace endpoint"},
    };
    for (size_t index = 0; index < profile->label_count; index++) {
        if (strcmp(word, profile->strings[profile->labels[index].key].data) == 0) {
            return word;
        }
    }
    for (size_t index = 0; index < sizeof WORDS / sizeof WORDS[0]; index++) {
        if (strcmp(word, WORDS[index][0]) == 0) {
            return WORDS[index][1];
        }
    }
    return word;
}

/* "there are: state, thread name" for the labels that are found. */
static int no_such_label(const pyr_profile *profile, const char *key)
{
    enum { SHOWN = 40 }; /* more than Pyrometer has; a program may add labels of its own */
    uint32_t keys[SHOWN];
    size_t count = 0;
    char known[2048] = "";
    for (size_t index = 0; index < profile->label_count && count < SHOWN; index++) {
        size_t at = 0;
        while (at < count && keys[at] != profile->labels[index].key) {
            at++;
        }
        if (at == count) {
            keys[count++] = profile->labels[index].key;
            size_t length = strlen(known);
            snprintf(known + length, sizeof known - length, "%s%s", length > 0 ? ", " : "",
                     profile->strings[profile->labels[index].key].data);
        }
    }
    return count == 0
               ? pyr_message_wrong("the samples have no labels to group --by")
               : pyr_message_wrong("no sample has a label \"%s\"; there are: %s", key, known);
}

static const char *group_text(const pyr_report *view, const pyr_label_group *group,
                              char number[PYR_LABEL_NUMBER_BYTES])
{
    return group->label == NULL ? NONE : pyr_label_text(view->input.profile, group->label, number);
}

static int json_groups(const pyr_report *view, const pyr_label_groups *groups,
                       const pyr_costs *whole)
{
    pyr_json json = pyr_report_json_begin(view);
    char number[PYR_LABEL_NUMBER_BYTES];
    pyr_json_begin(&json, "groups", '[');
    for (size_t index = 0; index < groups->count; index++) {
        const pyr_label_group *group = &groups->list[index];
        pyr_json_begin(&json, NULL, '{');
        if (group->label == NULL) {
            pyr_json_null(&json, "label");
        } else {
            pyr_json_string(&json, "label", group_text(view, group, number));
        }
        pyr_json_integer(&json, "value", group->value);
        pyr_json_real(&json, "share", pyr_report_share(group->value, whole->total));
        pyr_report_json_error(&json, "error", whole, group->value, group->variance);
        if (group->samples >= 0) {
            pyr_json_integer(&json, "samples", group->samples);
        } else {
            pyr_json_null(&json, "samples");
        }
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    pyr_report_json_end(&json);
    return PYR_EXIT_GOOD;
}

static int print_groups(const pyr_report *view, const pyr_label_groups *groups,
                        const pyr_costs *whole, const char *key)
{
    const pyr_table_column columns[] = {{view->selection.type_name, true},
                                        {"%", true},
                                        {"±", true},
                                        {"samples", true},
                                        {key, false}};
    pyr_table *table = pyr_table_new(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL) {
        return pyr_message_no_memory();
    }
    for (size_t index = 0; index < groups->count; index++) {
        const pyr_label_group *group = &groups->list[index];
        char samples[PYR_UNITS_BYTES];
        char number[PYR_LABEL_NUMBER_BYTES];
        pyr_units_single(samples, (double)group->samples, "count");
        pyr_report_add_value(table, view, group->value);
        pyr_report_add_percent(table, group->value, whole->total);
        pyr_report_add_error(table, whole, group->value, group->variance);
        pyr_table_add_text(table, group->samples >= 0 ? samples : "");
        pyr_table_add_text(table, group_text(view, group, number));
    }
    int code = pyr_report_print(view, table);
    pyr_table_free(table);
    return code;
}

int pyr_report_labels(const pyr_report *view)
{
    const pyr_profile *profile = view->input.profile;
    const char *key = label_key(profile, view->by);
    pyr_label_groups groups;
    if (pyr_label_groups_init(&groups, profile, view->selection.type, key) != PYR_OK) {
        return pyr_message_no_memory();
    }
    int code = PYR_EXIT_GOOD;
    pyr_costs whole = {.sampled = pyr_costs_count_type(profile, view->selection.type) >= 0};
    for (size_t index = 0; index < groups.count; index++) {
        pyr_units_add(&whole.total, groups.list[index].value);
        whole.variance += groups.list[index].variance;
    }
    if (groups.labelled == 0 && profile->sample_count > 0) {
        code = no_such_label(profile, key);
    } else {
        code = view->json ? json_groups(view, &groups, &whole)
                          : print_groups(view, &groups, &whole, key);
    }
    pyr_label_groups_fini(&groups);
    return code;
}
