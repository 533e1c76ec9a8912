/* Unit tests of base/random: gaps are geometric, with the mean that was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

enum { DRAWS = 200000 };

static void check_mean(double mean)
{
    uint64_t state = 12345;
    double sum = 0, at_most_mean = 0, one = 0;
    for (int i = 0; i < DRAWS; i++) {
        int64_t gap = pyr_random_gap(&state, mean);
        assert_true(gap >= 1);
        sum += (double)gap;
        at_most_mean += (double)gap <= mean;
        one += gap == 1;
    }
    /* Five standard deviations of a geometric distribution's mean. */
    assert_true(sum / DRAWS > mean * (1 - 5.0 / 447) && sum / DRAWS < mean * (1 + 5.0 / 447));
    if (mean >= 100) { /* 1 - 1/e of them are no longer than the mean */
        assert_true(at_most_mean / DRAWS > 0.62 && at_most_mean / DRAWS < 0.645);
    }
    assert_true(one / DRAWS > 0.9 / mean - 0.002 && one / DRAWS < 1.1 / mean + 0.002);
}

static void test_gaps(void **state)
{
    (void)state;
    check_mean(2);
    check_mean(100);
    check_mean(1e6);
}

static void test_edges(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(pyr_random_gap(&random, 1), 1);
        assert_int_equal(pyr_random_gap(&random, -5), 1);
        assert_int_equal(pyr_random_gap(&random, 0.0 / 1), 1);
        int64_t most = pyr_random_gap(&random, 1e300);
        assert_true(most >= 1 && most <= INT64_C(1) << 53);
    }
}

static void test_no_short_cycle(void **state)
{
    (void)state;
    uint64_t random = 1, ones = 0;
    for (int i = 0; i < DRAWS; i++) {
        ones += (uint64_t)__builtin_popcountll(pyr_random_next(&random));
        assert_true(random != 1);
    }
    assert_in_range(ones, UINT64_C(64) * DRAWS * 49 / 100, UINT64_C(64) * DRAWS * 51 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_no_short_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
