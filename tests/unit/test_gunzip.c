/* Unit tests of src/server/gunzip: what one member holds comes out; everything else is left to
 * zlib, and nothing is written past what was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pprof/compress.h"
#include "server/gunzip.h"

enum { MAX = 1 << 20, BYTES = 70000 };

static void compress(pyr_buffer *out, const uint8_t *bytes, size_t length)
{
    pyr_compressor *compressor = pyr_compressor_new(out, PYR_PPROF_GZIP);
    assert_non_null(compressor);
    assert_int_equal(pyr_compressor_write(compressor, bytes, length), PYR_OK);
    assert_int_equal(pyr_compressor_finish(compressor), PYR_OK);
    pyr_compressor_free(compressor);
}

static const uint8_t *some_bytes(void)
{
    static uint8_t bytes[BYTES];
    for (uint32_t at = 0; at < BYTES; at++) {
        bytes[at] = (uint8_t)(at * at >> 7);
    }
    return bytes;
}

/* From an allocation of exactly that size, so that a sanitizer sees a byte too far. */
static bool gunzip(const uint8_t *bytes, size_t length, size_t maximum, pyr_buffer *out)
{
    uint8_t *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy + 1, bytes, length);
    pyr_buffer_fini(out);
    pyr_buffer_init(out, maximum);
    bool good = pyr_gunzip(copy + 1, length, out);
    free(copy);
    return good;
}

static void one_member_comes_out(void **state)
{
    (void)state;
    const uint8_t *bytes = some_bytes();
    pyr_buffer packed;
    pyr_buffer plain = {0};
    pyr_buffer_init(&packed, MAX);
    compress(&packed, bytes, BYTES);
    assert_true(gunzip(packed.data, packed.length, BYTES, &plain));
    assert_int_equal(plain.length, BYTES);
    assert_memory_equal(plain.data, bytes, BYTES);
    assert_false(gunzip(packed.data, packed.length, BYTES - 1, &plain));
    assert_int_equal(plain.length, 0);
    pyr_buffer_fini(&plain);
    pyr_buffer_fini(&packed);
}

static void all_else_is_left_to_zlib(void **state)
{
    (void)state;
    const uint8_t *bytes = some_bytes();
    pyr_buffer packed;
    pyr_buffer plain = {0};
    pyr_buffer_init(&packed, MAX);
    compress(&packed, bytes, BYTES);
    size_t one = packed.length;
    for (size_t length = 0; length < one; length += 1 + length / 60) {
        assert_false(gunzip(packed.data, length, MAX, &plain));
    }
    for (size_t at = 10; at < one;
         at += 1 + at / 60) { /* behind the header, which is not checked */
        packed.data[at] ^= 0x10;
        assert_false(gunzip(packed.data, one, MAX, &plain));
        assert_int_equal(plain.length, 0);
        packed.data[at] ^= 0x10;
    }
    compress(&packed, bytes, BYTES);
    assert_false(gunzip(packed.data, packed.length, MAX, &plain));
    assert_int_equal(pyr_decompress(packed.data, packed.length, &plain), PYR_OK);
    assert_int_equal(plain.length, 2 * BYTES);
    assert_false(gunzip(bytes, BYTES, MAX, &plain));
    pyr_buffer_fini(&plain);
    pyr_buffer_fini(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_member_comes_out),
        cmocka_unit_test(all_else_is_left_to_zlib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
