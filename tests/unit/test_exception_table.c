/* Unit tests of cpython/exception_table: tables as CPython writes them, nested, cut, hostile. */
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

static void add(table *self, uint32_t start, uint32_t end, uint32_t target, bool raises_on)
{
    put(self, start, 0x80);
    put(self, end - start, 0);
    put(self, target, 0);
    put(self, 2 | raises_on, 0);
}

static bool catches(const table *self, uint32_t unit)
{
    return pyr_exception_table_catches(self->bytes, self->length, unit);
}

static void test_a_try(void **state)
{
    (void)state;
    table self = {0};
    add(&self, 10, 5000, 6000, false);
    add(&self, 6000, 6010, 7000, true); /* the end of the handler */
    assert_false(catches(&self, 9));
    assert_true(catches(&self, 10));
    assert_true(catches(&self, 4999));
    assert_false(catches(&self, 5000));
    assert_false(catches(&self, 6005)); /* raised in the handler itself */
    assert_false(pyr_exception_table_catches(NULL, 0, 0));
}

/* with: its exit raises on, into the try around it, if there is one. */
static void test_with_blocks(void **state)
{
    (void)state;
    table alone = {0}, within = {0};
    add(&alone, 5, 10, 20, true);
    add(&alone, 20, 25, 30, true);
    assert_false(catches(&alone, 7));
    add(&within, 2, 5, 50, false);
    add(&within, 5, 10, 20, true);
    add(&within, 20, 25, 30, true);
    add(&within, 30, 35, 50, false);
    assert_true(catches(&within, 7));
    assert_true(catches(&within, 3));
}

static void test_hostile_tables(void **state)
{
    (void)state;
    table ring = {0};
    add(&ring, 5, 10, 7, true); /* a handler around itself */
    assert_false(catches(&ring, 7));
    table good = {0};
    add(&good, 100, 200, 300, false);
    for (size_t length = 0; length < good.length; length++) {
        assert_false(pyr_exception_table_catches(good.bytes, length, 150));
    }
    uint8_t noise[64];
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(noise, (int)byte, sizeof noise);
        (void)pyr_exception_table_catches(noise, sizeof noise, 3);
        (void)pyr_exception_table_catches(noise, sizeof noise, UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_try),
        cmocka_unit_test(test_with_blocks),
        cmocka_unit_test(test_hostile_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
