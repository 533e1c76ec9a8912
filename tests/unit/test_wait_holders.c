/* Unit tests of collect/wait_holders: waits for made-up locks, divided among made-up threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collect/lock.h"
#include "collect/wait_holders.h"
#include "collect/waits.h"

static char lock, other; /* addresses that nobody reads */

/* A stack of so many frames in a function of its own. */
static pyr_own_stack stack_of(uint32_t function, uint64_t thread, uint32_t count)
{
    pyr_own_stack stack = {
        .epoch = 7, .thread_id = thread, .thread_native_id = thread, .count = count};
    for (uint32_t at = 0; at < count; at++) {
        stack.frames[at] = (pyr_frame){.function = function, .line = at + 1};
    }
    return stack;
}

static int wait_for(const void *what, int64_t now_ns)
{
    pyr_own_stack stack = stack_of(99, 99, 1);
    int entry = pyr_waits_add(what, 0x1000, now_ns, false, &stack);
    pyr_wait_holders_begin(entry, now_ns);
    return entry;
}

static void get(const void *what, uint32_t function, uint64_t thread, int64_t now_ns)
{
    pyr_own_stack stack = stack_of(function, thread, 3);
    pyr_wait_holders_change(what, &stack, now_ns);
}

static int64_t sum(const int64_t *times_ns)
{
    int64_t all = 0;
    for (int part = 0; part < PYR_WAIT_PARTS; part++) {
        all += times_ns[part];
    }
    return all;
}

static void each_has_its_time(void **state)
{
    (void)state;
    pyr_own_stack stack;
    int64_t times_ns[PYR_WAIT_PARTS];
    int entry = wait_for(&lock, 1000);
    int elsewhere = wait_for(&other, 1000);
    get(&lock, 1, 11, 1100); /* the first had it for 100 */
    get(&lock, 2, 12, 1300);
    get(&lock, 1, 11, 1700); /* once more */
    pyr_waits_hide(entry);
    get(&lock, 3, 13, 1900); /* whoever waited has it by now */
    pyr_wait_holders_end(entry, 2000, times_ns);
    assert_int_equal(times_ns[0], 200 + 300);
    assert_int_equal(times_ns[1], 400);
    assert_int_equal(sum(times_ns), 900);
    assert_true(pyr_wait_holders_stack(entry, 1, &stack));
    assert_int_equal(stack.thread_id, 12);
    assert_int_equal(stack.count, 3);
    assert_int_equal(stack.frames[2].function, 2);
    assert_false(pyr_wait_holders_stack(entry, 2, &stack));
    pyr_wait_holders_end(elsewhere, 2000, times_ns);
    assert_int_equal(sum(times_ns), 0); /* all is the first one's */
    pyr_waits_remove(entry);
    pyr_waits_remove(elsewhere);
}

static void more_than_there_is_room_for(void **state)
{
    (void)state;
    pyr_own_stack stack;
    int64_t times_ns[PYR_WAIT_PARTS];
    int entry = wait_for(&lock, 1);
    int64_t now_ns = 1;
    for (uint32_t at = 0; at < PYR_WAIT_SUCCESSORS; at++) {
        get(&lock, at, 100 + at, now_ns += 10);
    }
    get(&lock, 0, 999, now_ns += 10); /* the line is known, the thread is another */
    get(&lock, 50, 998, now_ns += 10);
    pyr_wait_holders_end(entry, now_ns + 30, times_ns);
    assert_int_equal(times_ns[0], 20);
    assert_int_equal(times_ns[1], 10);
    assert_int_equal(times_ns[PYR_WAIT_SUCCESSORS], 30);
    assert_false(pyr_wait_holders_stack(entry, PYR_WAIT_SUCCESSORS, &stack));
    pyr_waits_remove(entry);
}

static void deep_stacks_keep_their_leaf(void **state)
{
    (void)state;
    int64_t times_ns[PYR_WAIT_PARTS];
    int entry = wait_for(&lock, 1);
    pyr_own_stack deep = stack_of(5, 15, 200), found;
    pyr_wait_holders_change(&lock, &deep, 10);
    pyr_wait_holders_change(&lock, &deep, 20);
    pyr_wait_holders_end(entry, 40, times_ns);
    assert_int_equal(times_ns[0], 30);
    assert_true(pyr_wait_holders_stack(entry, 0, &found));
    assert_int_equal(found.frames[0].line, 1);
    assert_int_equal(found.count + found.omitted, 200);
    pyr_waits_remove(entry);
}

static void without_an_entry(void **state)
{
    (void)state;
    int64_t times_ns[PYR_WAIT_PARTS];
    pyr_own_stack stack;
    pyr_wait_holders_begin(-1, 5);
    get(&lock, 1, 11, 10);
    pyr_wait_holders_end(-1, 20, times_ns);
    assert_int_equal(sum(times_ns), 0);
    assert_false(pyr_wait_holders_stack(-1, 0, &stack));
}

/* Where the made-up holders stand. */
static struct {
    uint32_t function;
    uint64_t thread;
    int asked;
} stands;

static bool find(void *context, pyr_addr thread_state, pyr_own_stack *stack)
{
    (void)context;
    stands.asked++;
    *stack = stack_of(stands.function, stands.thread, 3);
    return thread_state == 0x2000;
}

static void look(uint32_t function, uint64_t thread)
{
    static pyr_own_stack scratch;
    stands.function = function;
    stands.thread = thread;
    pyr_wait_holders_look(find, NULL, &scratch);
}

static void count_holder(void *context, pyr_addr thread_state)
{
    assert_int_equal(thread_state, 0x2000);
    (*(int *)context)++;
}

static void what_holders_do(void **state)
{
    (void)state;
    pyr_own_stack stack;
    int64_t times_ns[PYR_WAIT_PARTS];
    uint32_t times[PYR_WAIT_SIGHTS];
    int told = 0;
    pyr_held *held = pyr_lock_note(&lock, 0x2000);
    int entry = wait_for(&lock, 1000);
    int beside = wait_for(&lock, 1000);
    int elsewhere = wait_for(&other, 1000);
    pyr_wait_holders_each(count_holder, &told);
    assert_int_equal(told, 1);
    look(5, 77);
    assert_int_equal(stands.asked, 1); /* once for both */
    look(5, 77);
    look(6, 77);
    look(6, 78); /* another thread has it */
    pyr_held_note_release(held);
    look(7, 77); /* nobody has */
    pyr_waits_hide(entry);
    pyr_wait_holders_end(entry, 2000, times_ns);
    assert_int_equal(pyr_wait_holders_seen(entry, 77, times), 3);
    assert_int_equal(times[0], 2);
    assert_int_equal(times[1], 1);
    assert_int_equal(times[2], 0);
    pyr_wait_holders_sight(entry, 1, &stack);
    assert_int_equal(stack.frames[0].function, 6);
    assert_int_equal(stack.thread_id, 77);
    assert_int_equal(pyr_wait_holders_seen(entry, 78, times), 1);
    assert_int_equal(times[2], 1);
    assert_int_equal(pyr_wait_holders_seen(entry, 79, times), 0);
    pyr_wait_holders_end(elsewhere, 2000, times_ns);
    assert_int_equal(pyr_wait_holders_seen(elsewhere, 77, times), 0);
    assert_int_equal(pyr_wait_holders_seen(-1, 77, times), 0);
    pyr_waits_remove(entry);
    pyr_waits_remove(elsewhere);
    /* More stacks than there is room for; and the next wait begins with nothing. */
    (void)pyr_lock_note(&lock, 0x2000);
    for (uint32_t function = 10; function < 30; function++) {
        look(function, 77);
    }
    pyr_wait_holders_end(beside, 3000, times_ns);
    assert_int_equal(pyr_wait_holders_seen(beside, 77, times), PYR_WAIT_SIGHTS - 3 + 3);
    pyr_waits_remove(beside);
    pyr_wait_holders_begin(beside, 4000);
    pyr_wait_holders_end(beside, 4000, times_ns);
    assert_int_equal(pyr_wait_holders_seen(beside, 77, times), 0);
    pyr_held_note_release(pyr_held_place(&lock));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_time),
        cmocka_unit_test(more_than_there_is_room_for),
        cmocka_unit_test(deep_stacks_keep_their_leaf),
        cmocka_unit_test(without_an_entry),
        cmocka_unit_test(what_holders_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
