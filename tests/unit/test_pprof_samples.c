/* Unit tests of how pprof/parser reads samples: frames that several share, and values of any number
 * and length, all at a guard page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pprof/parser.h"
#include "pprof/wire.h"
#include "support/pprof_bytes.h"

enum { MAX = 1 << 24 };

static pyr_buffer bytes; /* the message of the test in hand */

static int set_up(void **state)
{
    (void)state;
    pyr_buffer_init(&bytes, MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_buffer_fini(&bytes);
    return 0;
}

static pyr_status parse(pyr_profile **profile, pyr_parse_error *error)
{
    const uint8_t *copy = pyr_bytes_guard(bytes.data, bytes.length);
    assert_non_null(copy);
    pyr_status status = pyr_profile_parse(copy, bytes.length, MAX, profile, error);
    pyr_bytes_unguard(copy, bytes.length);
    return status;
}

static pyr_profile *parse_good(void)
{
    pyr_profile *profile;
    pyr_parse_error error;
    if (parse(&profile, &error) != PYR_OK) {
        fail_msg("%s at %zu", error.what, error.offset);
    }
    return profile;
}

/* Puts a sample in the place of the tiny profile's, which has one value only. */
static void put_sample(const void *sample, size_t sample_length)
{
    pyr_buffer other;
    pyr_buffer_init(&other, MAX);
    pyr_wire_reader reader = {bytes.data, bytes.data + bytes.length};
    pyr_wire_field field;
    while (pyr_wire_next(&reader, &field) == PYR_OK) {
        bool is_sample = field.number == 2;
        pyr_wire_append_bytes(&other, field.number, is_sample ? sample : field.body.at,
                              is_sample ? sample_length : (size_t)(field.body.end - field.body.at));
    }
    pyr_buffer_clear(&bytes);
    pyr_buffer_append(&bytes, other.data, other.length);
    pyr_buffer_fini(&other);
}

/* One location of 5,000 inlined lines on each of 500,000 stacks, which share its frames. */
static void test_shared_frames_count_for_each_sample(void **state)
{
    (void)state;
    pyr_bytes_tiny(&bytes);
    pyr_buffer body;
    pyr_buffer_init(&body, MAX);
    pyr_wire_append_number(&body, 1, 2);
    for (uint64_t i = 1; i <= 5000; i++) {
        const uint64_t line[] = {1, i};
        pyr_bytes_numbers(&body, 4, line, 2);
    }
    pyr_wire_append_bytes(&bytes, 4, body.data, body.length);
    pyr_buffer_fini(&body);
    for (size_t i = 0; i < 500000; i++) {
        pyr_wire_append_bytes(&bytes, 2, "\x0A\x01\x02\x10\x01", 5);
    }
    pyr_profile *profile;
    pyr_parse_error error;
    assert_int_equal(parse(&profile, &error), PYR_ETOOBIG);
    assert_non_null(strstr(error.what, "too large for its size"));
}

/* Equal lists share their frames, also when one of the samples goes on with another list. */
static void test_shared_frames(void **state)
{
    (void)state;
    pyr_bytes_tiny(&bytes);
    pyr_wire_append_bytes(&bytes, 2, "\x0A\x01\x01\x10\x06", 5);
    pyr_wire_append_bytes(&bytes, 2, "\x0A\x02\x01\x01\x10\x07", 6);
    pyr_wire_append_bytes(&bytes, 2, "\x0A\x01\x01\x10\x08\x0A\x02\x01\x01\x08\x01", 11);
    pyr_wire_append_bytes(&bytes, 2, "\x0A\x01\x01\x10\x09", 5);
    pyr_profile *profile = parse_good();
    static const uint32_t counts[] = {1, 1, 2, 4, 1};
    assert_int_equal(profile->sample_count, 5);
    for (size_t i = 0; i < 5; i++) {
        const pyr_profile_sample *sample = &profile->samples[i];
        assert_int_equal(sample->frame_count, counts[i]);
        assert_int_equal(profile->values[sample->value_start], 5 + (int)i);
        for (uint32_t at = 0; at < sample->frame_count; at++) {
            assert_true(sample->frame_start + at < profile->stack_frame_count);
            assert_int_equal(profile->stack_frames[sample->frame_start + at], 0);
        }
    }
    assert_int_equal(profile->samples[1].frame_start, profile->samples[4].frame_start);
    pyr_profile_free(profile);
}

/* Values are read eight at a time where they are short; whatever their number and length, and
 * wherever the bytes end. */
static void test_many_values(void **state)
{
    (void)state;
    static const uint64_t type[] = {1, 2};
    pyr_buffer body;
    pyr_buffer_init(&body, MAX);
    for (size_t count = 1; count < 40; count++) {
        for (size_t large = 0; large <= count; large++) { /* `count`: none is */
            pyr_buffer_clear(&body);
            for (size_t i = 0; i < count; i++) {
                pyr_wire_append_varint(&body, i == large ? UINT64_MAX - 3 : i);
            }
            pyr_bytes_tiny(&bytes);
            for (size_t i = 1; i < count; i++) {
                pyr_bytes_numbers(&bytes, 1, type, 2);
            }
            pyr_buffer sample;
            pyr_buffer_init(&sample, MAX);
            pyr_wire_append_bytes(&sample, 2, body.data, body.length);
            put_sample(sample.data, sample.length);
            pyr_buffer_fini(&sample);
            pyr_profile *profile = parse_good();
            assert_int_equal(profile->value_count, count);
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(profile->values[i], i == large ? -4 : (int64_t)i);
            }
            pyr_profile_free(profile);
            pyr_buffer_clear(&bytes);
        }
    }
    pyr_buffer_fini(&body);
}

/* A label with the bytes of the last one that has its key is not read again: it is the same one,
 * but only as a message; and one of another key that falls into the same place is another. */
static void test_labels_again(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        size_t length;
        uint32_t key, text;
        int64_t number;
    } labels[] = {
        {"\x08\x01\x10\x02", 4, 1, 2, 0},
        {"\x08\x01\x10\x02", 4, 1, 2, 0},
        {"\x08\x01\x10\x03", 4, 1, 3, 0},
        {"\x08\x01\x18\x03", 4, 1, 0, 3},
        {"\x08\x41\x10\x02", 4, 65, 2, 0},
        {"\x08\x01\x18\x03", 4, 1, 0, 3},
        {"\x18\x01\x08\x02", 4, 2, 0, 1},
        {"", 0, 0, 0, 0},
        {"", 0, 0, 0, 0},
        {"\x18\x01\x08\x02", 4, 2, 0, 1},
    };
    enum { COUNT = sizeof labels / sizeof labels[0] };
    pyr_buffer sample;
    pyr_buffer_init(&sample, MAX);
    pyr_buffer_append(&sample, "\x0A\x01\x01\x10\x05", 5);
    pyr_bytes_tiny(&bytes);
    for (size_t string = 5; string < 70; string++) {
        pyr_bytes_string(&bytes, "more");
    }
    for (size_t i = 0; i < COUNT; i++) {
        pyr_wire_append_bytes(&sample, 3, labels[i].label, labels[i].length);
    }
    put_sample(sample.data, sample.length);
    pyr_profile *profile = parse_good();
    assert_int_equal(profile->label_count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(profile->labels[i].key, labels[i].key);
        assert_int_equal(profile->labels[i].text, labels[i].text);
        assert_int_equal(profile->labels[i].number, labels[i].number);
    }
    pyr_profile_free(profile);
    pyr_parse_error error;
    pyr_buffer_append(&sample, "\x1D\x18\x01\x08\x02", 5); /* the last one's, as a fixed32 */
    put_sample(sample.data, sample.length);
    assert_int_equal(parse(&profile, &error), PYR_EBAD);
    pyr_buffer_fini(&sample);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Labels of many samples that are equal but for their moment: what each says is its own, whether
 * its moment is the first label, the last, another, or missing; and equal kinds mean equal labels.
 */
static void test_kinds_of_labels(void **state)
{
    (void)state;
    enum { MOMENT = 5, SHAPES = 6, ROUNDS = 3 }; /* the tiny profile has strings 0 to 4 */
    static const char text[] = "\x1A\x04\x08\x01\x10\x02";
    static const char number[] = "\x1A\x04\x08\x03\x18\x07";
    /* Where the moment stands; 9 = nowhere; 8 = nowhere, and the value comes last. */
    static const int places[SHAPES] = {0, 2, 1, 9, 8, 0};
    uint32_t kinds[ROUNDS][SHAPES];
    pyr_bytes_tiny(&bytes);
    pyr_bytes_string(&bytes, "end_timestamp_ns");
    for (uint64_t at = 0; at < (uint64_t)ROUNDS * SHAPES; at++) {
        int place = places[at % SHAPES];
        pyr_buffer sample;
        pyr_buffer moment;
        pyr_buffer_init(&sample, MAX);
        pyr_buffer_init(&moment, MAX);
        pyr_wire_append_number(&moment, 1, MOMENT);
        pyr_wire_append_number(&moment, 3, UINT64_C(1800000000000000000) + at);
        pyr_buffer_append(&sample, "\x0A\x01\x01", 3);
        pyr_buffer_append(&sample, "\x10\x05", place == 8 ? 0 : 2);
        for (int label = 0; label < 3; label++) {
            if (place == label) {
                pyr_wire_append_bytes(&sample, 3, moment.data, moment.length);
            }
            if (label < 2) {
                pyr_buffer_append(&sample, label == 0 ? text : number, 6);
            }
        }
        pyr_buffer_append(&sample, "\x10\x05", place == 8 ? 2 : 0);
        pyr_wire_append_bytes(&bytes, 2, sample.data, sample.length);
        pyr_buffer_fini(&sample);
        pyr_buffer_fini(&moment);
    }
    pyr_profile *profile = parse_good();
    assert_int_equal(profile->sample_count, 1 + ROUNDS * SHAPES); /* one is the tiny profile's */
    for (size_t at = 0; at < (size_t)ROUNDS * SHAPES; at++) {
        const pyr_profile_sample *sample = &profile->samples[1 + at];
        const pyr_profile_label *labels = &profile->labels[sample->label_start];
        uint32_t place = (uint32_t)places[at % SHAPES];
        bool has_moment = place < 3;
        assert_int_equal(sample->label_count, has_moment ? 3 : 2);
        if (has_moment) {
            assert_int_equal(labels[place].key, MOMENT);
            assert_int_equal(labels[place].number, INT64_C(1800000000000000000) + (int64_t)at);
        }
        const pyr_profile_label *first = &labels[place == 0];
        const pyr_profile_label *second = &labels[1 + (place <= 1)];
        assert_int_equal(first->key, 1);
        assert_int_equal(first->text, 2);
        assert_int_equal(second->key, 3);
        assert_int_equal(second->number, 7);
        assert_in_range(sample->label_kind, 0, profile->kind_count);
        kinds[at / SHAPES][at % SHAPES] = sample->label_kind;
    }
    for (size_t shape = 0; shape < SHAPES; shape++) {
        bool has_kind = places[shape] != 1 && places[shape] != 8;
        assert_int_equal(kinds[1][shape] == kinds[2][shape], has_kind || kinds[1][shape] == 0);
        assert_true(!has_kind || kinds[1][shape] != 0);
    }
    assert_int_equal(kinds[1][0], kinds[1][5]);
    assert_int_not_equal(kinds[1][0], kinds[1][1]);
    assert_int_not_equal(kinds[1][0], kinds[1][3]);
    pyr_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shared_frames_count_for_each_sample),
        TEST(test_shared_frames),
        TEST(test_many_values),
        TEST(test_labels_again),
        TEST(test_kinds_of_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
