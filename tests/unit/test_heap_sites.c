/* Allocation sites and the tree of stacks under them: the same things are the same site, what
 * nobody holds goes away, a full table says so, names change their table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "collect/heap_sites.h"

static const pyr_heap_thread MAIN = {.ident = 1000, .native_id = 10, .name = 7};
static const pyr_frame STACK[] = {{3, 30}, {2, 20}, {1, 10}}; /* leaf first */

static void assert_stack(pyr_heap_sites *sites, uint32_t at, const pyr_frame *frames,
                         uint32_t count, uint32_t omitted)
{
    pyr_frame found[PYR_LIMIT_FRAMES];
    uint32_t found_omitted;
    assert_int_equal(
        pyr_heap_sites_stack(sites, pyr_heap_sites_get(sites, at), found, &found_omitted), count);
    assert_int_equal(found_omitted, omitted);
    assert_memory_equal(found, frames, count * sizeof *frames);
}

static void end_windows(pyr_heap_sites *sites, int count)
{
    for (int i = 0; i < count; i++) {
        for (uint32_t at = 0; at < pyr_heap_sites_end(sites); at++) {
            pyr_heap_sites_end_window(sites, at);
        }
    }
}

static void a_site_is_stack_thread_and_domain(void **state)
{
    (void)state;
    pyr_heap_sites *sites = pyr_heap_sites_new();
    const pyr_heap_thread other = {.ident = 2000, .native_id = 20};
    uint32_t one = pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_OBJ, 0);
    assert_int_not_equal(one, 0);
    assert_int_equal(pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_OBJ, 0), one);
    uint32_t distinct[] = {
        one,
        pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_RAW, 0),
        pyr_heap_sites_find(sites, STACK, 3, 0, &other, PYR_HEAP_OBJ, 0),
        pyr_heap_sites_find(sites, STACK, 3, 5, &MAIN, PYR_HEAP_OBJ, 0),
        pyr_heap_sites_find(sites, STACK + 1, 2, 0, &MAIN, PYR_HEAP_OBJ, 0),
        pyr_heap_sites_find(sites, STACK, 2, 0, &MAIN, PYR_HEAP_OBJ, 0),
        pyr_heap_sites_find(sites, NULL, 0, 0, &MAIN, PYR_HEAP_OBJ, 0),
        pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_OBJ, 77),
    };
    enum { COUNT = sizeof distinct / sizeof distinct[0] };
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < i; k++) {
            assert_int_not_equal(distinct[i], distinct[k]);
        }
    }
    assert_int_equal(pyr_heap_sites_count(sites), COUNT);
    assert_stack(sites, one, STACK, 3, 0);
    assert_stack(sites, distinct[3], STACK, 3, 5);
    assert_stack(sites, distinct[6], NULL, 0, 0);
    const pyr_heap_thread *thread =
        pyr_heap_sites_thread(sites, pyr_heap_sites_get(sites, distinct[2])->thread);
    assert_int_equal(thread->ident, 2000);
    pyr_heap_sites_free(sites);
}

static void an_unknown_thread_is_none(void **state)
{
    (void)state;
    pyr_heap_sites *sites = pyr_heap_sites_new();
    const pyr_heap_thread nobody = {0};
    uint32_t site = pyr_heap_sites_find(sites, STACK, 3, 0, &nobody, PYR_HEAP_RAW, 0);
    assert_null(pyr_heap_sites_thread(sites, pyr_heap_sites_get(sites, site)->thread));
    pyr_heap_sites_free(sites);
}

static void idle_sites_go_away_unless_held(void **state)
{
    (void)state;
    pyr_heap_sites *sites = pyr_heap_sites_new();
    uint32_t held = pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_OBJ, 0);
    uint32_t busy = pyr_heap_sites_find(sites, STACK, 2, 0, &MAIN, PYR_HEAP_OBJ, 0);
    (void)pyr_heap_sites_find(sites, STACK, 1, 0, &MAIN, PYR_HEAP_OBJ, 0);
    pyr_heap_sites_hold(sites, held);
    for (int window = 0; window < 5; window++) {
        pyr_heap_sites_get(sites, busy)->alloc_count = 1;
        end_windows(sites, 1);
    }
    assert_int_equal(pyr_heap_sites_count(sites), 2);
    assert_int_equal(pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_OBJ, 0), held);
    assert_int_equal(pyr_heap_sites_find(sites, STACK, 2, 0, &MAIN, PYR_HEAP_OBJ, 0), busy);
    assert_true(pyr_heap_sites_get(sites, busy)->alloc_count == 0);
    pyr_heap_sites_release(sites, held);
    end_windows(sites, 5);
    assert_int_equal(pyr_heap_sites_count(sites), 0);
    assert_null(pyr_heap_sites_thread(sites, 1));
    /* Everything can be made again. */
    assert_stack(sites, pyr_heap_sites_find(sites, STACK, 3, 0, &MAIN, PYR_HEAP_OBJ, 0), STACK, 3,
                 0);
    pyr_heap_sites_free(sites);
}

static void full_tables_say_so_and_empty_again(void **state)
{
    (void)state;
    pyr_heap_sites *sites = pyr_heap_sites_new();
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_heap_sites_name(sites, symbols);
    for (int round = 0; round < 3; round++) {
        uint64_t before = pyr_heap_sites_overflows(sites);
        uint32_t at = 1;
        uint32_t made = 0;
        for (; at != 0 && made < 2 * PYR_HEAP_SITES; made++) {
            const pyr_frame frames[] = {{made, 1}, {9, 9}};
            at = pyr_heap_sites_find(sites, frames, 2, 0, &MAIN, PYR_HEAP_OBJ, 0);
        }
        assert_int_equal(at, 0);
        assert_int_equal(made, PYR_HEAP_SITES); /* site 0 is none, and one found no room */
        assert_int_equal(pyr_heap_sites_overflows(sites), before + 1);
        pyr_frame frames[PYR_LIMIT_FRAMES];
        uint32_t omitted;
        assert_int_equal(
            pyr_heap_sites_stack(sites, pyr_heap_sites_get(sites, 0), frames, &omitted), 1);
        assert_string_equal(
            pyr_symbols_text(symbols, pyr_symbols_get(symbols, frames[0].function).name, NULL),
            "<table of allocation sites full>");
        end_windows(sites, 4);
        assert_int_equal(pyr_heap_sites_count(sites), 0);
    }
    pyr_symbols_release(symbols);
    pyr_heap_sites_free(sites);
}

/* Deep stacks that share nothing fill the tree: what did not fit leaves nothing behind. */
static void a_full_tree_of_stacks(void **state)
{
    (void)state;
    pyr_heap_stacks *stacks = pyr_heap_stacks_new();
    pyr_frame frames[PYR_LIMIT_FRAMES];
    uint32_t nodes[PYR_HEAP_NODES / PYR_LIMIT_FRAMES + 2];
    for (int round = 0; round < 3; round++) {
        uint32_t count = 0;
        do {
            for (uint32_t i = 0; i < PYR_LIMIT_FRAMES; i++) {
                frames[i] = (pyr_frame){count * 1000 + i, i};
            }
            nodes[count] = pyr_heap_stacks_hold(stacks, frames, PYR_LIMIT_FRAMES, 0);
        } while (nodes[count++] != 0);
        size_t used = pyr_heap_stacks_count(stacks);
        assert_int_equal(used, (count - 1) * PYR_LIMIT_FRAMES + (count > 1));
        for (uint32_t i = 0; i < count; i++) {
            pyr_heap_stacks_release(stacks, nodes[i]);
        }
        assert_int_equal(pyr_heap_stacks_count(stacks), 0);
    }
    pyr_heap_stacks_free(stacks);
}

static void callers_are_shared(void **state)
{
    (void)state;
    pyr_heap_stacks *stacks = pyr_heap_stacks_new();
    pyr_frame frames[64];
    for (uint32_t i = 0; i < 64; i++) {
        frames[i] = (pyr_frame){i, i};
    }
    uint32_t one = pyr_heap_stacks_hold(stacks, frames, 64, 0);
    size_t count = pyr_heap_stacks_count(stacks);
    frames[0].line = 1000;
    uint32_t other = pyr_heap_stacks_hold(stacks, frames, 64, 0);
    assert_int_equal(pyr_heap_stacks_count(stacks), count + 1);
    pyr_heap_stacks_release(stacks, one);
    assert_int_equal(pyr_heap_stacks_count(stacks), count);
    pyr_frame found[PYR_LIMIT_FRAMES];
    uint32_t omitted;
    assert_int_equal(pyr_heap_stacks_get(stacks, other, found, &omitted), 64);
    assert_memory_equal(found, frames, sizeof frames);
    pyr_heap_stacks_release(stacks, other);
    pyr_heap_stacks_release(stacks, 0);
    assert_int_equal(pyr_heap_stacks_count(stacks), 0);
    pyr_heap_stacks_free(stacks);
}

static void names_change_their_table(void **state)
{
    (void)state;
    pyr_heap_sites *sites = pyr_heap_sites_new();
    pyr_symbols *from = pyr_symbols_new();
    pyr_symbols *to = pyr_symbols_new();
    pyr_frame frames[20];
    char name[32];
    uint32_t found[20];
    for (uint32_t i = 0; i < 20; i++) {
        int length = snprintf(name, sizeof name, "function %u", i);
        frames[i] = (pyr_frame){
            pyr_symbols_function(from, name, (size_t)length, "file.py", 7, (int)i), i + 1};
    }
    (void)pyr_symbols_string(to, "shifts ids", 10);
    (void)pyr_symbols_function(to, "shifts", 6, "ids", 3, 1);
    pyr_heap_sites_name(sites, from);
    pyr_heap_thread thread = MAIN;
    thread.name = pyr_symbols_string(from, "worker", 6);
    uint32_t labels = pyr_symbols_string(from, "tenant=a", 8);
    for (uint32_t i = 0; i < 20; i++) {
        found[i] = pyr_heap_sites_find(sites, frames + i, 20 - i, i, &thread, PYR_HEAP_OBJ, labels);
    }
    /* A free node and a free site in between. */
    pyr_heap_sites_hold(sites, found[0]);
    for (uint32_t i = 2; i < 20; i++) {
        pyr_heap_sites_hold(sites, found[i]);
    }
    end_windows(sites, 4);
    pyr_heap_sites_renew(sites, from, to);
    for (uint32_t i = 0; i < 20; i += i == 0 ? 2 : 1) {
        pyr_frame got[PYR_LIMIT_FRAMES];
        uint32_t omitted;
        const pyr_heap_site *site = pyr_heap_sites_get(sites, found[i]);
        assert_int_equal(pyr_heap_sites_stack(sites, site, got, &omitted), 20 - i);
        assert_int_equal(omitted, i);
        for (uint32_t k = 0; k < 20 - i; k++) {
            pyr_function function = pyr_symbols_get(to, got[k].function);
            snprintf(name, sizeof name, "function %u", i + k);
            assert_string_equal(pyr_symbols_text(to, function.name, NULL), name);
            assert_int_equal(got[k].line, i + k + 1);
            assert_int_equal(function.first_line, i + k);
        }
        assert_string_equal(
            pyr_symbols_text(to, pyr_heap_sites_thread(sites, site->thread)->name, NULL), "worker");
        /* And is found again by its new names. */
        assert_string_equal(pyr_symbols_text(to, site->labels, NULL), "tenant=a");
        pyr_heap_thread same = *pyr_heap_sites_thread(sites, site->thread);
        assert_int_equal(
            pyr_heap_sites_find(sites, got, 20 - i, i, &same, PYR_HEAP_OBJ, site->labels),
            found[i]);
    }
    pyr_symbols_release(from);
    pyr_symbols_release(to);
    pyr_heap_sites_free(sites);
}

static void threads_are_forgotten_with_their_sites(void **state)
{
    (void)state;
    pyr_heap_sites *sites = pyr_heap_sites_new();
    for (uint64_t i = 1; i <= 10 * PYR_HEAP_THREADS; i++) {
        const pyr_heap_thread thread = {.ident = i, .native_id = i};
        uint32_t site = pyr_heap_sites_find(sites, STACK, 3, 0, &thread, PYR_HEAP_OBJ, 0);
        assert_int_equal(
            pyr_heap_sites_thread(sites, pyr_heap_sites_get(sites, site)->thread)->ident, i);
        end_windows(sites, 3);
    }
    assert_int_equal(pyr_heap_sites_overflows(sites), 0);
    /* With more at a time than there is room for, the rest is of an unknown thread. */
    for (uint64_t i = 1; i <= PYR_HEAP_THREADS + 1; i++) {
        const pyr_heap_thread thread = {.ident = i, .native_id = i};
        uint32_t site = pyr_heap_sites_find(sites, STACK, 3, 0, &thread, PYR_HEAP_OBJ, 0);
        assert_int_not_equal(site, 0);
    }
    assert_int_equal(pyr_heap_sites_overflows(sites), 2);
    pyr_heap_sites_clear(sites);
    assert_int_equal(pyr_heap_sites_count(sites), 0);
    pyr_heap_sites_free(sites);
}

static void no_memory(void **state)
{
    (void)state;
    for (size_t nth = 1; nth <= 2; nth++) {
        pyr_memory_fail_at(nth);
        assert_null(pyr_heap_sites_new());
        assert_true(pyr_memory_has_failed());
    }
    pyr_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_site_is_stack_thread_and_domain),
        cmocka_unit_test(an_unknown_thread_is_none),
        cmocka_unit_test(idle_sites_go_away_unless_held),
        cmocka_unit_test(full_tables_say_so_and_empty_again),
        cmocka_unit_test(a_full_tree_of_stacks),
        cmocka_unit_test(callers_are_shared),
        cmocka_unit_test(names_change_their_table),
        cmocka_unit_test(threads_are_forgotten_with_their_sites),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
