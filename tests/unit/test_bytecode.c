/* Unit tests of cpython/bytecode: real code objects of every version (tests/golden/bytecode, made
 * by an independent analysis), ways that disagree, hidden opcodes, broken input at the edge of a
 * page, and allocations that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "base/memory.h"
#include "cpython/bytecode.h"

enum { PAGE = 4096, EDGE_BYTES = 16 * PAGE, MINOR = 13 };

/* Opcodes of 3.13 that the hand-made cases use. */
enum {
    POP_TOP = 32,
    PUSH_NULL = 34,
    NOP = 30,
    CALL = 53,
    EXTENDED_ARG = 71,
    FOR_ITER = 72,
    JUMP_BACKWARD = 77,
    LOAD_CONST = 83,
    POP_JUMP_IF_FALSE = 97,
    RETURN_VALUE = 36,
    CALL_TYPE_1 = 181,
    INSTRUMENTED_LINE = 254,
    LOAD_FAST = 85,
};

static uint8_t *guard; /* first byte that must not be read */

static int set_up(void **state)
{
    (void)state;
    uint8_t *pages =
        mmap(NULL, EDGE_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + EDGE_BYTES, PAGE, PROT_NONE) != 0) {
        return -1;
    }
    guard = pages + EDGE_BYTES;
    return 0;
}

/* Analyses with the units at the edge of readable memory. */
static pyr_bytecode *analyse(const uint8_t *units, size_t bytes, uint32_t stacksize)
{
    assert_true(bytes <= EDGE_BYTES);
    memcpy(guard - bytes, units, bytes);
    return pyr_bytecode_new(MINOR, guard - bytes, bytes / 2, NULL, 0, stacksize);
}

static size_t from_hex(const char *text, uint8_t *out, size_t size)
{
    if (strcmp(text, "-") == 0) {
        return 0;
    }
    size_t length = strlen(text) / 2;
    assert_true(length <= size);
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return length;
}

/* One golden line: the sites must be exactly those it lists, in order, and found by their unit. */
static void check_case(char *line)
{
    static uint8_t exceptions[PAGE];
    char *fields[6];
    line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; i < 6; i++) {
        fields[i] = strsep(&line, " ");
        assert_non_null(fields[i]);
    }
    unsigned minor = (unsigned)strtoul(fields[1], NULL, 10);
    static uint8_t units[EDGE_BYTES];
    size_t bytes = from_hex(fields[3], units, sizeof(units));
    size_t exceptions_length = from_hex(fields[4], exceptions, sizeof(exceptions));
    memcpy(guard - bytes, units, bytes);
    pyr_bytecode *bytecode =
        pyr_bytecode_new(minor, guard - bytes, bytes / 2, exceptions, exceptions_length,
                         (uint32_t)strtoul(fields[2], NULL, 10));
    assert_non_null(bytecode);
    size_t index = 0;
    size_t unit;
    pyr_site site;
    for (char *call; (call = strsep(&fields[5], ",")) != NULL;) {
        unsigned expected_unit;
        unsigned kind;
        unsigned depth;
        unsigned oparg;
        assert_int_equal(sscanf(call, "%u:%u:%u:%u", &expected_unit, &kind, &depth, &oparg), 4);
        assert_true(pyr_bytecode_site_at(bytecode, index++, &unit, &site));
        assert_int_equal(unit, expected_unit);
        assert_true(pyr_bytecode_site(bytecode, unit, &site));
        assert_int_equal(site.kind, kind);
        assert_int_equal(site.depth, depth);
        assert_int_equal(site.oparg, oparg);
    }
    size_t found = 0;
    for (unit = 0; unit <= bytes / 2; unit++) {
        found += pyr_bytecode_site(bytecode, unit, &site);
    }
    assert_int_equal(found, index);
    assert_true(index > 0);
    assert_false(pyr_bytecode_site_at(bytecode, index, &unit, &site));
    assert_int_equal(pyr_bytecode_size(bytecode), sizeof(size_t) + 8 * index);
    pyr_bytecode_free(bytecode);
}

static void test_golden(void **state)
{
    (void)state;
    static char line[1 << 17];
    for (unsigned minor = 11; minor <= 15; minor++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/golden/bytecode/3%u.txt", PYR_TESTS_FOLDER, minor);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t cases = 0;
        while (fgets(line, sizeof(line), file) != NULL) {
            check_case(line);
            cases++;
        }
        fclose(file);
        assert_int_equal(cases, 7);
    }
}

static void assert_one_site(const uint8_t *units, size_t bytes, uint32_t stacksize, size_t unit,
                            uint32_t depth, uint32_t oparg)
{
    pyr_bytecode *bytecode = analyse(units, bytes, stacksize);
    assert_non_null(bytecode);
    size_t found;
    pyr_site site;
    assert_true(pyr_bytecode_site_at(bytecode, 0, &found, &site));
    assert_int_equal(found, unit);
    assert_int_equal(site.depth, depth);
    assert_int_equal(site.oparg, oparg);
    assert_false(pyr_bytecode_site_at(bytecode, 1, &found, &site));
    pyr_bytecode_free(bytecode);
}

static void assert_no_site(const uint8_t *units, size_t bytes, uint32_t stacksize)
{
    pyr_bytecode *bytecode = analyse(units, bytes, stacksize);
    assert_non_null(bytecode);
    size_t found;
    pyr_site site;
    assert_false(pyr_bytecode_site_at(bytecode, 0, &found, &site));
    pyr_bytecode_free(bytecode);
}

static void test_prefixes(void **state)
{
    (void)state;
    const uint8_t units[] = {LOAD_CONST, 0, PUSH_NULL, 0, EXTENDED_ARG, 1, CALL, 2};
    assert_one_site(units, sizeof(units), 2, 3, 2, 0x102);
    /* An argument that no call has. */
    const uint8_t large[] = {LOAD_CONST, 0, EXTENDED_ARG, 1, EXTENDED_ARG, 1, CALL, 2};
    assert_no_site(large, sizeof(large), 2);
}

static void test_ways_that_disagree(void **state)
{
    (void)state;
    /* LOAD_CONST; if: LOAD_CONST; NOP and CALL are reached with one value on the stack, or two. */
    const uint8_t units[] = {
        LOAD_CONST, 0, LOAD_CONST, 0, POP_JUMP_IF_FALSE, 1, 0, 0, LOAD_CONST, 0, NOP, 0, CALL, 0};
    assert_no_site(units, sizeof(units), 9);
    /* The same with a value dropped again on the way agrees. */
    const uint8_t fixed[] = {LOAD_CONST, 0, LOAD_CONST, 0, POP_JUMP_IF_FALSE, 2,
                             0,          0, LOAD_CONST, 0, POP_TOP,           0,
                             NOP,        0, CALL,       0};
    assert_one_site(fixed, sizeof(fixed), 9, 7, 1, 0);
    /* A loop that grows its stack each time round. */
    const uint8_t loop[] = {LOAD_CONST, 0, CALL,          0, 0, 0, 0, 0, 0, 0, LOAD_CONST, 0,
                            LOAD_CONST, 0, JUMP_BACKWARD, 8, 0, 0};
    assert_no_site(loop, sizeof(loop), 100);
}

static void test_bounds_of_the_stack(void **state)
{
    (void)state;
    const uint8_t deep[] = {LOAD_CONST, 0, LOAD_CONST, 0, LOAD_CONST, 0, CALL, 1};
    assert_one_site(deep, sizeof(deep), 3, 3, 3, 1);
    assert_no_site(deep, sizeof(deep), 2);
    const uint8_t below[] = {POP_TOP, 0, LOAD_CONST, 0, CALL, 0};
    assert_no_site(below, sizeof(below), 2);
}

static void test_hidden_opcodes(void **state)
{
    (void)state;
    const uint8_t units[] = {LOAD_CONST, 0, INSTRUMENTED_LINE, 0, CALL, 0};
    assert_no_site(units, sizeof(units), 9);
    assert_int_equal(pyr_bytecode_class(13, INSTRUMENTED_LINE), PYR_SITE_HIDDEN);
    assert_int_equal(pyr_bytecode_class(13, CALL), PYR_SITE_CALL);
    assert_int_equal(pyr_bytecode_class(13, CALL_TYPE_1), PYR_SITE_CALL);
    assert_int_equal(pyr_bytecode_class(13, LOAD_FAST), PYR_SITE_NONE);
    assert_int_equal(pyr_bytecode_class(13, FOR_ITER), PYR_SITE_OTHER);
    assert_int_equal(pyr_bytecode_class(10, LOAD_FAST), PYR_SITE_HIDDEN);
    assert_int_equal(pyr_bytecode_class(16, LOAD_FAST), PYR_SITE_HIDDEN);
    assert_int_equal(pyr_bytecode_form(13, CALL_TYPE_1), PYR_FORM_TYPE);
    assert_int_equal(pyr_bytecode_form(13, CALL), PYR_FORM_ANY);
    assert_int_equal(pyr_bytecode_form(16, CALL_TYPE_1), PYR_FORM_ANY);
}

/* The handler of `entry` starts at unit 4 (a CALL): what depth does the table give it? */
static bool handler_depth(const uint8_t *entry, size_t length, uint32_t *depth)
{
    const uint8_t units[] = {LOAD_CONST, 0, NOP, 0, RETURN_VALUE, 0, NOP, 0, CALL, 0};
    memcpy(guard - length, entry, length);
    pyr_bytecode *bytecode =
        pyr_bytecode_new(MINOR, units, sizeof(units) / 2, guard - length, length, 200);
    assert_non_null(bytecode);
    pyr_site site = {0};
    bool is_found = pyr_bytecode_site(bytecode, 4, &site);
    *depth = site.depth;
    pyr_bytecode_free(bytecode);
    return is_found;
}

static void test_exception_table(void **state)
{
    (void)state;
    uint32_t depth;
    const uint8_t plain[] = {0x80, 2, 4, 3 << 1};
    assert_true(handler_depth(plain, sizeof(plain), &depth));
    assert_int_equal(depth, 4);
    const uint8_t lasti[] = {0x80, 2, 4, 0x41, 3}; /* (33 << 1) | 1, in two bytes */
    assert_true(handler_depth(lasti, sizeof(lasti), &depth));
    assert_int_equal(depth, 35);
    const uint8_t twice[] = {0x80, 2, 4, 6, 0x80, 2, 4, 8};
    assert_false(handler_depth(twice, sizeof(twice), &depth));
    const uint8_t beyond[] = {0x80, 2, 0x7f, 0x3f, 6};
    assert_false(handler_depth(beyond, sizeof(beyond), &depth));
    for (size_t length = 1; length < sizeof(lasti); length++) { /* cut short */
        assert_false(handler_depth(lasti, length, &depth));
    }
    const uint8_t endless[] = {0x80, 2, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f};
    assert_false(handler_depth(endless, sizeof(endless), &depth));
}

static void test_broken_input(void **state)
{
    (void)state;
    const uint8_t units[] = {LOAD_CONST, 0, CALL, 0};
    assert_null(pyr_bytecode_new(10, units, 2, NULL, 0, 9));
    assert_null(pyr_bytecode_new(16, units, 2, NULL, 0, 9));
    assert_null(pyr_bytecode_new(13, units, 0, NULL, 0, 9));
    assert_null(pyr_bytecode_new(13, units, SIZE_MAX / 2, NULL, 0, 9));
    /* Jumps out of the code, both ways, and code that ends within an instruction. */
    const uint8_t ahead[] = {LOAD_CONST, 0, EXTENDED_ARG, 255, POP_JUMP_IF_FALSE, 255};
    assert_no_site(ahead, sizeof(ahead), 9);
    const uint8_t back[] = {EXTENDED_ARG, 255, EXTENDED_ARG,  255,
                            EXTENDED_ARG, 255, JUMP_BACKWARD, 255};
    assert_no_site(back, sizeof(back), 9);
    pyr_bytecode_free(NULL);
}

static void test_no_memory(void **state)
{
    (void)state;
    const uint8_t units[] = {LOAD_CONST, 0, CALL, 0};
    size_t before = pyr_memory_in_use();
    for (size_t nth = 1; nth <= 2; nth++) {
        pyr_memory_fail_at(nth);
        assert_null(pyr_bytecode_new(13, units, 2, NULL, 0, 9));
        assert_int_equal(pyr_memory_has_failed(), 1);
        pyr_memory_fail_at(0);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    assert_one_site(units, sizeof(units), 9, 1, 1, 0);
    assert_int_equal(pyr_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_ways_that_disagree),
        cmocka_unit_test(test_bounds_of_the_stack),
        cmocka_unit_test(test_hidden_opcodes),
        cmocka_unit_test(test_exception_table),
        cmocka_unit_test(test_broken_input),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
