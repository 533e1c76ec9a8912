/* pyrometer locks: which threads waited for locks, because of whom, and who takes them.
 *
 * Owns the input and the rows. One thread. The first table joins waiters with holders by the label
 * `pair id`: a row is a line that waited, the line that had the lock meanwhile, and the lock, by
 * its name and else by its type. The second one
 * has the places that take locks. Places are lines of the program, not of threading.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
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

enum { LIMIT_DEFAULT = 20, TYPES = 5 };

static const char *const TYPE_NAMES[TYPES] = {
    "lock-acquire-wait", "lock-acquire", "lock-release-hold", "lock-release", "lock-hold-blocking"};
enum { WAIT, ACQUIRED, HOLD, RELEASED, BLOCKING };

static const uint32_t NOBODY = UINT32_MAX - 1; /* the holder is not known */

typedef struct row {
    uint32_t first, second; /* frames: who waited, who held; or who takes the lock */
    uint32_t lock;          /* string: its name, else its type; 0 = neither is known */
    int64_t values[TYPES];
    int64_t waits;
} row;

typedef struct rows {
    pyr_pairs *pairs; /* (first, second) */
    pyr_pairs *whole; /* (number of that, lock): the row */
    row *list;
    size_t count;
} rows;

typedef struct view {
    pyr_select_arguments select;
    bool json;
    size_t limit;
    pyr_input input;
    pyr_selection selection;
    int types[TYPES];   /* indices in the profile, -1 = not there */
    rows waits, places; /* by (waiter, holder); by place */
} view;

static int64_t value_of(const view *shown, const pyr_profile_sample *sample, int type)
{
    int index = shown->types[type];
    return index >= 0 ? shown->input.profile->values[sample->value_start + (size_t)index] : 0;
}

/* A wait to be woken is no waiting for somebody's lock. */
static bool is_park(const view *shown, const pyr_profile_sample *sample)
{
    const pyr_profile *profile = shown->input.profile;
    const pyr_profile_label *kind = pyr_profile_find_label(profile, sample, "wait kind");
    return kind != NULL && strcmp(profile->strings[kind->text].data, "park") == 0;
}

static pyr_status find_row(rows *of, uint32_t first, uint32_t second, uint32_t lock, row **found)
{
    uint32_t pair = 0, number = 0;
    pyr_status status = pyr_pairs_add(of->pairs, first, second, &pair);
    if (status == PYR_OK) {
        status = pyr_pairs_add(of->whole, pair, lock, &number);
    }
    if (status == PYR_OK) {
        *found = &of->list[number];
        if (number == of->count) {
            **found = (row){.first = first, .second = second, .lock = lock};
            of->count++;
        }
    }
    return status;
}

static uint32_t lock_of(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, "lock name");
    if (label == NULL) {
        label = pyr_profile_find_label(profile, sample, "lock type");
    }
    return label != NULL ? label->text : 0;
}

static bool make_rows(rows *of, size_t most)
{
    *of = (rows){pyr_pairs_new(), pyr_pairs_new(), pyr_memory_new(most, sizeof(row)), 0};
    return of->pairs != NULL && of->whole != NULL && of->list != NULL;
}

static void free_rows(rows *of)
{
    pyr_pairs_free(of->pairs);
    pyr_pairs_free(of->whole);
    pyr_memory_free(of->list);
}

/* Whom each pair was held by: pair id -> frame. */
static pyr_status find_holders(const view *shown, pyr_map *holders)
{
    const pyr_profile *profile = shown->input.profile;
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        const pyr_profile_label *pair = pyr_profile_find_label(profile, sample, "pair id");
        if (pair != NULL && value_of(shown, sample, BLOCKING) != 0) {
            status =
                pyr_map_put(holders, (uint64_t)pair->number, pyr_site_user_frame(profile, sample));
        }
    }
    return status;
}

static pyr_status add_sample(view *shown, const pyr_profile_sample *sample, const pyr_map *holders)
{
    const pyr_profile *profile = shown->input.profile;
    uint32_t place = pyr_site_user_frame(profile, sample);
    int64_t waited = value_of(shown, sample, WAIT);
    row *found;
    pyr_status status = PYR_OK;
    if (is_park(shown, sample) && shown->selection.type == (size_t)shown->types[WAIT]) {
        shown->selection.kept -= waited; /* the total is that of the rows */
    }
    if (value_of(shown, sample, BLOCKING) != 0 || is_park(shown, sample)) {
        return PYR_OK;
    }
    if (waited != 0) {
        const pyr_profile_label *pair = pyr_profile_find_label(profile, sample, "pair id");
        uint64_t holder = NOBODY;
        if (pair != NULL) {
            (void)pyr_map_get(holders, (uint64_t)pair->number, &holder);
        }
        status = find_row(&shown->waits, place, (uint32_t)holder, lock_of(profile, sample), &found);
        if (status == PYR_OK) {
            pyr_units_add(&found->values[WAIT], waited);
            pyr_units_add(&found->waits, value_of(shown, sample, ACQUIRED));
        }
    }
    bool has_value = false;
    for (int type = 0; type < TYPES; type++) {
        has_value |= value_of(shown, sample, type) != 0;
    }
    if (status == PYR_OK && has_value) {
        status =
            find_row(&shown->places, place == UINT32_MAX ? place : profile->frames[place].function,
                     0, 0, &found);
        for (int type = 0; type < TYPES && status == PYR_OK; type++) {
            pyr_units_add(&found->values[type], value_of(shown, sample, type));
        }
    }
    return status;
}

static int compare_waits(const void *left, const void *right)
{
    const row *first = left;
    const row *second = right;
    int64_t one = first->values[WAIT], two = second->values[WAIT];
    return one != two ? (one < two) - (one > two)
                      : (first->first > second->first) - (first->first < second->first);
}

static int compare_places(const void *left, const void *right)
{
    const row *first = left;
    const row *second = right;
    int order =
        (first->values[HOLD] < second->values[HOLD]) - (first->values[HOLD] > second->values[HOLD]);
    return order != 0 ? order
                      : (first->values[ACQUIRED] < second->values[ACQUIRED]) -
                            (first->values[ACQUIRED] > second->values[ACQUIRED]);
}

static pyr_status add_up(view *shown)
{
    const pyr_profile *profile = shown->input.profile;
    size_t most = profile->sample_count + 1;
    pyr_map *holders = pyr_map_new(most);
    pyr_status status = PYR_ENOMEM;
    for (int type = 0; type < TYPES; type++) {
        shown->types[type] = pyr_profile_find_type(profile, TYPE_NAMES[type]);
    }
    bool has_waits = make_rows(&shown->waits, most);
    bool has_places = make_rows(&shown->places, most);
    if (holders != NULL && has_waits && has_places) {
        status = find_holders(shown, holders);
    }
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        status = add_sample(shown, &profile->samples[index], holders);
    }
    if (status == PYR_OK) {
        qsort(shown->waits.list, shown->waits.count, sizeof(row), compare_waits);
        qsort(shown->places.list, shown->places.count, sizeof(row), compare_places);
    }
    pyr_map_free(holders);
    return status;
}

static void holder_text(const view *shown, const row *of, char text[PYR_SITE_BYTES])
{
    if (of->second == NOBODY) {
        snprintf(text, PYR_SITE_BYTES, "(not known)");
    } else {
        pyr_site_frame_text(shown->input.profile, of->second, text);
    }
}

static void place_text(const view *shown, const row *of, char text[PYR_SITE_BYTES])
{
    const pyr_profile *profile = shown->input.profile;
    if (of->first == UINT32_MAX) {
        snprintf(text, PYR_SITE_BYTES, "(no stack)");
        return;
    }
    const pyr_profile_function *function = &profile->functions[of->first];
    const char *file = profile->strings[function->file].data;
    snprintf(text, PYR_SITE_BYTES, "%s%s%s%s", profile->strings[function->name].data,
             file[0] != '\0' ? " (" : "", file, file[0] != '\0' ? ")" : "");
}

static void add_value(pyr_table *table, int64_t value, const char *unit)
{
    char text[PYR_UNITS_BYTES];
    pyr_units_single(text, (double)value, unit);
    pyr_table_add_text(table, value != 0 ? text : "");
}

static void print_rest(const view *shown, size_t count)
{
    if (shown->limit != 0 && shown->limit < count) {
        printf("%zu more; --limit 0 shows all\n", count - shown->limit);
    }
}

static pyr_status print_waits(const view *shown)
{
    static const pyr_table_column COLUMNS[] = {{"waited", true},      {"%", true},
                                               {"waits", true},       {"who waited", false},
                                               {"because of", false}, {"for", false}};
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return PYR_ENOMEM;
    }
    int64_t whole = 0;
    for (size_t index = 0; index < shown->waits.count; index++) {
        pyr_units_add(&whole, shown->waits.list[index].values[WAIT]);
    }
    for (size_t index = 0;
         index < shown->waits.count && (shown->limit == 0 || index < shown->limit); index++) {
        const row *of = &shown->waits.list[index];
        char text[PYR_SITE_BYTES];
        add_value(table, of->values[WAIT], "nanoseconds");
        pyr_units_percent(text, (double)of->values[WAIT] / (double)(whole != 0 ? whole : 1));
        pyr_table_add_text(table, text);
        add_value(table, of->waits, "count");
        pyr_site_frame_text(shown->input.profile, of->first, text);
        pyr_table_add_text(table, text);
        holder_text(shown, of, text);
        pyr_table_add_text(table, text);
        pyr_table_add_text(table, shown->input.profile->strings[of->lock].data);
    }
    pyr_status status = pyr_table_print(table, stdout);
    print_rest(shown, shown->waits.count);
    pyr_table_free(table);
    return status;
}

static pyr_status print_places(const view *shown)
{
    static const pyr_table_column COLUMNS[] = {
        {"held", true}, {"waited", true}, {"taken", true}, {"who takes locks", false}};
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t index = 0;
         index < shown->places.count && (shown->limit == 0 || index < shown->limit); index++) {
        const row *of = &shown->places.list[index];
        char text[PYR_SITE_BYTES];
        add_value(table, of->values[HOLD], "nanoseconds");
        add_value(table, of->values[WAIT], "nanoseconds");
        add_value(table, of->values[ACQUIRED], "count");
        place_text(shown, of, text);
        pyr_table_add_text(table, text);
    }
    pyr_status status = pyr_table_print(table, stdout);
    print_rest(shown, shown->places.count);
    pyr_table_free(table);
    return status;
}

static int print_both(const view *shown)
{
    pyr_header_print(stdout, &shown->input, &shown->selection);
    pyr_status status = PYR_OK;
    if (shown->waits.count == 0) {
        puts("no thread waited for a lock");
    } else {
        status = print_waits(shown);
    }
    putchar('\n');
    if (status == PYR_OK) {
        status = print_places(shown);
    }
    return status == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
}

static int json_both(const view *shown)
{
    pyr_json json = {.out = stdout};
    char text[PYR_SITE_BYTES];
    pyr_json_begin(&json, NULL, '{');
    pyr_header_json(&json, &shown->input, &shown->selection);
    pyr_json_begin(&json, "waits", '[');
    for (size_t index = 0; index < shown->waits.count; index++) {
        const row *of = &shown->waits.list[index];
        pyr_json_begin(&json, NULL, '{');
        pyr_json_integer(&json, "waited_ns", of->values[WAIT]);
        pyr_json_integer(&json, "waits", of->waits);
        pyr_site_frame_text(shown->input.profile, of->first, text);
        pyr_json_string(&json, "waiter", text);
        holder_text(shown, of, text);
        if (of->second == NOBODY) {
            pyr_json_null(&json, "holder");
        } else {
            pyr_json_string(&json, "holder", text);
        }
        if (of->lock == 0) {
            pyr_json_null(&json, "lock");
        } else {
            pyr_json_string(&json, "lock", shown->input.profile->strings[of->lock].data);
        }
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    pyr_json_begin(&json, "places", '[');
    for (size_t index = 0; index < shown->places.count; index++) {
        const row *of = &shown->places.list[index];
        pyr_json_begin(&json, NULL, '{');
        place_text(shown, of, text);
        pyr_json_string(&json, "place", text);
        pyr_json_integer(&json, "held_ns", of->values[HOLD]);
        pyr_json_integer(&json, "waited_ns", of->values[WAIT]);
        pyr_json_integer(&json, "taken", of->values[ACQUIRED]);
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    pyr_json_end(&json, '}');
    fputc('\n', stdout);
    return PYR_EXIT_GOOD;
}

int pyr_command_locks(int argc, char **argv)
{
    view shown = {.limit = LIMIT_DEFAULT, .select = {.type = TYPE_NAMES[WAIT], .parked = true}};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to show", NULL},
        {PYR_OPTION_COUNT, 'n', "limit", "COUNT", "rows of a table (default 20; 0 = all)",
         &shown.limit},
        {PYR_OPTION_FLAG, 0, "json", NULL, "exact numbers as JSON", &shown.json},
        PYR_SELECT_OPTIONS(&shown.select),
    };
    const pyr_usage usage = {
        .command = "locks",
        .operands = "FILE...",
        .about = "Shows which threads waited for locks and because of whom: the line that waited, "
                 "the line\nthat had the lock meanwhile, and the lock. Then who takes "
                 "locks, how often, and for how\nlong. Threads that wait to be woken are left "
                 "out, and waits that are not over.\n",
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
    if (code == PYR_EXIT_GOOD && pyr_profile_find_type(shown.input.profile, TYPE_NAMES[WAIT]) < 0) {
        code = pyr_message_wrong("the profile has no locks; they are collected unless "
                                 "LOCK_ENABLED is false");
    }
    if (code == PYR_EXIT_GOOD) {
        code = pyr_select(&shown.select, shown.input.profile, &shown.selection);
    }
    if (code == PYR_EXIT_GOOD) {
        code = add_up(&shown) != PYR_OK ? pyr_message_no_memory()
               : shown.json             ? json_both(&shown)
                                        : print_both(&shown);
    }
    free_rows(&shown.waits);
    free_rows(&shown.places);
    pyr_input_close(&shown.input);
    return code;
}
