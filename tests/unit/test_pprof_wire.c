/* Unit tests of pprof/wire: every number and field, at a guard page, whole and cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pprof/wire.h"
#include "support/pprof_bytes.h"

/* Reads the first field of bytes at a guard page. */
static pyr_status first(const char *bytes, size_t length, pyr_wire_field *field)
{
    const uint8_t *copy = pyr_bytes_guard(bytes, length);
    assert_non_null(copy);
    pyr_wire_reader reader = {copy, copy + length};
    pyr_status status = pyr_wire_next(&reader, field);
    if (status == PYR_OK) {
        assert_ptr_equal(reader.at, copy + length);
        field->body.at = NULL; /* gone with the page */
    } else {
        assert_ptr_equal(reader.at, copy); /* an error says where */
    }
    pyr_bytes_unguard(copy, length);
    return status;
}

static void test_numbers_round_trip(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)(int64_t)delta, back;
            pyr_buffer bytes;
            pyr_buffer_init(&bytes, 100);
            pyr_wire_append_varint(&bytes, value);
            for (size_t length = 0; length <= bytes.length; length++) {
                const uint8_t *copy = pyr_bytes_guard(bytes.data, length);
                pyr_wire_reader reader = {copy, copy + length};
                pyr_status status = pyr_wire_varint(&reader, &back);
                if (length == bytes.length) {
                    assert_int_equal(status, PYR_OK);
                    assert_true(back == value);
                } else {
                    assert_int_equal(status, length == 0 ? PYR_ENOENT : PYR_EPARTIAL);
                }
                pyr_bytes_unguard(copy, length);
            }
            size_t own = bytes.length; /* what follows is not of the number, whatever it is */
            pyr_buffer_append(&bytes, "\xFF\x7F\x80\x01\xFF\x00\x80\xFF", 8);
            for (size_t length = own; length <= bytes.length; length++) {
                const uint8_t *copy = pyr_bytes_guard(bytes.data, length);
                pyr_wire_reader reader = {copy, copy + length};
                assert_int_equal(pyr_wire_varint(&reader, &back), PYR_OK);
                assert_true(back == value && reader.at == copy + own);
                pyr_bytes_unguard(copy, length);
            }
            pyr_buffer_fini(&bytes);
        }
    }
}

static void test_fields(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t length;
        pyr_status status;
        uint32_t number;
        pyr_wire_type type;
    } cases[] = {
        {"end", "", 0, PYR_ENOENT, 0, 0},
        {"number", "\x08\x96\x01", 3, PYR_OK, 1, PYR_WIRE_VARINT},
        {"number, cut", "\x08\x96", 2, PYR_EPARTIAL, 0, 0},
        {"number, missing", "\x08", 1, PYR_EPARTIAL, 0, 0},
        {"number of two-byte tag", "\x80\x01\x05", 3, PYR_OK, 16, PYR_WIRE_VARINT},
        {"number, padded", "\x08\x85\x80\x00", 4, PYR_OK, 1, PYR_WIRE_VARINT},
        {"tag, cut", "\x80", 1, PYR_EPARTIAL, 0, 0},
        {"bytes", "\x12\x02hi", 4, PYR_OK, 2, PYR_WIRE_BYTES},
        {"bytes, empty", "\x12\x00", 2, PYR_OK, 2, PYR_WIRE_BYTES},
        {"bytes, cut", "\x12\x03hi", 4, PYR_EPARTIAL, 0, 0},
        {"bytes, no length", "\x12", 1, PYR_EPARTIAL, 0, 0},
        {"bytes, length of all bits", "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11,
         PYR_EPARTIAL, 0, 0},
        {"eight bytes",
         "\x19"
         "12345678",
         9, PYR_OK, 3, PYR_WIRE_FIXED64},
        {"eight bytes, cut",
         "\x19"
         "1234567",
         8, PYR_EPARTIAL, 0, 0},
        {"four bytes",
         "\x1D"
         "1234",
         5, PYR_OK, 3, PYR_WIRE_FIXED32},
        {"group", "\x1B\x08\x05\x1C", 4, PYR_OK, 3, PYR_WIRE_GROUP},
        {"group in a group", "\x1B\x23\x08\x05\x24\x1C", 6, PYR_OK, 3, PYR_WIRE_GROUP},
        {"group, open", "\x1B\x08\x05", 3, PYR_EPARTIAL, 0, 0},
        {"group end alone", "\x1C", 1, PYR_EBAD, 0, 0},
        {"type 6", "\x0E\x00", 2, PYR_EBAD, 0, 0},
        {"type 7", "\x0F\x00", 2, PYR_EBAD, 0, 0},
        {"field 0", "\x00\x00", 2, PYR_EBAD, 0, 0},
        {"field 2^29", "\x80\x80\x80\x80\x10\x00", 6, PYR_EBAD, 0, 0},
        {"number of eleven bytes", "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, PYR_EBAD,
         0, 0},
        {"number of 65 bits", "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 11, PYR_EBAD, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pyr_wire_field field = {0};
        pyr_status status = first(cases[i].bytes, cases[i].length, &field);
        if (status != cases[i].status || (status == PYR_OK && (field.number != cases[i].number ||
                                                               field.type != cases[i].type))) {
            fail_msg("%s: %s, field %u", cases[i].name, pyr_status_name(status), field.number);
        }
    }
}

static void test_deep_groups(void **state)
{
    (void)state;
    enum { DEPTH = 1000000 };
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, DEPTH);
    assert_int_equal(pyr_buffer_reserve(&bytes, DEPTH), PYR_OK);
    memset(bytes.data, 0x1B, DEPTH);
    pyr_wire_reader reader = {bytes.data, bytes.data + DEPTH};
    pyr_wire_field field;
    assert_int_equal(pyr_wire_next(&reader, &field), PYR_EBAD);
    pyr_buffer_fini(&bytes);
}

static void test_appended_bytes(void **state)
{
    (void)state;
    static const uint8_t golden[] = {0x08, 0x00, 0x80, 0x01, 0xAC, 0x02, 0x32, 0x02, 'h', 'i'};
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, 100);
    pyr_wire_append_number(&bytes, 1, 0);
    pyr_wire_append_nonzero(&bytes, 2, 0);
    pyr_wire_append_nonzero(&bytes, 16, 300);
    pyr_wire_append_bytes(&bytes, 6, "hi", 2);
    assert_int_equal(bytes.length, sizeof golden);
    assert_memory_equal(bytes.data, golden, sizeof golden);
    pyr_buffer_fini(&bytes);
}

static void test_text_is_repaired(void **state)
{
    (void)state;
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, 100);
    assert_int_equal(pyr_wire_append_text(&bytes, "ok ", 3), PYR_OK);
    assert_int_equal(pyr_wire_append_text(&bytes, "\xFF\xC3\xA9\xED\xA0\x80", 6), PYR_OK);
    assert_int_equal(pyr_wire_append_text(&bytes, NULL, 0), PYR_OK);
    static const char golden[] = "ok \xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD";
    assert_int_equal(bytes.length, sizeof golden - 1);
    assert_memory_equal(bytes.data, golden, sizeof golden - 1);
    pyr_buffer_fini(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_round_trip), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_deep_groups),        cmocka_unit_test(test_appended_bytes),
        cmocka_unit_test(test_text_is_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
