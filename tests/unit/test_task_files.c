/* The files that a thread with its own descriptor table holds open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "os/task_files.h"

/* A thread that waits until it is let go, and is one that holds files. */
typedef struct worker {
    pthread_t thread;
    sem_t ready, go;
    _Atomic int64_t id;
    void (*work)(struct worker *self);
} worker;

static void *run(void *context)
{
    worker *self = context;
    atomic_store(&self->id, pyr_os_own_task());
    self->work(self);
    return NULL;
}

static void start(worker *self, void (*work)(worker *self))
{
    self->work = work;
    assert_int_equal(sem_init(&self->ready, 0, 0), 0);
    assert_int_equal(sem_init(&self->go, 0, 0), 0);
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
    while (atomic_load(&self->id) == 0) {
        pyr_os_sleep(100000);
    }
}

static void finish(worker *self)
{
    assert_int_equal(sem_post(&self->go), 0);
    assert_int_equal(pthread_join(self->thread, NULL), 0);
}

static void wait_to_go(worker *self)
{
    while (sem_wait(&self->go) != 0) {
    }
}

/* Comes true within some seconds: a thread needs a moment to be blocked. */
static bool comes_to_wait(pyr_task_files *files, int64_t task)
{
    uintptr_t futex;
    for (int tries = 0; tries < 2000; tries++) {
        if (pyr_task_files_wait(files, task, &futex) == PYR_TASK_FUTEX) {
            return true;
        }
        pyr_os_sleep(1000000);
    }
    return false;
}

static int program_file; /* of the table that all other threads share */
static bool own_table;

static void hold_files(worker *self)
{
    enum { OTHERS = 70 }; /* more than there are slots: some take another's place */
    static worker others[OTHERS];
    pyr_task_files *files = pyr_task_files_new();
    assert_non_null(files);
    for (int round = 0; round < 2; round++) {
        own_table = pyr_task_files_begin(files) == PYR_OK;
        /* Nothing of the program's is reachable from here, and nothing of ours is from there. */
        assert_int_equal(fcntl(program_file, F_GETFD) == -1, own_table);
        for (int i = 0; i < OTHERS; i++) {
            others[i].id = 0;
            start(&others[i], wait_to_go);
        }
        assert_true(pyr_task_files_count(files) >= OTHERS + 2);
        for (int again = 0; again < 2; again++) {
            for (int i = 0; i < OTHERS; i++) {
                assert_true(comes_to_wait(files, atomic_load(&others[i].id)));
                assert_int_equal(pyr_task_files_ran_ns(files, atomic_load(&others[i].id)) > 0,
                                 pyr_os_task_ran_ns(pyr_os_own_task()) > 0);
            }
        }
        for (int i = 0; i < OTHERS; i++) {
            finish(&others[i]);
        }
        uintptr_t futex;
        for (int i = 0; i < OTHERS; i++) { /* they have ended: their files tell nothing more */
            int64_t id = atomic_load(&others[i].id);
            for (int tries = 0; tries < 2000 && pyr_os_task_ran_ns(id) >= 0; tries++) {
                pyr_os_sleep(1000000);
            }
            assert_int_equal(pyr_task_files_wait(files, id, &futex), PYR_TASK_UNKNOWN);
            assert_int_equal(pyr_task_files_ran_ns(files, id), -1);
        }
        assert_int_equal(pyr_task_files_wait(files, 999999999, &futex), PYR_TASK_UNKNOWN);
        int64_t before = pyr_task_files_ran_ns(files, pyr_os_own_task());
        pyr_os_sleep(2000000);
        int64_t after = pyr_task_files_ran_ns(files, pyr_os_own_task());
        /* Each CPU has a clock of its own: another time, not always a later one. */
        assert_true((before < 0 && after < 0) || (before >= 0 && after >= 0 && after != before));
    }
    pyr_task_files_free(files);
    assert_int_equal(sem_post(&self->ready), 0);
    wait_to_go(self);
}

static void test_own_table(void **state)
{
    (void)state;
    enum { HIGH = 200 }; /* no number that the holder's own files get */
    program_file = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, HIGH);
    assert_int_equal(program_file, HIGH);
    int lowest = dup(STDERR_FILENO);
    static worker holder;
    start(&holder, hold_files);
    while (sem_wait(&holder.ready) != 0) {
    }
    assert_int_not_equal(fcntl(program_file, F_GETFD), -1); /* the program keeps what it had */
    int next = dup(STDERR_FILENO);
    assert_int_equal(next, lowest + 1); /* and sees nothing of what was opened */
    finish(&holder);
    assert_int_equal(close(lowest), 0);
    assert_int_equal(close(next), 0);
    assert_int_equal(close(program_file), 0);
    assert_int_not_equal(fcntl(STDERR_FILENO, F_GETFD), -1);
}

/* Where the table cannot be left, or before that, each answer comes by opening and closing. */
static void test_shared_table(void **state)
{
    (void)state;
    pyr_task_files *files = pyr_task_files_new();
    assert_non_null(files);
    static worker other;
    start(&other, wait_to_go);
    assert_true(pyr_task_files_count(files) >= 2);
    assert_true(comes_to_wait(files, atomic_load(&other.id)));
    assert_int_equal(pyr_task_files_ran_ns(files, atomic_load(&other.id)) > 0,
                     pyr_os_task_ran_ns(pyr_os_own_task()) > 0);
    finish(&other);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0);
    uintptr_t futex;
    (void)pyr_task_files_wait(files, pyr_os_own_task(), &futex);
    int after = dup(STDERR_FILENO);
    assert_int_equal(after, before + 1); /* nothing stays open */
    assert_int_equal(close(before), 0);
    assert_int_equal(close(after), 0);
    pyr_task_files_free(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_table),
        cmocka_unit_test(test_shared_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
