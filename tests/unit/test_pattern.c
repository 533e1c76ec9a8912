/* Patterns: where they match, what is none, and that none costs without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "query/pattern.h"

static bool match(const char *text, bool whole, const char *subject)
{
    pyr_pattern *pattern = NULL;
    char why[128] = "";
    assert_int_equal(pyr_pattern_new(text, whole, &pattern, why, sizeof why), PYR_OK);
    bool found = pyr_pattern_matches(pattern, subject, strlen(subject));
    assert_false(pyr_pattern_gave_up(pattern));
    pyr_pattern_free(pattern);
    return found;
}

static void test_matches(void **state)
{
    (void)state;
    assert_true(match("ork", false, "worker-1"));
    assert_false(match("ork", true, "worker-1"));
    assert_true(match("worker-[0-9]{1,3}|main", true, "worker-12"));
    assert_true(match("main|worker", true, "worker"));
    assert_false(match("main|worker", true, "worker-1"));
    assert_true(match("", true, ""));
    assert_true(match("gr.ße", true, "größe"));
    assert_false(match("ö", false, "\xff\xfe"));
}

static void test_none(void **state)
{
    static const char *const NONE[] = {"(", "[a", "*", "a{2", "(?<", "\\"};
    (void)state;
    for (size_t at = 0; at < sizeof NONE / sizeof NONE[0]; at++) {
        pyr_pattern *pattern = NULL;
        char why[128] = "";
        pyr_status status = pyr_pattern_new(NONE[at], true, &pattern, why, sizeof why);
        if (strcmp(NONE[at], "a{2") == 0) { /* means itself */
            assert_int_equal(status, PYR_OK);
            pyr_pattern_free(pattern);
            continue;
        }
        assert_int_equal(status, PYR_EINVAL);
        assert_non_null(strstr(why, "at byte"));
        assert_null(pattern);
    }
}

/* Patterns that take other libraries seconds or gigabytes, each on a long text. */
static void test_costs_are_bounded(void **state)
{
    static const char *const COSTLY[] = {
        "(a+)+$", "(a|aa)+$", "(.*)*(.*)*(.*)*x", "((((((((a+)+)+)+)+)+)+)+)+b", "(a*)*\\1b",
    };
    char text[2000];
    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 2] = '!';
    text[sizeof text - 1] = '\0';
    for (size_t at = 0; at < sizeof COSTLY / sizeof COSTLY[0]; at++) {
        pyr_pattern *pattern = NULL;
        char why[128] = "";
        assert_int_equal(pyr_pattern_new(COSTLY[at], false, &pattern, why, sizeof why), PYR_OK);
        for (int look = 0; look < 100000; look++) { /* no limit is met a second time */
            assert_false(pyr_pattern_matches(pattern, text, sizeof text - 1));
            if (!pyr_pattern_gave_up(pattern)) {
                break; /* PCRE2 knew that it cannot match */
            }
        }
        pyr_pattern_free(pattern);
    }
    pyr_pattern *pattern = NULL;
    char why[128] = "";
    assert_int_equal(pyr_pattern_new("(a+)+$", false, &pattern, why, sizeof why), PYR_OK);
    assert_false(pyr_pattern_matches(pattern, text, sizeof text - 1));
    assert_true(pyr_pattern_gave_up(pattern));
    pyr_pattern_free(pattern);
}

/* A pattern is as long as a question lets it be: compiling is bounded too. */
static void test_compiling_is_bounded(void **state)
{
    static const char *const PIECES[] = {"+", "(", "{9}", "(?:a{1000}){1000}", "a|", "[^a]"};
    (void)state;
    for (size_t at = 0; at < sizeof PIECES / sizeof PIECES[0]; at++) {
        char text[512] = "a";
        size_t length = strlen(PIECES[at]);
        for (size_t used = 1; used + length < sizeof text; used += length) {
            memcpy(text + used, PIECES[at], length);
        }
        pyr_pattern *pattern = NULL;
        char why[128] = "";
        pyr_status status = pyr_pattern_new(text, true, &pattern, why, sizeof why);
        assert_true(status == PYR_OK || status == PYR_EINVAL);
        assert_true((pattern != NULL) == (status == PYR_OK));
        pyr_pattern_free(pattern);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_costs_are_bounded),
        cmocka_unit_test(test_compiling_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
