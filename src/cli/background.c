/* Facts about profiles, from their comments and from the documents beside them.
 *
 * Owns the JSON values in pyr_background. One thread. Documents may come from another version or
 * from a hand: unknown keys are left alone, known ones of another type too.
 */
#include "cli/background.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/units.h"

enum { TEXT_BYTES = 512, PATH_BYTES = 4200 };

pyr_status pyr_background_init(pyr_background *background)
{
    background->processes = json_array();
    background->rows = json_object();
    background->losses = json_object();
    background->notes = json_array();
    if (background->processes == NULL || background->rows == NULL || background->losses == NULL ||
        background->notes == NULL) {
        return PYR_ENOMEM;
    }
    return PYR_OK;
}

void pyr_background_fini(pyr_background *background)
{
    json_decref(background->processes);
    json_decref(background->rows);
    json_decref(background->losses);
    json_decref(background->notes);
    *background = (pyr_background){0};
}

static void add_distinct(json_t *list, const char *text)
{
    size_t index = 0;
    json_t *known = NULL;
    json_array_foreach(list, index, known)
    {
        if (strcmp(json_string_value(known), text) == 0) {
            return;
        }
    }
    json_t *added = json_string(text); /* NULL when it is no UTF-8: then it is left out */
    if (added != NULL) {
        json_array_append_new(list, added);
    }
}

/* A scalar of `object` as text: "" when there is none. */
static const char *value_text(json_t *object, const char *key, char text[TEXT_BYTES])
{
    json_t *value = json_object_get(object, key);
    text[0] = '\0';
    if (json_is_string(value)) {
        snprintf(text, TEXT_BYTES, "%s", json_string_value(value));
    } else if (json_is_integer(value)) {
        snprintf(text, TEXT_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(text, TEXT_BYTES, "%g", json_real_value(value));
    }
    return text;
}

static void append_part(char *line, size_t size, const char *before, const char *text)
{
    size_t length = strlen(line);
    if (text[0] != '\0' && length < size) {
        snprintf(line + length, size - length, "%s%s%s", length > 0 ? ", " : "", before, text);
    }
}

static void add_identity(pyr_background *background, json_t *identity)
{
    static const struct {
        const char *key, *before;
    } PARTS[] = {
        {"service", ""},   {"env", "env "},       {"version", "version "},    {"pid", "pid "},
        {"host", "host "}, {"python", "Python "}, {"container", "container "}};
    char line[4 * TEXT_BYTES] = "";
    char text[TEXT_BYTES];
    for (size_t index = 0; index < sizeof PARTS / sizeof PARTS[0]; index++) {
        append_part(line, sizeof line, PARTS[index].before,
                    value_text(identity, PARTS[index].key, text));
    }
    if (line[0] != '\0') {
        add_distinct(background->processes, line);
    }
}

static void add_loss(pyr_background *background, const char *reason, json_t *count)
{
    int64_t lost = json_integer_value(count);
    json_t *before = reason != NULL ? json_object_get(background->losses, reason) : NULL;
    if (reason != NULL && lost > 0) {
        pyr_units_add(&lost, json_integer_value(before));
        json_object_set_new(background->losses, reason, json_integer(lost));
    }
}

/* {"reason": count} or [{"reason": text, "count": number}]. */
static void add_losses(pyr_background *background, json_t *losses)
{
    const char *reason = NULL;
    json_t *entry = NULL;
    size_t index = 0;
    json_object_foreach(losses, reason, entry)
    {
        add_loss(background, reason, entry);
    }
    json_array_foreach(losses, index, entry)
    {
        add_loss(background, json_string_value(json_object_get(entry, "reason")),
                 json_object_get(entry, "count"));
    }
}

/* The value as text for people; times and bytes get their unit from the key. "" for what is no
 * scalar. */
static void humane(json_t *object, const char *key, char text[TEXT_BYTES])
{
    json_t *value = json_object_get(object, key);
    size_t length = strlen(key);
    bool time = length > 3 && strcmp(key + length - 3, "_ns") == 0;
    bool bytes = length > 6 && strcmp(key + length - 6, "_bytes") == 0;
    if ((time || bytes) && json_is_number(value)) {
        char human[PYR_UNITS_BYTES];
        pyr_units_single(human, json_number_value(value), time ? "nanoseconds" : "bytes");
        snprintf(text, TEXT_BYTES, "%s", human);
    } else if (json_is_boolean(value)) {
        snprintf(text, TEXT_BYTES, "%s", json_is_true(value) ? "yes" : "no");
    } else {
        value_text(object, key, text);
    }
}

static void add_row(pyr_background *background, json_t *object, const char *key, const char *label)
{
    char text[TEXT_BYTES];
    humane(object, key, text);
    if (text[0] != '\0') {
        json_object_set_new(background->rows, label, json_string(text));
    }
}

/* The facts that tell how far a profile can be trusted and what it cost; the document has more. The
 * row of the file read last stands. */
static void add_rows(pyr_background *background, json_t *document)
{
    static const struct {
        const char *part, *key, *label;
    } FACTS[] = {
        {"tick", "interval_ns", "interval"},
        {"tick", "threads", "threads"},
        {"tick", "wake_up_p99_ns", "wake-up (99 %)"},
        {"tick", "missed", "missed ticks"},
        {"cost", "sampler_cpu_ns", "own CPU, sampling"},
        {"cost", "export_cpu_ns", "own CPU, export"},
        {"memory", "profiler_bytes", "own memory"},
    };
    for (size_t index = 0; index < sizeof FACTS / sizeof FACTS[0]; index++) {
        json_t *part = json_object_get(document, FACTS[index].part);
        add_row(background, part, FACTS[index].key, FACTS[index].label);
    }
    json_t *settings = json_object_get(document, "settings");
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(settings, name, value)
    {
        add_row(background, settings, name, name);
    }
}

/* The comment "lost 3: stacks that moved (torn-stack)" is a loss with its meaning. The document
 * counts the same, so where there is one only the meaning is taken: once, not once a window. */
static bool add_loss_comment(pyr_background *background, const char *comment, bool is_counted)
{
    long long lost = 0;
    int start = 0;
    const char *open = strrchr(comment, '(');
    size_t length = strlen(comment);
    if (sscanf(comment, "lost %lld: %n", &lost, &start) != 1 || start == 0 || lost <= 0 ||
        open == NULL || open <= comment + start || comment[length - 1] != ')') {
        return false;
    }
    char reason[TEXT_BYTES];
    char note[2 * TEXT_BYTES];
    snprintf(reason, sizeof reason, "%.*s", (int)(comment + length - 1 - (open + 1)), open + 1);
    snprintf(note, sizeof note, "%s: %.*s", reason, (int)(open - 1 - (comment + start)),
             comment + start);
    if (!is_counted) {
        json_t *count = json_integer(lost);
        add_loss(background, reason, count);
        json_decref(count);
    }
    add_distinct(background->notes, note);
    return true;
}

/* Whether there is one that counts the losses. */
static bool add_document(pyr_background *background, const char *path)
{
    char name[PATH_BYTES];
    int length = snprintf(name, sizeof name, "%s.json", path);
    FILE *file = length > 0 && length < (int)sizeof name ? fopen(name, "re") : NULL;
    if (file == NULL) {
        return false; /* none, or none for us: a profile stays meaningful without it */
    }
    json_error_t error;
    json_t *document = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (document == NULL) {
        char note[PATH_BYTES + TEXT_BYTES];
        snprintf(note, sizeof note, "%s is not readable and was left out: line %d: %s", name,
                 error.line, error.text);
        add_distinct(background->notes, note);
        return false;
    }
    add_identity(background, json_object_get(document, "identity"));
    add_losses(background, json_object_get(document, "losses"));
    add_rows(background, document);
    bool has_losses = json_is_object(json_object_get(document, "losses"));
    json_decref(document);
    return has_losses;
}

void pyr_background_add(pyr_background *background, const pyr_profile *profile, const char *path)
{
    bool is_counted = add_document(background, path);
    for (size_t index = 0; index < profile->comment_count; index++) {
        const char *comment = profile->strings[profile->comments[index]].data;
        if (strncmp(comment, "pyrometer ", sizeof "pyrometer " - 1) == 0) {
            json_object_set_new(background->rows, "made by", json_string(comment));
        } else if (!add_loss_comment(background, comment, is_counted)) {
            add_distinct(background->notes, comment);
        }
    }
}
