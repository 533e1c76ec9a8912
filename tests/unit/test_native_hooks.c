/* Hooks of C code's allocators: found in libraries, called, put back; names of functions. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/heap_sampler.h"
#include "collect/native_hooks.h"
#include "collect/native_names.h"
#include "os/loaded.h"

/* A library of every system, which allocates by itself. */
static const char LIBRARY[] = "libexpat.so.1";

typedef void *(*create)(const char *encoding);
typedef void (*destroy)(void *parser);

static void *library;
static create make;
static destroy end;

static void open_library(void)
{
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    make = (create)(uintptr_t)dlsym(library, "XML_ParserCreate");
    end = (destroy)(uintptr_t)dlsym(library, "XML_ParserFree");
    assert_true(make != NULL && end != NULL);
}

static uint64_t counted_in_library(void)
{
    uint64_t before = pyr_heap_mine.count;
    pyr_heap_mine.left = INT64_MAX / 2; /* no sample */
    end(make(NULL));
    return pyr_heap_mine.count - before;
}

static void sees_a_library(void **unused)
{
    static int owner, other;
    pyr_native_hook_stats stats;
    (void)unused;
    open_library();
    assert_int_equal(counted_in_library(), 0);
    pyr_native_hooks_open(&owner, NULL, NULL, 0);
    assert_true(counted_in_library() > 0);
    pyr_native_hooks_get_stats(&stats);
    assert_true(stats.exchanged > 0);
    assert_int_equal(stats.refused, 0);
    uint64_t hooked = stats.exchanged;
    pyr_native_hooks_open(&other, NULL, NULL, 0); /* as in the child of a fork */
    pyr_native_hooks_close(&owner);
    assert_true(counted_in_library() > 0);
    pyr_native_hooks_close(&other);
    assert_int_equal(counted_in_library(), 0);
    pyr_native_hooks_get_stats(&stats);
    assert_int_equal(stats.exchanged, hooked); /* as many were put back */
    dlclose(library);
}

static void sees_one_loaded_later(void **unused)
{
    static int owner;
    (void)unused;
    pyr_native_hooks_open(&owner, NULL, NULL, 0);
    open_library();
    assert_int_equal(counted_in_library(), 0);
    pyr_native_hooks_look();
    assert_true(counted_in_library() > 0);
    dlclose(library);
    pyr_native_hooks_look();
    open_library(); /* maybe where it was */
    pyr_native_hooks_look();
    assert_true(counted_in_library() > 0);
    pyr_native_hooks_close(&owner);
    assert_int_equal(counted_in_library(), 0);
    dlclose(library);
}

static void leaves_alone(void **unused)
{
    static int owner;
    (void)unused;
    open_library();
    uintptr_t inside = (uintptr_t)make;
    pyr_native_hooks_open(&owner, NULL, &inside, 1);
    assert_int_equal(counted_in_library(), 0);
    pyr_native_hooks_close(&owner);
    dlclose(library);
}

static void inner_calls_do_not_count(void **unused)
{
    static int owner;
    (void)unused;
    open_library();
    pyr_native_hooks_open(&owner, NULL, NULL, 0);
    pyr_heap_mine.nested = 1; /* an allocator that has counted */
    assert_int_equal(counted_in_library(), 0);
    pyr_heap_mine.nested = 0;
    pyr_native_hooks_close(&owner);
    dlclose(library);
}

enum { HANG_S = 60 };

static atomic_bool is_inside, may_end;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int stay(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info;
    (void)size;
    (void)context;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_end)) {
        nap();
    }
    return 1;
}

static void *hold_loader(void *unused)
{
    (void)dl_iterate_phdr(stay, unused);
    return NULL;
}

static bool child_goes_on(void)
{
    int ended = -1;
    pyr_native_hooks_prefork();
    pid_t child = fork();
    if (child == 0) {
        alarm(HANG_S);
        pyr_native_hooks_postfork_child();
#ifndef __SANITIZE_THREAD__ /* which ends a child of threads that starts one */
        static int owner;
        pyr_native_hooks_open(&owner, NULL, NULL, 0);
        pyr_native_hooks_look();
        pyr_native_hooks_tick();
#endif
        _exit(counted_in_library() == 0 ? 0 : 1);
    }
    pyr_native_hooks_postfork_parent();
    return waitpid(child, &ended, 0) == child && ended == 0;
}

/* The program may keep the loader's lock as long as it likes, and wait for us meanwhile. */
static void does_not_wait_for_the_loader(void **unused)
{
    static int owner;
    pthread_t holder;
    (void)unused;
    alarm(HANG_S);
    open_library();
    assert_int_equal(pthread_create(&holder, NULL, hold_loader, NULL), 0);
    while (!atomic_load(&is_inside)) {
        nap();
    }
    assert_true(child_goes_on());
    pyr_native_hooks_open(&owner, NULL, NULL, 0);
    pyr_native_hooks_look();
    pyr_native_hooks_tick();
    assert_int_equal(counted_in_library(), 0);
    assert_true(child_goes_on());
    atomic_store(&may_end, true);
    assert_int_equal(pthread_join(holder, NULL), 0);
    while (counted_in_library() == 0) {
        pyr_native_hooks_tick(); /* for as long as the one who asked before is not through */
        nap();
    }
    pyr_native_hooks_close(&owner);
    assert_int_equal(counted_in_library(), 0);
    alarm(0);
    dlclose(library);
}

static void frames(void **unused)
{
    const uintptr_t some[] = {1, 0x1234, UINT32_MAX, 0x7fffdeadbeef, 0x7fffffffffff};
    (void)unused;
    for (size_t at = 0; at < sizeof some / sizeof some[0]; at++) {
        assert_int_equal(pyr_native_frame_address(pyr_native_frame(some[at])), some[at]);
    }
    const pyr_frame usual[] = {{.function = 7, .line = 9}, {.function = UINT32_MAX, .line = 1}};
    assert_int_equal(pyr_native_frame_address(usual[0]), 0);
    assert_int_equal(pyr_native_frame_address(usual[1]), 0);
}

static void names(void **unused)
{
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_native_names *found = pyr_native_names_new();
    (void)unused;
    open_library();
    const struct {
        uintptr_t address;
        const char *name;
    } rows[] = {
        {(uintptr_t)make + 1, "XML_ParserCreate [libexpat.so.1]"},
        {(uintptr_t)end + 1, "XML_ParserFree [libexpat.so.1]"},
        {1, "[unloaded library]"},
    };
    for (size_t turn = 0; turn < 2; turn++) {
        pyr_native_names_begin(found);
        for (size_t row = 0; row < 3; row++) {
            pyr_native_names_want(found, rows[row].address);
        }
        pyr_native_names_find(found, symbols);
        for (size_t row = 0; row < 3; row++) {
            uint32_t id = pyr_native_names_get(found, rows[row].address);
            pyr_function function = pyr_symbols_get(symbols, id);
            assert_string_equal(pyr_symbols_text(symbols, function.name, NULL), rows[row].name);
            assert_string_equal(pyr_symbols_text(symbols, function.file, NULL), "<native>");
        }
    }
    uintptr_t gone = (uintptr_t)make + 1;
    dlclose(library);
    pyr_native_names_begin(found);
    assert_int_equal(pyr_native_names_get(found, gone), 0);
    pyr_native_names_free(found);
    pyr_symbols_release(symbols);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sees_a_library),
        cmocka_unit_test(sees_one_loaded_later),
        cmocka_unit_test(leaves_alone),
        cmocka_unit_test(inner_calls_do_not_count),
        cmocka_unit_test(does_not_wait_for_the_loader),
        cmocka_unit_test(frames),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
