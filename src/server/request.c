/* Arguments, answers and times of a request; see the header. Any one thread at a time. */
#include "server/request.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/utf8.h"

const char *pyr_request_argument(const pyr_request *request, const char *name)
{
    for (size_t at = 0; at < request->argument_count; at++) {
        if (strcmp(request->arguments[at].name, name) == 0) {
            return request->arguments[at].value;
        }
    }
    return NULL;
}

/* Connect's word for a status code; NULL: the client is none of Connect's. */
static const char *connect_code(const pyr_request *request, unsigned code)
{
    static const struct {
        unsigned code;
        const char *word;
    } WORDS[] = {
        {400, "invalid_argument"}, {401, "unauthenticated"},    {403, "permission_denied"},
        {404, "not_found"},        {413, "resource_exhausted"}, {422, "invalid_argument"},
        {501, "unimplemented"},    {503, "unavailable"},        {507, "unavailable"},
    };
    const char *path = request->path != NULL ? request->path : "";
    if (strncmp(path, "/querier.v1.", 12) != 0 && strncmp(path, "/push.v1.", 9) != 0) {
        return NULL;
    }
    for (size_t at = 0; at < sizeof WORDS / sizeof WORDS[0]; at++) {
        if (WORDS[at].code == code) {
            return WORDS[at].word;
        }
    }
    return "internal";
}

void pyr_request_refuse(pyr_request *request, unsigned code, const char *format, ...)
{
    char why[PYR_REQUEST_WHY_BYTES];
    char clean[PYR_REQUEST_WHY_BYTES];
    va_list values;
    if (request->code != 0) {
        return;
    }
    va_start(values, format);
    (void)vsnprintf(why, sizeof why, format, values);
    va_end(values);
    (void)pyr_utf8_repair(why, strlen(why), clean, sizeof clean);
    pyr_buffer_clear(&request->answer);
    const char *word = connect_code(request, code);
    json_t *error = word != NULL ? json_pack("{s:s,s:s}", "code", word, "message", clean)
                                 : json_pack("{s:s}", "error", clean);
    char *text = error != NULL ? json_dumps(error, JSON_COMPACT) : NULL;
    (void)pyr_buffer_text(&request->answer, text != NULL ? text : "{\"error\":\"out of memory\"}");
    json_decref(error);
    if (text != NULL) {
        json_malloc_t allocate = NULL;
        json_free_t release = NULL;
        json_get_alloc_funcs(&allocate, &release);
        release(text);
    }
    pyr_request_answer(request, code, "application/json");
}

void pyr_request_answer(pyr_request *request, unsigned code, const char *type)
{
    request->code = request->answer.status == PYR_OK ? code : 500;
    request->answer_type = type;
}

static pyr_status unit_of(char letter, int64_t *ns)
{
    static const struct {
        char letter;
        int64_t seconds;
    } UNITS[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    for (size_t at = 0; at < sizeof UNITS / sizeof UNITS[0]; at++) {
        if (UNITS[at].letter == letter) {
            *ns = UNITS[at].seconds * INT64_C(1000000000);
            return PYR_OK;
        }
    }
    return PYR_EINVAL;
}

pyr_status pyr_span_parse(const char *text, int64_t *span_ns)
{
    int64_t unit = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] == '\0' || text[digits + 1] != '\0' ||
        unit_of(text[digits], &unit) != PYR_OK) {
        return PYR_EINVAL;
    }
    int64_t count = strtoll(text, NULL, 10);
    return __builtin_mul_overflow(count, unit, span_ns) ? PYR_EINVAL : PYR_OK;
}

/* 2026-11-30T02:00:00[.fraction]Z */
static pyr_status parse_date(const char *text, int64_t *time_ns)
{
    struct tm date = {0};
    int length = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &date.tm_year, &date.tm_mon, &date.tm_mday,
               &date.tm_hour, &date.tm_min, &date.tm_sec, &length) != 6 ||
        date.tm_year < 1970 || date.tm_year > 2261) {
        return PYR_EINVAL;
    }
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    int64_t fraction = 0;
    const char *rest = text + length;
    if (*rest == '.') {
        int64_t unit = 100000000;
        for (rest++; isdigit((unsigned char)*rest); rest++, unit /= 10) {
            fraction += (*rest - '0') * unit;
        }
    }
    time_t seconds = timegm(&date);
    if (seconds < 0 || (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)) {
        return PYR_EINVAL;
    }
    *time_ns = (int64_t)seconds * INT64_C(1000000000) + fraction;
    return PYR_OK;
}

pyr_status pyr_time_parse(const char *text, int64_t now_ns, int64_t *time_ns)
{
    size_t digits = strspn(text, "0123456789");
    if (strncmp(text, "now", 3) == 0) {
        int64_t span = 0;
        if (text[3] == '\0') {
            *time_ns = now_ns;
            return PYR_OK;
        }
        if (text[3] != '-' || pyr_span_parse(text + 4, &span) != PYR_OK) {
            return PYR_EINVAL;
        }
        *time_ns = now_ns - span;
        return PYR_OK;
    }
    if (text[digits] == '-') {
        return parse_date(text, time_ns);
    }
    if (digits == 0 || digits > 19 || text[digits] != '\0') {
        return PYR_EINVAL;
    }
    unsigned long long number = strtoull(text, NULL, 10);
    int64_t unit = digits <= 11 ? 1000000000 : digits <= 14 ? 1000000 : digits <= 17 ? 1000 : 1;
    if (number > INT64_MAX || __builtin_mul_overflow((int64_t)number, unit, time_ns)) {
        return PYR_EINVAL;
    }
    return PYR_OK;
}
