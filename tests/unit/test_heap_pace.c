/* The pace of heap samples: budgets hold for any speed of allocation, and quiet programs are
 * sampled finely. Time is simulated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collect/heap_estimate.h"
#include "collect/heap_pace.h"
#include "unwind/own_stack.h"

static const int64_t SECOND = 1000000000;

/* Allocates at `bytes_per_s` for `seconds`; the number of events, each of that cost. */
static uint64_t run_at(uint32_t cost, pyr_heap_pace *pace, int64_t *now_ns, double bytes_per_s,
                       double seconds, double size, uint64_t *random)
{
    uint64_t events = 0;
    int64_t end_ns = *now_ns + (int64_t)(seconds * (double)SECOND);
    for (;;) {
        double next = (double)pyr_heap_draw(random, pace->distance);
        next = next < size ? size : next; /* an allocation is one event at most */
        *now_ns += (int64_t)(next / bytes_per_s * (double)SECOND);
        if (*now_ns >= end_ns) {
            *now_ns = end_ns;
            return events;
        }
        pyr_heap_pace_event(pace, *now_ns, cost);
        events++;
    }
}

static uint64_t run(pyr_heap_pace *pace, int64_t *now_ns, double bytes_per_s, double seconds,
                    double size, uint64_t *random)
{
    return run_at(1, pace, now_ns, bytes_per_s, seconds, size, random);
}

static void events_keep_the_budget(void **state)
{
    (void)state;
    static const double speeds[] = {1e6, 1e8, 1e9, 1e10, 1e11};
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++) {
        pyr_heap_pace pace;
        uint64_t random = 17;
        int64_t now_ns = SECOND;
        pyr_heap_pace_init(&pace, 0, 0, now_ns);
        uint64_t burst = run(&pace, &now_ns, speeds[i], 1, 16, &random);
        uint64_t lasting = run(&pace, &now_ns, speeds[i], 20, 16, &random);
        assert_true(burst <= 3 * PYR_HEAP_BURST + PYR_HEAP_EVENTS_PER_S);
        assert_true((double)lasting <= 20 * 1.15 * PYR_HEAP_EVENTS_PER_S + PYR_HEAP_BURST / 2.0);
        if (speeds[i] > 1e8 && speeds[i] < 1e10) {
            assert_true((double)lasting >= 20 * 0.4 * PYR_HEAP_EVENTS_PER_S);
        }
        assert_true(pace.distance >= PYR_HEAP_NEAREST);
    }
}

enum { DEEP = 9 }; /* the cost beneath forty frames */

/* Begins, and comes to rest under lasting load beneath a deep stack; the events that the budget has
 * there for so many seconds. */
static double begin_deep(pyr_heap_pace *pace, int64_t *now_ns, uint64_t *random, double seconds)
{
    pyr_heap_pace_init(pace, 0, 0, *now_ns);
    (void)run_at(DEEP, pace, now_ns, 1e9, 10, 16, random);
    return seconds * PYR_HEAP_EVENTS_PER_S / DEEP;
}

/* Forty frames: a ninth of the events of a bare allocation, and the same credit spent. */
static void deep_stacks_cost_more(void **state)
{
    (void)state;
    pyr_heap_pace pace;
    uint64_t random = 11;
    int64_t now_ns = SECOND;
    double budget = begin_deep(&pace, &now_ns, &random, 20);
    double events = (double)run_at(DEEP, &pace, &now_ns, 1e9, 20, 16, &random);
    assert_true(events >= 0.8 * budget && events <= 1.15 * budget);
}

/* A container's share of a core is what the budget is of. */
static void a_quota_is_kept(void **state)
{
    (void)state;
    static const double quotas[] = {0.1, 0.5, 1, 4};
    for (size_t i = 0; i < sizeof quotas / sizeof quotas[0]; i++) {
        pyr_heap_pace pace;
        uint64_t random = 13;
        int64_t now_ns = SECOND;
        pyr_heap_pace_init(&pace, 0, quotas[i], now_ns);
        (void)run(&pace, &now_ns, 1e9, 60, 16, &random);
        double events = (double)run(&pace, &now_ns, 1e9, 20, 16, &random);
        double budget = 20 * PYR_HEAP_EVENTS_PER_S * (quotas[i] < 1 ? quotas[i] : 1);
        assert_true(events <= 1.15 * budget && events >= 0.8 * budget);
    }
}

/* A thousand frames: small blocks stay within the distances that there are. */
static void the_deepest_stacks_leave_the_distance_in_its_bounds(void **state)
{
    (void)state;
    static const pyr_own_stack deep = {.count = 64, .omitted = 936};
    pyr_heap_pace pace;
    uint64_t random = 3;
    int64_t now_ns = SECOND;
    pyr_heap_pace_init(&pace, 0, 0, now_ns);
    for (int i = 0; i < 1000; i++) {
        (void)run_at(pyr_own_stack_cost(&deep), &pace, &now_ns, 1e9, 0.01, 16, &random);
        assert_true(pace.distance <= PYR_HEAP_FARTHEST);
    }
}

/* Rest does not save up for work to come, but for the nearer distance of the first slice after it.
 */
static void work_after_rest_is_not_slowed(void **state)
{
    (void)state;
    pyr_heap_pace pace;
    uint64_t random = 7, most = 0;
    int64_t now_ns = SECOND;
    double budget = begin_deep(&pace, &now_ns, &random, 0.25);
    for (int i = 0; i < 50; i++) {
        now_ns += 2 * SECOND;
        uint64_t events = run_at(DEEP, &pace, &now_ns, 1e9, 0.25, 16, &random);
        most = events > most ? events : most;
    }
    assert_true((double)most <= 2.5 * budget && (double)most >= 0.7 * budget);
}

/* 208 MB at once, beneath three frames: finely enough to know a random half of them to 2 %, however
 * fast, and faster in its second half. */
static void what_is_built_at_once_is_known_well(void **state)
{
    (void)state;
    static const double speeds[] = {1e8, 5e8, 1e9, 2e9, 1e10}, whole = 208e6;
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++) {
        pyr_heap_pace pace;
        uint64_t random = 5;
        double left = whole, variance = 0, now_ns = (double)SECOND;
        pyr_heap_pace_init(&pace, 0, 0, SECOND);
        while (left > 0) {
            double distance = pace.distance, next = (double)pyr_heap_draw(&random, distance);
            left -= next;
            now_ns += next / (speeds[i] * (left > whole / 2 ? 1 : 2.5)) * (double)SECOND;
            variance += distance * distance;
            pyr_heap_pace_event(&pace, (int64_t)now_ns, 1);
        }
        print_message("%.1f GB/s: %.2f %%\n", speeds[i] / 1e9, 100 * sqrt(variance) / whole);
        assert_true(sqrt(variance) / whole < 0.017);
    }
}

static void a_quiet_program_is_sampled_finely(void **state)
{
    (void)state;
    pyr_heap_pace pace;
    uint64_t random = 3;
    int64_t now_ns = SECOND;
    pyr_heap_pace_init(&pace, 0, 0, now_ns);
    (void)run(&pace, &now_ns, 2e9, 5, 16, &random);
    assert_true(pace.distance > 4 * PYR_HEAP_NEAREST);
    (void)run(&pace, &now_ns, 1e6, 30, 16, &random);
    assert_true(pace.distance == PYR_HEAP_NEAREST);
    (void)run(&pace, &now_ns, 2e9, 5, 16, &random);
    assert_true(pace.distance > 4 * PYR_HEAP_NEAREST);
    for (int i = 0; i < 20; i++) { /* without a single event */
        now_ns += SECOND;
        pyr_heap_pace_rest(&pace, now_ns);
    }
    assert_true(pace.distance == PYR_HEAP_NEAREST);
}

static void the_farthest_distance_is_passed_only_in_debt(void **state)
{
    (void)state;
    pyr_heap_pace pace;
    uint64_t random = 3;
    int64_t now_ns = SECOND;
    pyr_heap_pace_init(&pace, 0, 0, now_ns);
    (void)run(&pace, &now_ns, 3e10, 10, 16, &random);
    assert_true(pace.distance <= PYR_HEAP_FARTHEST);
    /* Reserving a gigabyte costs nothing as long as nobody touches it. */
    uint64_t before = run(&pace, &now_ns, 1e14, 1, 1e9, &random);
    assert_true(before > 0);
    uint64_t lasting = run(&pace, &now_ns, 1e14, 10, 1e9, &random);
    assert_true(pace.distance > PYR_HEAP_FARTHEST);
    assert_true((double)lasting <= 10 * 1.15 * PYR_HEAP_EVENTS_PER_S);
}

static void a_distance_set_by_hand_is_a_floor(void **state)
{
    (void)state;
    pyr_heap_pace pace;
    uint64_t random = 3;
    int64_t now_ns = SECOND;
    pyr_heap_pace_init(&pace, 1 << 20, 0, now_ns);
    (void)run(&pace, &now_ns, 1e7, 30, 16, &random);
    assert_true(pace.distance == 1 << 20);
    assert_false(pace.is_pushed);
    pyr_heap_pace_init(&pace, 16, 0, now_ns);
    assert_true(pace.distance == 16);
    uint64_t events = run(&pace, &now_ns, 1e9, 10, 16, &random);
    assert_true(pace.is_pushed);
    assert_true((double)events <= 11 * 1.15 * PYR_HEAP_EVENTS_PER_S + 3 * PYR_HEAP_BURST);
    /* Larger than any that would be chosen. */
    pyr_heap_pace_init(&pace, 1 << 30, 0, now_ns);
    (void)run(&pace, &now_ns, 1e11, 10, 16, &random);
    assert_true(pace.distance == 1 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_keep_the_budget),
        cmocka_unit_test(deep_stacks_cost_more),
        cmocka_unit_test(the_deepest_stacks_leave_the_distance_in_its_bounds),
        cmocka_unit_test(a_quota_is_kept),
        cmocka_unit_test(work_after_rest_is_not_slowed),
        cmocka_unit_test(what_is_built_at_once_is_known_well),
        cmocka_unit_test(a_quiet_program_is_sampled_finely),
        cmocka_unit_test(the_farthest_distance_is_passed_only_in_debt),
        cmocka_unit_test(a_distance_set_by_hand_is_a_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
