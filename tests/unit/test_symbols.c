/* Unit tests of model/symbols: interning, bounds, invalid text, failures, readers beside writers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/memory.h"
#include "model/symbols.h"

static uint32_t intern(pyr_symbols *symbols, const char *text)
{
    return pyr_symbols_string(symbols, text, strlen(text));
}

static uint32_t intern_function(pyr_symbols *symbols, const char *name, const char *file, int line)
{
    return pyr_symbols_function(symbols, name, strlen(name), file, strlen(file), line);
}

static const char *text_of(const pyr_symbols *symbols, uint32_t id)
{
    size_t length;
    const char *text = pyr_symbols_text(symbols, id, &length);
    assert_int_equal(strlen(text), length);
    return text;
}

static void test_a_new_table(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    assert_string_equal(text_of(symbols, 0), "");
    assert_string_equal(text_of(symbols, pyr_symbols_get(symbols, 0).name), "<symbol table full>");
    assert_string_equal(text_of(symbols, 12345), "");
    assert_int_equal(pyr_symbols_get(symbols, UINT32_MAX).name, pyr_symbols_get(symbols, 0).name);
    assert_int_equal(pyr_symbols_fill_pct(symbols), 0);
    assert_int_equal(pyr_symbols_overflows(symbols), 0);
    pyr_symbols_release(symbols);
    pyr_symbols_release(NULL);
}

static void test_interns(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    uint32_t main_name = intern(symbols, "main");
    assert_true(main_name != 0);
    assert_int_equal(intern(symbols, "main"), main_name);
    assert_int_equal(intern(symbols, ""), 0);
    assert_int_equal(pyr_symbols_string(symbols, "mainly", 4), main_name);
    uint32_t function = intern_function(symbols, "main", "a.py", 3);
    assert_true(function != 0);
    assert_int_equal(intern_function(symbols, "main", "a.py", 3), function);
    assert_true(intern_function(symbols, "main", "a.py", 4) != function);
    assert_true(intern_function(symbols, "main", "b.py", 3) != function);
    assert_true(intern_function(symbols, "", "a.py", 3) != function);
    pyr_function got = pyr_symbols_get(symbols, function);
    assert_string_equal(text_of(symbols, got.name), "main");
    assert_string_equal(text_of(symbols, got.file), "a.py");
    assert_int_equal(got.first_line, 3);
    assert_int_equal(pyr_symbols_overflows(symbols), 0);
    pyr_symbols_release(symbols);
}

static void test_hostile_text(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    assert_string_equal(text_of(symbols, intern(symbols, "a\xFF")), "a\xEF\xBF\xBD");
    static char longer[3 * PYR_LIMIT_PATH_BYTES];
    memset(longer, 'p', sizeof longer);
    uint32_t id = pyr_symbols_string(symbols, longer, sizeof longer);
    assert_int_equal(strlen(text_of(symbols, id)), PYR_LIMIT_PATH_BYTES);
    memset(longer, 0xFF, sizeof longer);
    id = pyr_symbols_string(symbols, longer, sizeof longer);
    assert_true(strlen(text_of(symbols, id)) <= PYR_LIMIT_PATH_BYTES);
    size_t length;
    id = pyr_symbols_string(symbols, "a\0b", 3); /* a NUL is text like any other */
    assert_memory_equal(pyr_symbols_text(symbols, id, &length), "a\0b", 4);
    assert_int_equal(length, 3);
    pyr_symbols_release(symbols);
}

static void test_full(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    char text[32];
    for (uint32_t i = 2; i < PYR_LIMIT_STRINGS; i++) {
        snprintf(text, sizeof text, "name %u", i);
        assert_int_equal(intern(symbols, text), i);
    }
    assert_int_equal(pyr_symbols_fill_pct(symbols), 100);
    assert_int_equal(intern(symbols, "one more"), 0);
    assert_int_equal(intern(symbols, "name 77"), 77);
    assert_int_equal(intern_function(symbols, "one more", "name 77", 1), 0);
    assert_int_equal(pyr_symbols_overflows(symbols), 2);
    for (uint32_t i = 1; i < PYR_LIMIT_FUNCTIONS; i++) {
        assert_int_equal(intern_function(symbols, "name 2", "name 3", (int)i), i);
    }
    assert_int_equal(intern_function(symbols, "name 2", "name 3", 0), 0);
    assert_int_equal(pyr_symbols_overflows(symbols), 3);
    pyr_symbols_release(symbols);
}

static void test_full_of_bytes(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    static char longer[PYR_LIMIT_PATH_BYTES];
    memset(longer, 'x', sizeof longer);
    uint32_t interned = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        memcpy(longer, &(uint32_t){0x20202020 + i % 64 + (i / 64 << 8)}, 4);
        interned += pyr_symbols_string(symbols, longer, sizeof longer) != 0;
    }
    assert_in_range(interned, PYR_LIMIT_STRING_BYTES / PYR_LIMIT_PATH_BYTES / 2,
                    PYR_LIMIT_STRING_BYTES / PYR_LIMIT_PATH_BYTES);
    assert_int_equal(pyr_symbols_overflows(symbols), 5000 - interned);
    assert_int_equal(pyr_symbols_fill_pct(symbols), 100);
    pyr_symbols_release(symbols);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    int failed = 1;
    for (size_t nth = 1; failed; nth++) {
        pyr_memory_fail_at(nth);
        pyr_symbols *symbols = pyr_symbols_new();
        for (int i = 0; symbols && i < 2000; i++) {
            char text[32];
            snprintf(text, sizeof text, "f%d", i);
            uint32_t id = intern_function(symbols, text, "a.py", i);
            if (id != 0) {
                assert_string_equal(text_of(symbols, pyr_symbols_get(symbols, id).name), text);
            }
        }
        failed = pyr_memory_has_failed();
        if (symbols) {
            assert_true(pyr_symbols_overflows(symbols) <= 1);
        }
        pyr_memory_fail_at(0);
        pyr_symbols_release(symbols);
        assert_int_equal(pyr_memory_in_use(), before);
    }
}

enum { WRITERS = 2, NAMES = 4000 };

static atomic_uint published[WRITERS];

typedef struct writer {
    pyr_symbols *symbols;
    unsigned index;
} writer;

static void *write_names(void *argument)
{
    const writer *own = argument;
    for (int i = 0; i < NAMES; i++) {
        char text[32];
        snprintf(text, sizeof text, "shared %d", i);
        uint32_t id = intern_function(own->symbols, text, "a.py", i);
        atomic_store_explicit(&published[own->index], id, memory_order_relaxed);
    }
    return NULL;
}

static void test_readers_need_no_lock(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    pthread_t threads[WRITERS];
    writer writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (writer){symbols, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_names, &writers[i]), 0);
    }
    uint32_t last;
    do {
        last = atomic_load_explicit(&published[0], memory_order_relaxed);
        pyr_function function = pyr_symbols_get(symbols, last);
        if (last != 0) {
            char expected[32];
            snprintf(expected, sizeof expected, "shared %d", function.first_line);
            assert_string_equal(text_of(symbols, function.name), expected);
        }
    } while (last != NAMES);
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(intern_function(symbols, "new", "a.py", 0), NAMES + 1);
    pyr_symbols_release(symbols);
}

/* Hooks find room until what is reserved is used up, and find it again after the next reservation.
 */
static void test_reserved_room(void **state)
{
    (void)state;
    pyr_symbols *symbols = pyr_symbols_new();
    uint32_t id = 0, function = 0, made = 0;
    char text[32];
    pyr_symbols_reserve(symbols);
    for (pyr_status status = PYR_OK; status == PYR_OK; made++) {
        snprintf(text, sizeof text, "f%u", made);
        status =
            pyr_symbols_function_reserved(symbols, text, strlen(text), "a.py", 4, 1, &function);
        assert_true(status == PYR_OK ? function != 0 : status == PYR_ENOMEM && function == 0);
    }
    assert_in_range(made, 16, 4096);
    assert_int_equal(pyr_symbols_string_reserved(symbols, "new", 3, &id), PYR_ENOMEM);
    assert_int_equal(id, 0);
    assert_int_equal(pyr_symbols_string_reserved(symbols, "f0", 2, &id), PYR_OK);
    assert_string_equal(text_of(symbols, id), "f0");
    assert_int_equal(pyr_symbols_string_reserved(symbols, "", 0, &id), PYR_OK);
    assert_int_equal(id, 0);
    assert_int_equal(pyr_symbols_overflows(symbols), 0);
    /* Who may allocate goes on, and so do hooks after a reservation. */
    assert_true(intern(symbols, "new") != 0);
    pyr_symbols_reserve(symbols);
    assert_int_equal(
        pyr_symbols_function_reserved(symbols, text, strlen(text), "a.py", 4, 1, &function),
        PYR_OK);
    assert_int_equal(intern_function(symbols, text, "a.py", 1), function);
    pyr_symbols_release(symbols);
}

static void test_shares(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    pyr_symbols *symbols = pyr_symbols_new();
    assert_ptr_equal(pyr_symbols_share(symbols), symbols);
    pyr_symbols_release(symbols);
    assert_string_equal(text_of(symbols, intern(symbols, "still here")), "still here");
    pyr_symbols_release(symbols);
    assert_int_equal(pyr_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_table),
        cmocka_unit_test(test_interns),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_full_of_bytes),
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_readers_need_no_lock),
        cmocka_unit_test(test_reserved_room),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
