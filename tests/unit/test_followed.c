/* Unit tests of collect/followed: every nanosecond that goes in comes out once, whatever happens in
 * which order; runs split where they must; on-cpu follows the CPU clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "collect/followed.h"

enum { CPU_TIME, CPU_SAMPLES, WALL_TIME, WALL_SAMPLES, SAMPLES = 64 };

/* What came out: sums, and the last samples. */
typedef struct outcome {
    int64_t sums[PYR_LIMIT_VALUES];
    int64_t by_state[PYR_STATES]; /* wall time */
    size_t count;
    struct kept {
        pyr_frame leaf;
        uint32_t frame_count, omitted, exception, labels;
        int state; /* -1 = none */
        uint32_t name;
        int64_t values[PYR_LIMIT_VALUES], end_ns;
    } samples[SAMPLES];
} outcome;

typedef struct scene {
    pyr_symbols *symbols;
    pyr_follow_context context;
    pyr_followed thread;
    outcome out;
    int64_t gil_wait_ns, gil_blocking_ns, waiter_pair, holder_pair;
} scene;

static pyr_status add(void *context, const pyr_sample *sample)
{
    scene *self = context;
    if (sample->kind == PYR_SAMPLE_KIND_GIL_WAIT || sample->kind == PYR_SAMPLE_KIND_GIL_HOLDER) {
        bool waits = sample->kind == PYR_SAMPLE_KIND_GIL_WAIT;
        *(waits ? &self->gil_wait_ns : &self->gil_blocking_ns) += sample->values[0];
        for (uint32_t i = 0; i < sample->label_count; i++) {
            if (sample->labels[i].key == PYR_LABEL_PAIR_ID) {
                *(waits ? &self->waiter_pair : &self->holder_pair) = sample->labels[i].number;
            }
        }
        return PYR_OK;
    }
    assert_int_equal(sample->kind, PYR_SAMPLE_KIND_STACK);
    assert_ptr_equal(sample->symbols, self->symbols);
    assert_true(sample->frame_count > 0);
    struct kept kept = {.leaf = sample->frames[0],
                        .frame_count = sample->frame_count,
                        .omitted = sample->omitted,
                        .state = -1,
                        .end_ns = sample->end_ns};
    memcpy(kept.values, sample->values, sizeof kept.values);
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_label *label = &sample->labels[i];
        switch (label->key) {
        case PYR_LABEL_STATE:
            for (int state = 0; state < PYR_STATES; state++) {
                kept.state = self->context.state_names[state] == label->text ? state : kept.state;
            }
            break;
        case PYR_LABEL_THREAD_NAME:
            kept.name = label->text;
            break;
        case PYR_LABEL_HANDLING_EXCEPTION:
            kept.exception = label->text;
            break;
        case PYR_LABEL_PROGRAM:
            kept.labels = label->text;
            break;
        case PYR_LABEL_THREAD_ID:
            assert_int_equal(label->number, 0x7000);
            break;
        default:
            assert_int_equal(label->key, PYR_LABEL_THREAD_NATIVE_ID);
            assert_int_equal(label->number, 77);
        }
    }
    for (int i = 0; i < PYR_LIMIT_VALUES; i++) {
        assert_true(sample->values[i] >= 0);
        self->out.sums[i] += sample->values[i];
    }
    if (kept.state >= 0) {
        self->out.by_state[kept.state] += sample->values[WALL_TIME];
    }
    self->out.samples[self->out.count++ % SAMPLES] = kept;
    return PYR_OK;
}

static void scene_set(scene *self)
{
    memset(self, 0, sizeof *self);
    self->symbols = pyr_symbols_new();
    self->context = (pyr_follow_context){.sink = {.context = self, .add = add},
                                         .symbols = self->symbols,
                                         .timeline = true,
                                         .unseen = {.function = 999}};
    for (int state = 0; state < PYR_STATES; state++) {
        const char *name = pyr_state_name((pyr_state)state);
        self->context.state_names[state] = pyr_symbols_string(self->symbols, name, strlen(name));
    }
    const pyr_thread_ref ref = {.state = 1, .ident = 0x7000, .native_id = 77};
    pyr_followed_init(&self->thread, &ref, 1000);
}

static void scene_clear(scene *self)
{
    pyr_followed_fini(&self->thread);
    pyr_symbols_release(self->symbols);
}

static const pyr_frame stacks[4][3] = {{{1, 10}, {2, 20}, {3, 30}},
                                       {{1, 11}, {2, 20}, {3, 30}},
                                       {{4, 10}, {2, 20}, {3, 30}},
                                       {{5, 0}}};

static pyr_sight sight_of(unsigned stack, pyr_state state, int64_t now_ns)
{
    return (pyr_sight){.frames = stacks[stack],
                       .count = stack == 3 ? 1 : 3,
                       .state = state,
                       .spends = state == PYR_STATE_ON_CPU,
                       .stands_for_ns = 100,
                       .now_ns = now_ns,
                       .since_ns = 0};
}

static void see(scene *self, const pyr_sight *sight)
{
    assert_int_equal(pyr_followed_see(&self->thread, &self->thread, sight, &self->context), PYR_OK);
}

/* Reads the clock as the tick does. */
static void use_cpu(scene *self, int64_t used_ns)
{
    self->thread.carry_ns += used_ns;
}

static void test_runs(void **state)
{
    (void)state;
    scene self;
    scene_set(&self);
    pyr_sight sight = sight_of(0, PYR_STATE_SLEEP, 1100);
    see(&self, &sight);
    sight.now_ns = 1200;
    see(&self, &sight);
    pyr_followed_extend(&self.thread, 1500, true);
    assert_int_equal(self.out.count, 0); /* one run so far */
    /* Another line, state, exception, other frames omitted, other labels: each a new run. */
    const pyr_sight others[] = {
        sight_of(1, PYR_STATE_SLEEP, 1600),
        sight_of(1, PYR_STATE_IO, 1700),
        {stacks[1], 3, 0, 9, 0, PYR_STATE_IO, false, 1, 1800, 0},
        {stacks[1], 3, 5, 9, 0, PYR_STATE_IO, false, 1, 1900, 0},
        {stacks[1], 2, 5, 9, 0, PYR_STATE_IO, false, 1, 2000, 0},
        {stacks[1], 2, 5, 9, 7, PYR_STATE_IO, false, 1, 2050, 0},
        {stacks[1], 2, 5, 9, 7, PYR_STATE_IO, false, 1, 2100, 0}, /* but not this */
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        see(&self, &others[i]);
        assert_int_equal(self.out.count, i == 6 ? i : i + 1);
    }
    const struct kept *first = &self.out.samples[0];
    assert_int_equal(first->values[WALL_TIME], 500);
    assert_int_equal(first->values[WALL_SAMPLES], 3);
    assert_int_equal(first->values[CPU_TIME] + first->values[CPU_SAMPLES], 0);
    assert_int_equal(first->end_ns, 1500);
    assert_int_equal(first->state, PYR_STATE_SLEEP);
    assert_int_equal(first->frame_count, 3);
    assert_int_equal(self.out.samples[3].exception, 9);
    pyr_followed_flush(&self.thread, &self.context);
    const struct kept *last = &self.out.samples[self.out.count - 1];
    assert_int_equal(last->omitted, 5);
    assert_int_equal(last->values[WALL_TIME], 100);
    assert_int_equal(last->labels, 7);
    assert_int_equal(last->end_ns, 2100);
    assert_int_equal(self.out.sums[WALL_TIME], 1100);
    /* The run goes on after a flush, and nothing is given twice. */
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.sums[WALL_TIME], 1100);
    pyr_followed_extend(&self.thread, 2400, true);
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.sums[WALL_TIME], 1400);
    scene_clear(&self);
}

/* Time up to `since` goes to the run before, what follows to the new one; time does not go back. */
static void test_since(void **state)
{
    (void)state;
    scene self;
    scene_set(&self);
    self.context.timeline = false;
    pyr_sight sight = sight_of(0, PYR_STATE_SLEEP, 1100);
    see(&self, &sight);
    sight = sight_of(1, PYR_STATE_IO, 2000);
    sight.since_ns = 1700;
    see(&self, &sight);
    assert_int_equal(self.out.samples[0].values[WALL_TIME], 700);
    assert_int_equal(self.out.samples[0].end_ns, 0);
    pyr_followed_extend(&self.thread, 1900, true);
    sight = sight_of(2, PYR_STATE_SLEEP, 1950);
    see(&self, &sight);
    assert_int_equal(self.out.samples[1].values[WALL_TIME], 300);
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.sums[WALL_TIME], 1000);
    scene_clear(&self);
}

/* CPU goes to the stack seen next where it is used, and what is left to the last such stack. */
static void test_cpu(void **state)
{
    (void)state;
    scene self;
    scene_set(&self);
    /* Used before anything was seen: a frame of its own at the end of the window. */
    use_cpu(&self, 50);
    pyr_sight sight = sight_of(3, PYR_STATE_SLEEP, 1100);
    see(&self, &sight);
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.samples[1].leaf.function, 999);
    assert_int_equal(self.out.samples[1].values[CPU_TIME], 50);
    assert_int_equal(self.out.samples[1].state, -1);
    /* Used before a wait began: carried over the wait. */
    use_cpu(&self, 30);
    sight.now_ns = 1200;
    see(&self, &sight);
    use_cpu(&self, 70);
    sight = sight_of(0, PYR_STATE_ON_CPU, 1300);
    see(&self, &sight);
    pyr_followed_flush(&self.thread, &self.context);
    const struct kept *last = &self.out.samples[self.out.count - 1];
    assert_int_equal(last->leaf.line, 10);
    assert_int_equal(last->values[CPU_TIME], 100);
    assert_int_equal(last->values[CPU_SAMPLES], 1);
    assert_int_equal(last->state, PYR_STATE_ON_CPU);
    /* What is left when the window ends in a wait. */
    use_cpu(&self, 8);
    sight = sight_of(3, PYR_STATE_SLEEP, 1400);
    see(&self, &sight);
    pyr_followed_flush(&self.thread, &self.context);
    last = &self.out.samples[self.out.count - 1];
    assert_int_equal(last->leaf.line, 10);
    assert_int_equal(last->values[CPU_TIME], 8);
    assert_int_equal(last->values[WALL_TIME], 0);
    assert_int_equal(self.context.cpu_put_ns, 158);
    assert_int_equal(self.out.sums[CPU_TIME], 158);
    assert_int_equal(self.out.sums[WALL_TIME], 400);
    scene_clear(&self);
}

/* The states that a kernel thread has in several interpreters spend from one account; what is left
 * over in it goes to a stack of either. A cut gives out what is left if the thread was seen on a
 * CPU since the cut before. */
static void test_shared_account(void **state)
{
    (void)state;
    scene self;
    scene_set(&self);
    pyr_followed other;
    const pyr_thread_ref ref = {.state = 2, .ident = 0x7000, .native_id = 77};
    pyr_followed_init(&other, &ref, 1000);
    use_cpu(&self, 300);
    pyr_sight sight = sight_of(0, PYR_STATE_ON_CPU, 1300);
    assert_int_equal(pyr_followed_see(&other, &self.thread, &sight, &self.context), PYR_OK);
    assert_int_equal(self.thread.carry_ns, 300 - 100 - 25);
    pyr_followed_flush(&other, &self.context);
    assert_int_equal(self.out.sums[CPU_TIME], 125);
    pyr_followed_cut(&self.thread, &self.context);
    assert_int_equal(self.out.sums[CPU_TIME], 300);
    const struct kept *last = &self.out.samples[self.out.count - 1];
    assert_int_equal(last->leaf.line, 10);
    assert_int_equal(last->state, PYR_STATE_ON_CPU);
    use_cpu(&self, 40);
    pyr_followed_cut(&self.thread, &self.context);
    assert_int_equal(self.out.sums[CPU_TIME], 300); /* not seen since */
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.sums[CPU_TIME], 340);
    pyr_followed_fini(&other);
    scene_clear(&self);
}

static void test_names(void **state)
{
    (void)state;
    scene self;
    scene_set(&self);
    pyr_sight sight = sight_of(0, PYR_STATE_SLEEP, 1100);
    see(&self, &sight);
    pyr_followed_flush(&self.thread, &self.context);
    const char *name = pyr_symbols_text(self.symbols, self.out.samples[0].name, NULL);
    assert_string_equal(name, "28672"); /* its ident stands for the name */
    self.thread.name = pyr_symbols_string(self.symbols, "worker", 6);
    sight.now_ns = 1200;
    see(&self, &sight);
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.samples[1].name, self.thread.name);
    /* Another symbol table: nothing of the old one is used any more, no time is lost. */
    pyr_followed_forget(&self.thread);
    pyr_followed_extend(&self.thread, 1500, true);
    use_cpu(&self, 5);
    sight.now_ns = 1600;
    see(&self, &sight);
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.out.sums[WALL_TIME], 600);
    assert_int_equal(self.out.samples[self.out.count - 1].leaf.function, 999);
    scene_clear(&self);
}

/* Able to run for all of the time, and on a CPU for a part of it: that part is called on-cpu. */
static void test_on_cpu_follows_the_clock(void **state)
{
    (void)state;
    const int shares[] = {0, 1, 5, 25, 50, 80, 99, 100};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        scene self;
        scene_set(&self);
        int64_t now = 1000, cpu = 0;
        uint64_t random = 5;
        for (int look = 0; look < 2000; look++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            int64_t wall = 5000000 + (int64_t)(random >> 40) % 10000000;
            int64_t used = wall * shares[i] / 100;
            now += wall;
            cpu += used;
            use_cpu(&self, used);
            pyr_sight sight = sight_of((unsigned)(random >> 62), PYR_STATE_ON_CPU, now);
            see(&self, &sight);
            pyr_followed_flush(&self.thread, &self.context);
            int64_t apart = self.out.by_state[PYR_STATE_ON_CPU] - cpu;
            assert_in_range(llabs(apart), 0, 15000000); /* one look */
        }
        assert_int_equal(self.out.by_state[PYR_STATE_ON_CPU] +
                             self.out.by_state[PYR_STATE_RUNNABLE],
                         now - 1000);
        assert_int_equal(self.out.sums[CPU_TIME], cpu);
        scene_clear(&self);
    }
}

/* Whatever is done in whichever order: the sums are those of the clocks. */
/* A wait for the GIL is given twice: to who waited, and to who had it meanwhile, if that is known.
 */
static void test_gil_waits(void **state)
{
    (void)state;
    scene self;
    scene_set(&self);
    pyr_followed holder;
    const pyr_thread_ref ref = {.state = 2, .ident = 0x8000, .native_id = 78};
    pyr_followed_init(&holder, &ref, 1000);
    pyr_sight busy = sight_of(2, PYR_STATE_ON_CPU, 1100);
    assert_int_equal(pyr_followed_see(&holder, &holder, &busy, &self.context), PYR_OK);
    pyr_sight sight = sight_of(0, PYR_STATE_GIL_WAIT, 1100);
    see(&self, &sight);
    pyr_followed_blame(&self.thread, &holder);
    sight = sight_of(1, PYR_STATE_GIL_WAIT, 1400); /* another wait, because of nobody known */
    see(&self, &sight);
    assert_int_equal(self.gil_wait_ns, 100);
    assert_int_equal(self.gil_blocking_ns, 100);
    assert_true(self.waiter_pair > 0 && self.waiter_pair == self.holder_pair);
    pyr_followed_blame(&self.thread, &self.thread); /* itself: no */
    sight = sight_of(1, PYR_STATE_ON_CPU, 1500);
    see(&self, &sight);
    pyr_followed_blame(&self.thread, &holder); /* it does not wait */
    pyr_followed_flush(&self.thread, &self.context);
    assert_int_equal(self.gil_wait_ns, 400);
    assert_int_equal(self.gil_blocking_ns, 100);
    pyr_followed_fini(&holder);
    scene_clear(&self);
}

static void test_sums(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    unsigned failures = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        scene self;
        scene_set(&self);
        uint64_t random = seed;
        int64_t now = 1000, cpu = 0, looks = 0, spent = 0;
        bool seen = false;
        unsigned failed = 0;
        for (int i = 0; i < 300; i++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            unsigned action = (unsigned)(random >> 33) % 16;
            int64_t step = (int64_t)(random >> 40) % 1000;
            now += step + 1; /* a run of no time at all is not given out */
            if (random >> 63) {
                use_cpu(&self, step / 2);
                cpu += step / 2;
            }
            if (action == 0) {
                pyr_followed_flush(&self.thread, &self.context);
            } else if (action == 1) {
                pyr_followed_flush(&self.thread, &self.context);
                pyr_followed_forget(&self.thread);
            } else if (action < 6) {
                bool counts = self.thread.has_run && now > self.thread.seen_ns;
                pyr_followed_extend(&self.thread, now, action < 4);
                looks += counts && action < 4;
            } else {
                pyr_sight sight =
                    sight_of(action % 4, (pyr_state)((random >> 50) % PYR_STATES), now);
                if (sight.state == PYR_STATE_RUNNABLE) {
                    sight.state = PYR_STATE_ON_CPU; /* the tick never says runnable of itself */
                    sight.spends = true;
                }
                sight.exception = random >> 60 & 1;
                sight.since_ns = now - 1 - (int64_t)((random >> 20) % 2000);
                bool fails = i < 20 && (random >> 48 & 1) != 0;
                pyr_memory_fail_at(fails ? 1 + (random >> 30) % 2 : 0);
                int64_t from = self.thread.seen_ns;
                if (self.thread.has_run && sight.since_ns > from) {
                    from = sight.since_ns;
                }
                pyr_status status =
                    pyr_followed_see(&self.thread, &self.thread, &sight, &self.context);
                pyr_memory_fail_at(0);
                assert_true(status == PYR_OK || fails);
                failed += status != PYR_OK;
                if (status == PYR_OK) {
                    seen = true;
                    spent += sight.spends;
                    looks += now > from;
                    assert_int_equal(self.thread.seen_ns, now);
                }
            }
        }
        looks++;
        pyr_sight sight = sight_of(0, PYR_STATE_SLEEP, ++now);
        see(&self, &sight);
        pyr_followed_flush(&self.thread, &self.context);
        assert_true(seen);
        assert_int_equal(self.out.sums[CPU_TIME], cpu);
        assert_int_equal(self.context.cpu_put_ns, cpu);
        assert_int_equal(self.out.sums[WALL_TIME], now - 1000);
        assert_int_equal(self.out.sums[CPU_SAMPLES], spent);
        assert_int_equal(self.out.sums[WALL_SAMPLES], looks);
        failures += failed;
        scene_clear(&self);
    }
    assert_true(failures > 50);
    assert_int_equal(pyr_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),  cmocka_unit_test(test_since),
        cmocka_unit_test(test_cpu),   cmocka_unit_test(test_shared_account),
        cmocka_unit_test(test_names), cmocka_unit_test(test_gil_waits),
        cmocka_unit_test(test_sums),  cmocka_unit_test(test_on_cpu_follows_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
