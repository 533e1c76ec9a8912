/* Leaks among sites that do not leak: found soon, ranked first, and no alarm for what levels off.
 * Programs are simulated, with the noise that sampling adds; seeds are fixed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "collect/heap_estimate.h"
#include "collect/heap_trend.h"

static const int64_t WINDOW_NS = 10000000000;
static const double NO_AGES[PYR_LEAK_AGES] = {0};

static double normal(uint64_t *random)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += pyr_heap_uniform(random);
    }
    return sum - 6;
}

static void add(pyr_heap_trends *trends, uint32_t site, double bytes)
{
    const pyr_frame frames[] = {{site, 1}, {1000000, 2}};
    const pyr_heap_part part = {
        .frames = frames, .frame_count = 2, .bytes = bytes, .variance = 1, .by_age = NO_AGES};
    pyr_heap_trends_add(trends, &part);
}

/* A leak of a megabyte a minute as samples see it, 25 KB each; 100 MB/s of churn of which some is
 * alive at each look; caches that fill up and level off; objects that stay. Leak: site 1. */
typedef struct program {
    uint64_t random;
    double leaked;
    double walk[20];
} program;

static void look(program *self, pyr_heap_trends *trends, int window)
{
    pyr_heap_trends_begin(trends);
    for (int i = 0; i < 10; i++) { /* 6.7 samples a window, a Poisson number */
        self->leaked += pyr_heap_uniform(&self->random) < 0.67 ? 25e3 : 0;
    }
    add(trends, 1, self->leaked);
    for (uint32_t site = 0; site < 20; site++) { /* churn: what happens to be alive */
        add(trends, 100 + site, 2e6 * fabs(1 + 0.5 * normal(&self->random)));
    }
    for (uint32_t site = 0; site < 10; site++) { /* caches of many speeds, in windows */
        double speed = 0.5 + site;
        double filled = 20e6 * (1 - exp(-window / speed));
        add(trends, 200 + site, filled + 25e3 * normal(&self->random));
    }
    for (uint32_t site = 0; site < 20; site++) { /* sessions that come and go */
        self->walk[site] = fabs(self->walk[site] * 0.9 + 1e6 * normal(&self->random));
        add(trends, 300 + site, 5e6 + self->walk[site]);
    }
    pyr_heap_trends_end(trends, (window + 1) * WINDOW_NS);
}

static void a_slow_leak_ranks_first(void **state)
{
    (void)state;
    int first = 0, alarms = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pyr_heap_trends *trends = pyr_heap_trends_new();
        program self = {.random = seed * 31337};
        pyr_heap_trend ranked[8];
        for (int window = 0; window < 30; window++) {
            look(&self, trends, window);
        }
        size_t count = pyr_heap_trends_rank(trends, ranked, 8);
        first += count > 0 && ranked[0].is_suspect && ranked[0].leaf.function == 1;
        for (size_t i = 0; i < count; i++) {
            alarms += ranked[i].is_suspect && ranked[i].leaf.function != 1;
        }
        if (ranked[0].leaf.function == 1) {
            assert_true(fabs(ranked[0].growth - 1e6 / 60) < 5 * ranked[0].growth_error);
            assert_true(ranked[0].confidence > 0.9999);
            assert_int_equal(ranked[0].caller.function, 1000000);
        }
        pyr_heap_trends_free(trends);
    }
    print_message("first in %d of 10 seeds, %d false alarms\n", first, alarms);
    assert_true(first >= 9);
    assert_true(alarms <= 1);
}

/* Caches of every speed, sessions and churn, 40 programs for 300 windows: how often anything else
 * is suspected, of all sites and looks. */
static void what_does_not_leak_is_hardly_suspected(void **state)
{
    (void)state;
    int alarms = 0, looks = 0, leaks = 0, judged = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pyr_heap_trends *trends = pyr_heap_trends_new();
        program self = {.random = seed * 271828};
        for (int window = 0; window < 150; window++) {
            look(&self, trends, window);
            if (window < 30) {
                continue;
            }
            pyr_heap_trend ranked[8];
            size_t count = pyr_heap_trends_rank(trends, ranked, 8);
            looks += 50;
            judged++;
            leaks += ranked[0].is_suspect && ranked[0].leaf.function == 1;
            for (size_t i = 0; i < count; i++) {
                alarms += ranked[i].is_suspect && ranked[i].leaf.function != 1;
            }
        }
        pyr_heap_trends_free(trends);
    }
    print_message("%d alarms in %d judgements; the leak first in %d of %d\n", alarms, looks, leaks,
                  judged);
    assert_true(alarms <= looks / 2000);
    assert_true(leaks >= judged * 95 / 100);
}

static void nothing_is_said_too_early(void **state)
{
    (void)state;
    pyr_heap_trends *trends = pyr_heap_trends_new();
    pyr_heap_trend ranked[4];
    for (int window = 0; window < PYR_HEAP_TREND_LEAST - 1; window++) {
        pyr_heap_trends_begin(trends);
        add(trends, 1, 1e6 * (window + 1));
        pyr_heap_trends_end(trends, (window + 1) * WINDOW_NS);
        assert_int_equal(pyr_heap_trends_rank(trends, ranked, 4), 1);
        assert_false(ranked[0].is_suspect);
        assert_true(ranked[0].confidence == 0);
        assert_int_equal(ranked[0].windows, window + 1);
    }
    /* Looks on demand, one after the other, are one window. */
    for (int i = 0; i < 100; i++) {
        pyr_heap_trends_begin(trends);
        add(trends, 1, 1e9);
        pyr_heap_trends_end(trends, (PYR_HEAP_TREND_LEAST - 1) * WINDOW_NS + i * 1000);
    }
    assert_int_equal(pyr_heap_trends_rank(trends, ranked, 4), 1);
    assert_int_equal(ranked[0].windows, PYR_HEAP_TREND_LEAST - 1);
    pyr_heap_trends_clear(trends);
    assert_int_equal(pyr_heap_trends_rank(trends, ranked, 4), 0);
    pyr_heap_trends_free(trends);
}

/* Many sites come and go: the largest are followed, and what is gone leaves. */
static void the_table_is_bounded(void **state)
{
    (void)state;
    pyr_heap_trends *trends = pyr_heap_trends_new();
    static pyr_heap_trend ranked[2 * PYR_HEAP_TRENDS];
    for (int window = 0; window < 40; window++) {
        pyr_heap_trends_begin(trends);
        add(trends, 1, 1e9 + 1e6 * window);
        for (uint32_t site = 0; site < PYR_HEAP_TRENDS; site++) {
            add(trends, 1000 + (uint32_t)window * 5 + site, 1000);
        }
        pyr_heap_trends_end(trends, (window + 1) * WINDOW_NS);
        size_t count = pyr_heap_trends_rank(trends, ranked, 2 * PYR_HEAP_TRENDS);
        assert_true(count <= PYR_HEAP_TRENDS);
    }
    assert_true(ranked[0].is_suspect);
    assert_int_equal(ranked[0].leaf.function, 1);
    assert_true(fabs(ranked[0].growth - 1e5) < 1);
    for (int window = 40; window < 44; window++) {
        pyr_heap_trends_begin(trends);
        pyr_heap_trends_end(trends, (window + 1) * WINDOW_NS);
    }
    assert_int_equal(pyr_heap_trends_rank(trends, ranked, 2 * PYR_HEAP_TRENDS), 0);
    pyr_heap_trends_free(trends);
}

static void parts_of_a_stack_are_one_site(void **state)
{
    (void)state;
    pyr_heap_trends *trends = pyr_heap_trends_new();
    pyr_heap_trend ranked[4];
    const double ages[PYR_LEAK_AGES] = {1, 2, 3, 4};
    const pyr_frame frames[] = {{5, 50}};
    const pyr_heap_part part = {
        .frames = frames, .frame_count = 1, .bytes = 10, .variance = 3, .by_age = ages};
    pyr_heap_trends_begin(trends);
    pyr_heap_trends_add(trends, &part);
    pyr_heap_trends_add(trends, &part);
    pyr_heap_trends_end(trends, WINDOW_NS);
    assert_int_equal(pyr_heap_trends_rank(trends, ranked, 4), 1);
    assert_true(ranked[0].bytes == 20 && ranked[0].variance == 6 && ranked[0].by_age[3] == 8);
    assert_int_equal(ranked[0].leaf.line, 50);
    assert_int_equal(ranked[0].caller.function, 0);
    pyr_heap_trends_free(trends);
    pyr_memory_fail_at(1);
    assert_null(pyr_heap_trends_new());
    pyr_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_leak_ranks_first),
        cmocka_unit_test(what_does_not_leak_is_hardly_suspected),
        cmocka_unit_test(nothing_is_said_too_early),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(parts_of_a_stack_are_one_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
