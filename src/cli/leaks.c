/* pyrometer leaks: which lines allocate what stays and grows, by how surely and how fast.
 *
 * Owns the documents read and the rows that point into them. One thread. The judgement was made in
 * the process (collect/heap_trend.c), over its last windows; here the newest document of each
 * process is taken, and sites of several processes are ranked together. Documents come from files:
 * every type is checked.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ending.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/table.h"
#include "cli/units.h"

enum {
    LIMIT_DEFAULT = 20,
    PROCESSES = 4096,
    SITES = 64, /* taken of one document */
    PATH_BYTES = 4200,
    TEXT_BYTES = 512,
    HOUR_S = 3600,
};

typedef struct row {
    const json_t *site, *identity;
    double live, error, growth, growth_error, confidence, old;
    int64_t windows;
    bool is_suspect;
} row;

typedef struct view {
    bool json, all, fail;
    size_t limit;
    json_t *documents[PROCESSES]; /* the newest of each process */
    size_t document_count, files;
    row *rows;
    size_t row_count;
} view;

/* --------------------------------------------------------------------------------- reading ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key)); /* 0: none */
}

static json_int_t end_of(const json_t *document)
{
    return json_integer_value(json_object_get(json_object_get(document, "window"), "end_ns"));
}

/* Keeps a document if it is the newest of its process, and takes it over. */
static int take(view *shown, json_t *document)
{
    const char *id = text_of(json_object_get(document, "identity"), "runtime_id");
    for (size_t at = 0; at < shown->document_count; at++) {
        json_t **known = &shown->documents[at];
        if (strcmp(text_of(json_object_get(*known, "identity"), "runtime_id"), id) == 0) {
            if (end_of(document) >= end_of(*known)) {
                json_decref(*known);
                *known = document;
            } else {
                json_decref(document);
            }
            return PYR_EXIT_GOOD;
        }
    }
    if (shown->document_count == PROCESSES) {
        json_decref(document);
        return pyr_message_wrong("these are more than %d processes; give fewer files", PROCESSES);
    }
    shown->documents[shown->document_count++] = document;
    return PYR_EXIT_GOOD;
}

static int add_document(view *shown, const char *path, bool is_asked_for)
{
    json_error_t error;
    json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(document) || !json_is_object(json_object_get(document, "window"))) {
        json_decref(document);
        int code = pyr_message_wrong("%s cannot be read as the document of a window", path);
        return is_asked_for ? code : PYR_EXIT_GOOD; /* one of a folder is named and left out */
    }
    shown->files++;
    return take(shown, document);
}

static int add_folder(view *shown, const char *path)
{
    DIR *folder = opendir(path);
    int code = PYR_EXIT_GOOD;
    if (folder == NULL) {
        return pyr_message_wrong("cannot read the folder %s: %s", path, strerror(errno));
    }
    const struct dirent *entry;
    while (code == PYR_EXIT_GOOD && (entry = readdir(folder)) != NULL) {
        char file[PATH_BYTES];
        int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (pyr_ends_with(entry->d_name, strlen(entry->d_name), ".pprof.json") && length > 0 &&
            (size_t)length < sizeof file) {
            code = add_document(shown, file, false);
        }
    }
    closedir(folder);
    return code;
}

static int add_path(view *shown, const char *path)
{
    struct stat about;
    char beside[PATH_BYTES];
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        return add_folder(shown, path);
    }
    bool is_document = pyr_ends_with(path, strlen(path), ".json");
    int length = snprintf(beside, sizeof beside, "%s%s", path, is_document ? "" : ".json");
    if (length < 0 || (size_t)length >= sizeof beside || stat(beside, &about) != 0) {
        return pyr_message_wrong("there is no file %s%s; give a profile with the document that was "
                                 "written beside it, or a folder of them",
                                 path, is_document ? "" : ".json");
    }
    return add_document(shown, beside, true);
}

/* --------------------------------------------------------------------------------- ranking ---- */

static double surely(const row *one)
{
    return one->growth - 2 * one->growth_error;
}

static int compare(const void *left, const void *right)
{
    const row *one = left;
    const row *other = right;
    if (one->is_suspect != other->is_suspect) {
        return one->is_suspect ? -1 : 1;
    }
    return (surely(one) < surely(other)) - (surely(one) > surely(other));
}

static int rank(view *shown)
{
    shown->rows = pyr_memory_new(shown->document_count * SITES + 1, sizeof *shown->rows);
    if (shown->rows == NULL) {
        return pyr_message_no_memory();
    }
    for (size_t at = 0; at < shown->document_count; at++) {
        const json_t *sites = json_object_get(shown->documents[at], "leak_sites");
        for (size_t index = 0; index < json_array_size(sites) && index < SITES; index++) {
            const json_t *site = json_array_get(sites, index);
            const json_t *ages = json_object_get(site, "live_bytes_by_age");
            bool is_suspect = json_is_true(json_object_get(site, "suspect"));
            if (!is_suspect && !shown->all) {
                continue;
            }
            shown->rows[shown->row_count++] = (row){
                .site = site,
                .identity = json_object_get(shown->documents[at], "identity"),
                .live = number_of(site, "live_bytes"),
                .error = number_of(site, "standard_error"),
                .growth = number_of(site, "growth_bytes_per_s"),
                .growth_error = number_of(site, "growth_standard_error"),
                .confidence = number_of(site, "confidence"),
                .old = json_number_value(json_array_get(ages, 2)) +
                       json_number_value(json_array_get(ages, 3)),
                .windows = json_integer_value(json_object_get(site, "windows")),
                .is_suspect = is_suspect,
            };
        }
    }
    qsort(shown->rows, shown->row_count, sizeof *shown->rows, compare);
    return PYR_EXIT_GOOD;
}

/* --------------------------------------------------------------------------------- showing ---- */

static void place_of(const row *one, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "%s (%s:%" JSON_INTEGER_FORMAT ")", text_of(one->site, "function"),
             text_of(one->site, "file"), json_integer_value(json_object_get(one->site, "line")));
}

static void add_bytes(pyr_table *table, double bytes)
{
    char text[PYR_UNITS_BYTES];
    pyr_units_single(text, bytes, "bytes");
    pyr_table_add_text(table, text);
}

static size_t shown_rows(const view *shown)
{
    return shown->limit != 0 && shown->limit < shown->row_count ? shown->limit : shown->row_count;
}

static int print_table(const view *shown)
{
    static const pyr_table_column COLUMNS[] = {
        {"growth/h", true}, {"\u00b1", true},  {"live", true},          {"> 10 min", true},
        {"sure %", true},   {"windows", true}, {"allocated at", false}, {"called by", false}};
    pyr_table *table = pyr_table_new(COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    if (table == NULL) {
        return pyr_message_no_memory();
    }
    for (size_t at = 0; at < shown_rows(shown); at++) {
        const row *one = &shown->rows[at];
        char text[TEXT_BYTES];
        add_bytes(table, one->growth * HOUR_S);
        add_bytes(table, one->growth_error * HOUR_S * 1.96);
        add_bytes(table, one->live);
        add_bytes(table, one->old);
        snprintf(text, sizeof text, "%.2f", floor(one->confidence * 1e4) / 1e2);
        pyr_table_add_text(table, text);
        snprintf(text, sizeof text, "%lld", (long long)one->windows);
        pyr_table_add_text(table, text);
        place_of(one, text);
        pyr_table_add_text(table, text);
        pyr_table_add_text(table, text_of(one->site, "caller"));
        if (one->is_suspect) {
            pyr_table_style_row(table, PYR_TABLE_WORSE);
        }
    }
    pyr_status status = pyr_table_print(table, stdout);
    pyr_table_free(table);
    return status == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
}

static size_t suspects(const view *shown)
{
    size_t count = 0;
    while (count < shown->row_count && shown->rows[count].is_suspect) {
        count++;
    }
    return count;
}

/* The most windows that any judgement rests on. */
static int64_t windows_of(const view *shown)
{
    int64_t most = 0;
    for (size_t at = 0; at < shown->document_count; at++) {
        const json_t *sites = json_object_get(shown->documents[at], "leak_sites");
        for (size_t index = 0; index < json_array_size(sites); index++) {
            int64_t windows =
                json_integer_value(json_object_get(json_array_get(sites, index), "windows"));
            most = windows > most ? windows : most;
        }
    }
    return most;
}

/* Whether any process looked for leaks at all. */
static bool has_judgements(const view *shown)
{
    for (size_t at = 0; at < shown->document_count; at++) {
        if (json_object_get(shown->documents[at], "leak_sites") != NULL) {
            return true;
        }
    }
    return false;
}

static int print_text(const view *shown)
{
    int64_t windows = windows_of(shown);
    printf("%zu process%s, the newest of %zu document%s; %zu suspect%s\n", shown->document_count,
           shown->document_count == 1 ? "" : "es", shown->files, shown->files == 1 ? "" : "s",
           suspects(shown), suspects(shown) == 1 ? "" : "s");
    if (!has_judgements(shown)) {
        puts("what stays alive was not followed: MEMORY_ENABLED or HEAP_ENABLED was off");
    } else if (windows < 10) {
        printf("nothing can be said before a process has delivered ten windows; the most here are "
               "%lld\n",
               (long long)windows);
    }
    if (shown->row_count == 0) {
        return PYR_EXIT_GOOD;
    }
    putchar('\n');
    return print_table(shown);
}

static int print_json(const view *shown)
{
    pyr_json json = {.out = stdout};
    pyr_json_begin(&json, NULL, '{');
    pyr_json_integer(&json, "processes", (int64_t)shown->document_count);
    pyr_json_integer(&json, "documents", (int64_t)shown->files);
    pyr_json_integer(&json, "windows", windows_of(shown));
    pyr_json_begin(&json, "sites", '[');
    for (size_t at = 0; at < shown_rows(shown); at++) {
        const row *one = &shown->rows[at];
        pyr_json_begin(&json, NULL, '{');
        pyr_json_boolean(&json, "suspect", one->is_suspect);
        pyr_json_string(&json, "function", text_of(one->site, "function"));
        pyr_json_string(&json, "file", text_of(one->site, "file"));
        pyr_json_integer(&json, "line", json_integer_value(json_object_get(one->site, "line")));
        pyr_json_string(&json, "caller", text_of(one->site, "caller"));
        pyr_json_real(&json, "growth_bytes_per_s", one->growth);
        pyr_json_real(&json, "growth_standard_error", one->growth_error);
        pyr_json_real(&json, "confidence", one->confidence);
        pyr_json_real(&json, "live_bytes", one->live);
        pyr_json_real(&json, "standard_error", one->error);
        pyr_json_real(&json, "live_bytes_over_10_minutes", one->old);
        pyr_json_integer(&json, "windows", one->windows);
        pyr_json_integer(&json, "pid", json_integer_value(json_object_get(one->identity, "pid")));
        pyr_json_string(&json, "service", text_of(one->identity, "service"));
        pyr_json_end(&json, '}');
    }
    pyr_json_end(&json, ']');
    pyr_json_end(&json, '}');
    fputc('\n', stdout);
    return PYR_EXIT_GOOD;
}

int pyr_command_leaks(int argc, char **argv)
{
    static view shown; /* its table of documents is large */
    shown = (view){.limit = LIMIT_DEFAULT};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to show", NULL},
        {PYR_OPTION_FLAG, 'a', "all", NULL, "also sites that are no suspects", &shown.all},
        {PYR_OPTION_COUNT, 'n', "limit", "COUNT", "rows shown (default 20; 0 = all)", &shown.limit},
        {PYR_OPTION_FLAG, 0, "json", NULL, "exact numbers as JSON", &shown.json},
        {PYR_OPTION_FLAG, 0, "fail", NULL, "exit with 1 when there is a suspect", &shown.fail},
    };
    const pyr_usage usage = {
        .command = "leaks",
        .operands = "FILE...",
        .about =
            "Ranks the lines whose live memory grows, by how surely and how fast. A suspect grew\n"
            "over the last windows (30 at most, 10 at least), still grows, and does not level "
            "off.\n"
            "FILE is a profile with its document beside it (FILE.json), or a folder of them; the\n"
            "newest document of each process counts.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = SIZE_MAX,
    };
    size_t count;
    switch (pyr_options_parse(&usage, argc, argv, &count)) {
    case PYR_PARSE_HELP:
        return PYR_EXIT_GOOD;
    case PYR_PARSE_WRONG:
        return PYR_EXIT_WRONG;
    case PYR_PARSE_GOOD:
        break;
    }
    int code = PYR_EXIT_GOOD;
    for (size_t at = 0; at < count && code == PYR_EXIT_GOOD; at++) {
        code = add_path(&shown, argv[at]);
    }
    if (code == PYR_EXIT_GOOD && shown.document_count == 0) {
        code = pyr_message_wrong("there are no documents of windows (*.pprof.json) in %s", argv[0]);
    }
    code = code == PYR_EXIT_GOOD ? rank(&shown) : code;
    if (code == PYR_EXIT_GOOD) {
        code = shown.json ? print_json(&shown) : print_text(&shown);
    }
    if (code == PYR_EXIT_GOOD && shown.fail && suspects(&shown) > 0) {
        code = PYR_EXIT_FINDING;
    }
    pyr_memory_free(shown.rows);
    for (size_t at = 0; at < shown.document_count; at++) {
        json_decref(shown.documents[at]);
    }
    return code;
}
