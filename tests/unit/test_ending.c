/* Unit tests of base/ending: texts with and without a zero behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/ending.h"

static void test_endings(void **state)
{
    (void)state;
    assert_true(pyr_ends_with("/lib/queue.py", 13, "/queue.py"));
    assert_true(pyr_ends_with("/queue.py", 9, "/queue.py"));
    assert_true(pyr_ends_with("a.py", 4, ""));
    assert_true(pyr_ends_with("", 0, ""));
    assert_false(pyr_ends_with("queue.py", 8, "/queue.py"));
    assert_false(pyr_ends_with("/queue.pyx", 10, "/queue.py"));
    assert_true(pyr_ends_with("/queue.pyx", 9, "/queue.py"));
    assert_false(pyr_ends_with("", 0, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_endings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
