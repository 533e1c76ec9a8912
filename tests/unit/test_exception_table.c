/* Unit tests of cpython/exception_table: tables as CPython writes them, cut, hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpython/exception_table.h"

enum { TABLE_BYTES = 256 };

typedef struct table {
    uint8_t bytes[TABLE_BYTES];
    size_t length;
} table;

/* A number as CPython writes it: 6 bits a byte, most significant first. */
static void put(table *self, uint32_t number, uint8_t mark)
{
    for (int shift = 18; shift > 0; shift -= 6) {
        if (number >> shift != 0) {
            self->bytes[self->length++] = (uint8_t)((number >> shift & 0x3f) | 0x40 | mark);
            mark = 0;
        }
    }
    self->bytes[self->length++] = (uint8_t)((number & 0x3f) | mark);
}

static void add(table *self, uint32_t start, uint32_t end, uint32_t target, bool keeps_place)
{
    put(self, start, 0x80);
    put(self, end - start, 0);
    put(self, target, 0);
    put(self, 2 | keeps_place, 0);
}

static bool covers(const table *self, uint32_t unit)
{
    return pyr_exception_table_covers(self->bytes, self->length, unit);
}

static void test_a_try(void **state)
{
    (void)state;
    table self = {0};
    add(&self, 10, 5000, 6000, false);
    add(&self, 6000, 6010, 7000, true); /* the end of the handler */
    assert_false(covers(&self, 9));
    assert_true(covers(&self, 10));
    assert_true(covers(&self, 4999));
    assert_false(covers(&self, 5000));
    assert_true(covers(&self, 6005));
    assert_false(covers(&self, 6010));
    assert_false(pyr_exception_table_covers(NULL, 0, 0));
}

static void test_hostile_tables(void **state)
{
    (void)state;
    table good = {0};
    add(&good, 100, 200, 300, false);
    for (size_t length = 0; length < good.length; length++) {
        assert_false(pyr_exception_table_covers(good.bytes, length, 150));
    }
    uint8_t noise[64];
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(noise, (int)byte, sizeof noise);
        (void)pyr_exception_table_covers(noise, sizeof noise, 3);
        (void)pyr_exception_table_covers(noise, sizeof noise, UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_try),
        cmocka_unit_test(test_hostile_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
