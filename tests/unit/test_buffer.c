/* Growing buffers: exact bytes, the maximum, sticky errors, and every allocation failed once. */
#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

static void assert_holds(const pyr_buffer *buffer, const char *text)
{
    assert_int_equal(buffer->length, strlen(text));
    assert_memory_equal(buffer->data, text, strlen(text));
}

static void test_appended_bytes_follow_each_other(void **state)
{
    (void)state;
    pyr_buffer buffer;
    pyr_buffer_init(&buffer, 1000);
    assert_null(buffer.data);
    assert_int_equal(pyr_buffer_append(&buffer, "a\0b", 3), PYR_OK);
    assert_int_equal(pyr_buffer_text(&buffer, "cd"), PYR_OK);
    assert_int_equal(pyr_buffer_append(&buffer, NULL, 0), PYR_OK);
    assert_int_equal(pyr_buffer_format(&buffer, "<%d %s>", -7, "x"), PYR_OK);
    assert_int_equal(buffer.length, 11);
    assert_memory_equal(buffer.data, "a\0bcd<-7 x>", 11);
    pyr_buffer_fini(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.maximum, 1000);
}

static void test_the_maximum_is_reached_but_not_passed(void **state)
{
    (void)state;
    static const size_t maxima[] = {1, 255, 256, 257, 100000};
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        pyr_buffer buffer;
        pyr_buffer_init(&buffer, maxima[i]);
        for (size_t n = 0; n < maxima[i]; n++) {
            const uint8_t byte = (uint8_t)n;
            assert_int_equal(pyr_buffer_append(&buffer, &byte, 1), PYR_OK);
        }
        assert_int_equal(buffer.length, maxima[i]);
        assert_int_equal(pyr_buffer_append(&buffer, "x", 1), PYR_ETOOBIG);
        assert_int_equal(buffer.length, maxima[i]);
        for (size_t n = 0; n < maxima[i]; n++) {
            assert_int_equal(buffer.data[n], (uint8_t)n);
        }
        pyr_buffer_fini(&buffer);
    }
}

static void test_a_formatted_text_may_fill_the_buffer(void **state)
{
    (void)state;
    pyr_buffer buffer;
    pyr_buffer_init(&buffer, 5);
    assert_int_equal(pyr_buffer_format(&buffer, "%s", ""), PYR_OK);
    assert_int_equal(buffer.length, 0);
    assert_int_equal(pyr_buffer_format(&buffer, "%d", 12345), PYR_OK);
    assert_holds(&buffer, "12345");
    assert_int_equal(pyr_buffer_format(&buffer, "%s", ""), PYR_OK);
    assert_int_equal(pyr_buffer_format(&buffer, "%d", 6), PYR_ETOOBIG);
    assert_holds(&buffer, "12345");
    pyr_buffer_fini(&buffer);
}

static void test_a_length_that_would_overflow_is_too_big(void **state)
{
    (void)state;
    pyr_buffer buffer;
    pyr_buffer_init(&buffer, SIZE_MAX);
    assert_int_equal(pyr_buffer_text(&buffer, "x"), PYR_OK);
    assert_int_equal(pyr_buffer_reserve(&buffer, SIZE_MAX), PYR_ETOOBIG);
    assert_holds(&buffer, "x");
    pyr_buffer_fini(&buffer);
}

static void test_the_first_error_sticks(void **state)
{
    (void)state;
    pyr_buffer buffer;
    pyr_buffer_init(&buffer, 4);
    assert_int_equal(pyr_buffer_text(&buffer, "abc"), PYR_OK);
    assert_int_equal(pyr_buffer_text(&buffer, "toolong"), PYR_ETOOBIG);
    /* This one would fit, but the text would have a hole. */
    assert_int_equal(pyr_buffer_text(&buffer, "d"), PYR_ETOOBIG);
    assert_int_equal(pyr_buffer_format(&buffer, "%d", 1), PYR_ETOOBIG);
    assert_int_equal(buffer.status, PYR_ETOOBIG);
    assert_holds(&buffer, "abc");

    pyr_buffer_clear(&buffer);
    assert_int_equal(buffer.length, 0);
    assert_int_equal(pyr_buffer_text(&buffer, "efgh"), PYR_OK);
    assert_holds(&buffer, "efgh");
    pyr_buffer_fini(&buffer);
}

static void test_reserved_room_may_be_written(void **state)
{
    (void)state;
    pyr_buffer buffer;
    pyr_buffer_init(&buffer, 5000);
    assert_int_equal(pyr_buffer_text(&buffer, "head"), PYR_OK);
    assert_int_equal(pyr_buffer_reserve(&buffer, 4996), PYR_OK);
    assert_int_equal(buffer.length, 4);
    assert_true(buffer.capacity >= 5000);
    memset(buffer.data + buffer.length, 'z', 4996);
    buffer.length += 4996;
    assert_memory_equal(buffer.data, "headz", 5);
    assert_int_equal(buffer.data[4999], 'z');
    pyr_buffer_fini(&buffer);
}

static void test_the_capacity_may_be_filled(void **state)
{
    (void)state;
    static const size_t maxima[] = {1, 100, 256, 1000};
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        pyr_buffer buffer;
        pyr_buffer_init(&buffer, maxima[i]);
        while (pyr_buffer_reserve(&buffer, 1) == PYR_OK) {
            assert_true(buffer.capacity <= maxima[i]);
            memset(buffer.data + buffer.length, 'f', buffer.capacity - buffer.length);
            buffer.length = buffer.capacity;
        }
        assert_int_equal(buffer.status, PYR_ETOOBIG);
        assert_int_equal(buffer.length, maxima[i]);
        pyr_buffer_fini(&buffer);
    }
}

static void test_taken_bytes_belong_to_the_caller(void **state)
{
    (void)state;
    pyr_buffer buffer;
    size_t length = 99;
    pyr_buffer_init(&buffer, 100);
    assert_null(pyr_buffer_take(&buffer, &length));
    assert_int_equal(length, 0);
    assert_int_equal(pyr_buffer_text(&buffer, "mine"), PYR_OK);
    uint8_t *taken = pyr_buffer_take(&buffer, &length);
    assert_int_equal(length, 4);
    assert_null(buffer.data);
    assert_int_equal(pyr_buffer_text(&buffer, "next"), PYR_OK);
    assert_memory_equal(taken, "mine", 4);
    pyr_memory_free(taken);
    pyr_buffer_fini(&buffer);
}

/* Whichever allocation fails, the status says so, what was there stays, and nothing leaks. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    char chunk[300];
    memset(chunk, 'c', sizeof chunk);
    const size_t before = pyr_memory_in_use();
    size_t failures = 0;
    for (size_t nth = 1;; nth++) {
        pyr_buffer buffer;
        pyr_buffer_init(&buffer, 10000);
        pyr_memory_fail_at(nth);
        size_t appended = 0;
        for (size_t i = 0; i < 10; i++) {
            appended += pyr_buffer_append(&buffer, chunk, sizeof chunk) == PYR_OK;
        }
        const int has_failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        assert_int_equal(buffer.length, appended * sizeof chunk);
        assert_int_equal(buffer.status, has_failed ? PYR_ENOMEM : PYR_OK);
        pyr_buffer_fini(&buffer);
        assert_int_equal(pyr_memory_in_use(), before);
        if (!has_failed) {
            assert_int_equal(appended, 10);
            break;
        }
        failures++;
    }
    assert_true(failures >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appended_bytes_follow_each_other),
        cmocka_unit_test(test_the_maximum_is_reached_but_not_passed),
        cmocka_unit_test(test_a_formatted_text_may_fill_the_buffer),
        cmocka_unit_test(test_a_length_that_would_overflow_is_too_big),
        cmocka_unit_test(test_the_first_error_sticks),
        cmocka_unit_test(test_reserved_room_may_be_written),
        cmocka_unit_test(test_the_capacity_may_be_filled),
        cmocka_unit_test(test_taken_bytes_belong_to_the_caller),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
