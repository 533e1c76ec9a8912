/* Unit tests of pprof/parser: what is read, what is refused and in which words, all at a guard
 * page; every prefix, every changed byte, every failed allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "pprof/parser.h"
#include "pprof/wire.h"
#include "pprof/write.h"
#include "support/pprof_bytes.h"

enum { MAX = 1 << 24 };

static pyr_buffer bytes; /* the message of the test in hand */

static int set_up(void **state)
{
    (void)state;
    pyr_buffer_init(&bytes, 1 << 28);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_buffer_fini(&bytes);
    return 0;
}

/* Parses `length` bytes that end at a guard page. */
static pyr_status parse(const void *data, size_t length, size_t max_bytes, pyr_profile **profile,
                        pyr_parse_error *error)
{
    const uint8_t *copy = pyr_bytes_guard(data, length);
    assert_non_null(copy);
    pyr_status status = pyr_profile_parse(copy, length, max_bytes, profile, error);
    pyr_bytes_unguard(copy, length);
    assert_true((status == PYR_OK) == (*profile != NULL));
    assert_true((status == PYR_OK) == (error->what == NULL));
    return status;
}

static pyr_profile *parse_good(void)
{
    pyr_profile *profile;
    pyr_parse_error error;
    pyr_status status = parse(bytes.data, bytes.length, MAX, &profile, &error);
    if (status != PYR_OK) {
        fail_msg("%s at %zu", error.what, error.offset);
    }
    return profile;
}

/* The message must be refused with this status and words like these. */
static void refuse(pyr_status expected, const char *words)
{
    pyr_profile *profile;
    pyr_parse_error error;
    pyr_status status = parse(bytes.data, bytes.length, MAX, &profile, &error);
    if (status != expected || !strstr(error.what, words)) {
        fail_msg("%s: %s, not %s: %s", pyr_status_name(status), error.what ? error.what : "",
                 pyr_status_name(expected), words);
    }
    assert_true(error.offset <= bytes.length ||
                pyr_compression_detect(bytes.data, bytes.length) != PYR_PPROF_RAW);
    pyr_buffer_clear(&bytes);
}

static void expect_description(const char *expected)
{
    pyr_profile *profile = parse_good();
    pyr_buffer text;
    pyr_buffer_init(&text, MAX);
    pyr_bytes_describe(&text, profile);
    pyr_buffer_append(&text, "", 1);
    assert_string_equal((const char *)text.data, expected);
    pyr_buffer_fini(&text);
    pyr_profile_free(profile);
    pyr_buffer_clear(&bytes);
}

static const char tiny_text[] = "cpu-time|nanoseconds|\n0 0 0\n||||\nsample 5\n  f||a.py|0 10 0\n";

static void test_tiny(void **state)
{
    (void)state;
    pyr_bytes_tiny(&bytes);
    pyr_profile *profile = parse_good();
    assert_int_equal(pyr_profile_find_type(profile, "cpu-time"), 0);
    assert_int_equal(pyr_profile_find_type(profile, "cpu"), -1);
    assert_int_equal(pyr_profile_default_type(profile), 0);
    assert_null(pyr_profile_find_label(profile, profile->samples, "state"));
    pyr_profile_free(profile);
    pyr_profile_free(NULL);
    expect_description(tiny_text);
}

/* Packed and unpacked, split and joined lists say the same. */
static void test_lists(void **state)
{
    (void)state;
    static const char *const samples[] = {
        "\x08\x01\x08\x01\x10\x07\x10\x08",         /* one by one */
        "\x0A\x02\x01\x01\x12\x02\x07\x08",         /* packed */
        "\x08\x01\x10\x07\x0A\x01\x01\x12\x01\x08", /* mixed, in turns */
        "\x12\x02\x07\x08\x0A\x02\x01\x01",         /* values first */
    };
    static const uint64_t type[] = {1, 2};
    for (size_t i = 0; i < 4; i++) {
        pyr_bytes_numbers(&bytes, 1, type, 2);
        pyr_bytes_tiny(&bytes);
        /* Puts the sample in the place of the tiny one, which has one value only. */
        pyr_buffer other;
        pyr_buffer_init(&other, MAX);
        pyr_wire_reader reader = {bytes.data, bytes.data + bytes.length};
        pyr_wire_field field;
        while (pyr_wire_next(&reader, &field) == PYR_OK) {
            size_t length = (size_t)(field.body.end - field.body.at);
            const void *body = field.number == 2 ? (const void *)samples[i] : field.body.at;
            length = field.number == 2 ? strlen(samples[i]) : length;
            pyr_wire_append_bytes(&other, field.number, body, length);
        }
        pyr_buffer_clear(&bytes);
        pyr_buffer_append(&bytes, other.data, other.length);
        pyr_buffer_fini(&other);
        expect_description("cpu-time|nanoseconds|cpu-time|nanoseconds|\n0 0 0\n||||\n"
                           "sample 7 8\n  f||a.py|0 10 0\n  f||a.py|0 10 0\n");
    }
}

static void test_unknown_fields_are_skipped(void **state)
{
    (void)state;
    pyr_buffer_append(&bytes, "\xA3\x06\x08\x01\xA4\x06", 6); /* group 100 */
    pyr_buffer_append(&bytes,
                      "\xA1\x06"
                      "12345678"
                      "\xA5\x06"
                      "1234",
                      16); /* fixed numbers */
    pyr_bytes_tiny(&bytes);
    pyr_wire_append_bytes(&bytes, 1000, "anything", 8);
    static const uint64_t function[] = {9, 3, 0, 4, 1, 77, 78}; /* fields 6 and 7 are not known */
    pyr_bytes_numbers(&bytes, 5, function, 7);
    expect_description(tiny_text);
}

static void test_inlined_lines_and_unknown_addresses(void **state)
{
    (void)state;
    static const uint64_t mapping[] = {7, 0x1000, 0x2000, 0, 4};
    pyr_bytes_tiny(&bytes);
    pyr_bytes_numbers(&bytes, 3, mapping, 5);
    static const char inlined[] = "\x08\x02"
                                  "\x22\x04\x08\x01\x10\x0B"
                                  "\x22\x04\x08\x01\x10\x0C"
                                  "\x18\x63"; /* lines 11 and 12, then address 99 */
    pyr_wire_append_bytes(&bytes, 4, inlined, sizeof inlined - 1);
    static const uint64_t unnamed[] = {3, 7, 0x1234}, homeless[] = {4, 0, 0x99};
    pyr_bytes_numbers(&bytes, 4, unnamed, 3);
    pyr_bytes_numbers(&bytes, 4, homeless, 3);
    for (uint64_t id = 2; id <= 4; id++) {
        pyr_bytes_sample(&bytes, id, id);
    }
    expect_description("cpu-time|nanoseconds|\n0 0 0\n|||a.py|\n"
                       "sample 5\n  f||a.py|0 10 0\n"
                       "sample 2\n  f||a.py|0 11 99\n  f||a.py|0 12 99\n"
                       "sample 3\n  <unknown>||a.py|0 0 4660\n"
                       "sample 4\n  <unknown>|||0 0 153\n");
}

/* Ids may be any number but 0. */
static void test_large_ids(void **state)
{
    (void)state;
    static const uint64_t type[] = {1, 2}, function[] = {UINT64_MAX, 3, 0, 4};
    pyr_bytes_numbers(&bytes, 1, type, 2);
    pyr_bytes_numbers(&bytes, 5, function, 4);
    pyr_bytes_location(&bytes, UINT64_C(1) << 63, UINT64_MAX, 10);
    pyr_bytes_sample(&bytes, UINT64_C(1) << 63, 5);
    static const char *const strings[] = {"", "cpu-time", "nanoseconds", "f", "a.py"};
    for (size_t i = 0; i < 5; i++) {
        pyr_bytes_string(&bytes, strings[i]);
    }
    expect_description(tiny_text);
}

static void test_text_is_made_valid(void **state)
{
    (void)state;
    pyr_bytes_string(&bytes, "");
    pyr_bytes_string(&bytes, "a\xFF");
    pyr_wire_append_bytes(&bytes, 6, "b\0c", 3);
    pyr_profile *profile = parse_good();
    assert_int_equal(profile->string_count, 3);
    assert_string_equal(profile->strings[1].data, "a\xEF\xBF\xBD");
    assert_int_equal(profile->strings[1].length, 4);
    assert_int_equal(profile->strings[2].length, 3);
    assert_memory_equal(profile->strings[2].data, "b\0c", 4);
    pyr_profile_free(profile);
}

/* A second empty string is the first one to everybody who refers to it. */
static void test_empty_texts_are_one(void **state)
{
    (void)state;
    static const uint64_t mapping[] = {1, 0, 0, 0, 5}, function[] = {2, 5, 5, 5};
    pyr_bytes_tiny(&bytes);
    pyr_bytes_string(&bytes, "");
    pyr_bytes_numbers(&bytes, 3, mapping, 5);
    pyr_bytes_numbers(&bytes, 5, function, 4);
    pyr_wire_append_number(&bytes, 14, 5);
    pyr_wire_append_bytes(&bytes, 2, "\x10\x05\x1A\x06\x08\x03\x10\x05\x18\x07", 10);
    pyr_profile *profile = parse_good();
    assert_int_equal(profile->main_binary, 0);
    assert_int_equal(profile->default_type, 0);
    assert_int_equal(profile->functions[1].name, 0);
    assert_int_equal(profile->functions[1].file, 0);
    const pyr_profile_label *label = pyr_profile_find_label(profile, &profile->samples[1], "f");
    assert_non_null(label);
    assert_int_equal(label->text, 0);
    assert_int_equal(label->number, 7);
    pyr_profile_free(profile);
}

static void test_refusals(void **state)
{
    (void)state;
    static const uint64_t bad_function[] = {2, 99}, no_id[] = {0, 3}, same_id[] = {1, 3};
    static const uint64_t bad_file[] = {1, 0, 0, 0, 99}, bad_label[] = {99, 1};
    static const uint64_t bad_type[] = {1, 99};
    refuse(PYR_EPARTIAL, "empty");
#define BAD(words, ...)                                                                            \
    pyr_bytes_tiny(&bytes);                                                                        \
    __VA_ARGS__;                                                                                   \
    refuse(PYR_EBAD, words)
    BAD("string index", pyr_bytes_numbers(&bytes, 5, bad_function, 2));
    BAD("string index", pyr_bytes_numbers(&bytes, 3, bad_file, 5));
    BAD("string index", pyr_bytes_numbers(&bytes, 1, bad_type, 2));
    BAD("string index", pyr_bytes_numbers(&bytes, 11, bad_type, 2));
    for (uint32_t field = 7; field <= 15; field++) {
        if (field <= 8 || field >= 13) {
            BAD("string index", pyr_wire_append_number(&bytes, field, 99));
            BAD("string index", pyr_wire_append_number(&bytes, field, UINT64_MAX));
        }
    }
    BAD("reserved id 0", pyr_bytes_numbers(&bytes, 5, no_id, 2));
    BAD("reserved id 0", pyr_bytes_numbers(&bytes, 3, no_id, 1));
    BAD("reserved id 0", pyr_bytes_location(&bytes, 0, 1, 1));
    BAD("one id", pyr_bytes_numbers(&bytes, 5, same_id, 2));
    BAD("one id", pyr_bytes_location(&bytes, 1, 1, 1));
    BAD("one id", pyr_bytes_numbers(&bytes, 3, same_id, 1);
        pyr_bytes_numbers(&bytes, 3, same_id, 1));
    BAD("function that does not exist", pyr_bytes_location(&bytes, 2, 77, 1));
    BAD("function that does not exist", pyr_bytes_location(&bytes, 2, 0, 1));
    BAD("location that does not exist", pyr_bytes_sample(&bytes, 77, 1));
    BAD("location that does not exist", pyr_bytes_sample(&bytes, 0, 1));
    BAD("more or fewer values", pyr_wire_append_bytes(&bytes, 2, "\x08\x01", 2));
    BAD("more or fewer values", pyr_wire_append_bytes(&bytes, 2, "\x10\x01\x10\x01", 4));
    BAD("more or fewer values", pyr_bytes_numbers(&bytes, 1, same_id, 2));
    BAD("several profiles", pyr_wire_append_number(&bytes, 9, 1);
        pyr_wire_append_number(&bytes, 9, 2));
    BAD("malformed", pyr_wire_append_bytes(&bytes, 2, "\x10\x01\x1A\x05", 4)); /* label too long */
    BAD("malformed", pyr_wire_append_bytes(&bytes, 2, "\x12\x01\x80", 3));     /* number is cut */
    BAD("malformed", pyr_wire_append_bytes(&bytes, 13, "\x80", 1));
    for (uint32_t field = 1; field <= 15; field++) {
        if (field <= 6 || field == 11) {
            BAD("wire type", pyr_wire_append_number(&bytes, field, 0));
        } else {
            BAD("wire type", pyr_buffer_append(&bytes, (uint8_t[]){(uint8_t)(field << 3 | 1)}, 1);
                pyr_buffer_append(&bytes, "12345678", 8));
        }
    }
    BAD("damaged", pyr_buffer_append(&bytes, "\x00", 1));
#undef BAD
    pyr_bytes_tiny(&bytes);
    pyr_wire_append_bytes(&bytes, 2, bad_label, 0); /* a sample without values */
    refuse(PYR_EBAD, "more or fewer values");
    pyr_bytes_numbers(&bytes, 1, same_id, 2);
    pyr_bytes_string(&bytes, "not empty");
    refuse(PYR_EBAD, "first entry");
    pyr_bytes_numbers(&bytes, 1, same_id, 2);
    refuse(PYR_EBAD, "string table is missing");
    pyr_bytes_string(&bytes, "");
    pyr_wire_append_bytes(&bytes, 2, "", 0);
    refuse(PYR_EBAD, "no sample types");
}

static void test_other_files(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{\"schema\": 1}",
        "<!DOCTYPE html><html></html>",
        "\x7F"
        "ELF\x02\x01\x01",
        "\x89PNG\r\n\x1A\n",
        "%PDF-1.7",
        "import os\nprint(os.getcwd())\n",
        "main;f;g 42\n",
        "PK\x03\x04\x14",
        "BZh91AY&SY",
        "\xFD"
        "7zXZ",
        "Hello, world",
        "\n\n\n",
        "#!/bin/sh\n",
        "SQLite format 3",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pyr_profile *profile;
        pyr_parse_error error;
        pyr_status status = parse(files[i], strlen(files[i]), MAX, &profile, &error);
        assert_int_not_equal(status, PYR_OK);
        if (!strstr(error.what, "not a pprof") && !strstr(error.what, "too early")) {
            fail_msg("%s: %s", files[i], error.what);
        }
    }
    pyr_wire_append_bytes(&bytes, 1000, "a protobuf, but another", 23);
    refuse(PYR_EBAD, "not a pprof");
}

/* A file that was cut off anywhere is refused, and nearly always called truncated. */
static void test_every_prefix(void **state)
{
    (void)state;
    for (int kind = PYR_PPROF_RAW; kind <= PYR_PPROF_ZSTD; kind++) {
        pyr_buffer_clear(&bytes);
        pyr_bytes_random(&bytes, 5, 12, (pyr_pprof_compression)kind);
        for (size_t length = 0; length < bytes.length; length++) {
            pyr_profile *profile;
            pyr_parse_error error;
            pyr_status status = parse(bytes.data, length, MAX, &profile, &error);
            if (kind == PYR_PPROF_RAW) {
                assert_true(status == PYR_EPARTIAL || status == PYR_EBAD);
            } else {
                assert_int_equal(status, PYR_EPARTIAL);
                assert_non_null(strstr(error.what, length == 0 ? "empty" : "too early"));
            }
        }
        pyr_profile_free(parse_good());
    }
}

/* What is accepted must also be consistent: everything that refers to something can be followed. */
static void check_consistency(const pyr_profile *profile)
{
    pyr_buffer text;
    pyr_buffer_init(&text, MAX);
    pyr_bytes_describe(&text, profile);
    assert_int_equal(text.status, PYR_OK);
    pyr_buffer_fini(&text);
}

/* Every `step`-th change of every byte; how many of the results are profiles. */
static size_t change_every_byte(unsigned step)
{
    size_t good = 0;
    const uint8_t *guarded = pyr_bytes_guard(bytes.data, bytes.length);
    uint8_t *copy = (uint8_t *)(uintptr_t)guarded;
    for (size_t at = 0; at < bytes.length; at++) {
        for (unsigned change = 1; change < 256; change += step) {
            pyr_profile *profile;
            pyr_parse_error error;
            copy[at] ^= (uint8_t)change;
            pyr_status status = pyr_profile_parse(copy, bytes.length, MAX, &profile, &error);
            copy[at] ^= (uint8_t)change;
            assert_true(status == PYR_OK || status == PYR_EBAD || status == PYR_EPARTIAL ||
                        status == PYR_ETOOBIG);
            if (profile) {
                good++;
                check_consistency(profile);
                pyr_profile_free(profile);
            }
        }
    }
    pyr_bytes_unguard(guarded, bytes.length);
    return good;
}

static void test_every_changed_byte(void **state)
{
    (void)state;
    pyr_bytes_tiny(&bytes);
    assert_true(change_every_byte(1) > 1000); /* letters of names, for example, may change */
    for (int kind = PYR_PPROF_RAW; kind <= PYR_PPROF_ZSTD; kind++) {
        pyr_buffer_clear(&bytes);
        pyr_bytes_random(&bytes, 8, 2, (pyr_pprof_compression)kind);
        (void)change_every_byte(kind == PYR_PPROF_ZSTD ? 101 : 29); /* its windows take 2 MB each */
    }
}

static void test_sizes_are_bounded(void **state)
{
    (void)state;
    for (int kind = PYR_PPROF_RAW; kind <= PYR_PPROF_ZSTD; kind++) {
        pyr_buffer raw;
        pyr_buffer_init(&raw, 1 << 27);
        pyr_bytes_tiny(&raw);
        pyr_wire_append_varint(&raw, 1000 << 3 | PYR_WIRE_BYTES); /* then 16 MiB of nothing */
        pyr_wire_append_varint(&raw, 1 << 24);
        assert_int_equal(pyr_buffer_reserve(&raw, 1 << 24), PYR_OK);
        memset(raw.data + raw.length, 0, 1 << 24);
        raw.length += 1 << 24;
        pyr_buffer_clear(&bytes);
        pyr_compressor *compressor = pyr_compressor_new(&bytes, (pyr_pprof_compression)kind);
        assert_int_equal(pyr_compressor_write(compressor, raw.data, raw.length), PYR_OK);
        assert_int_equal(pyr_compressor_finish(compressor), PYR_OK);
        pyr_compressor_free(compressor);
        size_t length = raw.length;
        pyr_buffer_fini(&raw);
        assert_true(kind == PYR_PPROF_RAW || bytes.length < 100000);
        pyr_profile *profile;
        pyr_parse_error error;
        for (size_t maximum = length - 1; maximum > 1000; maximum /= 40) {
            size_t before = pyr_memory_in_use();
            assert_int_equal(parse(bytes.data, bytes.length, maximum, &profile, &error),
                             PYR_ETOOBIG);
            assert_non_null(strstr(error.what, "larger"));
            assert_int_equal(pyr_memory_in_use(), before);
        }
        assert_int_equal(parse(bytes.data, bytes.length, length, &profile, &error), PYR_OK);
        pyr_profile_free(profile);
    }
}

/* One location of 5,000 inlined lines, 50,000 times on a stack: 250 million frames. */
static void test_inlined_lines_do_not_multiply(void **state)
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
    pyr_buffer_clear(&body);
    for (size_t i = 0; i < 50000; i++) {
        pyr_wire_append_number(&body, 1, 2);
    }
    pyr_wire_append_number(&body, 2, 1);
    pyr_wire_append_bytes(&bytes, 2, body.data, body.length);
    pyr_buffer_fini(&body);
    refuse(PYR_ETOOBIG, "too large for its size");
}

static void test_damaged_streams(void **state)
{
    (void)state;
    static const pyr_pprof_compression kinds[] = {PYR_PPROF_GZIP, PYR_PPROF_ZSTD};
    for (size_t i = 0; i < 2; i++) {
        pyr_bytes_random(&bytes, 1, 20, kinds[i]);
        bytes.data[bytes.length - 6] ^= 1; /* the checksum, or just before it */
        refuse(PYR_EBAD, "damaged");
        pyr_bytes_random(&bytes, 1, 20, kinds[i]);
        pyr_buffer_text(&bytes, "more text than a header has");
        refuse(PYR_EBAD, "damaged");
        pyr_bytes_random(&bytes, 1, 20, kinds[i]);
        pyr_bytes_random(&bytes, 2, 20, kinds[i]); /* two files made one by cat */
        refuse(PYR_EBAD, "several profiles");
    }
    pyr_buffer_append(&bytes, "\x28\xB5\x2F\xFD\x00\xB8\x01\x00\x00", 9); /* window of 8 GiB */
    refuse(PYR_EBAD, "damaged");
}

static void test_null_is_empty(void **state)
{
    (void)state;
    pyr_profile *profile;
    pyr_parse_error error;
    assert_int_equal(pyr_profile_parse(NULL, 0, MAX, &profile, &error), PYR_EPARTIAL);
    assert_null(profile);
}

static void test_write_and_parse_round_trip(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        pyr_buffer again, first_text, second_text;
        pyr_buffer_init(&again, MAX);
        pyr_buffer_init(&first_text, MAX);
        pyr_buffer_init(&second_text, MAX);
        pyr_buffer_clear(&bytes);
        pyr_bytes_random(&bytes, seed, seed * 7, (pyr_pprof_compression)(seed % 3));
        pyr_profile *profile = parse_good();
        pyr_bytes_describe(&first_text, profile);
        assert_int_equal(pyr_profile_write(profile, (pyr_pprof_compression)(seed % 2), &again),
                         PYR_OK);
        pyr_profile_free(profile);
        pyr_buffer_clear(&bytes);
        pyr_buffer_append(&bytes, again.data, again.length);
        profile = parse_good();
        pyr_bytes_describe(&second_text, profile);
        pyr_profile_free(profile);
        assert_int_equal(first_text.length, second_text.length);
        assert_memory_equal(first_text.data, second_text.data, first_text.length);
        pyr_buffer_fini(&again);
        pyr_buffer_fini(&first_text);
        pyr_buffer_fini(&second_text);
    }
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    for (int kind = PYR_PPROF_RAW; kind <= PYR_PPROF_ZSTD; kind++) {
        pyr_buffer_clear(&bytes);
        pyr_bytes_random(&bytes, 3, 60, (pyr_pprof_compression)kind);
        size_t before = pyr_memory_in_use(), nth = 1;
        for (int failed = 1; failed; nth++) {
            pyr_profile *profile;
            pyr_parse_error error;
            pyr_memory_fail_at(nth);
            pyr_status status = pyr_profile_parse(bytes.data, bytes.length, MAX, &profile, &error);
            failed = pyr_memory_has_failed();
            pyr_memory_fail_at(0);
            assert_int_equal(status, failed ? PYR_ENOMEM : PYR_OK);
            assert_true(!failed || strstr(error.what, "out of memory"));
            pyr_profile_free(profile);
            assert_int_equal(pyr_memory_in_use(), before);
        }
        assert_true(nth > 40);
    }
}

static void test_every_allocation_of_write_fails_once(void **state)
{
    (void)state;
    pyr_bytes_random(&bytes, 3, 60, PYR_PPROF_RAW);
    pyr_profile *profile = parse_good();
    size_t before = pyr_memory_in_use(), nth = 1;
    for (int failed = 1; failed; nth++) {
        pyr_buffer out;
        pyr_buffer_init(&out, MAX);
        pyr_memory_fail_at(nth);
        pyr_status status = pyr_profile_write(profile, PYR_PPROF_GZIP, &out);
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        assert_int_equal(status, failed ? PYR_ENOMEM : PYR_OK);
        pyr_buffer_fini(&out);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    assert_true(nth > 20);
    pyr_profile_free(profile);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tiny),
        TEST(test_lists),
        TEST(test_unknown_fields_are_skipped),
        TEST(test_inlined_lines_and_unknown_addresses),
        TEST(test_large_ids),
        TEST(test_text_is_made_valid),
        TEST(test_empty_texts_are_one),
        TEST(test_refusals),
        TEST(test_other_files),
        TEST(test_every_prefix),
        TEST(test_every_changed_byte),
        TEST(test_sizes_are_bounded),
        TEST(test_inlined_lines_do_not_multiply),
        TEST(test_damaged_streams),
        TEST(test_null_is_empty),
        TEST(test_write_and_parse_round_trip),
        TEST(test_every_allocation_fails_once),
        TEST(test_every_allocation_of_write_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
