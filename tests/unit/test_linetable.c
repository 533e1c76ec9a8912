/* Unit tests of cpython/linetable: cases from real interpreters (tests/golden/linetable.txt), each
 * form of entry, and broken tables, all at the edge of a page that must not be passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "cpython/linetable.h"

enum { PAGE = 4096, RUNS = 512 };

static uint8_t *guard; /* first byte of the page that must not be read */

static int set_up(void **state)
{
    (void)state;
    uint8_t *pages =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0) {
        return -1;
    }
    guard = pages + PAGE;
    return 0;
}

/* The bytes, ending where reading ends. */
static const uint8_t *at_edge(const uint8_t *bytes, size_t length)
{
    assert_true(length <= PAGE);
    memcpy(guard - length, bytes, length);
    return guard - length;
}

static void decode_hex(const char *hex, uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

static void test_golden(void **state)
{
    (void)state;
    FILE *file = fopen(PYR_TESTS_FOLDER "/golden/linetable.txt", "r");
    assert_non_null(file);
    static char row[1 << 16];
    unsigned rows = 0;
    while (fgets(row, sizeof row, file)) {
        if (row[0] == '#') {
            continue;
        }
        row[strcspn(row, "\n")] = 0;
        char *rest = row;
        (void)strsep(&rest, " "); /* version */
        (void)strsep(&rest, " "); /* source */
        int first_line = (int)strtol(strsep(&rest, " "), NULL, 10);
        const char *hex = strsep(&rest, " ");
        size_t length = strlen(hex) / 2, expected = 0, count;
        uint8_t *table = guard - length;
        decode_hex(hex, table, length);
        pyr_line_run runs[RUNS];
        assert_int_equal(pyr_linetable_expand(table, length, first_line, runs, RUNS, &count),
                         PYR_OK);
        for (const char *run; (run = strsep(&rest, " ")); expected++) {
            char *colon;
            unsigned long start = strtoul(run, &colon, 10);
            int line = (int)strtol(colon + 1, NULL, 10), single;
            assert_true(expected < count);
            assert_int_equal(runs[expected].start, start);
            assert_int_equal(runs[expected].line, line);
            assert_int_equal(pyr_linetable_find(runs, count, start), line);
            if (expected > 0) {
                assert_int_equal(pyr_linetable_find(runs, count, start - 1),
                                 runs[expected - 1].line);
            }
            pyr_status status = pyr_linetable_line(table, length, first_line, start, &single);
            assert_true(status == PYR_OK || (status == PYR_ENOENT && line == 0));
            assert_int_equal(single, line);
        }
        assert_int_equal(expected, count);
        /* A table cut anywhere gives an error or fewer units, and never reads on. */
        for (size_t cut = 0; cut < length; cut++) {
            memmove(guard - cut, table, cut);
            pyr_status status =
                pyr_linetable_expand(guard - cut, cut, first_line, runs, RUNS, &count);
            assert_true(status == PYR_OK || status == PYR_EPARTIAL);
            decode_hex(hex, table, length);
        }
        rows++;
    }
    (void)fclose(file);
    assert_true(rows >= 40);
}

#define BYTES(text) text, sizeof(text) - 1

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        pyr_status status;
        size_t count;
        pyr_line_run runs[3];
    } cases[] = {
        {BYTES("\x80\x05"), PYR_OK, 2, {{0, 10}, {1, 0}}},                 /* short form */
        {BYTES("\x87"), PYR_OK, 2, {{0, 10}, {8, 0}}},                     /* its column missing */
        {BYTES("\xd1\x01\x02"), PYR_OK, 2, {{0, 10}, {2, 0}}},             /* 10: delta 0 */
        {BYTES("\xe3\x01\x02"), PYR_OK, 2, {{0, 12}, {4, 0}}},             /* 12: delta 2 */
        {BYTES("\xe8\x03\xe8\x04"), PYR_OK, 3, {{0, 9}, {1, 11}, {2, 0}}}, /* 13: -1, +2 */
        {BYTES("\xf0\x42\x01\x00\x01\x01"), PYR_OK, 2, {{0, 43}, {1, 0}}}, /* 14: 2 digits */
        {BYTES("\xf8\xf8"), PYR_OK, 1, {{0, 0}}},                          /* 15: none */
        {BYTES("\xf8\x80\x00"), PYR_OK, 3, {{0, 0}, {1, 10}, {2, 0}}},
        {BYTES("\xe8\x15"), PYR_OK, 1, {{0, 0}}},                           /* line 0 is none */
        {BYTES("\x00"), PYR_EBAD, 0, {{0, 0}}},                             /* no entry */
        {BYTES("\xe8"), PYR_EPARTIAL, 0, {{0, 0}}},                         /* number missing */
        {BYTES("\xe8\x41"), PYR_EPARTIAL, 0, {{0, 0}}},                     /* ... cut */
        {BYTES("\xe8\x80"), PYR_EBAD, 0, {{0, 0}}},                         /* an entry inside it */
        {BYTES("\xe8\x41\x41\x41\x41\x41\x41\x01"), PYR_EBAD, 0, {{0, 0}}}, /* long */
        {BYTES("\xe8\x7e\x7f\x7f\x7f\x7f\x03"), PYR_EBAD, 0, {{0, 0}}},     /* line > INT_MAX */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pyr_line_run runs[3];
        size_t count;
        const uint8_t *table = at_edge((const uint8_t *)cases[i].bytes, cases[i].length);
        assert_int_equal(pyr_linetable_expand(table, cases[i].length, 10, runs, 3, &count),
                         cases[i].status);
        int line = 7;
        pyr_status status = pyr_linetable_line(table, cases[i].length, 10, 0, &line);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(line, cases[i].status == PYR_OK ? cases[i].runs[0].line : 0);
        if (cases[i].status == PYR_OK) {
            assert_int_equal(count, cases[i].count);
            assert_memory_equal(runs, cases[i].runs, count * sizeof runs[0]);
            assert_int_equal(pyr_linetable_line(table, cases[i].length, 10, SIZE_MAX, &line),
                             PYR_ENOENT);
        }
    }
}

static void test_bounds(void **state)
{
    (void)state;
    pyr_line_run run;
    size_t count;
    int line = 7;
    assert_int_equal(pyr_linetable_line(NULL, 0, 10, 0, &line), PYR_ENOENT);
    assert_int_equal(line, 0);
    assert_int_equal(pyr_linetable_expand(NULL, 0, 10, &run, 1, &count), PYR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(run.line, 0);
    assert_int_equal(pyr_linetable_find(&run, 1, 99), 0);
    assert_int_equal(pyr_linetable_find(NULL, 0, 0), 0);
    const uint8_t *table = at_edge((const uint8_t *)"\x80\x00\xd8\x00\x00", 5);
    assert_int_equal(pyr_linetable_expand(table, 5, 10, NULL, 0, &count), PYR_ETOOBIG);
    assert_int_equal(count, 3);
    assert_int_equal(pyr_linetable_expand(table, 5, 10, &run, 1, &count), PYR_ETOOBIG);
    assert_int_equal(run.line, 10);
    /* First lines that no source has. */
    assert_int_equal(pyr_linetable_line(table, 5, -5, 0, &line), PYR_OK);
    assert_int_equal(line, 0);
    assert_int_equal(pyr_linetable_line(table, 5, INT32_MAX, 1, &line), PYR_EBAD);
    assert_int_equal(line, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
