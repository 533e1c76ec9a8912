/* Unit tests of base/lock: exclusion, try, and a lock that survives a fork while held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"

enum { THREADS = 4, ROUNDS = 20000 };

static pyr_lock counter_lock = PYR_LOCK_INIT(PYR_LOCK_COLLECTOR);
static uint64_t counter; /* guarded by counter_lock */

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2 == 0 || !pyr_lock_try(&counter_lock)) {
            pyr_lock_acquire(&counter_lock);
        }
        counter++;
        pyr_lock_release(&counter_lock);
    }
    return unused;
}

static void test_excludes(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(counter, THREADS * ROUNDS);
}

static void test_try_does_not_wait(void **state)
{
    (void)state;
    pyr_lock lock;
    pyr_lock_init(&lock, PYR_LOCK_LANE + 1);
    assert_true(pyr_lock_try(&lock));
    assert_false(pyr_lock_try(&lock));
    pyr_lock_release(&lock);
    assert_true(pyr_lock_try(&lock));
    pyr_lock_release(&lock);
    pyr_lock_fini(&lock);
}

static void test_rising_ranks(void **state)
{
    (void)state;
    pyr_lock low, high;
    pyr_lock_init(&low, PYR_LOCK_SESSION);
    pyr_lock_init(&high, PYR_LOCK_LOG);
    pyr_lock_acquire(&low);
    pyr_lock_acquire(&high);
    pyr_lock_release(&low); /* releases may come in any order */
    pyr_lock_release(&high);
    pyr_lock_acquire(&low);
    pyr_lock_release(&low);
    pyr_lock_fini(&low);
    pyr_lock_fini(&high);
}

static void test_free_in_the_child(void **state)
{
    (void)state;
    pyr_lock lock;
    pyr_lock_init(&lock, PYR_LOCK_SYMBOLS);
    pyr_lock_acquire(&lock);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pyr_lock_fork_child(&lock);
        pyr_lock_acquire(&lock);
        pyr_lock_release(&lock);
        _exit(7);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    pyr_lock_release(&lock);
    pyr_lock_fini(&lock);
}

/* A wrong order stops test builds, and only those. */
static void test_a_wrong_order(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka and sanitizers handle it */
        pyr_lock low, high;
        pyr_lock_init(&low, PYR_LOCK_LANE);
        pyr_lock_init(&high, PYR_LOCK_SYMBOLS);
        pyr_lock_acquire(&high);
        int tried = pyr_lock_try(&low); /* a try cannot deadlock: any order is fine */
        if (tried) {
            pyr_lock_release(&low);
        }
        pyr_lock_acquire(&low);
        _exit(tried ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
#if defined(PYR_HOSTILE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
#endif
}

static int served, put_off;

static void serve(int number)
{
    if (pyr_lock_defer_signal(number)) {
        put_off++;
    } else {
        served++;
    }
}

/* A handler that finds a lock in hand runs again when the last is given back, and not twice. */
static void test_defers_a_signal(void **state)
{
    (void)state;
    served = put_off = 0;
    signal(SIGUSR1, serve);
    pyr_lock session, low, high;
    pyr_lock_init(&session, PYR_LOCK_SESSION);
    pyr_lock_init(&low, PYR_LOCK_LANE);
    pyr_lock_init(&high, PYR_LOCK_SYMBOLS);
    pyr_lock_acquire(&session); /* held too long to be waited for: served at once */
    raise(SIGUSR1);
    assert_int_equal(served, 1);
    assert_true(pyr_lock_try(&low));
    assert_false(pyr_lock_try(&low));
    pyr_lock_acquire(&high);
    raise(SIGUSR1);
    raise(SIGUSR1);
    pyr_lock_release(&low);
    assert_int_equal(put_off, 2);
    assert_int_equal(served, 1);
    pyr_lock_release(&high);
    assert_int_equal(served, 2);
    assert_true(pyr_lock_try(&low));
    pyr_lock_release(&low);
    assert_int_equal(served, 2);
    raise(SIGUSR1);
    assert_int_equal(served, 3);
    pyr_lock_release(&session);
    signal(SIGUSR1, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_excludes),      cmocka_unit_test(test_try_does_not_wait),
        cmocka_unit_test(test_rising_ranks),  cmocka_unit_test(test_free_in_the_child),
        cmocka_unit_test(test_a_wrong_order), cmocka_unit_test(test_defers_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
