/* Unit tests of pprof/diff: numbers worked out by hand, and the promise of the intervals, tried on
 * a thousand pairs of simulated profiles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "pprof/diff.h"
#include "pprof/parser.h"
#include "pprof/writer.h"
#include "support/pprof_bytes.h"

typedef struct row {
    const char *stack[4]; /* leaf first */
    int64_t value, looks, stamp;
} row;

static uint64_t text(pyr_pprof_writer *writer, const char *bytes)
{
    return pyr_pprof_writer_string(writer, bytes, strlen(bytes));
}

static pyr_profile *make(const row *rows, size_t count, int64_t seconds, const char *type,
                         const char *unit)
{
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, 1 << 26);
    pyr_pprof_writer *writer = pyr_pprof_writer_new(&bytes, PYR_PPROF_RAW);
    pyr_pprof_writer_type(writer, "cpu-samples", "count");
    pyr_pprof_writer_type(writer, type, unit);
    for (size_t i = 0; i < count; i++) {
        uint64_t stack[4];
        size_t depth = 0;
        for (; depth < 4 && rows[i].stack[depth]; depth++) {
            uint64_t name = text(writer, rows[i].stack[depth]), file = text(writer, "a.py");
            /* The start line differs, as after an edit: it must not matter. */
            uint64_t function = pyr_pprof_writer_function(writer, name, file, seconds);
            stack[depth] = pyr_pprof_writer_location(writer, function, 1);
        }
        const int64_t values[] = {rows[i].looks, rows[i].value};
        const pyr_pprof_label moment = {.key = text(writer, "end_timestamp_ns"),
                                        .number = rows[i].stamp};
        pyr_pprof_writer_sample(writer, stack, depth, values, &moment, rows[i].stamp != 0);
    }
    const pyr_pprof_summary summary = {.duration_ns = seconds * 1000000000};
    assert_int_equal(pyr_pprof_writer_finish(writer, &summary), PYR_OK);
    pyr_pprof_writer_free(writer);
    pyr_profile *profile;
    pyr_parse_error error;
    assert_int_equal(pyr_profile_parse(bytes.data, bytes.length, 1 << 26, &profile, &error),
                     PYR_OK);
    pyr_buffer_fini(&bytes);
    return profile;
}

static const pyr_diff_function *find(const pyr_diff *diff, const char *name)
{
    for (size_t i = 0; i < diff->count; i++) {
        if (strcmp(diff->functions[i].name, name) == 0) {
            return &diff->functions[i];
        }
    }
    fail_msg("no function %s", name);
    return NULL;
}

static void expect_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected)))) {
        fail_msg("%.12g, not %.12g", value, expected);
    }
}

static pyr_diff *diff_of(const pyr_profile *before, const pyr_profile *after,
                         pyr_diff_correction correction)
{
    const pyr_diff_options options = {.type = "cpu-time", .correction = correction};
    pyr_diff *diff;
    assert_int_equal(pyr_diff_new(before, after, &options, &diff), PYR_OK);
    return diff;
}

static void test_by_hand(void **state)
{
    (void)state;
    /* Before: 10 s. leaf in main 4 events of 100; recursion of f counts once in total. */
    static const row before_rows[] = {
        {{"leaf", "main"}, 100, 1, 1},
        {{"leaf", "main"}, 100, 1, 2},
        {{"leaf", "main"}, 100, 1, 3},
        {{"leaf", "main"}, 100, 7, 4}, /* a run: still one event */
        {{"f", "f", "f", "main"}, 50, 1, 5},
        {{"gone", "main"}, 0, 1, 6},
    };
    /* After: 20 s. Aggregated: 400 from 16 looks, of variance 400^2 / 16 = 10000. */
    static const row after_rows[] = {{{"leaf", "main"}, 400, 16, 0}, {{"new"}, 300, 0, 0}};
    pyr_profile *before = make(before_rows, 6, 10, "cpu-time", "nanoseconds");
    pyr_profile *after = make(after_rows, 2, 20, "cpu-time", "nanoseconds");
    pyr_diff *diff = diff_of(before, after, PYR_DIFF_EACH);
    assert_true(diff->per_second);
    assert_string_equal(diff->type, "cpu-time");
    assert_string_equal(diff->unit, "nanoseconds");
    assert_int_equal(diff->count, 5);
    const pyr_diff_function *leaf = find(diff, "leaf");
    expect_near(leaf->self.before, 40);
    expect_near(leaf->self.after, 20);
    expect_near(leaf->self.change, -20);
    double error = sqrt(4 * 100.0 * 100 / 100 + 10000.0 / 400);
    expect_near(leaf->self.margin, 1.96 * error);
    expect_near(leaf->self.doubt, erfc(20 / error / sqrt(2)));
    assert_false(leaf->self.is_significant);
    const pyr_diff_function *f = find(diff, "f");
    expect_near(f->total.before, 5);
    expect_near(f->total.margin, 1.96 * 5); /* one event: the error is the value */
    expect_near(f->self.before, 5);
    const pyr_diff_function *main_function = find(diff, "main");
    expect_near(main_function->total.before, 45);
    expect_near(main_function->self.before, 0);
    expect_near(main_function->self.doubt, 1);
    expect_near(find(diff, "new")->total.change, 15);
    expect_near(find(diff, "gone")->total.change, 0);
    expect_near(diff->whole.before, 45);
    expect_near(diff->whole.after, 35);
    for (size_t i = 1; i < diff->count; i++) {
        assert_true(fabs(diff->functions[i - 1].total.change) >=
                    fabs(diff->functions[i].total.change));
    }
    pyr_diff_free(diff);
    pyr_profile_free(before);
    pyr_profile_free(after);
}

static void test_unknown_precision_and_duration(void **state)
{
    (void)state;
    static const row rows[] = {{{"f"}, 100, 1, 0}}, more[] = {{{"f"}, 900, 1, 0}};
    pyr_profile *before = make(rows, 1, 0, "heap-space", "bytes");
    pyr_profile *after = make(more, 1, 10, "heap-space", "bytes");
    pyr_diff_options options = {0}; /* default type: the last one */
    pyr_diff *diff;
    assert_int_equal(pyr_diff_new(before, after, &options, &diff), PYR_OK);
    assert_false(diff->per_second);
    assert_string_equal(diff->type, "heap-space");
    expect_near(diff->functions[0].self.change, 800);
    assert_true(isnan(diff->functions[0].self.margin));
    assert_true(isnan(diff->functions[0].self.doubt));
    assert_false(diff->functions[0].self.is_significant);
    pyr_diff_free(diff);
    pyr_diff_free(NULL);
    options.type = "cpu-time";
    assert_int_equal(pyr_diff_new(before, after, &options, &diff), PYR_ENOENT);
    assert_null(diff);
    pyr_profile *other_unit = make(rows, 1, 1, "heap-space", "pages");
    options.type = "heap-space";
    assert_int_equal(pyr_diff_new(before, other_unit, &options, &diff), PYR_ENOENT);
    pyr_profile_free(other_unit);
    pyr_profile_free(before);
    pyr_profile_free(after);
}

/* ------------------------------------------------------------------------- simulation ---- */

enum { FUNCTIONS = 20, EVENTS = 600, PAIRS = 300 };

/* A profile of a Poisson number of events a function, each of a random size around 10 ms; function
 * 0 gets `factor` times as many. */
static pyr_profile *simulate(uint64_t *seed, double factor)
{
    static row rows[EVENTS * 8];
    static char names[FUNCTIONS][16];
    size_t count = 0;
    for (int function = 0; function < FUNCTIONS; function++) {
        (void)snprintf(names[function], sizeof names[function], "f%d", function);
        double mean = (double)EVENTS / FUNCTIONS * (function == 0 ? factor : 1), arrival = 0;
        for (;;) {
            double uniform = ((double)(pyr_bytes_next(seed) >> 11) + 1) * 0x1p-53;
            arrival -= log(uniform);
            if (arrival > mean || count == sizeof rows / sizeof rows[0]) {
                break;
            }
            int64_t value = 5000000 + (int64_t)(pyr_bytes_next(seed) % 10000000);
            rows[count] = (row){{names[function], "main"}, value, 1, (int64_t)count + 1};
            count++;
        }
    }
    return make(rows, count, 60, "cpu-time", "nanoseconds");
}

typedef struct verdicts {
    int false_ones;       /* functions 1.. that did not change but are shown */
    int families;         /* comparisons with at least one such */
    int found;            /* comparisons that show function 0 */
    int covered, margins; /* intervals that hold the true change, of all functions 1.. */
} verdicts;

static verdicts try_pairs(double factor, pyr_diff_correction correction)
{
    verdicts v = {0};
    uint64_t seed = 42;
    for (int pair = 0; pair < PAIRS; pair++) {
        pyr_profile *before = simulate(&seed, 1), *after = simulate(&seed, factor);
        pyr_diff *diff = diff_of(before, after, correction);
        int wrong = 0;
        for (size_t i = 0; i < diff->count; i++) {
            const pyr_diff_function *function = &diff->functions[i];
            if (strcmp(function->name, "f0") == 0) {
                v.found += function->self.is_significant;
            } else if (strcmp(function->name, "main") != 0) {
                wrong += function->self.is_significant;
                v.covered += fabs(function->self.change) <= function->self.margin;
                v.margins++;
            }
        }
        v.false_ones += wrong;
        v.families += wrong > 0;
        pyr_diff_free(diff);
        pyr_profile_free(before);
        pyr_profile_free(after);
    }
    return v;
}

/* 95 % intervals hold the truth in 93 to 97 of 100 cases, no more and no less. */
static void test_intervals_keep_their_promise(void **state)
{
    (void)state;
    verdicts v = try_pairs(1, PYR_DIFF_EACH);
    print_message("coverage %.2f %%\n", 100.0 * v.covered / v.margins);
    assert_in_range(v.covered * 1000 / v.margins, 930, 970);
    assert_int_equal(v.false_ones, v.margins - v.covered);
}

static void test_corrections_keep_theirs(void **state)
{
    (void)state;
    verdicts same = try_pairs(1, PYR_DIFF_BONFERRONI);
    verdicts strict = try_pairs(3, PYR_DIFF_BONFERRONI);
    verdicts rate = try_pairs(3, PYR_DIFF_FALSE_RATE);
    verdicts each = try_pairs(3, PYR_DIFF_EACH);
    print_message("false families %d, found %d %d %d, false %d %d %d of %d\n", same.families,
                  strict.found, rate.found, each.found, strict.false_ones, rate.false_ones,
                  each.false_ones, each.margins);
    /* The level is 5 %; four standard errors of 300 trials are 5 more. */
    assert_in_range(same.families, 0, PAIRS / 10);
    assert_in_range(strict.found, PAIRS * 8 / 10, PAIRS); /* a factor of three is not missed */
    assert_true(rate.found >= strict.found && each.found >= rate.found);
    assert_true(rate.false_ones >= strict.false_ones && each.false_ones > rate.false_ones);
    assert_in_range(rate.false_ones, 0, (rate.false_ones + rate.found) / 10);
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    uint64_t seed = 1;
    pyr_profile *before = simulate(&seed, 1), *after = simulate(&seed, 2);
    const pyr_diff_options options = {.type = "cpu-time", .correction = PYR_DIFF_FALSE_RATE};
    size_t in_use = pyr_memory_in_use(), nth = 1;
    for (int failed = 1; failed; nth++) {
        pyr_diff *diff;
        pyr_memory_fail_at(nth);
        pyr_status status = pyr_diff_new(before, after, &options, &diff);
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        assert_int_equal(status, failed ? PYR_ENOMEM : PYR_OK);
        pyr_diff_free(diff);
        assert_int_equal(pyr_memory_in_use(), in_use);
    }
    assert_true(nth > 8);
    pyr_profile_free(before);
    pyr_profile_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_unknown_precision_and_duration),
        cmocka_unit_test(test_intervals_keep_their_promise),
        cmocka_unit_test(test_corrections_keep_theirs),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
