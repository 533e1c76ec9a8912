/* Unit tests of collect/countdown: sums are exact, chances equal, also beside other threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include <cmocka.h>

#include "collect/countdown.h"

enum { EVENTS = 1000000, THREADS = 4 };

static pyr_countdown countdown = PYR_COUNTDOWN_INIT;
static _Atomic int64_t weights, samples;

static void hit(void)
{
    if (pyr_countdown_hit(&countdown)) {
        atomic_fetch_add(&weights, pyr_countdown_weight(&countdown));
        atomic_fetch_add(&samples, 1);
        pyr_countdown_go_on(&countdown, 50, 0);
    }
}

static void test_nothing_before_the_start(void **state)
{
    (void)state;
    int64_t rest;
    for (int i = 0; i < EVENTS; i++) {
        hit();
    }
    assert_int_equal(samples, 0);
    pyr_countdown_start(&countdown, 50, 1);
    assert_true(pyr_countdown_take(&countdown, &rest));
    assert_int_equal(rest, 0);
    pyr_countdown_stop(&countdown);
}

static void test_sums_are_exact(void **state)
{
    (void)state;
    int64_t rest;
    weights = samples = 0;
    pyr_countdown_start(&countdown, 50, 7);
    for (int i = 0; i < EVENTS; i++) {
        hit();
        if (i % 1000 == 999) { /* a window ends */
            assert_true(pyr_countdown_take(&countdown, &rest));
            weights += rest;
            pyr_countdown_resume(&countdown, 50);
        }
    }
    assert_int_equal(weights, EVENTS);
    assert_in_range(samples, EVENTS / 50 * 95 / 100, EVENTS / 50 * 105 / 100);
}

static void test_what_was_not_taken_is_carried(void **state)
{
    (void)state;
    int64_t rest, sum = 0;
    int taken = 0;
    pyr_countdown_start(&countdown, 10, 3);
    for (int i = 0; i < 10000; i++) {
        if (pyr_countdown_hit(&countdown)) {
            int64_t weight = pyr_countdown_weight(&countdown);
            bool good = ++taken % 3 == 0;
            sum += good ? weight : 0;
            pyr_countdown_go_on(&countdown, 10, good ? 0 : weight);
        }
    }
    assert_true(pyr_countdown_take(&countdown, &rest));
    assert_int_equal(sum + rest, 10000);
    pyr_countdown_stop(&countdown);
}

static void *count(void *unused)
{
    for (int i = 0; i < EVENTS / THREADS; i++) {
        hit();
    }
    return unused;
}

static void test_beside_other_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int64_t rest;
    weights = samples = 0;
    pyr_countdown_start(&countdown, 50, 9);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (int i = 0; i < 100; i++) {
        if (pyr_countdown_take(&countdown, &rest)) {
            atomic_fetch_add(&weights, rest);
            pyr_countdown_resume(&countdown, 50);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(pyr_countdown_take(&countdown, &rest));
    assert_int_equal(weights + rest, EVENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_before_the_start),
        cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_what_was_not_taken_is_carried),
        cmocka_unit_test(test_beside_other_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
