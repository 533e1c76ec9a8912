/* Unit tests of base/log and base/utf8: order, bounds, repeats, threads, fork, invalid text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/utf8.h"

static char text[PYR_LOG_TEXT_BYTES];
static pyr_log_level level;

static int drain(void)
{
    int taken = 0;
    while (pyr_log_take(&level, text, sizeof text)) {
        taken++;
    }
    return taken;
}

static void test_first_in_first_out(void **state)
{
    (void)state;
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 0);
    pyr_log_add(PYR_LOG_INFO, "started %s", "well");
    pyr_log_add(PYR_LOG_ERROR, "failed");
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 1);
    assert_int_equal(level, PYR_LOG_INFO);
    assert_string_equal(text, "started well");
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 1);
    assert_int_equal(level, PYR_LOG_ERROR);
    assert_string_equal(text, "failed");
    assert_int_equal(drain(), 0);
}

static void test_repeats_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        pyr_log_add(PYR_LOG_WARNING, "file %d cannot be written", i);
    }
    assert_int_equal(drain(), 1);
    assert_string_equal(text, "file 0 cannot be written");
    assert_int_equal(pyr_log_dropped(), 0);
}

static void test_what_is_no_repetition(void **state)
{
    (void)state;
    pyr_log_add_anyway(PYR_LOG_WARNING, "thread 1 waits");
    pyr_log_add_anyway(PYR_LOG_ERROR, "thread 2 waits \xFF");
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 1);
    assert_int_equal(level, PYR_LOG_WARNING);
    assert_string_equal(text, "thread 1 waits");
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 1);
    assert_int_equal(level, PYR_LOG_ERROR);
    assert_string_equal(text, "thread 2 waits \xEF\xBF\xBD");
    uint64_t before = pyr_log_dropped();
    for (int i = 0; i < PYR_LIMIT_LOG_LINES + 3; i++) {
        pyr_log_add_anyway(PYR_LOG_INFO, "the same");
    }
    assert_int_equal(pyr_log_dropped() - before, 3);
    assert_int_equal(drain(), PYR_LIMIT_LOG_LINES + 1); /* and a line about those dropped */
}

static void test_overflow_is_told(void **state)
{
    (void)state;
    uint64_t before = pyr_log_dropped();
    for (int i = 0; i < PYR_LIMIT_LOG_LINES + 5; i++) {
        pyr_log_add(PYR_LOG_INFO, "letter %c%c", 'a' + i / 26, 'a' + i % 26);
    }
    assert_int_equal(pyr_log_dropped() - before, 5);
    assert_int_equal(drain(), PYR_LIMIT_LOG_LINES + 1);
    assert_string_equal(text, "5 log lines were dropped because too many waited");
    assert_int_equal(drain(), 0);
}

static void test_long_and_invalid_text(void **state)
{
    (void)state;
    char longer[2 * PYR_LOG_TEXT_BYTES];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    pyr_log_add(PYR_LOG_INFO, "%s", longer);
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 1);
    assert_int_equal(strlen(text), PYR_LOG_TEXT_BYTES - 1);
    pyr_log_add(PYR_LOG_INFO, "bad \xFF byte");
    assert_int_equal(pyr_log_take(&level, text, sizeof text), 1);
    assert_string_equal(text, "bad \xEF\xBF\xBD byte");
    pyr_log_add(PYR_LOG_INFO, "na\xC3\xAFve");
    assert_int_equal(pyr_log_take(&level, text, 4), 1); /* never cut inside a character */
    assert_string_equal(text, "na");
}

static void *shout(void *name)
{
    for (int i = 0; i < 200; i++) {
        pyr_log_add(PYR_LOG_DEBUG, "%s shouts %c%c", (const char *)name, 'a' + i / 20,
                    'a' + i % 20);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    uint64_t before = pyr_log_dropped();
    pthread_t one, two;
    assert_int_equal(pthread_create(&one, NULL, shout, "one"), 0);
    assert_int_equal(pthread_create(&two, NULL, shout, "two"), 0);
    uint64_t taken = 0;
    for (int i = 0; i < 100; i++) {
        taken += pyr_log_take(&level, text, sizeof text) && strstr(text, "shouts");
    }
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    while (pyr_log_take(&level, text, sizeof text)) {
        taken += strstr(text, "shouts") != NULL; /* not the line about dropped ones */
    }
    assert_int_equal(taken + pyr_log_dropped() - before, 400);
}

static void test_child_starts_empty(void **state)
{
    (void)state;
    pyr_log_add(PYR_LOG_INFO, "of the parent");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pyr_log_fork_child();
        int inherited = pyr_log_take(&level, text, sizeof text);
        pyr_log_add(PYR_LOG_INFO, "of the parent"); /* its own: no repeat here */
        int own = pyr_log_take(&level, text, sizeof text);
        _exit(inherited == 0 && own == 1 ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(drain(), 1);
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t valid; /* length of the valid prefix */
    } cases[] = {
        {"", 0},
        {"plain", 5},
        {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x94\xA5", 9},
        {"a\x80", 1},             /* a continuation alone */
        {"a\xC3", 1},             /* ends inside a character */
        {"a\xC0\x80", 1},         /* overlong NUL */
        {"a\xE0\x9F\xBF", 1},     /* overlong */
        {"a\xED\xA0\x80", 1},     /* surrogate */
        {"a\xF4\x90\x80\x80", 1}, /* beyond U+10FFFF */
        {"a\xF5\x80\x80\x80", 1},
        {"\xF0\x90\x80\x80\xED\x9F\xBF", 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = strlen(cases[i].bytes);
        assert_int_equal(pyr_utf8_valid(cases[i].bytes, length), cases[i].valid);
        char repaired[64];
        size_t written = pyr_utf8_repair(cases[i].bytes, length, repaired, sizeof repaired);
        assert_int_equal(pyr_utf8_valid(repaired, written), written);
        assert_int_equal(strlen(repaired), written);
        assert_memory_equal(repaired, cases[i].bytes, cases[i].valid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_in_first_out),    cmocka_unit_test(test_repeats_are_counted),
        cmocka_unit_test(test_what_is_no_repetition), cmocka_unit_test(test_overflow_is_told),
        cmocka_unit_test(test_long_and_invalid_text), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_child_starts_empty),    cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
