/* Unit tests of store/calm: jumps of the clock ahead and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/calm.h"

static const int64_t HOUR = INT64_C(3600000000000);
static const int64_t START = INT64_C(1790000000000000000);

static void it_follows_the_clock(void **state)
{
    (void)state;
    pyr_calm calm = {0};
    assert_true(pyr_calm_now(&calm, START, 5 * HOUR) == START);
    assert_true(pyr_calm_now(&calm, START + HOUR, 6 * HOUR) == START + HOUR);
    /* Set right by some minutes, in steps, as often as one likes. */
    assert_true(pyr_calm_now(&calm, START + 2 * HOUR + HOUR / 2, 7 * HOUR) ==
                START + 2 * HOUR + HOUR / 2);
    assert_true(pyr_calm_now(&calm, START + 4 * HOUR, 8 * HOUR) == START + 4 * HOUR);
}

static void back_it_goes_at_once(void **state)
{
    (void)state;
    pyr_calm calm = {0};
    assert_true(pyr_calm_now(&calm, START, HOUR) == START);
    assert_true(pyr_calm_now(&calm, START - 1000 * HOUR, 2 * HOUR) == START - 1000 * HOUR);
}

static void ahead_it_goes_after_a_day(void **state)
{
    (void)state;
    const int64_t jump = 1000 * HOUR;
    pyr_calm calm = {0};
    (void)pyr_calm_now(&calm, START, HOUR);
    for (int64_t hour = 1; hour <= 25; hour++) {
        assert_true(pyr_calm_now(&calm, START + jump + hour * HOUR, (1 + hour) * HOUR) ==
                    START + hour * HOUR);
    }
    /* The clock was set right in between: the day begins anew. */
    assert_true(pyr_calm_now(&calm, START + 26 * HOUR, 27 * HOUR) == START + 26 * HOUR);
    assert_true(pyr_calm_now(&calm, START + jump + 27 * HOUR, 28 * HOUR) == START + 27 * HOUR);
    assert_true(pyr_calm_now(&calm, START + jump + 51 * HOUR, 52 * HOUR) == START + 51 * HOUR);
    assert_true(pyr_calm_now(&calm, START + jump + 52 * HOUR, 53 * HOUR) ==
                START + jump + 52 * HOUR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_follows_the_clock),
        cmocka_unit_test(back_it_goes_at_once),
        cmocka_unit_test(ahead_it_goes_after_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
