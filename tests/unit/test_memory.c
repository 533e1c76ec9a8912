/* The core's heap: zeroing, overflow, the byte count from many threads, planned failures. */
#include "base/memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_new_memory_is_zero_and_counted(void **state)
{
    (void)state;
    const size_t before = pyr_memory_in_use();
    unsigned char *block = pyr_memory_new(100, 10);
    assert_non_null(block);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(block[i], 0);
    }
    assert_true(pyr_memory_in_use() >= before + 1000);
    assert_true(pyr_memory_in_use() < before + 2000);
    pyr_memory_free(block);
    assert_int_equal(pyr_memory_in_use(), before);
}

static void test_nothing_asked_for_is_a_block_too(void **state)
{
    (void)state;
    const size_t before = pyr_memory_in_use();
    void *none = pyr_memory_new(0, 8);
    assert_non_null(none);
    void *resized = pyr_memory_resize(none, 0, 0);
    assert_non_null(resized);
    pyr_memory_free(resized);
    pyr_memory_free(NULL);
    assert_int_equal(pyr_memory_in_use(), before);
}

static void test_overflow_is_out_of_memory(void **state)
{
    (void)state;
    const size_t before = pyr_memory_in_use();
    /* Volatile, or the compiler sees the overflow and warns about what is meant here. */
    volatile size_t half = SIZE_MAX / 2 + 1;
    assert_null(pyr_memory_new(half, 2));
    unsigned char *block = pyr_memory_new(1, 8);
    assert_non_null(block);
    block[7] = 42;
    assert_null(pyr_memory_resize(block, half, 2));
    assert_int_equal(block[7], 42);
    pyr_memory_free(block);
    assert_int_equal(pyr_memory_in_use(), before);
}

static void test_resize_keeps_bytes_and_count(void **state)
{
    (void)state;
    const size_t before = pyr_memory_in_use();
    char *block = pyr_memory_resize(NULL, 8, 1);
    assert_non_null(block);
    memcpy(block, "profile", 8);
    char *larger = pyr_memory_resize(block, 1 << 20, 1);
    assert_non_null(larger);
    assert_string_equal(larger, "profile");
    assert_true(pyr_memory_in_use() >= before + (1 << 20));
    char *smaller = pyr_memory_resize(larger, 8, 1);
    assert_non_null(smaller);
    assert_string_equal(smaller, "profile");
    assert_true(pyr_memory_in_use() < before + (1 << 20));
    pyr_memory_free(smaller);
    assert_int_equal(pyr_memory_in_use(), before);
}

static void test_a_planned_failure_happens_once(void **state)
{
    (void)state;
    pyr_memory_fail_at(2);
    void *first = pyr_memory_new(1, 1);
    assert_non_null(first);
    assert_false(pyr_memory_has_failed());
    assert_null(pyr_memory_resize(first, 2, 1));
    assert_true(pyr_memory_has_failed());
    void *third = pyr_memory_new(1, 1);
    assert_non_null(third);
    pyr_memory_free(first);
    pyr_memory_free(third);

    pyr_memory_fail_at(1);
    pyr_memory_fail_at(0);
    void *undisturbed = pyr_memory_new(1, 1);
    assert_non_null(undisturbed);
    assert_false(pyr_memory_has_failed());
    pyr_memory_free(undisturbed);
}

static void *allocate_and_free(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < 2000; i++) {
        void *block = pyr_memory_new(1, 1 + i % 500);
        if (!block) {
            return "out of memory";
        }
        pyr_memory_free(block);
    }
    return NULL;
}

static void test_the_count_is_exact_with_threads(void **state)
{
    (void)state;
    const size_t before = pyr_memory_in_use();
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *problem = NULL;
        assert_int_equal(pthread_join(threads[i], &problem), 0);
        assert_null(problem);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_memory_is_zero_and_counted),
        cmocka_unit_test(test_nothing_asked_for_is_a_block_too),
        cmocka_unit_test(test_overflow_is_out_of_memory),
        cmocka_unit_test(test_resize_keeps_bytes_and_count),
        cmocka_unit_test(test_a_planned_failure_happens_once),
        cmocka_unit_test(test_the_count_is_exact_with_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
