/* Unit tests of collect/tasks: the CPU of this process's threads, each nanosecond once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collect/tasks.h"

enum { BURN_NS = 20000000, SLACK_NS = 10000000 };

/* A thread that burns as much CPU as it is told. */
typedef struct burner {
    pthread_t thread;
    const char *name;
    _Atomic int64_t id;
    _Atomic int64_t allowed_ns; /* of its clock; -1 = end */
} burner;

static void *burn(void *context)
{
    burner *self = context;
    (void)prctl(PR_SET_NAME, self->name, 0, 0, 0);
    atomic_store(&self->id, (int64_t)syscall(SYS_gettid));
    while (atomic_load(&self->allowed_ns) >= 0) {
        if (pyr_clock_own_cpu_ns() >= atomic_load(&self->allowed_ns)) {
            (void)usleep(5000); /* as good as no CPU */
        }
    }
    return NULL;
}

static void burner_start(burner *self, const char *name)
{
    *self = (burner){.name = name};
    assert_int_equal(pthread_create(&self->thread, NULL, burn, self), 0);
    while (atomic_load(&self->id) == 0) {
        (void)usleep(100);
    }
}

/* Lets it burn so much more, and waits until it has. */
static void burner_go(burner *self, int64_t more_ns)
{
    int64_t until = pyr_clock_thread_cpu_ns(atomic_load(&self->id)) + more_ns;
    atomic_store(&self->allowed_ns, until);
    while (pyr_clock_thread_cpu_ns(atomic_load(&self->id)) < until) {
        (void)usleep(500);
    }
}

static void burner_stop(burner *self)
{
    atomic_store(&self->allowed_ns, -1);
    assert_int_equal(pthread_join(self->thread, NULL), 0);
}

typedef struct scene {
    pyr_symbols *symbols;
    pyr_follow_context context;
    int64_t native, own, brief, all; /* CPU given out, by root */
    int64_t labelled_id;             /* of the last native sample */
    char labelled_name[32];
} scene;

static pyr_status add(void *context, const pyr_sample *sample)
{
    scene *self = context;
    assert_int_equal(sample->frame_count, 1);
    assert_int_equal(sample->values[1] + sample->values[2] + sample->values[3], 0);
    pyr_function function = pyr_symbols_get(self->symbols, sample->frames[0].function);
    const char *name = pyr_symbols_text(self->symbols, function.name, NULL);
    int64_t cpu = sample->values[0];
    assert_true(cpu > 0);
    self->all += cpu;
    if (strcmp(name, "<profiler>") == 0) {
        self->own += cpu;
    } else if (strcmp(name, "<short-lived threads>") == 0) {
        assert_int_equal(sample->label_count, 0);
        self->brief += cpu;
    } else {
        assert_string_equal(name, "<native threads>");
        self->native += cpu;
        for (uint32_t i = 0; i < sample->label_count; i++) {
            const pyr_label *label = &sample->labels[i];
            if (label->key == PYR_LABEL_THREAD_NATIVE_ID) {
                self->labelled_id = label->number;
            } else {
                assert_int_equal(label->key, PYR_LABEL_THREAD_NAME);
                (void)snprintf(self->labelled_name, sizeof self->labelled_name, "%s",
                               pyr_symbols_text(self->symbols, label->text, NULL));
            }
        }
    }
    return PYR_OK;
}

/* The main thread accounts for itself, as a Python thread does, and so may one more. */
static int64_t followed_id;

static bool is_followed(const void *owner, int64_t native_id)
{
    (void)owner;
    return native_id == getpid() || native_id == followed_id;
}

static void check_accounts(const char *own_name)
{
    static burner native, own, brief;
    size_t before = pyr_memory_in_use();
    scene self = {.symbols = pyr_symbols_new()};
    self.context =
        (pyr_follow_context){.sink = {.context = &self, .add = add}, .symbols = self.symbols};
    burner_start(&native, "native");
    burner_start(&own, own_name);
    burner_go(&native, BURN_NS); /* before it began: not counted */
    pyr_tasks *tasks = pyr_tasks_new();
    assert_non_null(tasks);
    int64_t start = pyr_clock_process_cpu_ns(), main_start = pyr_clock_own_cpu_ns();
    assert_true(pyr_tasks_before(tasks, native.id) >= BURN_NS);
    assert_int_equal(pyr_tasks_before(tasks, 999999999), 0);
    for (int window = 0; window < 3; window++) {
        self.native = self.own = self.brief = 0;
        followed_id = window == 1 ? native.id : 0;
        int64_t native_start = pyr_clock_thread_cpu_ns(native.id);
        burner_go(&native, BURN_NS);
        burner_go(&own, BURN_NS);
        burner_start(&brief, "brief");
        burner_go(&brief, BURN_NS);
        burner_stop(&brief);
        /* What the followed ones gave out themselves. */
        int64_t main_now = pyr_clock_own_cpu_ns();
        self.context.cpu_put_ns += main_now - main_start;
        self.all += main_now - main_start;
        main_start = main_now;
        if (window == 1) {
            int64_t used = pyr_clock_thread_cpu_ns(native.id) - native_start;
            self.context.cpu_put_ns += used;
            self.all += used;
        }
        pyr_tasks_account(tasks, is_followed, NULL, 0, &self.context);
        int64_t process = pyr_clock_process_cpu_ns() - start;
        assert_in_range(self.own, BURN_NS, BURN_NS + SLACK_NS);
        assert_true(pyr_tasks_own_ns(tasks) == self.own);
        assert_true(self.brief >= BURN_NS / 2); /* clocks are read one after the other */
        if (window == 1) {
            /* It burns no CPU of its own, but wakes now and then: also before it was followed. */
            assert_in_range(self.native, 0, BURN_NS / 10);
        } else {
            assert_in_range(self.native, BURN_NS, BURN_NS + SLACK_NS);
            assert_int_equal(self.labelled_id, native.id);
            assert_string_equal(self.labelled_name, "native");
        }
        /* All windows so far add up to the process's clock. */
        assert_in_range(self.all, process - SLACK_NS, process + SLACK_NS);
    }
    burner_stop(&native);
    burner_stop(&own);
    pyr_tasks_free(tasks);
    pyr_symbols_release(self.symbols);
    assert_int_equal(pyr_memory_in_use(), before);
}

static void test_accounts(void **state)
{
    (void)state;
    check_accounts("pyrometer-stack");
}

static void test_accounts_of_the_scheduler(void **state)
{
    (void)state;
    check_accounts("pyr-export");
}

static void test_no_memory(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    for (size_t nth = 1; nth <= 2; nth++) {
        pyr_memory_fail_at(nth);
        pyr_tasks *tasks = pyr_tasks_new();
        assert_true(pyr_memory_has_failed());
        pyr_memory_fail_at(0);
        assert_null(tasks);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    pyr_tasks_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accounts),
        cmocka_unit_test(test_accounts_of_the_scheduler),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
