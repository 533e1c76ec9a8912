/* Unit tests of base/map: entries, bounds, failures, and the spread of the hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/memory.h"

static void test_empty(void **state)
{
    (void)state;
    pyr_map *map = pyr_map_new(4);
    uint64_t value = 77;
    assert_false(pyr_map_get(map, 0, &value));
    assert_false(pyr_map_get(map, 5, &value));
    assert_int_equal(value, 77);
    assert_int_equal(pyr_map_count(map), 0);
    pyr_map_clear(map);
    pyr_map_free(map);
    pyr_map_free(NULL);
}

static void test_every_key_and_value(void **state)
{
    (void)state;
    static const uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, 0x10000};
    pyr_map *map = pyr_map_new(5);
    uint64_t value;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(pyr_map_put(map, keys[i], i), PYR_OK);
    }
    for (size_t i = 0; i < 5; i++) {
        assert_true(pyr_map_get(map, keys[i], &value));
        assert_int_equal(value, i);
        assert_int_equal(pyr_map_put(map, keys[i], UINT64_MAX), PYR_OK); /* full, but known */
        assert_true(pyr_map_get(map, keys[i], &value));
        assert_true(value == UINT64_MAX);
    }
    assert_int_equal(pyr_map_put(map, 99, 1), PYR_ETOOBIG);
    assert_false(pyr_map_get(map, 99, &value));
    assert_int_equal(pyr_map_count(map), 5);
    pyr_map_clear(map);
    assert_int_equal(pyr_map_count(map), 0);
    for (size_t i = 0; i < 5; i++) {
        assert_false(pyr_map_get(map, keys[i], &value));
    }
    assert_int_equal(pyr_map_put(map, 99, 1), PYR_OK);
    pyr_map_free(map);
}

static void test_zero_respects_the_maximum(void **state)
{
    (void)state;
    pyr_map *map = pyr_map_new(1);
    assert_int_equal(pyr_map_put(map, 7, 1), PYR_OK);
    assert_int_equal(pyr_map_put(map, 0, 1), PYR_ETOOBIG);
    pyr_map_free(map);
}

static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    pyr_map *map = pyr_map_new(COUNT);
    uint64_t value;
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(pyr_map_put(map, i << 20, i + 1), PYR_OK);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(pyr_map_get(map, i << 20, &value));
        assert_int_equal(value, i + 1);
        assert_false(pyr_map_get(map, (i << 20) | 1, &value));
    }
    pyr_map_free(map);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    pyr_memory_fail_at(1);
    assert_null(pyr_map_new(100));
    pyr_map *map = pyr_map_new(100);
    uint64_t value;
    for (uint64_t i = 1; i <= 8; i++) {
        assert_int_equal(pyr_map_put(map, i, i), PYR_OK);
    }
    pyr_memory_fail_at(1);
    assert_int_equal(pyr_map_put(map, 9, 9), PYR_ENOMEM); /* 16 slots, half full */
    pyr_memory_fail_at(0);
    assert_int_equal(pyr_map_count(map), 8);
    for (uint64_t i = 1; i <= 8; i++) {
        assert_true(pyr_map_get(map, i, &value));
        assert_int_equal(value, i);
    }
    assert_int_equal(pyr_map_put(map, 9, 9), PYR_OK);
    pyr_map_free(map);
    assert_int_equal(pyr_memory_in_use(), before);
}

/* Flipping any input bit flips each output bit about half the time. */
static void test_numbers_spread(void **state)
{
    (void)state;
    enum { ROUNDS = 2000 };
    for (unsigned bit = 0; bit < 64; bit++) {
        unsigned flips[64] = {0};
        for (uint64_t i = 0; i < ROUNDS; i++) {
            uint64_t seed = i * UINT64_C(0xD1342543DE82EF95);
            uint64_t difference =
                pyr_hash_u64(i, seed) ^ pyr_hash_u64(i ^ (UINT64_C(1) << bit), seed);
            for (unsigned out = 0; out < 64; out++) {
                flips[out] += (unsigned)(difference >> out) & 1;
            }
        }
        for (unsigned out = 0; out < 64; out++) {
            assert_in_range(flips[out], ROUNDS * 2 / 5, ROUNDS * 3 / 5);
        }
    }
}

static void test_bytes_differ(void **state)
{
    (void)state;
    /* All lengths of a zero block and each single changed byte give different hashes. */
    static uint8_t block[100];
    pyr_map *seen = pyr_map_new(100000);
    uint64_t value;
    for (size_t length = 0; length <= sizeof block; length++) {
        uint64_t hash = pyr_hash_bytes(block, length, 42);
        assert_false(pyr_map_get(seen, hash, &value));
        assert_int_equal(pyr_map_put(seen, hash, 1), PYR_OK);
        assert_true(hash != pyr_hash_bytes(block, length, 43));
        for (size_t at = 0; at < length; at++) {
            block[at] = 1;
            hash = pyr_hash_bytes(block, length, 42);
            block[at] = 0;
            assert_false(pyr_map_get(seen, hash, &value));
            assert_int_equal(pyr_map_put(seen, hash, 1), PYR_OK);
        }
    }
    pyr_map_free(seen);
}

static void test_reserved_room(void **state)
{
    (void)state;
    pyr_map *map = pyr_map_new(100);
    assert_false(pyr_map_has_room(map, 1));
    assert_int_equal(pyr_map_put_reserved(map, 1, 1), PYR_ENOMEM);
    assert_int_equal(pyr_map_put_reserved(map, 0, 1), PYR_OK); /* needs no slot */
    assert_int_equal(pyr_map_reserve(map, 50), PYR_OK);
    assert_true(pyr_map_has_room(map, 50));
    for (uint64_t key = 1; key <= 50; key++) {
        assert_int_equal(pyr_map_put_reserved(map, key, key), PYR_OK);
    }
    assert_int_equal(pyr_map_reserve(map, SIZE_MAX), PYR_OK); /* up to the maximum */
    assert_false(pyr_map_has_room(map, 50));
    assert_true(pyr_map_has_room(map, 49));
    for (uint64_t key = 51; key < 100; key++) {
        assert_int_equal(pyr_map_put_reserved(map, key, key), PYR_OK);
    }
    assert_int_equal(pyr_map_put_reserved(map, 100, 1), PYR_ETOOBIG);
    assert_int_equal(pyr_map_count(map), 100);
    pyr_map_free(map);
}

static void test_bytes_are_stable(void **state)
{
    (void)state;
    /* Unaligned input gives the same hash. */
    uint8_t shifted[64];
    for (size_t offset = 0; offset < 9; offset++) {
        memcpy(shifted + offset, "the quick brown fox jumps over", 30);
        assert_true(pyr_hash_bytes(shifted + offset, 30, 1) ==
                    pyr_hash_bytes("the quick brown fox jumps over", 30, 1));
    }
    assert_true(pyr_hash_seed() != pyr_hash_seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_every_key_and_value),
        cmocka_unit_test(test_zero_respects_the_maximum),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_numbers_spread),
        cmocka_unit_test(test_bytes_differ),
        cmocka_unit_test(test_reserved_room),
        cmocka_unit_test(test_bytes_are_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
