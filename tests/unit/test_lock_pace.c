/* Unit tests of collect/lock_pace: acquisitions a microsecond apart, sampled as the lock collector
 * samples them, some beneath deep stacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "collect/lock_pace.h"

static const int64_t SECOND = 1000000000, TAKE_NS = 1000, LOOK_NS = 10000000;
static const double BUDGET = 1000; /* a second */

typedef struct program {
    uint64_t random;
    pyr_lock_pace pace;
    int64_t now_ns, left;
    double spent;
    int samples, restarts;
} program;

static program begin(void)
{
    program self = {.random = 7, .now_ns = SECOND, .left = 1};
    pyr_lock_pace_begin(&self.pace, self.now_ns);
    return self;
}

/* For so long; every `one_in`th sample costs `dear`, the others 1. */
static void run(program *self, int64_t for_ns, unsigned one_in, uint32_t dear)
{
    int64_t end_ns = self->now_ns + for_ns;
    while (self->now_ns < end_ns) {
        int64_t most = LOOK_NS / TAKE_NS, taken = self->left < most ? self->left : most;
        self->now_ns += taken * TAKE_NS;
        self->left -= taken;
        if (self->left == 0) {
            uint32_t cost = pyr_random_next(&self->random) % one_in == 0 ? dear : 1;
            self->samples++;
            self->spent += cost;
            pyr_lock_pace_sampled(&self->pace, self->now_ns, cost);
            self->left = pyr_random_gap(&self->random, pyr_lock_pace_mean(&self->pace));
        } else if (pyr_lock_pace_is_rare(&self->pace, self->now_ns)) {
            self->restarts++;
            pyr_lock_pace_restart(&self->pace, self->now_ns);
            self->left = 1;
        }
    }
}

static void assert_keeps_the_budget(const program *self, double seconds)
{
    print_message("%d samples, %.0f a second spent, %d restarts\n", self->samples,
                  self->spent / seconds, self->restarts);
    assert_true(self->spent < 1.1 * BUDGET * seconds && self->spent > 0.2 * BUDGET * seconds);
}

/* However dear, and in whatever mixture: a cheap sample among dear ones does not say that the
 * program takes locks seldom. */
static void test_stacks_of_all_depths_keep_the_budget(void **state)
{
    (void)state;
    for (unsigned one_in = 1; one_in <= 16; one_in *= 2) {
        for (uint32_t dear = 1; dear <= 16; dear *= 2) {
            program self = begin();
            run(&self, 60 * SECOND, one_in, dear);
            assert_keeps_the_budget(&self, 60);
            assert_true(self.restarts <= 20); /* it was hundreds */
        }
    }
}

/* Deep ones for a while, then bare ones, again and again. */
static void test_phases_keep_the_budget(void **state)
{
    (void)state;
    static const int64_t phases_ns[] = {5000000, 20000000, 50000000, 200000000};
    for (size_t i = 0; i < sizeof phases_ns / sizeof phases_ns[0]; i++) {
        program self = begin();
        while (self.now_ns < 61 * SECOND) {
            run(&self, phases_ns[i], 1, 9);
            run(&self, phases_ns[i], 1, 1);
        }
        assert_keeps_the_budget(&self, 60);
        assert_true(self.restarts <= 60);
    }
}

/* Seldom at once: soon every acquisition is sampled, after bare stacks sooner than after deep ones.
 */
static void test_what_becomes_rare_is_all_sampled(void **state)
{
    (void)state;
    for (uint32_t dear = 1; dear <= 16; dear *= 2) {
        program self = begin();
        run(&self, 10 * SECOND, 1, dear);
        int64_t last_ns = self.pace.last_ns;
        assert_true(pyr_lock_pace_mean(&self.pace) > 500);
        assert_false(pyr_lock_pace_is_rare(&self.pace, last_ns + 19000000 * (int64_t)dear));
        assert_true(pyr_lock_pace_is_rare(&self.pace, last_ns + 20000000 * (int64_t)dear));
        pyr_lock_pace_restart(&self.pace, last_ns + 20000000 * (int64_t)dear);
        assert_true(pyr_lock_pace_mean(&self.pace) == 1);
        assert_false(pyr_lock_pace_is_rare(&self.pace, last_ns + 3600 * SECOND));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks_of_all_depths_keep_the_budget),
        cmocka_unit_test(test_phases_keep_the_budget),
        cmocka_unit_test(test_what_becomes_rare_is_all_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
