/* Unit tests of collect/tick and collect/tasks: kernel threads of this test, with states in a
 * made-up interpreter. All that is given out adds up to the clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collect/tick.h"
#include "os/task.h"
#include "support/fake_python.h"

enum { MEMORY = 4 << 20, NAMES = 32, INTERVAL_NS = 2000000, SLACK_NS = 3000000 };

/* ---------------------------------------------------------------------------- real threads ---- */

typedef struct worker {
    pthread_t thread;
    const char *name;
    bool burns;
    _Atomic int64_t id;
    _Atomic int stop;
} worker;

static void *work(void *context)
{
    worker *self = context;
    (void)prctl(PR_SET_NAME, self->name, 0, 0, 0);
    atomic_store(&self->id, (int64_t)syscall(SYS_gettid));
    while (!atomic_load(&self->stop)) {
        if (!self->burns) {
            (void)usleep(500000);
        }
    }
    return NULL;
}

static void worker_start(worker *self, const char *name, bool burns)
{
    *self = (worker){.name = name, .burns = burns};
    assert_int_equal(pthread_create(&self->thread, NULL, work, self), 0);
    while (atomic_load(&self->id) == 0) {
        (void)usleep(100);
    }
}

static void worker_stop(worker *self)
{
    atomic_store(&self->stop, 1);
    assert_int_equal(pthread_join(self->thread, NULL), 0);
}

/* -------------------------------------------------------------------------- what comes out ---- */

typedef struct scene {
    fake_python python;
    pyr_addr interpreter, root, burn, rest;
    pyr_symbols *symbols;
    pyr_tick *tick;
    struct sum { /* by leaf function */
        char name[64];
        int64_t cpu_ns, wall_ns, samples;
    } sums[NAMES];
    size_t sum_count;
    uint64_t lost;
} scene;

static pyr_status add(void *context, const pyr_sample *sample)
{
    scene *self = context;
    assert_ptr_equal(sample->symbols, self->symbols);
    if (sample->kind != PYR_SAMPLE_KIND_STACK) {
        return PYR_OK; /* waits for the GIL, once more: test_followed.c */
    }
    pyr_function function = pyr_symbols_get(self->symbols, sample->frames[0].function);
    const char *name = pyr_symbols_text(self->symbols, function.name, NULL);
    size_t i = 0;
    while (i < self->sum_count && strcmp(self->sums[i].name, name) != 0) {
        i++;
    }
    if (i == self->sum_count) {
        assert_true(i < NAMES);
        (void)snprintf(self->sums[self->sum_count++].name, sizeof self->sums[i].name, "%s", name);
    }
    self->sums[i].cpu_ns += sample->values[0];
    self->sums[i].wall_ns += sample->values[2];
    self->sums[i].samples++;
    return PYR_OK;
}

static void lose(void *context, pyr_loss reason, uint64_t count)
{
    scene *self = context;
    (void)reason;
    self->lost += count;
}

static struct sum sum_of(const scene *self, const char *name)
{
    for (size_t i = 0; i < self->sum_count; i++) {
        if (strcmp(self->sums[i].name, name) == 0) {
            return self->sums[i];
        }
    }
    return (struct sum){0};
}

static int64_t cpu_of_all(const scene *self)
{
    int64_t all = 0;
    for (size_t i = 0; i < self->sum_count; i++) {
        all += self->sums[i].cpu_ns;
    }
    return all;
}

static pyr_collect_context context_of(scene *self)
{
    return (pyr_collect_context){.reader = &self->python.reader,
                                 .layout = &self->python.layout,
                                 .runtime = self->python.runtime,
                                 .code_type = self->python.code_type,
                                 .sink = {.context = self, .add = add, .lose = lose},
                                 .symbols = self->symbols,
                                 .interval_ns = INTERVAL_NS,
                                 .overhead_pct = 1,
                                 .max_frames = 64,
                                 .timeline = 1};
}

static void scene_set(scene *self, unsigned minor)
{
    memset(self, 0, sizeof *self);
    assert_true(fake_python_init(&self->python, PYR_TESTS_FOLDER, minor, MEMORY));
    self->interpreter = fake_interpreter(&self->python);
    self->root = fake_code(&self->python, "root", "/app/main.py", 1, 8, NULL);
    self->burn = fake_code(&self->python, "burn", "/app/main.py", 20, 8, NULL);
    /* At its unit 2 it calls: may be in C, without the GIL. */
    static const uint8_t calls[FAKE_MINORS] = {171, 171, 53, 52, 50};
    const uint8_t bytecode[16] = {[4] = calls[minor - FAKE_FIRST_MINOR]};
    self->rest = fake_code(&self->python, "rest", "/app/main.py", 40, 8, bytecode);
    self->symbols = pyr_symbols_new();
    pyr_collect_context context = context_of(self);
    self->tick = pyr_tick_new(&context);
    assert_non_null(self->tick);
}

static void scene_clear(scene *self)
{
    pyr_tick_free(self->tick);
    pyr_symbols_release(self->symbols);
    fake_python_fini(&self->python);
}

static fake_thread state_of(scene *self, const worker *who, pyr_addr code)
{
    fake_thread thread =
        fake_thread_new(&self->python, self->interpreter, (uint64_t)atomic_load(&who->id));
    fake_enter(&self->python, &thread);
    (void)fake_call(&self->python, &thread, self->root, 1, FAKE_ON_STACK);
    (void)fake_call(&self->python, &thread, code, 2, FAKE_ON_STACK);
    return thread;
}

static void run_ticks(scene *self, int count)
{
    for (int i = 0; i < count; i++) {
        pyr_os_sleep(INTERVAL_NS);
        assert_int_equal(pyr_tick_run(self->tick, INTERVAL_NS, 0, (uint64_t)i), PYR_OK);
    }
}

/* ----------------------------------------------------------------------------------- tests ---- */

static void test_sums(void **state)
{
    (void)state;
    for (unsigned minor = FAKE_FIRST_MINOR; minor < FAKE_FIRST_MINOR + FAKE_MINORS; minor++) {
        static worker burner, sleeper, native, own;
        scene self;
        scene_set(&self, minor);
        worker_start(&burner, "burner", true);
        worker_start(&sleeper, "sleeper", false);
        worker_start(&native, "native", true);
        worker_start(&own, "pyrometer-own", true);
        fake_thread burning = state_of(&self, &burner, self.burn);
        (void)state_of(&self, &sleeper, self.rest);
        fake_take_gil(&self.python, self.python.gil, burning.state);

        int64_t outer_cpu = pyr_clock_process_cpu_ns();
        assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
        int64_t inner_cpu = pyr_clock_process_cpu_ns();
        run_ticks(&self, 1);
        int64_t start = pyr_clock_monotonic_ns(), start_cpu = pyr_clock_thread_cpu_ns(burner.id);
        run_ticks(&self, 40);
        int64_t end = pyr_clock_monotonic_ns(), end_cpu = pyr_clock_thread_cpu_ns(burner.id);
        int64_t inner = pyr_clock_process_cpu_ns() - inner_cpu;
        pyr_tick_flush(self.tick);
        int64_t outer = pyr_clock_process_cpu_ns() - outer_cpu;

        assert_in_range(cpu_of_all(&self), inner, outer + SLACK_NS);
        /* The burner's, all on its stack; nothing on the sleeper's. */
        assert_true(sum_of(&self, "burn").cpu_ns >= end_cpu - start_cpu);
        assert_true(sum_of(&self, "rest").cpu_ns < SLACK_NS / 10);
        assert_true(sum_of(&self, "burn").wall_ns >= end - start);
        assert_true(sum_of(&self, "rest").wall_ns >= end - start);
        assert_true(sum_of(&self, "<native threads>").cpu_ns > 0);
        assert_true(sum_of(&self, "<profiler>").cpu_ns > 0);
        assert_int_equal(sum_of(&self, "<native threads>").wall_ns, 0);
        assert_int_equal(self.lost, 0);
        /* A second window begins where the first ended: no wall time is given twice. */
        int64_t first_wall = sum_of(&self, "rest").wall_ns;
        int64_t flushed = pyr_clock_monotonic_ns();
        run_ticks(&self, 5);
        pyr_tick_flush(self.tick);
        int64_t second_wall = sum_of(&self, "rest").wall_ns - first_wall;
        int64_t passed = pyr_clock_monotonic_ns() - flushed;
        assert_in_range(second_wall, 5 * INTERVAL_NS, passed + SLACK_NS);
        assert_true(cpu_of_all(&self) <= pyr_clock_process_cpu_ns() - outer_cpu + SLACK_NS);
        worker_stop(&burner);
        worker_stop(&sleeper);
        worker_stop(&native);
        worker_stop(&own);
        scene_clear(&self);
    }
}

/* CPU of threads that came and went between two ticks. */
static void test_short_lived(void **state)
{
    (void)state;
    scene self;
    scene_set(&self, 13);
    assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
    int64_t used = 0;
    for (int i = 0; i < 5; i++) {
        worker brief;
        worker_start(&brief, "brief", true);
        pyr_os_sleep(5000000);
        used += pyr_clock_thread_cpu_ns(atomic_load(&brief.id));
        worker_stop(&brief);
    }
    run_ticks(&self, 1);
    pyr_tick_flush(self.tick);
    assert_true(used > 0);
    assert_true(sum_of(&self, "<short-lived threads>").cpu_ns >= used);
    scene_clear(&self);
}

/* A thread that ends gives out what it has; another at the same address is another. */
static void test_threads_come_and_go(void **state)
{
    (void)state;
    static worker sleeper, later;
    scene self;
    scene_set(&self, 14);
    worker_start(&sleeper, "sleeper", false);
    worker_start(&later, "later", false);
    fake_thread thread = state_of(&self, &sleeper, self.rest);
    assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
    run_ticks(&self, 4);
    /* Its run is still open; one may be closed, of the moment in which it was about to wait. */
    assert_true(sum_of(&self, "rest").samples <= 1);
    const pyr_layout *layout = &self.python.layout;
    uint8_t copy[1024];
    memcpy(copy, fake_at(&self.python, thread.state, layout->thread_size), layout->thread_size);
    fake_thread_unlink(&self.python, self.interpreter, &thread);
    (void)state_of(&self, &later, self.burn);
    run_ticks(&self, 2);
    int64_t wall = sum_of(&self, "rest").wall_ns;
    assert_true(wall >= 4 * INTERVAL_NS);
    /* The state is used again, by another thread. */
    memcpy(fake_at(&self.python, thread.state, layout->thread_size), copy, layout->thread_size);
    fake_put(&self.python, thread.state + layout->thread_unique_id, 500);
    pyr_addr head = self.interpreter + layout->interp_threads_head;
    fake_put(&self.python, thread.state + layout->thread_next, fake_get(&self.python, head));
    fake_put(&self.python, head, thread.state);
    run_ticks(&self, 3);
    pyr_tick_flush(self.tick);
    int64_t again = sum_of(&self, "rest").wall_ns - wall;
    assert_in_range(again, INTERVAL_NS, 1000000000);
    assert_true(sum_of(&self, "burn").wall_ns > 0);
    assert_int_equal(sum_of(&self, "burn").cpu_ns, 0);
    worker_stop(&sleeper);
    worker_stop(&later);
    scene_clear(&self);
}

/* A thread that sleeps is left alone: its run is one sample, and nothing is read of it. */
static void test_idle(void **state)
{
    (void)state;
    static worker sleeper;
    scene self;
    scene_set(&self, 13);
    worker_start(&sleeper, "sleeper", false);
    (void)state_of(&self, &sleeper, self.rest);
    assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
    run_ticks(&self, 10);
    uint64_t calls = self.python.calls;
    run_ticks(&self, 20);
    assert_true(self.python.calls - calls <= 20 + 8); /* a look a tick, names now and then */
    pyr_tick_flush(self.tick);
    assert_in_range(sum_of(&self, "rest").samples, 1, 2);
    worker_stop(&sleeper);
    scene_clear(&self);
}

/* States of one kernel thread in two interpreters: its CPU counts once. */
static void test_shared_thread(void **state)
{
    (void)state;
    static worker burner;
    scene self;
    scene_set(&self, 13);
    worker_start(&burner, "burner", true);
    fake_thread in_main = state_of(&self, &burner, self.rest);
    self.interpreter = fake_interpreter(&self.python);
    fake_thread in_other = state_of(&self, &burner, self.burn);
    fake_take_gil(&self.python, self.python.gil, in_other.state);
    (void)in_main;
    int64_t outer_cpu = pyr_clock_process_cpu_ns();
    assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
    int64_t inner_cpu = pyr_clock_process_cpu_ns();
    run_ticks(&self, 30);
    int64_t inner = pyr_clock_process_cpu_ns() - inner_cpu;
    pyr_tick_flush(self.tick);
    int64_t outer = pyr_clock_process_cpu_ns() - outer_cpu;
    assert_in_range(cpu_of_all(&self), inner, outer + SLACK_NS);
    assert_true(sum_of(&self, "burn").cpu_ns > 10 * sum_of(&self, "rest").cpu_ns);
    worker_stop(&burner);
    scene_clear(&self);
}

static void test_symbols_and_life(void **state)
{
    (void)state;
    static worker sleeper;
    scene self;
    scene_set(&self, 12);
    worker_start(&sleeper, "sleeper", false);
    (void)state_of(&self, &sleeper, self.rest);
    pyr_tick_flush(self.tick); /* never begun: nothing */
    assert_int_equal(self.sum_count, 0);
    assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
    run_ticks(&self, 3);
    pyr_tick_flush(self.tick);
    int64_t wall = sum_of(&self, "rest").wall_ns;
    assert_true(wall >= 2 * INTERVAL_NS);
    pyr_symbols_release(self.symbols);
    self.symbols = pyr_symbols_new();
    (void)pyr_symbols_function(self.symbols, "other", 5, "", 0, 1);
    pyr_tick_renew_symbols(self.tick, self.symbols);
    run_ticks(&self, 3);
    pyr_tick_flush(self.tick); /* `add` checks the table of each sample */
    assert_true(sum_of(&self, "rest").wall_ns >= wall + 2 * INTERVAL_NS);
    /* After a fork nothing of the parent's comes out; it can begin anew. */
    self.sum_count = 0;
    memset(self.sums, 0, sizeof self.sums);
    pyr_tick_fork_child(self.tick);
    pyr_tick_flush(self.tick);
    assert_int_equal(self.sum_count, 0);
    assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
    run_ticks(&self, 2);
    assert_true(pyr_tick_process_ns(self.tick) > 0);
    static pyr_facts facts;
    pyr_tick_facts(self.tick, &facts, true);
    assert_int_equal(pyr_facts_find(&facts, "tick", "threads")->integer, 1);
    assert_int_equal(pyr_facts_find(&facts, "tick", "torn")->integer, 0);
    int64_t visits = pyr_facts_find(&facts, "tick", "visits")->integer;
    assert_in_range(visits, 2, 20);
    facts.count = 0;
    pyr_tick_facts(self.tick, &facts, false); /* since the reset */
    assert_int_equal(pyr_facts_find(&facts, "tick", "visits")->integer, 0);
    /* A tick in which nothing can be read is lost; the next one goes on. */
    self.python.refusal = 14;
    assert_int_equal(pyr_tick_run(self.tick, INTERVAL_NS, 0, 1), PYR_EFAULT);
    self.python.refusal = 0;
    assert_true(self.lost > 0);
    run_ticks(&self, 2);
    /* The end of the interpreter. */
    fake_put(&self.python, self.python.runtime + self.python.layout.runtime_finalizing, FAKE_BASE);
    assert_int_equal(pyr_tick_run(self.tick, INTERVAL_NS, 0, 1), PYR_ECLOSED);
    pyr_tick_flush(self.tick);
    assert_true(sum_of(&self, "rest").wall_ns > 0);
    worker_stop(&sleeper);
    scene_clear(&self);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    static worker sleeper;
    scene self;
    scene_set(&self, 15);
    worker_start(&sleeper, "sleeper", false);
    for (int i = 0; i < 20; i++) {
        (void)state_of(&self, &sleeper, self.rest);
    }
    pyr_tick *usual = self.tick;
    unsigned failures = 0;
    for (size_t nth = 1;; nth++) {
        pyr_symbols *symbols = pyr_symbols_new();
        pyr_symbols *before = self.symbols;
        size_t held = pyr_memory_in_use();
        self.symbols = symbols;
        pyr_collect_context context = context_of(&self);
        pyr_memory_fail_at(nth);
        self.tick = pyr_tick_new(&context);
        if (self.tick && pyr_tick_begin(self.tick) == PYR_OK) {
            for (int i = 0; i < 2; i++) {
                (void)!pyr_tick_run(self.tick, INTERVAL_NS, 0, 1);
            }
            pyr_tick_flush(self.tick);
        }
        bool failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        if (self.tick) { /* it goes on as if nothing had been */
            assert_int_equal(pyr_tick_begin(self.tick), PYR_OK);
            run_ticks(&self, 1);
            pyr_tick_flush(self.tick);
        }
        pyr_tick_free(self.tick);
        assert_true(pyr_memory_in_use() >= held);
        pyr_symbols_release(symbols);
        self.symbols = before;
        failures += failed;
        if (!failed) {
            break;
        }
    }
    assert_true(failures > 20);
    self.tick = usual;
    worker_stop(&sleeper);
    scene_clear(&self);
}

static int check_memory(void **state)
{
    static size_t before;
    size_t now = pyr_memory_in_use();
    if (*state) {
        return now == before ? 0 : -1;
    }
    before = now;
    *state = &before;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sums, check_memory, check_memory),
        cmocka_unit_test_setup_teardown(test_short_lived, check_memory, check_memory),
        cmocka_unit_test_setup_teardown(test_threads_come_and_go, check_memory, check_memory),
        cmocka_unit_test_setup_teardown(test_idle, check_memory, check_memory),
        cmocka_unit_test_setup_teardown(test_shared_thread, check_memory, check_memory),
        cmocka_unit_test_setup_teardown(test_symbols_and_life, check_memory, check_memory),
        cmocka_unit_test_setup_teardown(test_allocation_failures, check_memory, check_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
