/* Unit tests of schedule/: periods, requests, ends, deadlines, hung flushes, signals, forks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "schedule/scheduler.h"

#define MILLISECOND INT64_C(1000000)
#define NEVER (INT64_C(3600) * 1000 * MILLISECOND)

/* What the flush function did, and what it shall do. */
static atomic_int flushes[PYR_FLUSH_SIGNAL + 1];
static atomic_int active, overlapped, hang;

static void flush(void *context, pyr_flush_reason reason)
{
    if (atomic_fetch_add(&active, 1) != 0) {
        atomic_store(&overlapped, 1);
    }
    assert_ptr_equal(context, flushes);
    atomic_fetch_add(&flushes[reason], 1);
    while (atomic_load(&hang)) {
        usleep(1000);
    }
    atomic_fetch_sub(&active, 1);
}

static int64_t within(int64_t milliseconds)
{
    return pyr_clock_monotonic_ns() + milliseconds * MILLISECOND;
}

static pyr_scheduler *start(int64_t period_ns)
{
    pyr_scheduler *scheduler = NULL;
    for (int i = 0; i <= PYR_FLUSH_SIGNAL; i++) {
        atomic_store(&flushes[i], 0);
    }
    assert_int_equal(pyr_scheduler_new(period_ns, flush, flushes, &scheduler), PYR_OK);
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK);
    return scheduler;
}

static void stop_and_free(pyr_scheduler *scheduler)
{
    pyr_scheduler_stop(scheduler, within(10000));
    assert_false(pyr_scheduler_is_abandoned(scheduler));
    pyr_scheduler_free(scheduler);
    assert_int_equal(atomic_load(&overlapped), 0);
}

static void test_periods(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = start(20 * MILLISECOND);
    int64_t deadline = within(10000);
    while (atomic_load(&flushes[PYR_FLUSH_PERIOD]) < 5 && pyr_clock_monotonic_ns() < deadline) {
        usleep(1000);
    }
    assert_true(pyr_clock_monotonic_ns() < deadline);
    stop_and_free(scheduler);
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_REQUEST]), 0);
}

/* Serverless: a period that is over by the clock goes on until it has its ticks. */
static void test_a_period_takes_its_ticks(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = NULL;
    for (int i = 0; i <= PYR_FLUSH_SIGNAL; i++) {
        atomic_store(&flushes[i], 0);
    }
    assert_int_equal(pyr_scheduler_new(MILLISECOND, flush, flushes, &scheduler), PYR_OK);
    pyr_scheduler_count_ticks(scheduler, 20 * MILLISECOND, 10);
    int64_t start_ns = pyr_clock_monotonic_ns();
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK);
    int64_t deadline = within(20000);
    while (atomic_load(&flushes[PYR_FLUSH_PERIOD]) < 2 && pyr_clock_monotonic_ns() < deadline) {
        usleep(1000);
    }
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_PERIOD]), 2);
    assert_true(pyr_clock_monotonic_ns() - start_ns >= 2 * 10 * 20 * MILLISECOND);
    /* A request does not wait for them. */
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_OK);
    stop_and_free(scheduler);
}

/* ... and one that has its ticks goes on until it is over by the clock. */
static void test_a_period_takes_its_time(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = NULL;
    atomic_store(&flushes[PYR_FLUSH_PERIOD], 0);
    assert_int_equal(pyr_scheduler_new(NEVER, flush, flushes, &scheduler), PYR_OK);
    pyr_scheduler_count_ticks(scheduler, MILLISECOND, 2);
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK);
    usleep(50000);
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_PERIOD]), 0);
    stop_and_free(scheduler);
}

static void test_a_late_scheduler_skips_periods(void **state)
{
    (void)state;
    atomic_store(&hang, 1);
    pyr_scheduler *scheduler = start(5 * MILLISECOND);
    while (atomic_load(&flushes[PYR_FLUSH_PERIOD]) == 0) {
        usleep(1000);
    }
    usleep(100 * 1000); /* twenty periods */
    atomic_store(&hang, 0);
    stop_and_free(scheduler);
    assert_in_range(atomic_load(&flushes[PYR_FLUSH_PERIOD]), 1, 3);
}

static void test_a_new_start_keeps_the_plan(void **state)
{
    (void)state;
    int64_t start_ns = pyr_clock_monotonic_ns();
    pyr_scheduler *scheduler = start(1000 * MILLISECOND);
    usleep(600 * 1000);
    pyr_scheduler_stop(scheduler, within(10000));
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK);
    while (atomic_load(&flushes[PYR_FLUSH_PERIOD]) == 0) {
        usleep(1000);
    }
    assert_in_range(pyr_clock_monotonic_ns() - start_ns, 1000 * MILLISECOND, 1550 * MILLISECOND);
    stop_and_free(scheduler);
}

static void test_requests(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = start(NEVER);
    for (int i = 1; i <= 50; i++) {
        assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_OK);
        assert_int_equal(atomic_load(&flushes[PYR_FLUSH_REQUEST]), i);
    }
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_EXIT, within(10000)), PYR_OK);
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_EXIT]), 1);
    stop_and_free(scheduler);
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_PERIOD]), 0);
}

static void *request_many(void *scheduler)
{
    for (int i = 0; i < 300; i++) {
        int before = atomic_load(&flushes[PYR_FLUSH_REQUEST]);
        assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_OK);
        /* One began after the call and has ended; others' requests may share it. */
        assert_true(atomic_load(&flushes[PYR_FLUSH_REQUEST]) > before);
    }
    return NULL;
}

static void test_requests_from_many_threads(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = start(NEVER);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, request_many, scheduler), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_in_range(atomic_load(&flushes[PYR_FLUSH_REQUEST]), 300, 1200);
    stop_and_free(scheduler);
}

static void test_not_running(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = NULL;
    assert_int_equal(pyr_scheduler_new(0, flush, flushes, &scheduler), PYR_EINVAL);
    assert_int_equal(pyr_scheduler_new(INT64_MAX, flush, flushes, &scheduler), PYR_EINVAL);
    pyr_memory_fail_at(1);
    assert_int_equal(pyr_scheduler_new(1, flush, flushes, &scheduler), PYR_ENOMEM);
    pyr_memory_fail_at(0);
    assert_int_equal(pyr_scheduler_new(NEVER, flush, flushes, &scheduler), PYR_OK);
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_ECLOSED);
    pyr_scheduler_stop(scheduler, within(10000));
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK);
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_EBUSY);
    pyr_scheduler_stop(scheduler, within(10000));
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_ECLOSED);
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK); /* once more */
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_OK);
    stop_and_free(scheduler);
    pyr_scheduler_free(NULL);
}

static void test_a_hung_flush_meets_its_deadline(void **state)
{
    (void)state;
    static pyr_scheduler *scheduler; /* static: what is leaked on purpose stays reachable */
    scheduler = start(NEVER);
    atomic_store(&hang, 1);
    int64_t start_ns = pyr_clock_monotonic_ns();
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(50)), PYR_EBUSY);
    pyr_scheduler_stop(scheduler, within(50));
    assert_in_range(pyr_clock_monotonic_ns() - start_ns, 90 * MILLISECOND, 2000 * MILLISECOND);
    assert_true(pyr_scheduler_is_abandoned(scheduler));
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_EBUSY);
    pyr_scheduler_free(scheduler); /* leaks it: its thread is still there */
    int before = atomic_load(&flushes[PYR_FLUSH_REQUEST]);
    atomic_store(&hang, 0);
    while (atomic_load(&active)) {
        usleep(1000);
    }
    usleep(20 * 1000);
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_REQUEST]), before); /* it never flushes again */
}

static pyr_scheduler *of_signal;
static atomic_int signal_result;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&signal_result, pyr_scheduler_flush_from_signal(of_signal, within(10000)));
}

static void test_from_a_signal_handler(void **state)
{
    (void)state;
    of_signal = start(NEVER);
    atomic_store(&signal_result, 1);
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(atomic_load(&signal_result), PYR_OK);
    assert_int_equal(atomic_load(&flushes[PYR_FLUSH_SIGNAL]), 1);
    stop_and_free(of_signal);
}

static atomic_int blocked;

static void check_mask(void *context, pyr_flush_reason reason)
{
    (void)context;
    (void)reason;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&blocked, sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT) &&
                               sigismember(&mask, SIGXFSZ) && sigismember(&mask, SIGPIPE));
}

static void test_its_thread_takes_no_signals(void **state)
{
    (void)state;
    pyr_scheduler *scheduler;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(pyr_scheduler_new(NEVER, check_mask, NULL, &scheduler), PYR_OK);
    assert_int_equal(pyr_scheduler_start(scheduler), PYR_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_OK);
    assert_int_equal(atomic_load(&blocked), 1);
    stop_and_free(scheduler);
}

static void test_fork(void **state)
{
    (void)state;
    pyr_scheduler *scheduler = start(NEVER);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pyr_scheduler_fork_child(scheduler);
        int good = pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)) == PYR_ECLOSED;
#ifndef __SANITIZE_THREAD__ /* it has no threads in the child of a threaded parent */
        good = good && pyr_scheduler_start(scheduler) == PYR_OK &&
               pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)) == PYR_OK &&
               atomic_load(&flushes[PYR_FLUSH_REQUEST]) == 1;
        pyr_scheduler_stop(scheduler, within(10000));
#endif
        _exit(good ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(pyr_scheduler_flush(scheduler, PYR_FLUSH_REQUEST, within(10000)), PYR_OK);
    stop_and_free(scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_a_period_takes_its_ticks),
        cmocka_unit_test(test_a_period_takes_its_time),
        cmocka_unit_test(test_a_late_scheduler_skips_periods),
        cmocka_unit_test(test_a_new_start_keeps_the_plan),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_requests_from_many_threads),
        cmocka_unit_test(test_not_running),
        cmocka_unit_test(test_from_a_signal_handler),
        cmocka_unit_test(test_its_thread_takes_no_signals),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_a_hung_flush_meets_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
