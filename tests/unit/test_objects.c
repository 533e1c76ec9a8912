/* Unit tests of cpython/objects, dict and thread_names: pure decoders, objects made by hand at the
 * edge of unreadable memory, hostile ones, and the thread names of recorded interpreters. That they
 * agree with real interpreters is shown by tests/support/check_objects.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "base/memory.h"
#include "cpython/dict.h"
#include "cpython/layout_tables.h"
#include "cpython/objects.h"
#include "cpython/thread_names.h"
#include "reader/image.h"
#include "support/image_stacks.h"

enum { PAGE = 4096, WORD = 8 };

static const pyr_layout *const layout_311 = &pyr_layout_tables[0];
static const pyr_layout *const layout_315 = &pyr_layout_tables[4];

static uint8_t *guard; /* first byte that cannot be read */
static pyr_reader *reader;
static pyr_batch *batch;

static int set_up(void **state)
{
    (void)state;
    uint8_t *pages =
        mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + 4 * PAGE, PAGE, PROT_NONE) != 0) {
        return -1;
    }
    guard = pages + 4 * PAGE;
    batch = pyr_batch_new(1 << 16);
    return batch ? (int)pyr_reader_open_self(&reader) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_reader_close(reader);
    pyr_batch_free(batch);
    return 0;
}

static pyr_addr addr(const void *pointer)
{
    return (pyr_addr)(uintptr_t)pointer;
}

static void put(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

/* A compact str that ends where memory ends. */
static uint8_t *make_text(const pyr_layout *layout, const void *characters, size_t count,
                          uint8_t kind, bool is_ascii)
{
    size_t head = is_ascii ? layout->unicode_ascii : layout->unicode_compact;
    uint8_t *text = guard - (head + count * kind);
    memset(text, 0, head);
    put(text + layout->unicode_length, count);
    uint32_t bits = (uint32_t)kind << 2 | 1 << 5 | (is_ascii ? 1 << 6 : 0);
    memcpy(text + layout->unicode_state, &bits, sizeof bits);
    memcpy(text + head, characters, count * kind);
    return text;
}

static void test_decode(void **state)
{
    (void)state;
    static const struct {
        const char *characters;
        size_t count;
        uint8_t kind;
        size_t size;
        const char *expected;
    } cases[] = {
        {"abc", 3, 1, 9, "abc"},
        {"abc", 3, 1, 4, "abc"},
        {"abc", 3, 1, 3, "ab"},
        {"abc", 3, 1, 1, ""},
        {"", 0, 1, 1, ""},
        {"\xe9\xff", 2, 1, 9, "é\u00ff"},
        {"\xe9\xff", 2, 1, 4, "é"}, /* no half characters */
        {"a\0b", 3, 1, 9, "a\uFFFDb"},
        {"\x16\x4e\x4c\x75", 2, 2, 9, "世界"},
        {"\x16\x4e\x4c\x75", 2, 2, 6, "世"},
        {"\x00\xd8\x41\x00", 2, 2, 9,
         "\uFFFD"
         "A"}, /* surrogate */
        {"\xff\xdf\xff\xff", 2, 2, 9, "\uFFFD\uFFFF"},
        {"\x00\xf6\x01\x00\x41\x00\x00\x00", 2, 4, 9, "\U0001f600A"},
        {"\x00\xf6\x01\x00\x41\x00\x00\x00", 2, 4, 4, ""},
        {"\x00\x00\x11\x00\xff\xff\xff\xff", 2, 4, 9, "\uFFFD\uFFFD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[10];
        size_t length = pyr_text_decode((const uint8_t *)cases[i].characters, cases[i].count,
                                        cases[i].kind, out, cases[i].size);
        assert_string_equal(out, cases[i].expected);
        assert_int_equal(length, strlen(cases[i].expected));
    }
}

static void test_text(void **state)
{
    (void)state;
    for (int minor = 0; minor < PYR_LAYOUT_TABLES; minor++) {
        const pyr_layout *layout = &pyr_layout_tables[minor];
        char out[2048], small[4];
        size_t length;
        static const uint16_t wide[300] = {0x4e16, 0x754c, 0xe9};
        uint8_t *text = make_text(layout, "at the edge", 11, 1, true);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, &length),
                         PYR_OK);
        assert_string_equal(out, "at the edge");
        assert_int_equal(length, 11);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), small, sizeof small, &length),
                         PYR_OK);
        assert_string_equal(small, "at ");
        /* Longer than it is: the characters are not there. */
        put(text + layout->unicode_length, 12);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, NULL),
                         PYR_EFAULT);
        assert_string_equal(out, "");
        put(text + layout->unicode_length, UINT64_C(1) << 31);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, NULL),
                         PYR_EBAD);
        text = make_text(layout, wide, 300, 2, false);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, &length),
                         PYR_OK);
        assert_memory_equal(out, "世界é\uFFFD", 11);
        assert_int_equal(length, 3 + 3 + 2 + 297 * 3);
        uint32_t bits = 3 << 2; /* a kind that does not exist */
        memcpy(text + layout->unicode_state, &bits, sizeof bits);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, NULL),
                         PYR_EBAD);
        bits = 2 << 2 | 1 << 6; /* ASCII of two bytes */
        memcpy(text + layout->unicode_state, &bits, sizeof bits);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, NULL),
                         PYR_EBAD);
        bits = 1 << 2; /* not compact: characters elsewhere, at NULL */
        memcpy(text + layout->unicode_state, &bits, sizeof bits);
        put(text + layout->unicode_compact, 0);
        assert_int_equal(pyr_object_text(reader, layout, addr(text), out, sizeof out, NULL),
                         PYR_EFAULT);
        assert_int_equal(pyr_object_text(reader, layout, 0, out, sizeof out, NULL), PYR_EFAULT);
        assert_int_equal(pyr_object_text(reader, layout, addr(guard - 8), out, sizeof out, NULL),
                         PYR_EFAULT);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    uint8_t out[16];
    size_t length;
    uint8_t *bytes = guard - layout_315->bytes_data - 4;
    put(bytes + layout_315->var_size, 4);
    memcpy(bytes + layout_315->bytes_data, "\1\2\3\4", 4);
    assert_int_equal(pyr_object_bytes(reader, layout_315, addr(bytes), out, 4, &length), PYR_OK);
    assert_memory_equal(out, "\1\2\3\4", 4);
    assert_int_equal(pyr_object_bytes(reader, layout_315, addr(bytes), out, 3, &length),
                     PYR_ETOOBIG);
    assert_int_equal(length, 4);
    put(bytes + layout_315->var_size, 5);
    assert_int_equal(pyr_object_bytes(reader, layout_315, addr(bytes), out, 16, &length),
                     PYR_EFAULT);
    put(bytes + layout_315->var_size, UINT64_MAX);
    assert_int_equal(pyr_object_bytes(reader, layout_315, addr(bytes), out, 16, &length), PYR_EBAD);
}

static void test_int(void **state)
{
    (void)state;
    static const struct {
        uint64_t tag_311, tag_312;
        uint32_t digits[3];
        pyr_status status;
        uint64_t magnitude;
        bool is_negative;
    } cases[] = {
        {0, 1, {9, 9, 9}, PYR_OK, 0, false},
        {1, 1 << 3, {5, 9, 9}, PYR_OK, 5, false},
        {(uint64_t)-1, 1 << 3 | 2, {5, 9, 9}, PYR_OK, 5, true},
        {2, 2 << 3, {1, 2, 9}, PYR_OK, (UINT64_C(2) << 30) + 1, false},
        {3, 3 << 3, {1, 2, 15}, PYR_OK, (UINT64_C(15) << 60) + (UINT64_C(2) << 30) + 1, false},
        {3, 3 << 3, {1, 2, 16}, PYR_ETOOBIG, 0, false},
        {4, 4 << 3, {1, 2, 3}, PYR_ETOOBIG, 0, false},
        {UINT64_C(1) << 63, UINT64_MAX - 3, {1, 2, 3}, PYR_ETOOBIG, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int round = 0; round < 2; round++) {
            const pyr_layout *layout = round ? layout_315 : layout_311;
            uint8_t object[36] = {0};
            uint64_t magnitude;
            bool is_negative;
            put(object + layout->long_tag, round ? cases[i].tag_312 : cases[i].tag_311);
            memcpy(object + layout->long_digits, cases[i].digits, 12);
            assert_int_equal(pyr_int_decode(layout, object, &magnitude, &is_negative),
                             cases[i].status);
            if (cases[i].status == PYR_OK) {
                assert_true(magnitude == cases[i].magnitude);
                assert_int_equal(is_negative, cases[i].is_negative);
            }
        }
    }
}

/* A key table of `kind` with these entries, at the start of the pages; keys are strings or 0. */
static uint8_t *make_keys(const pyr_layout *layout, uint8_t kind, const pyr_dict_entry *entries,
                          size_t count)
{
    uint8_t *keys = guard - 4 * PAGE;
    size_t entry = kind == 0 ? 24 : 16;
    memset(keys, 0, PAGE);
    keys[layout->keys_log2_size] = 5;
    keys[layout->keys_log2_index_bytes] = 5;
    keys[layout->keys_kind] = kind;
    put(keys + layout->keys_nentries, count);
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = keys + layout->keys_indices + 32 + (i + 1) * entry;
        put(at - 16, entries[i].key);
        put(at - 8, entries[i].value);
    }
    return keys;
}

static void test_dict(void **state)
{
    (void)state;
    static uint8_t dict_object[64];
    static uint64_t values[6] = {0, 0, 31, 32, 33, 34};
    for (int round = 0; round < 2; round++) {
        const pyr_layout *layout = round ? layout_315 : layout_311;
        pyr_dict_entry read[4];
        pyr_dict dict;
        pyr_addr value;
        uint32_t index;
        uint8_t *name = make_text(layout, "_name", 5, 1, true);
        pyr_dict_entry entries[4] = {{0, 11}, {8, 12}, {addr(name), 13}, {addr(name) - 9, 14}};
        for (uint8_t kind = 0; kind < 3; kind++) {
            uint8_t *keys = make_keys(layout, kind, entries, 4);
            memset(dict_object, 0, sizeof dict_object);
            put(dict_object + layout->dict_keys, addr(keys));
            pyr_addr in_values = addr(values + 2) - layout->values_items;
            put(dict_object + layout->dict_values, kind == 2 ? in_values : 0);
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_OK);
            assert_int_equal(dict.count, 4);
            assert_int_equal(pyr_dict_read(reader, &dict, 1, 3, read), PYR_OK);
            assert_int_equal(read[0].key, 8);
            assert_int_equal(read[2].value, kind == 2 ? 34 : 14);
            assert_int_equal(pyr_dict_find(reader, batch, layout, &dict, "_name", &value, &index),
                             PYR_OK);
            assert_int_equal(value, kind == 2 ? 33 : 13);
            assert_int_equal(index, 2);
            assert_int_equal(pyr_dict_find(reader, batch, layout, &dict, "_nam", &value, NULL),
                             PYR_ENOENT);
            assert_int_equal(pyr_dict_find(reader, batch, layout, &dict, "_name2", &value, NULL),
                             PYR_ENOENT);
            /* Hostile headers. */
            keys[layout->keys_kind] = 3;
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_EBAD);
            keys[layout->keys_kind] = kind;
            put(keys + layout->keys_nentries, UINT64_MAX);
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_EBAD);
            put(keys + layout->keys_nentries, 33); /* more than the index has places */
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_EBAD);
            put(keys + layout->keys_nentries, 4);
            keys[layout->keys_log2_index_bytes] = 63;
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_EBAD);
            keys[layout->keys_log2_index_bytes] = 20; /* plausible, but the entries are not there */
            put(keys + layout->keys_nentries, 1 << 20);
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_OK);
            dict.entries = addr(guard);
            assert_int_equal(pyr_dict_find(reader, batch, layout, &dict, "_name", &value, NULL),
                             PYR_EFAULT);
            put(dict_object + layout->dict_keys, 0);
            assert_int_equal(pyr_dict_open(reader, layout, addr(dict_object), &dict), PYR_EFAULT);
        }
        assert_int_equal(pyr_dict_open(reader, layout, addr(guard), &dict), PYR_EFAULT);
    }
}

static void test_type_name(void **state)
{
    (void)state;
    static uint8_t type[1024];
    char out[64];
    size_t length;
    const pyr_layout *layout = layout_315;
    memset(type, 0, sizeof type);
    static const struct {
        const char *name;
        size_t size;
        const char *expected;
    } cases[] = {
        {"ValueError", sizeof out, "ValueError"},
        {"json.Error", sizeof out, "json.Error"},
        {"bad\xff\xfe", sizeof out, "bad\uFFFD\uFFFD"},
        {"longer than room", 8, "longer "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = strlen(cases[i].name) + 1;
        memcpy(guard - bytes, cases[i].name, bytes); /* the NUL is the last byte there is */
        put(type + layout->type_name, addr(guard - bytes));
        /* Heap types whose dict and qualified name lead nowhere keep the bare name. */
        for (uint64_t flags = 0; flags <= 1 << 9; flags += 1 << 9) {
            put(type + layout->type_flags, flags);
            assert_int_equal(pyr_object_type_name(reader, batch, layout, addr(type), out,
                                                  cases[i].size, &length),
                             PYR_OK);
            assert_string_equal(out, cases[i].expected);
            assert_int_equal(length, strlen(cases[i].expected));
        }
    }
    put(type + layout->type_flags, 0);
    memset(guard - 100, 'x', 100); /* no NUL before the end of memory */
    put(type + layout->type_name, addr(guard - 100));
    assert_int_equal(
        pyr_object_type_name(reader, batch, layout, addr(type), out, sizeof out, &length),
        PYR_EFAULT);
    memset(guard - 2 * PAGE, 'x', 2 * PAGE); /* none at all: cut */
    put(type + layout->type_name, addr(guard - 2 * PAGE));
    assert_int_equal(
        pyr_object_type_name(reader, batch, layout, addr(type), out, sizeof out, &length), PYR_OK);
    assert_int_equal(length, sizeof out - 1);
    memset(guard - 8, 0, 8);
    put(type + layout->type_name, addr(guard - 8)); /* empty */
    assert_int_equal(
        pyr_object_type_name(reader, batch, layout, addr(type), out, sizeof out, &length),
        PYR_EBAD);
    assert_int_equal(pyr_object_type_name(reader, batch, layout, 8, out, sizeof out, &length),
                     PYR_EFAULT);
}

static void test_exception(void **state)
{
    (void)state;
    static uint8_t type[1024], none_type[1024], none[16], value[16], items[3][16];
    const pyr_layout *layout = layout_315;
    char out[64];
    size_t length;
    put(type + layout->type_name, addr("KeyError"));
    put(none_type + layout->type_name, addr("NoneType"));
    put(none + layout->object_type, addr(none_type));
    put(value + layout->object_type, addr(type));
    /* nothing -> None -> KeyError */
    put(items[0] + layout->err_previous, addr(items[1]));
    put(items[1] + layout->err_value, addr(none));
    put(items[1] + layout->err_previous, addr(items[2]));
    put(items[2] + layout->err_value, addr(value));
    assert_int_equal(
        pyr_object_exception_type(reader, batch, layout, addr(items[0]), out, sizeof out, &length),
        PYR_OK);
    assert_string_equal(out, "KeyError");
    put(items[2] + layout->err_value, 0);
    assert_int_equal(
        pyr_object_exception_type(reader, batch, layout, addr(items[0]), out, sizeof out, &length),
        PYR_ENOENT);
    assert_string_equal(out, "");
    put(items[2] + layout->err_previous, addr(items[0])); /* a circle */
    assert_int_equal(
        pyr_object_exception_type(reader, batch, layout, addr(items[0]), out, sizeof out, &length),
        PYR_ENOENT);
    put(items[2] + layout->err_value, 4096); /* no object */
    assert_int_equal(
        pyr_object_exception_type(reader, batch, layout, addr(items[0]), out, sizeof out, &length),
        PYR_EFAULT);
    assert_int_equal(
        pyr_object_exception_type(reader, batch, layout, 4096, out, sizeof out, &length),
        PYR_EFAULT);
}

/* Recorded interpreters: names of all threads, and what happens when the registry is gone. */
static void test_thread_names(void **state)
{
    (void)state;
    static const char *const versions[] = {"3.11.2", "3.12.1", "3.13.0", "3.14.8", "3.15.0"};
    size_t before = pyr_memory_in_use();
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char path[512], why[200];
        size_t size, length;
        (void)snprintf(path, sizeof path, PYR_TESTS_FOLDER "/images/%s.img", versions[i]);
        uint8_t *bytes = image_file_read(path, &size);
        assert_non_null(bytes);
        pyr_image_facts facts;
        pyr_reader *image;
        const pyr_layout *layout;
        assert_int_equal(pyr_image_read_facts(bytes, size, &facts), PYR_OK);
        assert_int_equal(pyr_reader_open_image(bytes, size, &image), PYR_OK);
        assert_int_equal(
            pyr_layout_discover(image, facts.runtime, facts.version, &layout, why, sizeof why),
            PYR_OK);
        pyr_addr interp = 0, main_interp = 0, thread;
        assert_int_equal(
            pyr_reader_read_addr(image, facts.runtime + layout->runtime_interpreters_head, &interp),
            PYR_OK);
        pyr_addr sub_interp = interp; /* the newest is the first */
        while (interp != 0) {
            main_interp = interp;
            assert_int_equal(pyr_reader_read_addr(image, interp + layout->interp_next, &interp),
                             PYR_OK);
        }
        pyr_thread_names *names = pyr_thread_names_new(image, layout);
        assert_null(pyr_thread_names_get(names, 1, &length));
        for (int again = 0; again < 2; again++) {
            assert_int_equal(pyr_thread_names_refresh(names, main_interp), PYR_OK);
            assert_int_equal(pyr_thread_names_count(names), 16);
        }
        assert_int_equal(
            pyr_reader_read_addr(image, main_interp + layout->interp_threads_head, &thread),
            PYR_OK);
        unsigned named = 0, accented = 0;
        while (thread != 0) {
            pyr_addr ident;
            assert_int_equal(pyr_reader_read_addr(image, thread + layout->thread_ident, &ident),
                             PYR_OK);
            const char *name = pyr_thread_names_get(names, ident, &length);
            assert_non_null(name);
            assert_int_equal(strlen(name), length);
            accented += strcmp(name, "ñandú") == 0;
            named++;
            assert_int_equal(pyr_reader_read_addr(image, thread + layout->thread_next, &thread),
                             PYR_OK);
        }
        assert_int_equal(named, 16);
        assert_int_equal(accented, 1);
        /* No interpreter: the names stay, the failure is counted. */
        assert_true(pyr_thread_names_refresh(names, 4096) == PYR_EFAULT);
        assert_int_equal(pyr_thread_names_count(names), 16);
        assert_int_equal(pyr_thread_names_failures(names), 1);
        /* The other interpreter's modules were not recorded, or hold no threading. */
        assert_true(pyr_thread_names_refresh(names, sub_interp) != PYR_OK);
        assert_int_equal(pyr_thread_names_refresh(names, main_interp), PYR_OK);
        assert_int_equal(pyr_thread_names_count(names), 16);
        /* Out of memory at any point: the old names stay. */
        for (size_t nth = 1;; nth++) {
            pyr_memory_fail_at(nth);
            pyr_status status = pyr_thread_names_refresh(names, main_interp);
            if (!pyr_memory_has_failed()) {
                assert_int_equal(status, PYR_OK);
                break;
            }
            assert_int_equal(status, PYR_ENOMEM);
            assert_int_equal(pyr_thread_names_count(names), 16);
        }
        pyr_memory_fail_at(0);
        pyr_thread_names_free(names);
        for (size_t nth = 1;; nth++) {
            pyr_memory_fail_at(nth);
            names = pyr_thread_names_new(image, layout);
            if (names) {
                break;
            }
        }
        pyr_memory_fail_at(0);
        pyr_thread_names_free(names);
        pyr_thread_names_free(NULL);
        pyr_layout_free(layout);
        pyr_reader_close(image);
        pyr_memory_free(bytes);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_int),
        cmocka_unit_test(test_dict),      cmocka_unit_test(test_type_name),
        cmocka_unit_test(test_exception), cmocka_unit_test(test_thread_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
