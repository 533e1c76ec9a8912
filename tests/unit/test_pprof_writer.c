/* Unit tests of pprof/writer: golden bytes, interning, calls out of order, bounds, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "pprof/parser.h"
#include "pprof/writer.h"
#include "support/pprof_bytes.h"

static const pyr_pprof_summary no_summary = {0};

static uint64_t text(pyr_pprof_writer *writer, const char *bytes)
{
    return pyr_pprof_writer_string(writer, bytes, strlen(bytes));
}

/* The smallest profile that uses every field, byte by byte. */
static void test_golden_bytes(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        0x0A, 0x04, 0x08, 0x02, 0x10, 0x03,             /* sample type: strings 2, 3 */
        0x68, 0x04,                                     /* comment: string 4 */
        0x12, 0x14,                                     /* sample, 20 bytes */
        0x0A, 0x02, 0x02, 0x01,                         /*   locations 2, 1: leaf first */
        0x12, 0x02, 0xAC, 0x02,                         /*   value 300 */
        0x1A, 0x04, 0x08, 0x08, 0x10, 0x09,             /*   label 8: text 9 */
        0x1A, 0x04, 0x08, 0x0A, 0x20, 0x0A,             /*   label 10: 0, with its key as unit */
        0x48, 0x07, 0x50, 0x08, 0x60, 0x09, 0x70, 0x02, /* time, duration, period, default */
        0x5A, 0x04, 0x08, 0x02, 0x10, 0x03,             /* period type */
        0x1A, 0x0A, 0x08, 0x01, 0x28, 0x01, 0x38, 0x01, 0x40, 0x01, 0x48, 0x01, /* mapping 1 */
        0x22, 0x0A, 0x08, 0x01, 0x10, 0x01, 0x22, 0x04, 0x08, 0x01, 0x10, 0x0A, /* location 1 */
        0x22, 0x08, 0x08, 0x02, 0x10, 0x01, 0x22, 0x02, 0x08, 0x02,             /* location 2 */
        0x2A, 0x08, 0x08, 0x01, 0x10, 0x05, 0x20, 0x06, 0x28, 0x03,             /* function 1 */
        0x2A, 0x06, 0x08, 0x02, 0x10, 0x07, 0x20, 0x06,                         /* function 2 */
        0x32, 0x00,                                                             /* strings */
        0x32, 0x02, 'p',  'y',  0x32, 0x01, 'c',  0x32, 0x02, 'n',  's',  0x32,
        0x02, 'h',  'i',  0x32, 0x01, 'm',  0x32, 0x01, 'a',  0x32, 0x01, 'f',
        0x32, 0x01, 'k',  0x32, 0x01, 'v',  0x32, 0x01, 'z',
    };
    pyr_buffer out;
    pyr_buffer_init(&out, 4096);
    pyr_pprof_writer *writer = pyr_pprof_writer_new(&out, PYR_PPROF_RAW);
    pyr_pprof_writer_mapping(writer, "py");
    pyr_pprof_writer_type(writer, "c", "ns");
    pyr_pprof_writer_comment(writer, "hi");
    uint64_t caller = text(writer, "m"), file = text(writer, "a"), callee = text(writer, "f");
    caller = pyr_pprof_writer_function(writer, caller, file, 3);
    callee = pyr_pprof_writer_function(writer, callee, file, 0);
    caller = pyr_pprof_writer_location(writer, caller, 10);
    callee = pyr_pprof_writer_location(writer, callee, 0);
    const uint64_t stack[] = {callee, caller};
    const int64_t values[] = {300};
    uint64_t key = text(writer, "k");
    const pyr_pprof_label labels[] = {{.key = key, .text = text(writer, "v")},
                                      {.key = text(writer, "z")}};
    pyr_pprof_writer_sample(writer, stack, 2, values, labels, 2);
    const pyr_pprof_summary summary = {7, 8, "c", "ns", 9, "c"};
    assert_int_equal(pyr_pprof_writer_finish(writer, &summary), PYR_OK);
    assert_int_equal(pyr_pprof_writer_samples(writer), 1);
    pyr_pprof_writer_free(writer);
    assert_int_equal(out.length, sizeof expected);
    assert_memory_equal(out.data, expected, sizeof expected);
    pyr_buffer_fini(&out);
}

static void test_everything_is_interned(void **state)
{
    (void)state;
    pyr_buffer out;
    pyr_buffer_init(&out, 1 << 20);
    pyr_pprof_writer *writer = pyr_pprof_writer_new(&out, PYR_PPROF_RAW);
    assert_int_equal(text(writer, ""), 0);
    uint64_t name = text(writer, "f"), file = text(writer, "a.py");
    assert_int_equal(text(writer, "f"), name);
    assert_true(name != file);
    uint64_t function = pyr_pprof_writer_function(writer, name, file, 1);
    assert_int_equal(pyr_pprof_writer_function(writer, name, file, 1), function);
    assert_true(pyr_pprof_writer_function(writer, name, file, 2) != function);
    assert_true(pyr_pprof_writer_function(writer, file, name, 1) != function);
    uint64_t location = pyr_pprof_writer_location(writer, function, 5);
    assert_int_equal(pyr_pprof_writer_location(writer, function, 5), location);
    assert_true(pyr_pprof_writer_location(writer, function, 6) != location);
    assert_true(pyr_pprof_writer_location_at(writer, function, 5, 1) != location);
    /* Text that is no UTF-8 is interned as what is written. */
    assert_int_equal(pyr_pprof_writer_string(writer, "a\xFF", 2), text(writer, "a\xEF\xBF\xBD"));
    assert_true(pyr_pprof_writer_string(writer, "f\0g", 3) != name);
    assert_int_equal(pyr_pprof_writer_finish(writer, &no_summary), PYR_OK);
    pyr_pprof_writer_free(writer);
    pyr_buffer_fini(&out);
}

/* Each wrong call alone: the writer stays usable, ignores what follows, and says so at the end. */
static void test_calls_out_of_order(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 13; wrong++) {
        pyr_buffer out;
        pyr_buffer_init(&out, 1 << 20);
        pyr_pprof_writer *writer = pyr_pprof_writer_new(&out, PYR_PPROF_GZIP);
        const int64_t values[2] = {1, 2};
        uint64_t name = text(writer, "f");
        uint64_t function = pyr_pprof_writer_function(writer, name, 0, 0);
        uint64_t stack[1] = {pyr_pprof_writer_location(writer, function, 1)};
        pyr_pprof_label label = {.key = name, .text = name};
        if (wrong != 1) {
            pyr_pprof_writer_type(writer, "t", "u");
        }
        stack[0] = wrong == 2 ? 0 : wrong == 3 ? 2 : stack[0];
        label.key = wrong == 4 ? 99 : label.key;
        label.text = wrong == 5 ? 99 : label.text;
        label.unit = wrong == 6 ? 99 : label.unit;
        pyr_pprof_writer_sample(writer, stack, 1, values, &label, 1);
        switch (wrong) {
        case 7:
            pyr_pprof_writer_type(writer, "late", "u");
            break;
        case 8:
            pyr_pprof_writer_mapping(writer, "late");
            break;
        case 9:
            (void)pyr_pprof_writer_function(writer, 99, 0, 0);
            break;
        case 10:
            (void)pyr_pprof_writer_function(writer, 0, 99, 0);
            break;
        case 11:
            (void)pyr_pprof_writer_location(writer, 0, 1);
            break;
        case 12:
            (void)pyr_pprof_writer_location(writer, 2, 1);
            break;
        default:
            break;
        }
        pyr_pprof_writer_sample(writer, stack, 1, values, NULL, 0);
        pyr_status status = pyr_pprof_writer_finish(writer, &no_summary);
        assert_int_equal(status, wrong == 0 ? PYR_OK : PYR_EINVAL);
        assert_int_equal(pyr_pprof_writer_finish(writer, &no_summary), PYR_EINVAL);
        pyr_pprof_writer_free(writer);
        pyr_buffer_fini(&out);
    }
}

static void test_full_output(void **state)
{
    (void)state;
    for (int kind = PYR_PPROF_RAW; kind <= PYR_PPROF_ZSTD; kind++) {
        pyr_buffer out;
        pyr_buffer_init(&out, 1 << 20);
        pyr_bytes_random(&out, 1, 50, (pyr_pprof_compression)kind);
        size_t whole = out.length;
        assert_true(whole > 1000);
        pyr_buffer_fini(&out);
        for (size_t maximum = 0; maximum < whole; maximum += 97) {
            pyr_buffer_init(&out, maximum);
            pyr_pprof_writer *writer = pyr_pprof_writer_new(&out, (pyr_pprof_compression)kind);
            pyr_pprof_writer_type(writer, "t", "u");
            uint64_t seed = 1;
            for (int i = 0; i < 5000; i++) {
                const int64_t value[] = {(int64_t)pyr_bytes_next(&seed)};
                pyr_pprof_writer_sample(writer, NULL, 0, value, NULL, 0);
            }
            assert_int_equal(pyr_pprof_writer_finish(writer, &no_summary), PYR_ETOOBIG);
            assert_true(out.length <= maximum);
            pyr_pprof_writer_free(writer);
            pyr_buffer_fini(&out);
        }
        pyr_buffer_init(&out, whole); /* exactly enough is enough */
        pyr_bytes_random(&out, 1, 50, (pyr_pprof_compression)kind);
        assert_int_equal(out.length, whole);
        pyr_buffer_fini(&out);
    }
}

static void test_memory_does_not_grow_with_samples(void **state)
{
    (void)state;
    pyr_buffer out;
    pyr_buffer_init(&out, 1 << 24);
    pyr_pprof_writer *writer = pyr_pprof_writer_new(&out, PYR_PPROF_GZIP);
    pyr_pprof_writer_type(writer, "t", "u");
    size_t early = 0;
    for (int64_t i = 0; i < 200000; i++) {
        pyr_pprof_writer_sample(writer, NULL, 0, &i, NULL, 0);
        if (i == 20000) {
            early = pyr_memory_in_use() - out.capacity;
        }
    }
    assert_in_range(pyr_memory_in_use() - out.capacity, early - 4096, early + 4096);
    assert_int_equal(pyr_pprof_writer_finish(writer, &no_summary), PYR_OK);
    assert_int_equal(pyr_pprof_writer_samples(writer), 200000);
    pyr_pprof_writer_free(writer);
    pyr_buffer_fini(&out);
}

/* Whichever allocation fails: one clean error, nothing leaks. */
static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    for (int kind = PYR_PPROF_RAW; kind <= PYR_PPROF_ZSTD; kind++) {
        size_t before = pyr_memory_in_use();
        int failures = 0;
        for (size_t nth = 1;; nth++, failures++) {
            pyr_buffer out;
            pyr_buffer_init(&out, 1 << 20);
            pyr_memory_fail_at(nth);
            pyr_bytes_random(&out, 3, 30, (pyr_pprof_compression)kind);
            int failed = pyr_memory_has_failed();
            pyr_memory_fail_at(0);
            /* zstd and zlib may do with less; then the result must be whole. */
            if (out.length > 0) {
                pyr_profile *profile;
                pyr_parse_error error;
                assert_int_equal(pyr_profile_parse(out.data, out.length, 1 << 24, &profile, &error),
                                 PYR_OK);
                assert_int_equal(profile->sample_count, 30);
                pyr_profile_free(profile);
            }
            pyr_buffer_fini(&out);
            assert_int_equal(pyr_memory_in_use(), before);
            if (!failed) {
                break;
            }
        }
        assert_true(failures > 15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_everything_is_interned),
        cmocka_unit_test(test_calls_out_of_order),
        cmocka_unit_test(test_full_output),
        cmocka_unit_test(test_memory_does_not_grow_with_samples),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
