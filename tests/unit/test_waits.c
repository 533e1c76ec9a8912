/* Unit tests of collect/waits: who waits for whom, in rings of made-up threads and locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collect/lock.h"
#include "collect/waits.h"

enum { LINES = 16, LINE_BYTES = 512, EPOCH = 7 };

static pyr_symbols *symbols;
static char told[LINES][LINE_BYTES];
static unsigned told_count;

/* Locks and threads are addresses that nobody reads. Those of the test's locks must not meet in the
 * table of held ones. */
static char locks[64];
static const pyr_addr threads[] = {0x1000, 0x2000, 0x3000, 0x4000};

static void tell(void *context, bool is_deadlock, const char *line)
{
    (void)context;
    assert_int_equal(is_deadlock, strncmp(line, "deadlock: ", 10) == 0);
    assert_true(told_count < LINES);
    (void)snprintf(told[told_count++], LINE_BYTES, "%s", line);
}

static unsigned timed_told; /* rings with a timeout, at the last look */

static unsigned look(void)
{
    told_count = 0;
    pyr_waits_told rings = pyr_waits_look(symbols, NULL, EPOCH, tell, NULL);
    timed_told = rings.with_timeout;
    return rings.deadlocks;
}

static const void *lock_of(int index)
{
    int found = 0;
    for (size_t i = 0; i < sizeof locks; i++) {
        bool is_alone = true;
        for (size_t k = 0; k < i; k++) {
            is_alone &= pyr_held_place(&locks[i]) != pyr_held_place(&locks[k]);
        }
        if (is_alone && found++ == index) {
            return &locks[i];
        }
    }
    fail_msg("%d locks meet in the table", index);
    return NULL;
}

/* The thread waits, since `ago_ms`, in a function that has its name. */
static int waits_with(int thread, int lock, int64_t ago_ms, uint64_t epoch, bool has_timeout)
{
    static const char *const names[] = {"zero", "one", "two", "three"};
    pyr_own_stack stack = {
        .symbols = symbols, .epoch = epoch, .thread_id = (uint64_t)thread, .count = 1};
    stack.thread_name = pyr_symbols_string(symbols, names[thread], strlen(names[thread]));
    stack.frames[0] = (pyr_frame){
        .function = pyr_symbols_function(symbols, names[thread], strlen(names[thread]),
                                         "/app/main.py", 12, 1),
        .line = 10 + (uint32_t)thread,
    };
    return pyr_waits_add(lock_of(lock), threads[thread],
                         pyr_clock_monotonic_ns() - ago_ms * 1000000, has_timeout, &stack);
}

static int waits(int thread, int lock, int64_t ago_ms, uint64_t epoch)
{
    return waits_with(thread, lock, ago_ms, epoch, false);
}

static void holds(int thread, int lock)
{
    (void)pyr_lock_note(lock_of(lock), threads[thread]);
}

static int set_up(void **state)
{
    (void)state;
    symbols = pyr_symbols_new();
    pyr_waits_clear();
    memset(pyr_held_locks, 0, sizeof pyr_held_locks);
    (void)look(); /* forgets what was seen */
    return symbols ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_symbols_release(symbols);
    return 0;
}

static void test_a_ring_is_told_once(void **state)
{
    (void)state;
    holds(0, 0);
    holds(1, 1);
    int entry = waits(0, 1, 1000, EPOCH);
    (void)waits(1, 0, 1000, EPOCH);
    (void)waits(2, 0, 1000, EPOCH); /* for the ring, no part of it */
    assert_int_equal(pyr_waits_count(), 3);
    assert_int_equal(look(), 0); /* seen, not told before it is seen again */
    assert_int_equal(look(), 1);
    assert_int_equal(told_count, 2);
    assert_string_equal(told[0], "deadlock: thread zero (0) waits in main.py:10:zero");
    assert_string_equal(told[1], "deadlock: thread one (1) waits in main.py:11:one");
    assert_int_equal(look(), 0);
    assert_int_equal(told_count, 0);
    /* It dissolves and forms again: that is another one. */
    pyr_waits_remove(entry);
    assert_int_equal(look(), 0);
    (void)waits(0, 1, 500, EPOCH);
    assert_int_equal(look(), 0);
    assert_int_equal(look(), 1);
}

static void test_a_ring_of_three_with_old_names(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        holds(i, i);
        (void)waits(i, (i + 1) % 3, 1000, i == 2 ? EPOCH - 1 : EPOCH);
    }
    (void)look();
    assert_int_equal(look(), 1);
    assert_int_equal(told_count, 3);
    assert_string_equal(told[2], "deadlock: thread  (2) waits in ");
}

static void test_what_is_no_deadlock(void **state)
{
    (void)state;
    holds(0, 0);
    holds(1, 1);
    (void)waits(0, 1, 1000, EPOCH);
    (void)waits(2, 0, 1000, EPOCH); /* a chain that ends */
    (void)waits(3, 3, 1000, EPOCH); /* for a lock nobody is known to hold */
    (void)look();
    assert_int_equal(look(), 0);
    holds(3, 3); /* for one that it took itself: it waits to be woken */
    (void)look();
    assert_int_equal(look(), 0);
    (void)waits(1, 0, 1, EPOCH); /* a ring, but since a moment only */
    (void)look();
    assert_int_equal(look(), 0);
}

static void test_a_ring_with_a_timeout(void **state)
{
    (void)state;
    holds(0, 0);
    holds(1, 1);
    int entry = waits_with(0, 1, 1000, EPOCH, true);
    (void)waits(1, 0, 1000, EPOCH);
    (void)look();
    assert_int_equal(look(), 0);
    assert_int_equal(timed_told, 1);
    assert_int_equal(told_count, 2);
    static const char timed[] = "ring of waits that a timeout may end: thread zero (0) waits, with "
                                "a timeout, in main.py:10:zero";
    /* Where it begins depends on where in the table they came to stand. */
    assert_string_equal(told[strcmp(told[0], timed) == 0 ? 0 : 1], timed);
    /* It gives up, and tries again: that is nothing new. */
    pyr_waits_remove(entry);
    (void)look();
    entry = waits_with(0, 1, 500, EPOCH, true);
    (void)look();
    assert_int_equal(look(), 0);
    assert_int_equal(timed_told, 0);
    /* It waits for good: now it is a deadlock. */
    pyr_waits_remove(entry);
    (void)waits(0, 1, 500, EPOCH);
    (void)look();
    assert_int_equal(look(), 1);
}

static void test_a_full_table(void **state)
{
    (void)state;
    int last = 0, made = 0;
    while (last >= 0) {
        assert_true(made++ < 10000);
        last = waits(made % 4, 0, 1, EPOCH);
    }
    pyr_waits_remove(-1);
    assert_int_equal(pyr_waits_count(), made - 1);
    pyr_waits_clear();
    assert_int_equal(pyr_waits_count(), 0);
    pyr_waits_remove(0); /* of before a fork */
    assert_int_equal(pyr_waits_count(), 0);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_ring_is_told_once), TEST(test_a_ring_of_three_with_old_names),
        TEST(test_what_is_no_deadlock), TEST(test_a_ring_with_a_timeout),
        TEST(test_a_full_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
