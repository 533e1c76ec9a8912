/* Unit tests of unwind/threads: lists of a made-up interpreter of every minor version, growing,
 * shrinking, broken, and who holds each GIL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/memory.h"
#include "support/fake_python.h"
#include "unwind/threads.h"

enum { MEMORY = 2 << 20, LARGE = 24 << 20 };

static void for_each_minor(size_t memory, void (*body)(fake_python *python, pyr_threads *threads))
{
    size_t before = pyr_memory_in_use();
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        fake_python python;
        assert_true(fake_python_init(&python, PYR_TESTS_FOLDER, minor, memory));
        pyr_threads *threads = pyr_threads_new(&python.reader, &python.layout, python.runtime);
        assert_non_null(threads);
        body(&python, threads);
        pyr_threads_free(threads);
        fake_python_fini(&python);
    }
    assert_int_equal(pyr_memory_in_use(), before);
}

static bool look(pyr_threads *threads)
{
    bool changed = false;
    assert_int_equal(pyr_threads_look(threads, &changed), PYR_OK);
    return changed;
}

static void assert_listed(pyr_threads *threads, const fake_thread *const *expected, size_t count)
{
    assert_int_equal(pyr_threads_count(threads), count);
    for (size_t i = 0; i < count; i++) {
        const pyr_thread_ref *ref = pyr_threads_get(threads, i);
        assert_int_equal(ref->state, expected[i]->state);
        assert_int_equal(pyr_threads_find(threads, ref->state), i);
    }
    assert_null(pyr_threads_get(threads, count));
}

static void life(fake_python *python, pyr_threads *threads)
{
    pyr_addr interpreter = fake_interpreter(python);
    fake_thread first = fake_thread_new(python, interpreter, 11);
    assert_int_equal(pyr_threads_main_interpreter(threads), 0);
    assert_true(look(threads));
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_listed(threads, (const fake_thread *[]){&first}, 1);
    const pyr_thread_ref *ref = pyr_threads_get(threads, 0);
    assert_int_equal(ref->native_id, 11);
    assert_int_equal(ref->ident, 0x7000000 + 11);
    assert_int_equal(ref->unique_id, 1);
    assert_int_equal(ref->interpreter, interpreter);
    assert_int_equal(ref->gil, fake_gil_of(python, interpreter));
    assert_false(look(threads));
    uint64_t calls = python->calls;
    assert_false(look(threads));
    assert_int_equal(python->calls - calls, 1); /* a look is one call */
    /* New ones stand in front; one that came and went between two looks shows too. */
    fake_thread second = fake_thread_new(python, interpreter, 12);
    assert_true(look(threads));
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_listed(threads, (const fake_thread *[]){&second, &first}, 2);
    fake_thread third = fake_thread_new(python, interpreter, 13);
    fake_thread_unlink(python, interpreter, &third);
    assert_true(look(threads));
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_listed(threads, (const fake_thread *[]){&second, &first}, 2);
    assert_false(look(threads));
    fake_thread_unlink(python, interpreter, &second);
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_listed(threads, (const fake_thread *[]){&first}, 1);
    assert_int_equal(pyr_threads_find(threads, second.state), -1);
    assert_true(pyr_threads_calls(threads) > 0);
}

static void test_life(void **state)
{
    (void)state;
    for_each_minor(MEMORY, life);
}

static void interpreters(fake_python *python, pyr_threads *threads)
{
    pyr_addr main = fake_interpreter(python);
    pyr_addr main_gil = python->gil;
    fake_thread in_main = fake_thread_new(python, main, 11);
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_false(look(threads));
    pyr_addr other = fake_interpreter(python);
    fake_thread in_other = fake_thread_new(python, other, 12);
    assert_true(look(threads));
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_listed(threads, (const fake_thread *[]){&in_other, &in_main}, 2);
    assert_int_equal(pyr_threads_main_interpreter(threads), main);
    bool shared = fake_gil_of(python, other) == main_gil;
    assert_int_equal(shared, python->layout.minor == 11);
    assert_int_equal(pyr_threads_gil_count(threads), shared ? 1 : 2);
    assert_int_equal(pyr_threads_get(threads, 0)->gil, fake_gil_of(python, other));
    assert_int_equal(pyr_threads_get(threads, 1)->gil, main_gil);
    /* Holders, by a look and by an update alike; a free GIL still names its last one. */
    size_t last = pyr_threads_gil_count(threads) - 1;
    assert_int_equal(pyr_threads_gil(threads, last)->gil, main_gil);
    assert_int_equal(pyr_threads_gil(threads, last)->holder, 0);
    fake_take_gil(python, main_gil, in_main.state);
    assert_false(look(threads));
    assert_int_equal(pyr_threads_gil(threads, last)->holder, in_main.state);
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_int_equal(pyr_threads_gil(threads, last)->holder, in_main.state);
    fake_take_gil(python, main_gil, 0);
    assert_false(look(threads));
    assert_int_equal(pyr_threads_gil(threads, last)->holder, 0);
    assert_null(pyr_threads_gil(threads, last + 1));
}

static void test_interpreters(void **state)
{
    (void)state;
    for_each_minor(MEMORY, interpreters);
}

static void finalizing(fake_python *python, pyr_threads *threads)
{
    bool changed;
    (void)fake_thread_new(python, fake_interpreter(python), 11);
    fake_put(python, python->runtime + python->layout.runtime_finalizing, FAKE_BASE);
    assert_int_equal(pyr_threads_look(threads, &changed), PYR_ECLOSED);
    fake_put(python, python->runtime + python->layout.runtime_finalizing, 0);
    assert_int_equal(pyr_threads_look(threads, &changed), PYR_OK);
    python->refusal = 14; /* EFAULT: it cannot be read, this time */
    assert_int_equal(pyr_threads_look(threads, &changed), PYR_EFAULT);
    assert_int_not_equal(pyr_threads_update(threads), PYR_OK);
    python->refusal = 0;
    assert_int_equal(pyr_threads_look(threads, &changed), PYR_OK);
}

static void test_finalizing(void **state)
{
    (void)state;
    for_each_minor(MEMORY, finalizing);
}

/* What is refused keeps the old list, and the next look says so. */
static void assert_refused(fake_python *python, pyr_threads *threads, pyr_addr place,
                           uint64_t value)
{
    size_t count = pyr_threads_count(threads);
    uint64_t before = fake_get(python, place);
    fake_put(python, place, value);
    assert_int_equal(pyr_threads_update(threads), PYR_ETORN);
    fake_put(python, place, before);
    assert_int_equal(pyr_threads_count(threads), count);
    assert_true(look(threads));
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_false(look(threads));
}

static void broken(fake_python *python, pyr_threads *threads)
{
    const pyr_layout *layout = &python->layout;
    pyr_addr interpreter = fake_interpreter(python);
    fake_thread last = fake_thread_new(python, interpreter, 11);
    fake_thread middle = fake_thread_new(python, interpreter, 12);
    fake_thread first = fake_thread_new(python, interpreter, 13);
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    const pyr_addr next[] = {first.state, middle.state, last.state};
    for (size_t i = 0; i < 3; i++) {
        assert_refused(python, threads, last.state + layout->thread_next, next[i]); /* cycles */
    }
    const uint64_t wild[] = {
        1, 8, UINT64_MAX, UINT64_C(1) << 63, FAKE_BASE, FAKE_BASE + MEMORY - 8};
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        assert_refused(python, threads, middle.state + layout->thread_next, wild[i]);
        assert_refused(python, threads, interpreter + layout->interp_threads_head, wild[i]);
        assert_refused(python, threads, first.state + layout->thread_interp, wild[i]);
    }
    /* A list of interpreters without end. */
    assert_refused(python, threads, interpreter + layout->interp_next, interpreter);
    assert_refused(python, threads, interpreter + layout->interp_next, UINT64_MAX);
    /* No GIL, and one that is nowhere: threads are listed all the same. */
    if (layout->interp_ceval_gil != PYR_FIELD_ABSENT) {
        fake_put(python, interpreter + layout->interp_ceval_gil, 0);
        assert_int_equal(pyr_threads_update(threads), PYR_OK);
        assert_int_equal(pyr_threads_gil_count(threads), 0);
        assert_int_equal(pyr_threads_get(threads, 0)->gil, 0);
        fake_put(python, interpreter + layout->interp_ceval_gil, UINT64_MAX - 4);
        assert_int_equal(pyr_threads_update(threads), PYR_OK);
        assert_false(look(threads));
        assert_int_equal(pyr_threads_gil(threads, 0)->holder, 0);
    }
}

static void test_broken(void **state)
{
    (void)state;
    for_each_minor(MEMORY, broken);
}

/* More interpreters than a look has room for. */
static void many_interpreters(fake_python *python, pyr_threads *threads)
{
    enum { COUNT = 300 };
    pyr_addr main = fake_interpreter(python);
    pyr_addr main_gil = python->gil;
    fake_thread in_main = fake_thread_new(python, main, 1);
    for (size_t i = 0; i < COUNT; i++) {
        (void)fake_thread_new(python, fake_interpreter(python), 2 + i);
    }
    fake_take_gil(python, python->gil, in_main.state);
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    assert_int_equal(pyr_threads_count(threads), COUNT + 1);
    assert_int_equal(pyr_threads_main_interpreter(threads), main);
    uint64_t calls = python->calls;
    assert_false(look(threads));
    assert_int_equal(python->calls - calls, 1);
    assert_int_equal(pyr_threads_gil(threads, 0)->holder, in_main.state);
    if (python->layout.minor > 11) {
        assert_int_equal(pyr_threads_gil(threads, COUNT)->gil, main_gil);
        assert_int_equal(pyr_threads_gil(threads, COUNT)->holder, 0); /* beyond a look */
    }
}

static void test_many_interpreters(void **state)
{
    (void)state;
    for_each_minor(LARGE, many_interpreters);
}

/* Ten thousand thread states and more: the first ones are kept, an update reads them in batches. */
static void test_too_many_threads(void **state)
{
    (void)state;
    enum { COUNT = PYR_LIMIT_THREADS + 10 };
    fake_python python;
    assert_true(fake_python_init(&python, PYR_TESTS_FOLDER, 13, 16 << 20));
    const pyr_layout *layout = &python.layout;
    pyr_addr interpreter = fake_interpreter(&python);
    pyr_addr next = 0;
    for (size_t i = 0; i < COUNT; i++) { /* bare states, without data stacks */
        pyr_addr thread = fake_alloc(&python, layout->thread_size);
        fake_put(&python, thread + layout->thread_interp, interpreter);
        fake_put(&python, thread + layout->thread_next, next);
        next = thread;
    }
    fake_put(&python, interpreter + layout->interp_threads_head, next);
    pyr_threads *threads = pyr_threads_new(&python.reader, layout, python.runtime);
    assert_int_equal(pyr_threads_update(threads), PYR_ETOOBIG);
    assert_int_equal(pyr_threads_count(threads), PYR_LIMIT_THREADS);
    assert_int_equal(pyr_threads_get(threads, 0)->state, next);
    assert_false(look(threads));
    uint64_t calls = python.calls;
    assert_int_equal(pyr_threads_update(threads), PYR_ETOOBIG);
    assert_true(python.calls - calls < 100); /* 1,024 states a call, and a few */
    pyr_threads_free(threads);
    fake_python_fini(&python);
}

/* A list that changes while it is walked: either the update says so, or what it gives was true. */
static pyr_addr churned;
static uint64_t churn_random;
static fake_thread churning[8];

static void churn(fake_python *python, pyr_addr addr, size_t length)
{
    (void)addr;
    (void)length;
    churn_random = churn_random * 6364136223846793005U + 1442695040888963407U;
    if (churn_random >> 61 != 0) {
        return;
    }
    fake_thread *thread = &churning[churn_random >> 33 & 7];
    if (thread->state != 0) {
        fake_thread_unlink(python, churned, thread);
        thread->state = 0;
    } else {
        *thread = fake_thread_new(python, churned, 100 + (churn_random >> 33 & 7));
    }
}

static void changing(fake_python *python, pyr_threads *threads)
{
    churned = fake_interpreter(python);
    churn_random = 7;
    memset(churning, 0, sizeof churning);
    fake_thread steady = fake_thread_new(python, churned, 11);
    unsigned good = 0, refused = 0;
    for (int i = 0; i < 400; i++) {
        python->before_span = churn;
        pyr_status status = pyr_threads_update(threads);
        python->before_span = NULL;
        assert_true(status == PYR_OK || status == PYR_ETORN);
        good += status == PYR_OK;
        refused += status == PYR_ETORN;
        if (status == PYR_OK) { /* the last of the list is always reached */
            size_t count = pyr_threads_count(threads);
            assert_in_range(count, 1, 9);
            assert_int_equal(pyr_threads_get(threads, count - 1)->state, steady.state);
        }
    }
    assert_true(good > 10 && refused > 10);
}

static void test_changing(void **state)
{
    (void)state;
    for_each_minor(8 * MEMORY, changing);
}

static void allocation_failures(fake_python *python, pyr_threads *threads)
{
    pyr_addr interpreter = fake_interpreter(python);
    for (size_t i = 0; i < 40; i++) {
        (void)fake_thread_new(python, interpreter, 11 + i);
    }
    assert_int_equal(pyr_threads_update(threads), PYR_OK);
    size_t before = pyr_memory_in_use();
    unsigned failures = 0;
    for (size_t nth = 1;; nth++) {
        pyr_memory_fail_at(nth);
        pyr_threads *made = pyr_threads_new(&python->reader, &python->layout, python->runtime);
        pyr_status status = made ? pyr_threads_update(made) : PYR_ENOMEM;
        bool failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        if (made) {
            assert_int_equal(status, failed ? PYR_ENOMEM : PYR_OK);
            assert_int_equal(pyr_threads_count(made), failed ? 0 : 40);
            assert_int_equal(pyr_threads_update(made), PYR_OK);
            assert_int_equal(pyr_threads_count(made), 40);
        }
        pyr_threads_free(made);
        assert_int_equal(pyr_memory_in_use(), before);
        failures += failed;
        if (!failed) {
            break;
        }
    }
    assert_true(failures >= 6);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    for_each_minor(MEMORY, allocation_failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_interpreters),
        cmocka_unit_test(test_finalizing),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_many_interpreters),
        cmocka_unit_test(test_too_many_threads),
        cmocka_unit_test(test_changing),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
