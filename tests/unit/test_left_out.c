/* Unit tests of collect/left_out: modules by the paths of their files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "collect/left_out.h"

static pyr_symbols *symbols;

static bool matches(const pyr_left_out *left_out, const char *file)
{
    pyr_own_stack stack = {.symbols = symbols, .count = 1};
    stack.frames[0].function = pyr_symbols_function(symbols, "f", 1, file, strlen(file), 1);
    return pyr_left_out_matches(left_out, &stack);
}

static void test_modules(void **state)
{
    (void)state;
    pyr_left_out *left_out = pyr_left_out_new("logging, queue,,a.b ,");
    assert_true(matches(left_out, "/usr/lib/python3/logging/__init__.py"));
    assert_true(matches(left_out, "/usr/lib/python3/logging/handlers.py"));
    assert_true(matches(left_out, "/usr/lib/python3/queue.py"));
    assert_true(matches(left_out, "/app/a/b.py"));
    assert_true(matches(left_out, "/app/a/b/c.py"));
    assert_false(matches(left_out, "/app/a.py"));
    assert_false(matches(left_out, "/app/b.py"));
    assert_false(matches(left_out, "/app/myqueue.py"));
    assert_false(matches(left_out, "/app/queue.pyx"));
    assert_false(matches(left_out, "queue.py"));
    assert_false(matches(left_out, ""));
    assert_true(matches(left_out, "<frozen importlib._bootstrap>"));
    pyr_left_out_free(left_out);
}

/* A Condition takes its lock in threading.py, for whoever uses it. */
static void test_callers(void **state)
{
    (void)state;
    static const char *const files[] = {"/lib/threading.py", "/lib/threading.py", "/app/b.py",
                                        "/app/a.py"};
    pyr_own_stack stack = {.symbols = symbols, .count = 4};
    for (uint32_t i = 0; i < 4; i++) {
        stack.frames[i].function =
            pyr_symbols_function(symbols, "f", 1, files[i], strlen(files[i]), 1);
    }
    pyr_left_out *left_out = pyr_left_out_new("b");
    assert_true(pyr_left_out_matches(left_out, &stack));
    pyr_left_out_free(left_out);
    left_out = pyr_left_out_new("a");
    assert_false(pyr_left_out_matches(left_out, &stack)); /* only calls who does */
    stack.count = 2;
    assert_false(pyr_left_out_matches(left_out, &stack));
    pyr_left_out_free(left_out);
}

static void test_none_and_too_many(void **state)
{
    (void)state;
    pyr_left_out *left_out = pyr_left_out_new("");
    pyr_own_stack empty = {.symbols = symbols};
    assert_false(matches(left_out, "/app/a.py"));
    assert_true(matches(left_out, "<frozen importlib._bootstrap>"));
    assert_false(pyr_left_out_matches(left_out, &empty));
    pyr_left_out_free(left_out);
    char many[4000] = "";
    for (int i = 0; i < 100; i++) {
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "m%d,", i);
    }
    memset(many + strlen(many), 'x', 1000);
    left_out = pyr_left_out_new(many);
    assert_true(matches(left_out, "/app/m31.py"));
    assert_false(matches(left_out, "/app/m99.py"));
    pyr_left_out_free(left_out);
    pyr_left_out_free(NULL);
    pyr_memory_fail_at(1);
    assert_null(pyr_left_out_new("a"));
    pyr_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_callers),
        cmocka_unit_test(test_none_and_too_many),
    };
    symbols = pyr_symbols_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pyr_symbols_release(symbols);
    return failed;
}
