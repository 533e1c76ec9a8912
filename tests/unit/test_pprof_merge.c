/* Unit tests of pprof/merge: golden sums, properties of made-up profiles, failed allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "pprof/merge.h"
#include "pprof/parser.h"
#include "pprof/write.h"
#include "pprof/writer.h"
#include "support/pprof_bytes.h"

enum { MAX = 1 << 26 };

static pyr_profile *parse(pyr_buffer *bytes)
{
    pyr_profile *profile;
    pyr_parse_error error;
    assert_int_equal(pyr_profile_parse(bytes->data, bytes->length, MAX, &profile, &error), PYR_OK);
    pyr_buffer_fini(bytes);
    return profile;
}

static pyr_profile *random_profile(uint64_t seed, size_t samples)
{
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, MAX);
    pyr_bytes_random(&bytes, seed, samples, PYR_PPROF_RAW);
    return parse(&bytes);
}

static uint64_t text(pyr_pprof_writer *writer, const char *bytes)
{
    return pyr_pprof_writer_string(writer, bytes, strlen(bytes));
}

/* One process' window: types as given, one stack g <- f, one label, one time stamp. */
static pyr_profile *window(const char *first_type, const char *second_type, int64_t time_ns,
                           int64_t stamp)
{
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, MAX);
    pyr_pprof_writer *writer = pyr_pprof_writer_new(&bytes, PYR_PPROF_RAW);
    (void)text(writer, first_type); /* so that indices differ between windows */
    uint64_t file = text(writer, "a.py"), names[] = {text(writer, "g"), text(writer, "f")};
    uint64_t stack[2];
    for (size_t i = 0; i < 2; i++) {
        uint64_t function = pyr_pprof_writer_function(writer, names[i], file, 0);
        stack[i] = pyr_pprof_writer_location(writer, function, 1);
    }
    pyr_pprof_writer_type(writer, first_type, "u");
    pyr_pprof_writer_type(writer, second_type, "u");
    pyr_pprof_writer_comment(writer, "same");
    pyr_pprof_writer_comment(writer, first_type);
    const pyr_pprof_label state = {.key = text(writer, "state"), .text = text(writer, "io")};
    const pyr_pprof_label moment = {.key = text(writer, "end_timestamp_ns"), .number = stamp};
    const pyr_pprof_label one_way[] = {state, moment}, other_way[] = {moment, state};
    const int64_t values[] = {1, 10};
    pyr_pprof_writer_sample(writer, stack, 2, values, stamp & 1 ? one_way : other_way, 2);
    pyr_pprof_writer_sample(writer, stack + 1, 1, values, NULL, 0);
    const pyr_pprof_summary summary = {time_ns, 60, first_type, "u", stamp, second_type};
    assert_int_equal(pyr_pprof_writer_finish(writer, &summary), PYR_OK);
    pyr_pprof_writer_free(writer);
    return parse(&bytes);
}

static void expect_description(const pyr_profile *profile, const char *expected)
{
    pyr_buffer description;
    pyr_buffer_init(&description, MAX);
    pyr_bytes_describe(&description, profile);
    pyr_buffer_append(&description, "", 1);
    assert_string_equal((const char *)description.data, expected);
    pyr_buffer_fini(&description);
}

static void test_golden(void **state)
{
    (void)state;
    pyr_profile *windows[] = {window("a", "b", 200, 3), window("b", "c", 100, 4),
                              window("a", "b", 0, 3)};
    const pyr_profile *const all[] = {windows[0], windows[1], windows[2]};
    pyr_profile *merged;
    assert_int_equal(pyr_profile_merge(all, 3, PYR_MERGE_DROP_TIMESTAMPS, &merged), PYR_OK);
    expect_description(merged, "a|u|b|u|c|u|\n"
                               "100 180 3\n" /* earliest, summed, largest of the first type */
                               "a|u|b||same|a|b|\n"
                               "sample 2 21 10\n  g||a.py|0 1 0\n  f||a.py|0 1 0\n"
                               "  label state|io|0 |\n"
                               "sample 2 21 10\n  f||a.py|0 1 0\n");
    assert_int_equal(merged->function_count, 2);
    assert_int_equal(merged->frame_count, 2);
    pyr_profile_free(merged);
    assert_int_equal(pyr_profile_merge(all, 3, PYR_MERGE_KEEP_TIMESTAMPS, &merged), PYR_OK);
    assert_int_equal(merged->sample_count, 3); /* moments 3 (twice) and 4, and the one without */
    pyr_profile_free(merged);
    for (size_t i = 0; i < 3; i++) {
        pyr_profile_free(windows[i]);
    }
}

static void test_nothing_to_merge(void **state)
{
    (void)state;
    pyr_profile *merged;
    assert_int_equal(pyr_profile_merge(NULL, 0, PYR_MERGE_DROP_TIMESTAMPS, &merged), PYR_EINVAL);
    assert_null(merged);
    pyr_profile *empty = random_profile(1, 0);
    const pyr_profile *const one[] = {empty};
    assert_int_equal(pyr_profile_merge(one, 1, PYR_MERGE_DROP_TIMESTAMPS, &merged), PYR_OK);
    assert_int_equal(merged->sample_count, 0);
    assert_int_equal(merged->type_count, 4);
    pyr_profile_free(merged);
    pyr_profile_free(empty);
}

static double total(const pyr_profile *profile, size_t type)
{
    double sum = 0;
    for (size_t i = 0; i < profile->sample_count; i++) {
        sum += (double)profile->values[profile->samples[i].value_start + type];
    }
    return sum;
}

static void test_values_saturate(void **state)
{
    (void)state;
    pyr_profile *profile = window("a", "b", 1, 1);
    profile->values[0] = INT64_MAX;
    profile->values[1] = INT64_MIN;
    const pyr_profile *const twice[] = {profile, profile};
    pyr_profile *merged;
    assert_int_equal(pyr_profile_merge(twice, 2, PYR_MERGE_KEEP_TIMESTAMPS, &merged), PYR_OK);
    assert_true(merged->values[0] == INT64_MAX);
    assert_true(merged->values[1] == INT64_MIN);
    pyr_profile_free(merged);
    pyr_profile_free(profile);
}

/* Order of merging does not matter to the sums, merged samples are all different, a merge of one
 * merged profile changes nothing, and what is merged can be written and read. */
static void test_properties(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pyr_profile *a = random_profile(seed, 200), *b = random_profile(seed * 77, 100);
        const pyr_profile *const forth[] = {a, b}, *const back[] = {b, a};
        pyr_merge_timestamps stamps = (pyr_merge_timestamps)(seed & 1);
        pyr_profile *merged, *reversed, *again;
        assert_int_equal(pyr_profile_merge(forth, 2, stamps, &merged), PYR_OK);
        assert_int_equal(pyr_profile_merge(back, 2, stamps, &reversed), PYR_OK);
        assert_int_equal(merged->sample_count, reversed->sample_count);
        assert_true(merged->sample_count <= 300);
        const pyr_profile *const once[] = {merged};
        assert_int_equal(pyr_profile_merge(once, 1, stamps, &again), PYR_OK);
        assert_int_equal(again->sample_count, merged->sample_count);
        for (size_t type = 0; type < 4; type++) {
            assert_true(total(merged, type) == total(again, type));
        }
        pyr_buffer bytes;
        pyr_buffer_init(&bytes, MAX);
        assert_int_equal(pyr_profile_write(merged, PYR_PPROF_ZSTD, &bytes), PYR_OK);
        pyr_profile_free(again);
        again = parse(&bytes);
        assert_int_equal(again->sample_count, merged->sample_count);
        pyr_profile_free(merged);
        pyr_profile_free(reversed);
        pyr_profile_free(again);
        pyr_profile_free(a);
        pyr_profile_free(b);
    }
}

/* Both small and large parts add up, to the unit. */
static void test_sums_are_exact(void **state)
{
    (void)state;
    pyr_profile *windows[40];
    for (int64_t i = 0; i < 40; i++) {
        windows[i] = window("a", "b", i + 1, i % 5);
    }
    pyr_profile *merged;
    assert_int_equal(pyr_profile_merge((const pyr_profile *const *)windows, 40,
                                       PYR_MERGE_KEEP_TIMESTAMPS, &merged),
                     PYR_OK);
    assert_int_equal(merged->sample_count, 6);
    assert_true(total(merged, 0) == 80);
    assert_true(total(merged, 1) == 800);
    pyr_profile_free(merged);
    for (size_t i = 0; i < 40; i++) {
        pyr_profile_free(windows[i]);
    }
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    pyr_profile *a = random_profile(1, 60), *b = random_profile(2, 60);
    const pyr_profile *const both[] = {a, b};
    size_t before = pyr_memory_in_use(), nth = 1;
    for (int failed = 1; failed; nth++) {
        pyr_profile *merged;
        pyr_memory_fail_at(nth);
        pyr_status status = pyr_profile_merge(both, 2, PYR_MERGE_KEEP_TIMESTAMPS, &merged);
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        assert_int_equal(status, failed ? PYR_ENOMEM : PYR_OK);
        assert_true((merged == NULL) == (failed != 0));
        pyr_profile_free(merged);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    assert_true(nth > 40);
    pyr_profile_free(a);
    pyr_profile_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),          cmocka_unit_test(test_nothing_to_merge),
        cmocka_unit_test(test_values_saturate), cmocka_unit_test(test_properties),
        cmocka_unit_test(test_sums_are_exact),  cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
