/* Unit tests of collect/pace: where ticks fall, how the interval follows cost and budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collect/pace.h"

enum { MS = 1000000 };

/* Runs `ticks` ticks of constant cost; the interval at the end. */
static int64_t settle(pyr_pace *pace, int64_t cost_ns, double program_cores, int ticks)
{
    for (int i = 0; i < ticks; i++) {
        int64_t elapsed = pace->interval_ns;
        pyr_pace_spent(pace, cost_ns, (int64_t)(program_cores * (double)elapsed), elapsed);
    }
    return pace->interval_ns;
}

static void test_one_tick_a_slot(void **state)
{
    (void)state;
    pyr_pace pace;
    pyr_pace_init(&pace, 10 * MS, 1, 0, 5000, 42);
    int64_t now = 5000;
    for (int64_t slot = 1; slot <= 10000; slot++) {
        int64_t at = pyr_pace_plan(&pace, now);
        int64_t start = 5000 + slot * 10 * MS;
        assert_in_range(at, start, start + 10 * MS - 1);
        now = at + 3; /* a tick takes no time to speak of */
    }
    assert_int_equal(pace.missed, 0);
}

/* Places within the slot are uniform: chi-square over 100 classes, 99 degrees of freedom. */
static void test_places_are_uniform(void **state)
{
    (void)state;
    enum { CLASSES = 100, TICKS = 100000 };
    for (uint64_t seed = 1; seed < 6; seed++) {
        pyr_pace pace;
        pyr_pace_init(&pace, 10 * MS, 1, 0, 0, seed * 0x9E3779B97F4A7C15U);
        unsigned counts[CLASSES] = {0};
        double together = 0;
        int64_t last = 0;
        for (int64_t slot = 1; slot <= TICKS; slot++) {
            int64_t place = pyr_pace_plan(&pace, slot * 10 * MS) - slot * 10 * MS;
            counts[place * CLASSES / (10 * MS)]++;
            together += ((double)place / (10 * MS) - 0.5) * ((double)last / (10 * MS) - 0.5);
            last = place;
        }
        double sum = 0, expected = (double)TICKS / CLASSES;
        for (int i = 0; i < CLASSES; i++) {
            double apart = counts[i] - expected;
            sum += apart * apart / expected;
        }
        assert_true(sum > 50 && sum < 160); /* 0.9999 of all: 48 to 162 */
        /* ... and neighbours know nothing of each other: variance 1/12 each. */
        double correlation = together / TICKS * 12;
        assert_true(correlation > -0.02 && correlation < 0.02);
    }
}

static void test_missed_slots(void **state)
{
    (void)state;
    pyr_pace pace;
    pyr_pace_init(&pace, 10 * MS, 1, 0, 0, 1);
    assert_in_range(pyr_pace_plan(&pace, 0), 10 * MS, 20 * MS - 1);
    /* Late, but within the next slot: it is not missed. */
    assert_in_range(pyr_pace_plan(&pace, 29 * MS), 20 * MS, 30 * MS - 1);
    assert_int_equal(pace.missed, 0);
    assert_in_range(pyr_pace_plan(&pace, 40 * MS), 40 * MS, 50 * MS - 1);
    assert_int_equal(pace.missed, 1); /* that of 30 to 40 ms */
    assert_in_range(pyr_pace_plan(&pace, 1000 * MS + 1), 1000 * MS, 1010 * MS - 1);
    assert_int_equal(pace.missed, 1 + 95);
}

static void test_budget(void **state)
{
    (void)state;
    pyr_pace pace;
    /* 1 % of a core is 100 us every 10 ms: what costs less does not stretch. */
    pyr_pace_init(&pace, 10 * MS, 1, 0, 0, 1);
    assert_int_equal(settle(&pace, 90000, 0, 1000), 10 * MS);
    assert_in_range(settle(&pace, 200000, 0, 1000), 19.9 * MS, 20.1 * MS);
    assert_int_equal(settle(&pace, 50000, 0, 1000), 10 * MS); /* and back */
    /* Of the program's own CPU, when that is more than a core. */
    pyr_pace_init(&pace, 10 * MS, 1, 0, 0, 1);
    assert_in_range(settle(&pace, 800000, 4, 2000), 19.9 * MS, 20.1 * MS);
    /* Of the container's quota, more or less than a core. */
    pyr_pace_init(&pace, 10 * MS, 1, 0.5, 0, 1);
    assert_in_range(settle(&pace, 200000, 0.1, 1000), 39.9 * MS, 40.1 * MS);
    pyr_pace_init(&pace, 10 * MS, 1, 2, 0, 1);
    assert_in_range(settle(&pace, 400000, 0.1, 1000), 19.9 * MS, 20.1 * MS);
    /* Another budget. */
    pyr_pace_init(&pace, 10 * MS, 0.1, 0, 0, 1);
    assert_in_range(settle(&pace, 50000, 0, 1000), 49.9 * MS, 50.1 * MS);
    /* Never beyond a second, unless set so; never below what is set. */
    assert_int_equal(settle(&pace, 400 * MS, 0, 2000), PYR_PACE_MAX_INTERVAL_NS);
    pyr_pace_init(&pace, 5000LL * MS, 0.1, 0, 0, 1);
    assert_int_equal(settle(&pace, 400 * MS, 0, 2000), 5000LL * MS);
    assert_int_equal(settle(&pace, 0, 0, 2000), 5000LL * MS);
}

/* One dear tick, as the first one is, does not stretch the interval; steady cost does, in time. */
static void test_outliers(void **state)
{
    (void)state;
    pyr_pace pace;
    pyr_pace_init(&pace, 10 * MS, 1, 0, 0, 1);
    assert_int_equal(settle(&pace, 30 * MS, 0, 1), 10 * MS);
    (void)settle(&pace, 40000, 0, 200);
    assert_in_range(settle(&pace, 30 * MS, 0, 1), 10 * MS, 11 * MS);
    assert_true(settle(&pace, 30 * MS, 0, 40) > 50 * MS);
    assert_int_equal(settle(&pace, 30 * MS, 0, 400), PYR_PACE_MAX_INTERVAL_NS);
    /* No time passed: the program's use is not known, and nothing breaks. */
    pyr_pace_spent(&pace, 1000, 5000, 0);
    assert_true(pace.interval_ns > 0);
}

static void test_latency(void **state)
{
    (void)state;
    pyr_pace pace;
    pyr_pace_init(&pace, 10 * MS, 1, 0, 0, 1);
    assert_int_equal(pyr_pace_latency_ns(&pace, 0.5), 0);
    int64_t planned = pyr_pace_plan(&pace, 0);
    /* 90 wake-ups within a microsecond, 9 at 100 us, one at a second. */
    for (int i = 0; i < 90; i++) {
        pyr_pace_woke(&pace, planned + 900);
    }
    for (int i = 0; i < 9; i++) {
        pyr_pace_woke(&pace, planned + 100000);
    }
    pyr_pace_woke(&pace, planned + 1000LL * MS);
    assert_int_equal(pace.ticks, 100);
    assert_int_equal(pyr_pace_latency_ns(&pace, 0.5), 1000);
    assert_int_equal(pyr_pace_latency_ns(&pace, 0.9), 1000);
    assert_int_equal(pyr_pace_latency_ns(&pace, 0.99), 128000); /* upper end of 64 to 128 us */
    assert_in_range(pyr_pace_latency_ns(&pace, 1), 1000LL * MS, 2000LL * MS);
    assert_int_equal(pace.late_total_ns, 90 * 900 + 9 * 100000 + 1000LL * MS);
    pyr_pace_woke(&pace, planned - 5000); /* too early counts as in time */
    assert_int_equal(pace.late_total_ns, 90 * 900 + 9 * 100000 + 1000LL * MS);
    pyr_pace_woke(&pace, INT64_MAX); /* classes have an end */
    assert_true(pyr_pace_latency_ns(&pace, 1) > 0);
    pyr_pace_reset_counts(&pace);
    assert_int_equal(pace.ticks + pace.missed + pace.late_total_ns, 0);
    assert_int_equal(pyr_pace_latency_ns(&pace, 1), 0);
}

static void test_random(void **state)
{
    (void)state;
    pyr_pace pace;
    pyr_pace_init(&pace, 10 * MS, 1, 0, 0, 0); /* any seed will do */
    assert_int_equal(pyr_pace_random(&pace, 0), 0);
    assert_int_equal(pyr_pace_random(&pace, 1), 0);
    uint64_t seen = 0;
    for (int i = 0; i < 200; i++) {
        uint64_t value = pyr_pace_random(&pace, 10);
        assert_in_range(value, 0, 9);
        seen |= 1U << value;
    }
    assert_int_equal(seen, 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_tick_a_slot), cmocka_unit_test(test_places_are_uniform),
        cmocka_unit_test(test_missed_slots),    cmocka_unit_test(test_budget),
        cmocka_unit_test(test_outliers),        cmocka_unit_test(test_latency),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
