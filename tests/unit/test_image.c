/* Unit tests of reader/image and reader/recording: what is recorded is read back byte for byte, and
 * no broken image is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <zstd.h>

#include "base/memory.h"
#include "reader/image.h"

enum { PAGE = 4096 };

static pyr_addr addr(const void *pointer)
{
    return (pyr_addr)(uintptr_t)pointer;
}

static void put(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

/* An image around `payload`; its length. */
static size_t build(uint8_t *out, size_t room, uint32_t regions, const uint8_t *payload,
                    size_t length)
{
    memcpy(out, "PYRIMAGE", 8);
    put(out + 8, 1, 4);
    put(out + 12, 0x030d00f0, 4);
    put(out + 16, 0x1000, 8);
    put(out + 24, regions, 4);
    put(out + 28, 0, 4);
    put(out + 32, length, 8);
    return PYR_IMAGE_HEADER_BYTES + ZSTD_compress(out + PYR_IMAGE_HEADER_BYTES,
                                                  room - PYR_IMAGE_HEADER_BYTES, payload, length,
                                                  1);
}

static pyr_status open_built(uint32_t regions, const uint8_t *payload, size_t length)
{
    static uint8_t image[1 << 16];
    pyr_reader *reader = NULL;
    size_t size = build(image, sizeof image, regions, payload, length);
    pyr_status status = pyr_reader_open_image(image, size, &reader);
    pyr_reader_close(reader);
    return status;
}

static void test_round_trip(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    uint8_t *pages =
        mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 6 * PAGE; i++) {
        pages[i] = (uint8_t)(i ^ (i >> 7));
    }
    assert_int_equal(mprotect(pages + 2 * PAGE, PAGE, PROT_NONE), 0);

    pyr_reader *self, *recording, *image;
    assert_int_equal(pyr_reader_open_self(&self), PYR_OK);
    assert_int_equal(pyr_reader_open_recording(self, &recording), PYR_OK);
    pyr_batch *batch = pyr_batch_new(1 << 16);
    int high = pyr_batch_add(batch, addr(pages + 4 * PAGE + 5), PAGE);
    int low = pyr_batch_add(batch, addr(pages + 100), PAGE);
    int gone = pyr_batch_add(batch, addr(pages + 2 * PAGE - 8), 16);
    int null = pyr_batch_add(batch, 0, 8);
    for (int round = 0; round < 2; round++) {
        pyr_reader_read_batch(round ? image : recording, batch);
        assert_memory_equal(pyr_batch_get(batch, high), pages + 4 * PAGE + 5, PAGE);
        assert_memory_equal(pyr_batch_get(batch, low), pages + 100, PAGE);
        assert_null(pyr_batch_get(batch, gone));
        assert_int_equal(batch->spans[gone].done, 8);
        assert_null(pyr_batch_get(batch, null));
        uint8_t byte;
        pyr_status status =
            pyr_reader_read(round ? image : recording, addr(pages + 3 * PAGE), &byte, 1);
        if (round == 0) {
            assert_int_equal(status, PYR_OK); /* recorded now, so the image has it */
            pyr_buffer out;
            pyr_buffer_init(&out, 1 << 20);
            assert_int_equal(pyr_recording_save(self, 1, 2, &out), PYR_EINVAL);
            assert_int_equal(pyr_recording_save(recording, 0x030c01f0, 0x1234560, &out), PYR_OK);
            pyr_image_facts facts;
            assert_int_equal(pyr_image_read_facts(out.data, out.length, &facts), PYR_OK);
            assert_int_equal(facts.version, 0x030c01f0);
            assert_int_equal(facts.runtime, 0x1234560);
            assert_int_equal(facts.region_count, 2); /* pages 0-1 and 3-5 */
            assert_int_equal(pyr_reader_open_image(out.data, out.length, &image), PYR_OK);
            /* Every cut-off image is refused. */
            pyr_reader *none = NULL;
            for (size_t length = 0; length < out.length; length++) {
                uint8_t *cut = pyr_memory_new(length, 1); /* exact, so that ASan sees an overrun */
                memcpy(cut, out.data, length);
                assert_int_equal(pyr_reader_open_image(cut, length, &none), PYR_EBAD);
                pyr_memory_free(cut);
            }
            pyr_buffer_fini(&out);
            assert_string_equal(pyr_reader_method(recording), "recording");
        } else {
            assert_int_equal(status, PYR_OK);
            assert_int_equal(byte, pages[3 * PAGE]);
            assert_string_equal(pyr_reader_method(image), "image");
        }
    }
    pyr_batch_free(batch);
    pyr_reader_close(image);
    pyr_reader_close(recording);
    pyr_reader_close(self);
    munmap(pages, 6 * PAGE);
    assert_int_equal(pyr_memory_in_use(), before);
}

static void test_broken_headers(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        size_t size;
    } damage[] = {
        {0, 'Q', 1},         /* magic */
        {8, 2, 4},           /* format */
        {24, 2, 4},          /* more regions than the table has */
        {24, UINT32_MAX, 4}, /* ... than are allowed */
        {28, 1, 4},          /* reserved */
        {32, 23, 8},         /* payload shorter than it is */
        {32, 25, 8},         /* longer */
        {32, 0, 8},          /* shorter than the table */
        {32, UINT64_MAX, 8}, /* absurd */
        {32, PYR_IMAGE_LIMIT_BYTES + 1, 8},
        {PYR_IMAGE_HEADER_BYTES, 0, 4}, /* no zstd frame */
    };
    uint8_t payload[24], image[256];
    put(payload, 0x10000, 8);
    put(payload + 8, 8, 8);
    put(payload + 16, 42, 8);
    pyr_reader *reader;
    size_t length = build(image, sizeof image, 1, payload, sizeof payload);
    assert_int_equal(pyr_reader_open_image(image, length, &reader), PYR_OK);
    uint64_t word;
    assert_int_equal(pyr_reader_read(reader, 0x10000, &word, 8), PYR_OK);
    assert_int_equal(word, 42);
    assert_int_equal(pyr_reader_read(reader, 0xffff, &word, 8), PYR_EFAULT);
    assert_int_equal(pyr_reader_read(reader, 0x10001, &word, 8), PYR_EFAULT);
    pyr_reader_close(reader);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        uint8_t broken[256];
        memcpy(broken, image, length);
        put(broken + damage[i].at, damage[i].value, damage[i].size);
        assert_int_equal(pyr_reader_open_image(broken, length, &reader), PYR_EBAD);
    }
    for (size_t nth = 1; nth <= 3; nth++) {
        pyr_memory_fail_at(nth);
        assert_int_equal(pyr_reader_open_image(image, length, &reader), PYR_ENOMEM);
    }
    pyr_memory_fail_at(0);
}

static void test_broken_regions(void **state)
{
    (void)state;
    static const struct {
        uint64_t addr[2], length[2];
        pyr_status expected;
    } cases[] = {
        {{0x1000, 0x2000}, {8, 8}, PYR_OK},
        {{0x1000, 0x1008}, {8, 8}, PYR_OK},
        {{0x1000, 0x1007}, {8, 8}, PYR_EBAD},  /* overlap */
        {{0x2000, 0x1000}, {8, 8}, PYR_EBAD},  /* order */
        {{0x1000, 0x2000}, {0, 16}, PYR_EBAD}, /* empty */
        {{0x1000, 0x2000}, {8, 7}, PYR_EBAD},  /* bytes left over */
        {{0x1000, 0x2000}, {8, 9}, PYR_EBAD},  /* bytes missing */
        {{0x1000, 0x2000}, {UINT64_MAX, 8}, PYR_EBAD},
        {{0x1000, UINT64_MAX - 3}, {8, 8}, PYR_EBAD},    /* wraps round */
        {{0x1000, UINT64_C(1) << 63}, {8, 8}, PYR_EBAD}, /* not user space */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t payload[48] = {0};
        for (size_t region = 0; region < 2; region++) {
            put(payload + 16 * region, cases[i].addr[region], 8);
            put(payload + 16 * region + 8, cases[i].length[region], 8);
        }
        assert_int_equal(open_built(2, payload, sizeof payload), cases[i].expected);
    }
    assert_int_equal(open_built(0, (const uint8_t *)"", 0), PYR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_broken_headers),
        cmocka_unit_test(test_broken_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
