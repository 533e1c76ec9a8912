/* PCRE2 with its limits set; see the header. */
#include "query/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum {
    MATCH_STEPS = 100000, /* backtracking steps a text: some milliseconds */
    MATCH_HEAP_KIB = 4096,
    PARENTHESES = 50, /* nested; each takes stack of the compiler */
    ERROR_BYTES = 128,
};

struct pyr_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    bool gave_up;
};

static pcre2_code *compile(const char *text, bool whole, int *error, size_t *at)
{
    uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
    options |= whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    *error = 0;
    if (!context) {
        return NULL;
    }
    (void)pcre2_set_parens_nest_limit(context, PARENTHESES);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, error, at, context);
    pcre2_compile_context_free(context);
    return code;
}

pyr_status pyr_pattern_new(const char *text, bool whole, pyr_pattern **pattern, char *why,
                           size_t why_size)
{
    int error = 0;
    size_t at = 0;
    pyr_pattern *one = pyr_memory_new(1, sizeof *one);
    *pattern = NULL;
    if (!one) {
        return PYR_ENOMEM;
    }
    one->code = compile(text, whole, &error, &at);
    if (!one->code && error != 0) {
        PCRE2_UCHAR reason[ERROR_BYTES] = {0};
        (void)pcre2_get_error_message(error, reason, sizeof reason);
        snprintf(why, why_size, "%s, at byte %zu", (const char *)reason, at);
        pyr_pattern_free(one);
        return PYR_EINVAL;
    }
    one->match = one->code ? pcre2_match_data_create_from_pattern(one->code, NULL) : NULL;
    one->limits = pcre2_match_context_create(NULL);
    if (!one->match || !one->limits) {
        pyr_pattern_free(one);
        return PYR_ENOMEM;
    }
    (void)pcre2_set_match_limit(one->limits, MATCH_STEPS);
    (void)pcre2_set_heap_limit(one->limits, MATCH_HEAP_KIB);
    *pattern = one;
    return PYR_OK;
}

void pyr_pattern_free(pyr_pattern *pattern)
{
    if (pattern) {
        pcre2_match_data_free(pattern->match);
        pcre2_match_context_free(pattern->limits);
        pcre2_code_free(pattern->code);
        pyr_memory_free(pattern);
    }
}

bool pyr_pattern_matches(pyr_pattern *pattern, const char *text, size_t length)
{
    if (pattern->gave_up) {
        return false;
    }
    int found =
        pcre2_match(pattern->code, (PCRE2_SPTR)text, length, 0, 0, pattern->match, pattern->limits);
    pattern->gave_up = found < 0 && found != PCRE2_ERROR_NOMATCH;
    return found >= 0;
}

bool pyr_pattern_gave_up(const pyr_pattern *pattern)
{
    return pattern->gave_up;
}
