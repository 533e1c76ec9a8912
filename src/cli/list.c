/* pyrometer list: the source of functions with the cost of each line.
 *
 * Owns its input, the costs by line, and one source file at a time. One thread. Source is read from
 * the path in the profile or below --source-path; when it is missing the costs are shown without
 * it, and when it is newer than the profile that is said, since lines may have moved.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/costs.h"
#include "cli/display.h"
#include "cli/header.h"
#include "cli/input.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/select.h"
#include "cli/units.h"
#include "query/pattern.h"

enum {
    AROUND = 5, /* lines shown before the first and after the last line with a cost */
    SOURCE_BYTES_MAXIMUM = 1 << 26,
    READ_BYTES = 1 << 16,
    PATH_BYTES = 4200,
    NS = 1000000000,
};

typedef struct listing {
    pyr_select_arguments select;
    pyr_option_list roots;
    pyr_input input;
    pyr_selection selection;
    pyr_costs costs; /* by line; those of matching functions first, sorted by function and line */
    size_t matching;
    pyr_scale scale;
} listing;

/* ------------------------------------------------------------------------------- sources ---- */

static bool read_source(const char *path, pyr_buffer *text, int64_t *changed_ns)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us */
    bool good = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    while (good) {
        good = pyr_buffer_reserve(text, READ_BYTES) == PYR_OK;
        ssize_t got = good ? read(file, text->data + text->length, READ_BYTES) : -1;
        if (got <= 0) {
            good = good && got == 0;
            break;
        }
        text->length += (size_t)got;
    }
    if (good) {
        *changed_ns = (int64_t)about.st_mtim.tv_sec * NS + about.st_mtim.tv_nsec;
    }
    if (file >= 0) {
        close(file);
    }
    if (!good) {
        pyr_buffer_clear(text);
    }
    return good;
}

/* The path in the profile, else the longest end of it that exists below a root: a profile from a
 * container has /app/shop/cart.py where the checkout has shop/cart.py. */
static bool find_source(const listing *view, const char *recorded, pyr_buffer *text,
                        int64_t *changed_ns, char path[PATH_BYTES])
{
    for (size_t root = 0; root < view->roots.count; root++) {
        for (const char *end = recorded; end != NULL; end = strchr(end, '/')) {
            end += strspn(end, "/");
            int length = snprintf(path, PATH_BYTES, "%s/%s", view->roots.items[root], end);
            if (length > 0 && length < PATH_BYTES && read_source(path, text, changed_ns)) {
                return true;
            }
        }
    }
    snprintf(path, PATH_BYTES, "%s", recorded);
    return read_source(path, text, changed_ns);
}

/* ------------------------------------------------------------------------------ printing ---- */

static void print_number(const listing *view, int64_t value)
{
    char text[PYR_UNITS_BYTES] = ".";
    if (value != 0) {
        pyr_units_format(text, view->scale, (double)value);
    }
    int width = (int)pyr_display_width(text, strlen(text));
    printf("%*s%s ", width < 12 ? 12 - width : 0, "", text);
}

static void print_clean(const char *text, size_t length)
{
    pyr_buffer clean;
    pyr_buffer_init(&clean, SOURCE_BYTES_MAXIMUM);
    for (size_t at = 0; at < length;) { /* tabs are no hostile character in a source file */
        const char *tab = memchr(text + at, '\t', length - at);
        size_t end = tab != NULL ? (size_t)(tab - text) : length;
        pyr_display_clean(&clean, text + at, end - at);
        if (tab != NULL) {
            pyr_buffer_text(&clean, "\t");
        }
        at = end + (tab != NULL ? 1 : 0);
    }
    pyr_display_write(&clean, stdout);
    pyr_buffer_fini(&clean);
}

static void print_line(const listing *view, const pyr_cost *cost, int64_t line, const char *text,
                       size_t length)
{
    print_number(view, cost != NULL ? cost->self : 0);
    print_number(view, cost != NULL ? cost->total : 0);
    char number[24] = "-"; /* unknown */
    if (line > 0) {
        snprintf(number, sizeof number, "%" PRId64, line);
    }
    printf("%6s%s", number, length > 0 ? "  " : "");
    print_clean(text, length);
    putchar('\n');
}

/* Prints lines `first` to `last` of the source, with the costs (sorted by line) beside them. */
static void print_lines(const listing *view, const pyr_cost *costs, size_t count,
                        const pyr_buffer *text, int64_t first, int64_t last)
{
    const char *at = (const char *)text->data;
    const char *end = at + text->length;
    size_t next = 0;
    for (int64_t line = 1; line <= last && at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        size_t length = (size_t)(stop - at);
        if (length > 0 && at[length - 1] == '\r') {
            length--;
        }
        while (next < count && costs[next].group.line < line) {
            next++;
        }
        if (line >= first) {
            bool here = next < count && costs[next].group.line == line;
            print_line(view, here ? &costs[next] : NULL, line, at, length);
            next += here ? 1 : 0;
        }
        at = newline != NULL ? newline + 1 : end;
    }
    for (; next < count; next++) {
        static const char GONE[] = "(the source has no such line)";
        print_line(view, &costs[next], costs[next].group.line, GONE, sizeof GONE - 1);
    }
}

static void print_without_source(const listing *view, const pyr_cost *costs, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        print_line(view, &costs[index], costs[index].group.line, "", 0);
    }
}

/* The first line of the function, where the profile says it: else 0. */
static int64_t start_line(const listing *view, const pyr_group *group)
{
    const pyr_profile *profile = view->input.profile;
    for (size_t index = 0; index < profile->function_count; index++) {
        const pyr_profile_function *function = &profile->functions[index];
        if (function->name == group->name && function->file == group->file) {
            return function->start_line;
        }
    }
    return 0;
}

static void print_function(const listing *view, const pyr_cost *costs, size_t count)
{
    const pyr_profile *profile = view->input.profile;
    const pyr_group *group = &costs[0].group;
    const pyr_profile_text *name = &profile->strings[group->name];
    const char *file = profile->strings[group->file].data;
    pyr_buffer text;
    pyr_buffer_init(&text, SOURCE_BYTES_MAXIMUM);
    char path[PATH_BYTES];
    int64_t changed_ns = 0;

    bool generated = file[0] == '<' || file[0] == '\0';
    bool found = !generated && find_source(view, file, &text, &changed_ns, path);
    print_clean(name->data, name->length);
    fputs("  ", stdout);
    print_clean(found ? path : file, strlen(found ? path : file));
    putchar('\n');
    int64_t end_ns = profile->time_ns;
    pyr_units_add(&end_ns, profile->duration_ns);
    if (found && profile->time_ns != 0 && changed_ns > end_ns) {
        char when[PYR_HEADER_TIME_BYTES];
        pyr_header_time(when, changed_ns);
        printf("  The source was changed after the profile, at %s: lines may have moved.\n", when);
    } else if (generated) {
        printf("  No source: the code has no file.\n");
    } else if (!found) {
        printf("  The source was not found; --source-path DIR says where to look.\n");
    }
    printf("%12s %12s %6s\n", "self", "total", "line");
    if (found) {
        int64_t start = start_line(view, group);
        int64_t first = costs[0].group.line - AROUND;
        first = start > 0 && start <= costs[0].group.line ? start : first;
        print_lines(view, costs, count, &text, first, costs[count - 1].group.line + AROUND);
    } else {
        print_without_source(view, costs, count);
    }
    putchar('\n');
    pyr_buffer_fini(&text);
}

/* ------------------------------------------------------------------------------ choosing ---- */

static int compare_lines(const void *left, const void *right)
{
    const pyr_group *first = &((const pyr_cost *)left)->group;
    const pyr_group *second = &((const pyr_cost *)right)->group;
    int order = (first->name > second->name) - (first->name < second->name);
    order = order != 0 ? order : (first->file > second->file) - (first->file < second->file);
    return order != 0 ? order : (first->line > second->line) - (first->line < second->line);
}

static int choose_functions(listing *view, const char *pattern)
{
    pyr_pattern *expression;
    char why[256] = "out of memory";
    if (pyr_pattern_new(pattern, false, &expression, why, sizeof why) != PYR_OK) {
        return pyr_message_wrong("\"%s\" is no regular expression: %s", pattern, why);
    }
    for (size_t index = 0; index < view->costs.count; index++) {
        const char *name = view->input.profile->strings[view->costs.list[index].group.name].data;
        if (pyr_pattern_matches(expression, name, strlen(name))) {
            view->costs.list[view->matching++] = view->costs.list[index];
        }
    }
    bool gave_up = pyr_pattern_gave_up(expression);
    pyr_pattern_free(expression);
    if (gave_up) {
        return pyr_message_wrong("\"%s\": %s", pattern, pyr_status_text(PYR_ECOSTLY));
    }
    if (view->matching == 0) {
        return pyr_message_wrong("no function with %s matches \"%s\"; pyrometer report shows the "
                                 "names",
                                 view->selection.type_name, pattern);
    }
    qsort(view->costs.list, view->matching, sizeof *view->costs.list, compare_lines);
    return PYR_EXIT_GOOD;
}

static void print_functions(const listing *view)
{
    pyr_header_print(stdout, &view->input, &view->selection);
    const pyr_cost *costs = view->costs.list;
    size_t start = 0;
    for (size_t index = 1; index <= view->matching; index++) {
        bool same = index < view->matching && costs[index].group.name == costs[start].group.name &&
                    costs[index].group.file == costs[start].group.file;
        if (!same) {
            print_function(view, &costs[start], index - start);
            start = index;
        }
    }
}

static int list(listing *view, const char *pattern)
{
    pyr_groups groups;
    int code = pyr_select(&view->select, view->input.profile, &view->selection);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (pyr_groups_init(&groups, view->input.profile, true) != PYR_OK) {
        return pyr_message_no_memory();
    }
    if (pyr_costs_init(&view->costs, view->input.profile, view->selection.type, &groups) !=
        PYR_OK) {
        code = pyr_message_no_memory();
    } else {
        view->scale = pyr_units_scale((double)view->selection.kept, view->selection.unit);
        code = choose_functions(view, pattern);
    }
    if (code == PYR_EXIT_GOOD) {
        print_functions(view);
    }
    pyr_costs_fini(&view->costs);
    pyr_groups_fini(&groups);
    return code;
}

int pyr_command_list(int argc, char **argv)
{
    listing view = {0};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to show", NULL},
        PYR_SELECT_TYPE_OPTION(&view.select),
        {PYR_OPTION_TEXTS, 0, "source-path", "DIR", "where to look for sources first", &view.roots},
        PYR_SELECT_OPTIONS(&view.select),
    };
    const pyr_usage usage = {
        .command = "list",
        .operands = "FUNCTION FILE...",
        .about = "Shows the source of the functions whose name matches the regular expression "
                 "FUNCTION, with the\ncost of each line: self, and total with what it calls.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 2,
        .most_operands = SIZE_MAX,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    int code = pyr_input_open(&view.input, argv + 1, count - 1, PYR_INPUT_SUMS);
    if (code == PYR_EXIT_GOOD) {
        code = list(&view, argv[0]);
    }
    pyr_input_close(&view.input);
    return code;
}
