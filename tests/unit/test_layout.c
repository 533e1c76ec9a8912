/* Unit tests of cpython/layout: versions that are refused, published tables good and bad, and a
 * layout that leads nowhere. The published tables are built here from the generated layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cpython/layout.h"
#include "cpython/layout_published.h"
#include "cpython/layout_tables.h"

enum { TABLE_BYTES = PYR_PUBLISHED_BYTES, WHY = 200 };

static const uint32_t versions[] = {0x030d00f0, 0x030e08f0, 0x030f00f0};

static uint64_t word_at(const uint8_t *table, size_t index)
{
    uint64_t word;
    memcpy(&word, table + 8 * index, 8);
    return word;
}

static void set_word(uint8_t *table, size_t index, uint64_t word)
{
    memcpy(table + 8 * index, &word, 8);
}

/* Fills a table such that every word is what the generated layout says: marks each word with its
 * own number first, sees by pyr_published_read where it went, and replaces it. */
static size_t make_table(uint8_t table[TABLE_BYTES], uint32_t version)
{
    unsigned minor = version >> 16 & 0xff;
    const pyr_layout *own = &pyr_layout_tables[minor - PYR_LAYOUT_FIRST_MINOR];
    const struct {
        pyr_published_word name;
        uint32_t value;
    } known[] = {
        {W_RUNTIME_SIZE, 600000},
        {W_RUNTIME_FINALIZING, own->runtime_finalizing},
        {W_RUNTIME_INTERPRETERS, own->runtime_interpreters_head},
        {W_INTERP_SIZE, 226240},
        {W_INTERP_ID, own->interp_id},
        {W_INTERP_NEXT, own->interp_next},
        {W_INTERP_THREADS, own->interp_threads_head},
        {W_INTERP_GC, own->interp_gc_collecting - 200},
        {W_GC_COLLECTING, 200},
        {W_INTERP_MODULES, own->interp_modules},
        {W_INTERP_CEVAL_GIL, own->interp_ceval_gil},
        {W_INTERP_GIL, 9000},
        {W_GIL_LOCKED, 9000 + own->gil_locked},
        {W_GIL_HOLDER, 9000 + own->gil_holder},
        {W_THREAD_SIZE, 888},
        {W_THREAD_NEXT, own->thread_next},
        {W_THREAD_INTERP, own->thread_interp},
        {W_THREAD_FRAME, own->thread_frame},
        {W_THREAD_IDENT, own->thread_ident},
        {W_THREAD_NATIVE_ID, own->thread_native_id},
        {W_THREAD_CHUNK, own->thread_chunk},
        {W_THREAD_STATUS, 32},
        {W_THREAD_GIL_REQUESTED, own->thread_gil_requested},
        {W_FRAME_SIZE, 88},
        {W_FRAME_PREVIOUS, own->frame_previous},
        {W_FRAME_CODE, own->frame_code},
        {W_FRAME_INSTR, own->frame_instr},
        {W_FRAME_LOCALS, own->frame_locals},
        {W_FRAME_OWNER, own->frame_owner},
        {W_FRAME_STACKPOINTER, own->frame_stackpointer},
        {W_ERR_VALUE, own->err_value},
        {W_CODE_SIZE, 216},
        {W_CODE_FILENAME, own->code_filename},
        {W_CODE_NAME, own->code_name},
        {W_CODE_QUALNAME, own->code_qualname},
        {W_CODE_LINETABLE, own->code_linetable},
        {W_CODE_FIRSTLINENO, own->code_firstlineno},
        {W_CODE_ARGCOUNT, own->code_exceptiontable + 12},
        {W_CODE_BYTECODE, own->code_bytecode},
        {W_OBJECT_TYPE, own->object_type},
        {W_TYPE_SIZE, 416},
        {W_TYPE_NAME, own->type_name},
        {W_TYPE_FLAGS, own->type_flags},
        {W_HEAP_TYPE_SIZE, 960},
        {W_HEAP_TYPE_KEYS, own->type_cached_keys},
        {W_TUPLE_SIZE, 32},
        {W_TUPLE_LENGTH, own->var_size},
        {W_DICT_SIZE, 48},
        {W_DICT_KEYS, own->dict_keys},
        {W_DICT_VALUES, own->dict_values},
        {W_LONG_SIZE, 32},
        {W_LONG_TAG, own->long_tag},
        {W_LONG_DIGITS, own->long_digits},
        {W_BYTES_SIZE, 40},
        {W_BYTES_DATA, own->bytes_data},
        {W_UNICODE_SIZE, 64},
        {W_UNICODE_STATE, own->unicode_state},
        {W_UNICODE_LENGTH, own->unicode_length},
        {W_UNICODE_ASCII, own->unicode_ascii},
        {W_GEN_SIZE, 160},
        {W_GEN_FRAME, own->gen_frame},
    };
    size_t length = pyr_published_size(minor);
    uint64_t words[W_COUNT];
    size_t bad;
    memset(table, 0, TABLE_BYTES);
    memcpy(table, "xdebugpy", 8);
    for (size_t i = 1; i < length / 8; i++) {
        set_word(table, i, 1000 + i);
    }
    assert_int_equal(pyr_published_read(table, length, minor, words, &bad), PYR_OK);
    words[W_GIL_LOCKED] += words[W_INTERP_GIL];
    words[W_GIL_HOLDER] += words[W_INTERP_GIL];
    words[W_GC_COLLECTING] -= words[W_INTERP_GC];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (words[known[i].name] != PYR_WORD_ABSENT) {
            assert_in_range(words[known[i].name], 1001, 1000 + length / 8);
            set_word(table, words[known[i].name] - 1000, known[i].value);
        }
    }
    set_word(table, 1, version);
    set_word(table, 2, 0);
    return length;
}

static void test_published(void **state)
{
    (void)state;
    for (size_t v = 0; v < 3; v++) {
        uint8_t table[TABLE_BYTES];
        char why[WHY] = "";
        pyr_layout layout;
        size_t length = make_table(table, versions[v]);
        assert_int_equal(
            pyr_layout_from_bytes(table, length, versions[v], &layout, why, sizeof why), PYR_OK);
        assert_int_equal(pyr_layout_version(&layout), versions[v]);
        /* All offsets come out as the headers have them. */
        const pyr_layout *own = &pyr_layout_tables[layout.minor - PYR_LAYOUT_FIRST_MINOR];
        uint32_t offset, expected;
        const char *name;
        size_t count = 0;
        for (; (name = pyr_layout_field(&layout, count, &offset)); count++) {
            (void)pyr_layout_field(own, count, &expected);
            if (strcmp(name, "gil_size") != 0 && strcmp(name, "thread_size") != 0) {
                assert_int_equal(offset, expected);
            }
        }
        assert_true(count > 80);
        assert_true(layout.thread_size > layout.thread_chunk_top);
        assert_true(layout.gil_size > layout.gil_cond);

        /* What is published wins over the generated table. */
        size_t threads = 0;
        while (word_at(table, threads) != own->interp_threads_head) {
            threads++;
        }
        set_word(table, threads, own->interp_threads_head + 64);
        assert_int_equal(
            pyr_layout_from_bytes(table, length, versions[v], &layout, why, sizeof why), PYR_OK);
        assert_int_equal(layout.interp_threads_head, own->interp_threads_head + 64);
        assert_int_equal(layout.interp_threads_next_id, own->interp_threads_next_id + 64);
    }
}

/* Each word in turn set to something absurd: refused with a sentence, or at least in bounds. */
static void test_damaged_words(void **state)
{
    (void)state;
    static const uint64_t values[] = {
        0x8000, 0, 1, 3, 255, 4096, UINT32_MAX, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};
    for (size_t v = 0; v < 3; v++) {
        uint8_t table[TABLE_BYTES];
        size_t length = make_table(table, versions[v]);
        unsigned refused = 0;
        for (size_t i = 0; i < length / 8; i++) {
            uint64_t good = word_at(table, i);
            for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
                char why[WHY] = "";
                pyr_layout layout;
                set_word(table, i, values[j]);
                pyr_status status =
                    pyr_layout_from_bytes(table, length, versions[v], &layout, why, sizeof why);
                assert_true(status == PYR_OK || why[0] != 0);
                assert_true(status != PYR_OK || pyr_layout_check(&layout, NULL, 0) == PYR_OK);
                refused += status != PYR_OK;
            }
            set_word(table, i, good);
        }
        assert_true(refused > 300);
        for (size_t cut = 0; cut < length; cut += 8) {
            pyr_layout layout;
            assert_int_equal(pyr_layout_from_bytes(table, cut, versions[v], &layout, NULL, 0),
                             PYR_EBAD);
        }
    }
}

/* Fields of all structs but the large ones (interpreter, runtime) are refused at 0x8000. */
static void test_offset_outside_struct(void **state)
{
    (void)state;
    for (int minor = PYR_LAYOUT_FIRST_MINOR; minor < PYR_LAYOUT_FIRST_MINOR + PYR_LAYOUT_TABLES;
         minor++) {
        pyr_layout layout = pyr_layout_tables[minor - PYR_LAYOUT_FIRST_MINOR];
        assert_int_equal(pyr_layout_check(&layout, NULL, 0), PYR_OK);
        size_t fields = 0;
        uint32_t offset;
        const char *name;
        while ((name = pyr_layout_field(&layout, fields, &offset))) {
            /* Fields are consecutive words at the end of the struct. */
            uint32_t *field =
                (uint32_t *)(void *)((char *)&layout + offsetof(pyr_layout, runtime_finalizing)) +
                fields;
            assert_int_equal(*field, offset);
            char why[WHY] = "";
            bool large = strncmp(name, "interp_", 7) == 0 || strncmp(name, "runtime_", 8) == 0 ||
                         strcmp(name, "gil_runtime") == 0;
            *field = 0x8000;
            if (!large || offset == PYR_FIELD_ABSENT) {
                assert_int_equal(pyr_layout_check(&layout, why, sizeof why), PYR_EBAD);
                assert_non_null(strstr(why, name));
            }
            *field = 0x800001; /* beyond everything, and odd */
            assert_int_equal(pyr_layout_check(&layout, why, sizeof why), PYR_EBAD);
            *field = offset == PYR_FIELD_ABSENT ? 8 : PYR_FIELD_ABSENT;
            assert_int_equal(pyr_layout_check(&layout, why, sizeof why), PYR_EBAD);
            *field = offset;
            fields++;
        }
        layout.minor = 10;
        assert_int_equal(pyr_layout_check(&layout, NULL, 0), PYR_EBAD);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t version;
        const char *why;
    } cases[] = {
        {0x030a00f0, "Python 3.10.0 is not supported: this version of Pyrometer knows CPython 3.11"
                     " to 3.15"},
        {0x031000f0, "Python 3.16.0 is not supported: this version of Pyrometer knows CPython 3.11"
                     " to 3.15"},
        {0x040000f0, "Python 4.0.0 is not supported: this version of Pyrometer knows CPython 3.11"
                     " to 3.15"},
        {0x030f00b2, "Python 3.15.0b2 is not supported: it is a pre-release, and only final"
                     " releases of CPython 3.15 are known"},
        {0x030f00c1, "Python 3.15.0rc1 is not supported: it is a pre-release, and only final"
                     " releases of CPython 3.15 are known"},
        {0, "Python 0.0.0?0 is not supported: this version of Pyrometer knows CPython 3.11 to"
            " 3.15"},
    };
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    size_t before = pyr_memory_in_use();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pyr_layout *layout = NULL;
        char why[WHY];
        assert_int_equal(pyr_layout_discover(reader, 0, cases[i].version, &layout, why, sizeof why),
                         PYR_EVERSION);
        assert_string_equal(why, cases[i].why);
        assert_null(layout);
    }
    uint8_t table[TABLE_BYTES];
    pyr_layout layout;
    char why[WHY];
    size_t length = make_table(table, 0x030e08f0);
    set_word(table, 2, 1);
    assert_int_equal(pyr_layout_from_bytes(table, length, 0x030e08f0, &layout, why, sizeof why),
                     PYR_EVERSION);
    assert_string_equal(why, "free-threaded builds of Python are not supported yet");
    set_word(table, 2, 0);
    assert_int_equal(pyr_layout_from_bytes(table, length, 0x030e07f0, &layout, why, sizeof why),
                     PYR_EVERSION);
    assert_string_equal(why, "the interpreter's published offsets are for another version, 3.14.8");
    table[0] = 'y';
    assert_int_equal(pyr_layout_from_bytes(table, length, 0x030e08f0, &layout, why, sizeof why),
                     PYR_EBAD);
    assert_string_equal(why, "the interpreter publishes no offsets");
    assert_int_equal(pyr_layout_from_bytes(table, length, 0x030b02f0, &layout, why, sizeof why),
                     PYR_EBAD);
    /* A reason may be too long for its buffer, or not wanted. */
    char tiny[8];
    assert_int_equal(pyr_layout_from_bytes(table, length, 0, &layout, tiny, sizeof tiny),
                     PYR_EVERSION);
    assert_string_equal(tiny, "Python ");
    assert_int_equal(pyr_memory_in_use(), before);
    pyr_reader_close(reader);
}

/* An interpreter made of plain memory: the runtime leads to an interpreter in the making, then to
 * one with a thread. */
static void test_discover(void **state)
{
    (void)state;
    static uint8_t runtime[4096], interps[2][8192], thread[1024];
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    size_t before = pyr_memory_in_use();
    for (int round = 0; round < 2; round++) {
        uint32_t version = round ? 0x030f00f0 : 0x030b07f0;
        const pyr_layout *own = &pyr_layout_tables[round ? 4 : 0];
        const pyr_layout *found = NULL;
        char why[WHY];
        memset(runtime, 0, sizeof runtime);
        memset(interps, 0, sizeof interps);
        if (round) {
            (void)make_table(runtime, version);
        }
        pyr_addr at = (pyr_addr)(uintptr_t)runtime, value;
        assert_int_equal(pyr_layout_discover(reader, at, version, &found, why, sizeof why),
                         PYR_EBAD);
        assert_string_equal(why, "no thread was found in the interpreter: its layout is unknown, "
                                 "or it is not running");
        value = (pyr_addr)(uintptr_t)interps[0];
        memcpy(runtime + own->runtime_interpreters_head, &value, sizeof value);
        value = (pyr_addr)(uintptr_t)interps[1];
        memcpy(interps[0] + own->interp_next, &value, sizeof value);
        value = (pyr_addr)(uintptr_t)thread;
        memcpy(interps[1] + own->interp_threads_head, &value, sizeof value);
        memset(thread, 0, sizeof thread); /* points nowhere yet */
        assert_int_equal(pyr_layout_discover(reader, at, version, &found, why, sizeof why),
                         PYR_EBAD);
        value = (pyr_addr)(uintptr_t)interps[1];
        memcpy(thread + own->thread_interp, &value, sizeof value);
        assert_int_equal(pyr_layout_discover(reader, at, version, &found, why, sizeof why), PYR_OK);
        assert_int_equal(pyr_layout_version(found), version);
        pyr_buffer text;
        pyr_buffer_init(&text, 1 << 16);
        assert_int_equal(pyr_layout_describe(found, &text), PYR_OK);
        assert_memory_equal(text.data,
                            round ? "layout of Python 3.15.0\nruntime_finalizing 912\n"
                                  : "layout of Python 3.11.7\nruntime_finalizing 24\n",
                            46);
        pyr_buffer_fini(&text);
        pyr_layout_free(found);
        pyr_memory_fail_at(1);
        assert_int_equal(pyr_layout_discover(reader, at, version, &found, why, sizeof why),
                         PYR_ENOMEM);
        pyr_memory_fail_at(0);
        /* A list of interpreters that never ends. */
        value = (pyr_addr)(uintptr_t)interps[0];
        memcpy(interps[1] + own->interp_next, &value, sizeof value);
        memset(thread, 0, sizeof thread);
        assert_int_equal(pyr_layout_discover(reader, at, version, &found, why, sizeof why),
                         PYR_EBAD);
        assert_int_equal(pyr_layout_discover(reader, 8, version, &found, why, sizeof why),
                         PYR_EFAULT);
    }
    assert_int_equal(pyr_memory_in_use(), before);
    pyr_layout_free(NULL);
    pyr_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_damaged_words),
        cmocka_unit_test(test_offset_outside_struct),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_discover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
