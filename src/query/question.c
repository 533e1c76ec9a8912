/* Conditions and selectors; see the header. Pure but for patterns' memory. One thread. */
#include "query/question.h"

#include <stdio.h>
#include <string.h>

void pyr_question_init(pyr_question *question)
{
    question->from_ns = 0;
    question->until_ns = INT64_MAX;
    question->count = 0;
    question->type[0] = '\0';
}

void pyr_question_fini(pyr_question *question)
{
    for (size_t at = 0; at < question->count; at++) {
        pyr_pattern_free(question->conditions[at].pattern);
    }
    question->count = 0;
}

static pyr_status compile(pyr_condition *condition, char *why, size_t why_size)
{
    char reason[PYR_QUESTION_WHY_BYTES / 2] = "out of memory";
    pyr_status status =
        pyr_pattern_new(condition->value, true, &condition->pattern, reason, sizeof reason);
    if (status != PYR_OK) {
        snprintf(why, why_size, "the pattern of %s is none: %s", condition->name, reason);
    }
    return status;
}

pyr_status pyr_question_add(pyr_question *question, const char *name, const char *operator,
                            const char * value, char *why, size_t why_size)
{
    static const struct {
        const char *name;
        pyr_condition_place place;
    } PLACES[] = {
        {"function", PYR_CONDITION_FUNCTION},
        {"file", PYR_CONDITION_FILE},
        {"package", PYR_CONDITION_PACKAGE},
    };
    if (question->count == PYR_QUESTION_CONDITIONS) {
        snprintf(why, why_size, "more than %d conditions", PYR_QUESTION_CONDITIONS);
        return PYR_EINVAL;
    }
    pyr_condition *condition = &question->conditions[question->count];
    memset(condition, 0, sizeof *condition);
    if (name[0] == '\0' || strlen(name) >= sizeof condition->name ||
        strlen(value) >= sizeof condition->value) {
        snprintf(why, why_size, "a condition has no name, or is longer than %d bytes",
                 PYR_QUESTION_VALUE_BYTES - 1);
        return PYR_EINVAL;
    }
    memcpy(condition->name, name, strlen(name) + 1);
    memcpy(condition->value, value, strlen(value) + 1);
    for (size_t at = 0; at < sizeof PLACES / sizeof PLACES[0]; at++) {
        condition->place = strcmp(name, PLACES[at].name) == 0 ? PLACES[at].place : condition->place;
    }
    condition->is_negative = operator[0] == '!';
    pyr_status status = strchr(operator, '~') != NULL ? compile(condition, why, why_size) : PYR_OK;
    question->count += status == PYR_OK;
    return status;
}

pyr_status pyr_question_where(pyr_question *question, const char *text, char *why, size_t why_size)
{
    char name[PYR_QUESTION_NAME_BYTES];
    char operator[3] = {0};
    size_t length = strcspn(text, "=!");
    size_t end = length > 0 ? length : 0;
    const char *rest = text + end;
    if (rest[0] == '=' && rest[1] == '~') {
        memcpy(operator, "=~", 2);
    } else if (rest[0] == '!' && (rest[1] == '=' || rest[1] == '~')) {
        memcpy(operator, rest, 2);
    } else if (rest[0] == '=') {
        operator[0] = '=';
    }
    if (operator[0] == '\0' || length == 0 || length >= sizeof name) {
        snprintf(why, why_size,
                 "where=%.100s is no condition: write NAME=VALUE, NAME!=VALUE, "
                 "NAME=~PATTERN or NAME!~PATTERN",
                 text);
        return PYR_EINVAL;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    return pyr_question_add(question, name, operator, rest + strlen(operator), why, why_size);
}

/* ------------------------------------------------------------------------------ selectors ---- */

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

/* A text in double quotes, with \" and \\ and \n inside. */
static bool read_quoted(const char **at, char *out, size_t size)
{
    size_t used = 0;
    if (**at != '"') {
        return false;
    }
    for ((*at)++; **at != '\0' && **at != '"'; (*at)++) {
        char byte = **at;
        if (byte == '\\' && (*at)[1] != '\0') {
            (*at)++;
            byte = **at == 'n' ? '\n' : **at;
        }
        if (used + 1 >= size) {
            return false;
        }
        out[used++] = byte;
    }
    out[used] = '\0';
    if (**at != '"') {
        return false;
    }
    (*at)++;
    return true;
}

static bool read_name(const char **at, char *out, size_t size)
{
    if (**at == '"') {
        return read_quoted(at, out, size);
    }
    size_t length = strcspn(*at, "=!~{}\", \t\r\n");
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length;
    return true;
}

static bool read_operator(const char **at, char out[3])
{
    static const char *const ALL[] = {"=~", "!~", "!=", "="};
    for (size_t index = 0; index < sizeof ALL / sizeof ALL[0]; index++) {
        size_t length = strlen(ALL[index]);
        if (strncmp(*at, ALL[index], length) == 0) {
            memcpy(out, ALL[index], length + 1);
            *at += length;
            return true;
        }
    }
    return false;
}

pyr_status pyr_question_selector(pyr_question *question, const char *text, char *why,
                                 size_t why_size)
{
    char name[PYR_QUESTION_NAME_BYTES];
    char value[PYR_QUESTION_VALUE_BYTES];
    char operator[3];
    const char *at = text;
    skip_blanks(&at);
    bool good = *at == '{' || *at == '\0';
    at += *at == '{' ? 1 : 0;
    for (skip_blanks(&at); good && *at != '}' && *at != '\0';) {
        good = read_name(&at, name, sizeof name);
        skip_blanks(&at);
        good = good && read_operator(&at, operator);
        skip_blanks(&at);
        good = good && read_quoted(&at, value, sizeof value);
        if (!good) {
            break;
        }
        bool is_service = strcmp(name, "service_name") == 0;
        pyr_status status = pyr_question_add(question, is_service ? "service" : name, operator,
                                             value, why, why_size);
        if (status != PYR_OK) {
            return status;
        }
        skip_blanks(&at);
        good = *at == ',' || *at == '}';
        at += *at == ',' ? 1 : 0;
        skip_blanks(&at);
    }
    if (!good) {
        snprintf(why, why_size, "the selector is wrong at byte %zu: write {name=\"value\", ...}",
                 (size_t)(at - text));
        return PYR_EINVAL;
    }
    return PYR_OK;
}

/* ------------------------------------------------------------------------------- matching ---- */

bool pyr_condition_matches(const pyr_condition *condition, const char *text, size_t length)
{
    if (condition->pattern) {
        return pyr_pattern_matches(condition->pattern, text, length);
    }
    return strlen(condition->value) == length && memcmp(condition->value, text, length) == 0;
}

pyr_status pyr_question_verdict(const pyr_question *question)
{
    for (size_t at = 0; at < question->count; at++) {
        const pyr_pattern *pattern = question->conditions[at].pattern;
        if (pattern && pyr_pattern_gave_up(pattern)) {
            return PYR_ECOSTLY;
        }
    }
    return PYR_OK;
}

static const char *after(const char *text, size_t length, const char *part)
{
    const char *found = memmem(text, length, part, strlen(part));
    return found != NULL ? found + strlen(part) : NULL;
}

const char *pyr_package_of(const char *file, size_t length, size_t *package_length)
{
    const char *end = file + length;
    const char *package = after(file, length, "/site-packages/");
    package = package == NULL ? after(file, length, "/dist-packages/") : package;
    if (package != NULL) {
        size_t left = (size_t)(end - package);
        const char *slash = memchr(package, '/', left);
        size_t used = slash != NULL ? (size_t)(slash - package) : left;
        if (used > 3 && memcmp(package + used - 3, ".py", 3) == 0) {
            used -= 3;
        }
        *package_length = used;
        return package;
    }
    const char *name = "app";
    if ((length == 8 && memcmp(file, "<native>", 8) == 0)) {
        name = "native";
    } else if (after(file, length, "/lib/python3") != NULL ||
               (length > 7 && memcmp(file, "<frozen", 7) == 0)) {
        name = "stdlib";
    }
    *package_length = strlen(name);
    return name;
}
