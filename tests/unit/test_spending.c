/* Unit tests of collect/spending: where CPU is put that a thread used between two looks.
 *
 * Threads compute and wait by a clock that is only counted here; a look comes at a random place of
 * each tick, and finds out that the thread runs, or does not. At
 * the end of a window, or of a second where a flight is recorded, the account is settled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "collect/pace.h"
#include "collect/spending.h"

enum { TICK_NS = 10000000, LOOKS = 200000, WINDOW = 400, MOST = 3, LATEST = 8 };

/* One thread and its account. What it does in turn: activity `turn`, then a wait. */
typedef struct scene {
    pyr_pace *draw;
    uint64_t seen; /* percent of looks at the running thread that find out that it runs */
    double turns[2 * MOST];
    unsigned turn_count, turn;
    int64_t rest, now, before, carry;
    unsigned busy;
    pyr_spending spending;
    int64_t put[MOST + 1], used[MOST]; /* the last: seen at nothing */
} scene;

static void settle(scene *self)
{
    self->put[self->busy] += self->carry;
    pyr_spending_settle(&self->spending, self->carry);
    self->carry = 0;
}

/* Lets it go on until then. */
static void run_until(scene *self, int64_t until)
{
    while (self->now < until) {
        if (self->rest == 0) {
            self->turn = (self->turn + 1) % self->turn_count;
            double longer =
                1 + (double)pyr_pace_random(self->draw, 1000) / 50000; /* no lock-step */
            self->rest = (int64_t)(self->turns[self->turn] * TICK_NS * longer);
            continue;
        }
        int64_t step = self->rest < until - self->now ? self->rest : until - self->now;
        self->now += step;
        self->rest -= step;
        if (self->turn % 2 == 0) {
            self->used[self->turn / 2] += step;
            self->carry += step;
        }
    }
}

static void look(scene *self, int64_t at)
{
    run_until(self, at);
    int64_t since = self->now - self->before;
    self->before = self->now;
    if (self->turn % 2 == 0 && self->rest > 0 && pyr_pace_random(self->draw, 100) < self->seen) {
        int64_t most = since < LATEST * (int64_t)TICK_NS ? since : LATEST * (int64_t)TICK_NS;
        bool is_drawn;
        int64_t taken = pyr_spending_take(&self->spending, self->carry,
                                          since < 2 * TICK_NS ? TICK_NS : most, &is_drawn);
        assert_in_range(taken, 0, self->carry);
        self->carry -= taken;
        self->put[self->turn / 2] += taken;
        self->busy = is_drawn ? self->turn / 2 : self->busy;
    }
}

static double share(const int64_t of[MOST], unsigned which)
{
    return (double)of[which] / (double)(of[0] + of[1] + of[2]);
}

typedef struct outcome {
    double bias;  /* share of CPU put on the first activity, less that which it used */
    double error; /* root of the mean square of the same in windows of four seconds */
    double left;  /* mean of what the end of a window finds left, in ticks */
} outcome;

/* A thread that does `big`, waits, does `small`, waits, in ticks, without end; `late` percent of
 * the ticks come three late. */
static outcome run(double big, double small, double wait, uint64_t seen, uint64_t late)
{
    pyr_pace draw = {.random = 88172645463325252};
    scene self = {.draw = &draw, .seen = seen, .turns = {big, wait, small, wait}, .turn_count = 4};
    self.turn = 3;
    int64_t slot = 0, put[MOST] = {0}, used[MOST] = {0};
    outcome out = {0};
    for (int at = 1; at <= LOOKS; at++, slot += TICK_NS) {
        slot += pyr_pace_random(&draw, 100) < late ? 3 * (int64_t)TICK_NS : 0;
        look(&self, slot + (int64_t)pyr_pace_random(&draw, TICK_NS));
        if (at % WINDOW == 0) {
            out.left += (double)self.carry / TICK_NS / (LOOKS / WINDOW);
            settle(&self);
            double apart = share(self.put, 0) - share(self.used, 0);
            out.error += apart * apart / (LOOKS / WINDOW);
            for (unsigned i = 0; i < 2; i++) {
                put[i] += self.put[i];
                used[i] += self.used[i];
                self.put[i] = self.used[i] = 0;
            }
        }
    }
    assert_int_equal(put[0] + put[1], used[0] + used[1]);
    out.bias = share(put, 0) - share(used, 0);
    out.error = sqrt(out.error);
    printf(
        "%5.2f %5.2f %5.2f seen %3llu late %2llu: %+.2f points, window +- %.1f, left %.2f ticks\n",
        big, small, wait, (unsigned long long)seen, (unsigned long long)late, 100 * out.bias,
        100 * out.error, out.left);
    return out;
}

static const struct {
    double big, small, wait;
    double error; /* of a window, where every look at the running thread takes the same */
} stretches[] = {{1.5, 0.5, 1.06, 0.024},  {1.2, 0.4, 0.3, 0.022}, {0.6, 0.2, 0.3, 0.029},
                 {0.15, 0.05, 0.1, 0.033}, {3, 1, 0.5, 0.015},     {3, 1, 3, 0.022},
                 {9, 3, 2, 0.011},         {30, 10, 5, 0.01}};

/* Three quarters come out as three quarters, whatever the length of stretches and waits, also where
 * not every look finds out and where ticks come late. */
static void test_shares(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stretches / sizeof stretches[0]; i++) {
        double big = stretches[i].big, small = stretches[i].small, wait = stretches[i].wait;
        outcome all = run(big, small, wait, 100, 0);
        outcome half = run(big, small, wait, 50, 0);
        outcome late = run(big, small, wait, 100, 14);
        assert_true(fabs(all.bias) < 0.008);
        assert_true(all.error < 1.1 * stretches[i].error);
        assert_true(all.left < 3);
        assert_true(fabs(half.bias) < 0.01);
        assert_true(half.left < 8);
        assert_true(fabs(late.bias) < 0.015);
    }
}

/* Bursts that looks hardly ever meet. */
static void test_rare_bursts(void **state)
{
    (void)state;
    assert_true(fabs(run(0.3, 0.1, 5, 100, 0).bias) < 0.02);
    assert_true(fabs(run(0.06, 0.02, 1, 100, 0).bias) < 0.02);
}

/* Those that are seen while they run, of many threads that do three things, each for so many ticks,
 * `times` times, with long rests between them: requests of a service. */
static void run_requests(double ticks, int times, uint64_t seen, double shares[MOST])
{
    enum { THREADS = 20000 };
    pyr_pace draw = {.random = 88172645463325252};
    int64_t put[MOST] = {0}, used[MOST] = {0};
    for (int thread = 0; thread < THREADS / times; thread++) {
        scene self = {.draw = &draw, .seen = seen, .turn_count = 6};
        memcpy(self.turns, (double[]){ticks, 0, ticks, 0, ticks, 50}, sizeof self.turns);
        self.turn = 5;
        self.busy = MOST;
        self.rest = (int64_t)pyr_pace_random(&draw, TICK_NS);
        self.spending.random = pyr_pace_random(&draw, UINT64_MAX);
        int looks = times * (50 + 3 * (int)(ticks + 1));
        for (int at = 0; at < looks; at++) {
            look(&self, at * (int64_t)TICK_NS + (int64_t)pyr_pace_random(&draw, TICK_NS));
        }
        settle(&self);
        for (unsigned i = 0; i < MOST; i++) {
            put[i] += self.put[i];
            used[i] += self.used[i];
        }
    }
    for (unsigned i = 0; i < MOST; i++) {
        shares[i] = share(put, i) / share(used, i);
    }
    printf("requests of 3 x %.1f ticks, %d a thread, seen %llu: %.3f %.3f %.3f\n", ticks, times,
           (unsigned long long)seen, shares[0], shares[1], shares[2]);
}

/* What a thread does first, and what it does last before it rests, get their own. */
static void test_requests(void **state)
{
    (void)state;
    static const double ticks[] = {0.7, 3, 10};
    for (int times = 1; times <= 10; times *= 10) {
        for (uint64_t seen = 50; seen <= 100; seen += 50) {
            for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++) {
                double shares[MOST];
                run_requests(ticks[i], times, seen, shares);
                for (unsigned which = 0; which < MOST; which++) {
                    assert_true(fabs(shares[which] - 1) < (times == 1 ? 0.12 : 0.06));
                }
            }
        }
    }
}

static int64_t take(pyr_spending *spending, int64_t carry, int64_t stands_for)
{
    bool is_drawn;
    return pyr_spending_take(spending, carry, stands_for, &is_drawn);
}

/* The first look has nothing to go by but that a thread may run all the time; none takes more than
 * there is; a thread that always runs owes next to nothing. */
static void test_takes(void **state)
{
    (void)state;
    pyr_spending spending = {0};
    assert_int_equal(take(&spending, 0, 10000), 0);
    assert_int_equal(take(&spending, 500, 10000), 500);
    spending = (pyr_spending){0};
    assert_int_equal(take(&spending, 42000, 10000), 14000); /* and an 8th of the rest */
    spending = (pyr_spending){0};
    assert_int_equal(take(&spending, INT64_C(1) << 62, 1), INT64_C(1) << 59);
    spending = (pyr_spending){0};
    pyr_pace draw = {.random = 5};
    int64_t carry = 0, before = 0;
    for (int look = 0; look < 10000; look++) {
        int64_t at = look * (int64_t)TICK_NS + (int64_t)pyr_pace_random(&draw, TICK_NS);
        carry += at - before;
        before = at;
        carry -= take(&spending, carry, TICK_NS);
        assert_in_range(carry, 0, 3 * TICK_NS);
    }
    /* One that is found running at every fifth tick only: it is soon known. */
    spending = (pyr_spending){0};
    carry = 0;
    for (int look = 0; look < 200; look++) {
        carry += 5 * TICK_NS;
        carry -= take(&spending, carry, TICK_NS);
        assert_in_range(carry, 0, 40 * TICK_NS);
    }
    assert_in_range(carry, 0, 2 * TICK_NS);
}

/* Each look since the account was settled is drawn as often as any other. */
static void test_draws(void **state)
{
    (void)state;
    enum { TURNS = 100000, EACH = 5 };
    pyr_spending spending = {.random = 1};
    int drawn[EACH] = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        int last = -1;
        for (int look = 0; look < EACH; look++) {
            bool is_drawn;
            (void)pyr_spending_take(&spending, TICK_NS, TICK_NS, &is_drawn);
            last = is_drawn ? look : last;
        }
        drawn[last]++;
        pyr_spending_settle(&spending, 0);
    }
    for (int look = 0; look < EACH; look++) {
        assert_in_range(drawn[look], TURNS / EACH - 700, TURNS / EACH + 700); /* 5 sigmas */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),   cmocka_unit_test(test_rare_bursts),
        cmocka_unit_test(test_requests), cmocka_unit_test(test_takes),
        cmocka_unit_test(test_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
