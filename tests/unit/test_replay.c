/* Replays recorded interpreters (tests/images) through the production code: layout, threads,
 * stacks, names, lines, C functions, thread names, exceptions. Each image has its stacks beside it,
 * which were compared with Python's own view when it was recorded (tests/support/record_image.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "reader/image.h"
#include "support/image_stacks.h"

static const char *const versions[] = {"3.11.2", "3.11.7", "3.12.1", "3.13.0", "3.14.8", "3.15.0"};

enum { VERSIONS = sizeof versions / sizeof versions[0] };

static uint8_t *load(const char *version, const char *extension, size_t *length)
{
    char path[512];
    (void)snprintf(path, sizeof path, PYR_TESTS_FOLDER "/images/%s.%s", version, extension);
    uint8_t *bytes = image_file_read(path, length);
    assert_non_null(bytes);
    return bytes;
}

static void test_replay(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    for (size_t i = 0; i < VERSIONS; i++) {
        size_t image_length, golden_length;
        uint8_t *image = load(versions[i], "img", &image_length);
        uint8_t *golden = load(versions[i], "txt", &golden_length);
        pyr_image_facts facts;
        pyr_reader *reader;
        pyr_buffer text;
        pyr_buffer_init(&text, 1 << 20);
        assert_int_equal(pyr_image_read_facts(image, image_length, &facts), PYR_OK);
        assert_int_equal(pyr_reader_open_image(image, image_length, &reader), PYR_OK);
        assert_int_equal(image_stacks_write(reader, facts.runtime, facts.version, &text), PYR_OK);
        assert_int_equal(pyr_buffer_append(&text, "", 1), PYR_OK);
        assert_string_equal((const char *)text.data, (const char *)golden);
        pyr_buffer_fini(&text);
        pyr_reader_close(reader);
        pyr_memory_free(image);
        pyr_memory_free(golden);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

/* The memory of an image under another version's layout must never lead anywhere bad: it is
 * refused, or gives text that is bounded. */
static void test_wrong_version(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0x030b02f0, 0x030c01f0, 0x030d00f0, 0x030e08f0, 0x030f00f0};
    for (size_t i = 0; i < VERSIONS; i++) {
        size_t length;
        uint8_t *image = load(versions[i], "img", &length);
        pyr_image_facts facts;
        pyr_reader *reader;
        assert_int_equal(pyr_image_read_facts(image, length, &facts), PYR_OK);
        assert_int_equal(pyr_reader_open_image(image, length, &reader), PYR_OK);
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            if (wrong[j] >> 16 == facts.version >> 16) {
                continue;
            }
            pyr_buffer text;
            pyr_buffer_init(&text, 1 << 20);
            assert_true(image_stacks_write(reader, facts.runtime, wrong[j], &text) != PYR_OK);
            pyr_buffer_fini(&text);
        }
        pyr_reader_close(reader);
        pyr_memory_free(image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_wrong_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
