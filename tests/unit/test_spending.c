/* Unit tests of collect/spending: where CPU is put that a thread used between two looks.
 *
 * A thread runs `big`, waits, runs `small`, waits, and so on, by a clock that is only counted here;
 * a look comes at a random place of each tick, and finds out that the thread runs, or does not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "collect/pace.h"
#include "collect/spending.h"

enum { TICK_NS = 10000000, LOOKS = 200000, WINDOW = 400 };

typedef struct outcome {
    double bias;    /* share of CPU put on `big`, less that which it used, in all looks together */
    double error;   /* root of the mean square of the same in windows of four seconds */
    double left_ns; /* mean of what the end of a window finds left */
    int64_t lost_ns;
} outcome;

static double share(const int64_t of[2])
{
    return (double)of[0] / (double)(of[0] + of[1]);
}

/* `big`, `small` and `wait` in ticks; `seen`: in percent, of looks at the running thread that find
 * out that it runs; `late` percent
 * of the ticks come three late. */
static outcome run(double big, double small, double wait, uint64_t seen, uint64_t late)
{
    pyr_pace draw = {.random = 88172645463325252};
    pyr_spending spending = {0};
    const double turns[4] = {big, wait, small, wait};
    int64_t put[2] = {0}, used[2] = {0}, window_put[2] = {0}, window_used[2] = {0};
    int64_t now = 0, rest = 0, carry = 0, before = 0, slot = 0;
    unsigned turn = 3, busy = 0, windows = 0;
    outcome out = {0};
    for (int look = 1; look <= LOOKS; look++, slot += TICK_NS) {
        slot += pyr_pace_random(&draw, 100) < late ? 3 * (int64_t)TICK_NS : 0;
        int64_t until = slot + (int64_t)pyr_pace_random(&draw, TICK_NS);
        while (now < until) {
            if (rest == 0) {
                turn = (turn + 1) % 4;
                double longer = 1 + (double)pyr_pace_random(&draw, 1000) / 50000; /* no lock-step */
                rest = 1 + (int64_t)(turns[turn] * TICK_NS * longer);
            }
            int64_t step = rest < until - now ? rest : until - now;
            now += step;
            rest -= step;
            if (turn % 2 == 0) {
                used[turn / 2] += step;
                window_used[turn / 2] += step;
                carry += step;
            }
        }
        int64_t since = now - before;
        before = now;
        if (turn % 2 == 0 && rest > 0 && pyr_pace_random(&draw, 100) < seen) {
            int64_t for_ns = since < 2 * TICK_NS ? TICK_NS : since;
            int64_t taken = pyr_spending_take(&spending, carry, for_ns);
            assert_in_range(taken, 0, carry);
            carry -= taken;
            busy = turn / 2;
            put[busy] += taken;
            window_put[busy] += taken;
        }
        if (look % WINDOW == 0) {
            put[busy] += carry;
            window_put[busy] += carry;
            out.left_ns += (double)carry;
            carry = 0;
            double apart = share(window_put) - share(window_used);
            out.error += apart * apart;
            windows++;
            window_put[0] = window_put[1] = window_used[0] = window_used[1] = 0;
        }
    }
    out.lost_ns = used[0] + used[1] - put[0] - put[1] - carry;
    out.bias = share(put) - share(used);
    out.error = sqrt(out.error / windows);
    out.left_ns /= windows;
    printf(
        "%5.2f %5.2f %5.2f seen %3llu late %2llu: %+.2f points, window +- %.1f, left %.2f ticks\n",
        big, small, wait, (unsigned long long)seen, (unsigned long long)late, 100 * out.bias,
        100 * out.error, out.left_ns / TICK_NS);
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
        assert_true(fabs(all.bias) < 0.008);
        assert_true(all.error < 1.1 * stretches[i].error);
        assert_int_equal(all.lost_ns, 0);
        assert_true(all.left_ns < 3 * TICK_NS);
        outcome half = run(big, small, wait, 50, 0);
        assert_true(fabs(half.bias) < 0.01);
        assert_true(half.left_ns < 8 * TICK_NS);
        outcome late = run(big, small, wait, 100, 14);
        assert_true(fabs(late.bias) < 0.01);
    }
}

/* Bursts that looks hardly ever meet. */
static void test_rare_bursts(void **state)
{
    (void)state;
    assert_true(fabs(run(0.3, 0.1, 5, 100, 0).bias) < 0.02);
    assert_true(fabs(run(0.06, 0.02, 1, 100, 0).bias) < 0.02);
}

/* The first look has nothing to go by but that a thread may run all the time; none takes more than
 * there is; a thread that always runs owes next to nothing. */
static void test_takes(void **state)
{
    (void)state;
    pyr_spending spending = {0};
    assert_int_equal(pyr_spending_take(&spending, 0, 10000), 0);
    assert_int_equal(pyr_spending_take(&spending, 500, 10000), 500);
    spending = (pyr_spending){0};
    assert_int_equal(pyr_spending_take(&spending, 42000, 10000),
                     11000); /* and a 32nd of the rest */
    spending = (pyr_spending){0};
    assert_int_equal(pyr_spending_take(&spending, INT64_C(1) << 62, 1), INT64_C(1) << 57);
    spending = (pyr_spending){0};
    pyr_pace draw = {.random = 5};
    int64_t carry = 0, before = 0;
    for (int look = 0; look < 10000; look++) {
        int64_t at = look * (int64_t)TICK_NS + (int64_t)pyr_pace_random(&draw, TICK_NS);
        carry += at - before;
        before = at;
        carry -= pyr_spending_take(&spending, carry, TICK_NS);
        assert_in_range(carry, 0, 3 * TICK_NS);
    }
    /* One that is found running at every fifth tick only: it is soon known. */
    spending = (pyr_spending){0};
    carry = 0;
    for (int look = 0; look < 200; look++) {
        carry += 5 * TICK_NS;
        carry -= pyr_spending_take(&spending, carry, TICK_NS);
        assert_in_range(carry, 0, 20 * TICK_NS);
    }
    assert_in_range(carry, 0, TICK_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_rare_bursts),
        cmocka_unit_test(test_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
