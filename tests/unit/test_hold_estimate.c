/* Unit tests of collect/hold_estimate: programs made of acquisitions, sampled as the lock collector
 * samples them, with many seeds. What is said of their holds against what they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "collect/hold_estimate.h"

enum { SEEDS = 2000 };

/* A program, and what is sampled of it. */
typedef struct program {
    uint64_t random;
    pyr_hold_room room;
    int64_t now_ns, gap, left; /* of the countdown */
    double mean;
    double true_ns, said_ns;
    double most_ns; /* said of one hold */
} program;

static program begin(uint64_t seed, double mean)
{
    program self = {.random = seed * 2 + 1, .mean = mean};
    self.gap = self.left = pyr_random_gap(&self.random, mean);
    return self;
}

/* A lock is taken now, and will have been held so long. */
static void take(program *self, uintptr_t lock, uintptr_t holder, int64_t hold_ns)
{
    self->true_ns += (double)hold_ns;
    if (--self->left == 0) {
        pyr_hold_room_add(&self->room, self->now_ns, self->gap, lock, holder);
        double said_ns = (double)pyr_hold_room_take(&self->room, hold_ns, self->gap);
        assert_true(said_ns >= (double)hold_ns);
        self->said_ns += said_ns;
        self->most_ns = said_ns > self->most_ns ? said_ns : self->most_ns;
        self->gap = self->left = pyr_random_gap(&self->random, self->mean);
    }
}

/* As the watcher does where samples have become rare. */
static void shorten(program *self)
{
    pyr_hold_room_clear(&self->room, self->now_ns);
    self->mean = 1;
    self->gap = self->left = 1;
}

static void assert_near(double value, double truth, double tolerance)
{
    assert_true(value > truth * (1 - tolerance) && value < truth * (1 + tolerance));
}

/* One lock 100,000 times, then another one for long: what is said is never more than has passed. */
static void test_from_short_ones_to_long_ones(void **state)
{
    (void)state;
    int across = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        program self = begin(seed, 100 + (double)(seed % 400));
        for (int i = 0; i < 100000; i++) {
            take(&self, 1, 7, 100);
            self.now_ns += 250;
        }
        double short_ns = self.said_ns;
        for (int i = 0; i < 40; i++) {
            if (i == 4) {
                shorten(&self); /* after 20 ms */
            }
            take(&self, 2, 7, 5000000);
            self.now_ns += 5000100;
        }
        across += self.most_ns > 5000000;
        assert_true(self.said_ns < (double)self.now_ns);
        assert_near(short_ns, 100000 * 100.0, 0.05);
    }
    assert_in_range(across, SEEDS / 200, SEEDS / 20); /* else it shows nothing */
}

/* What varies comes out in the mean, and never adds up to more than the time of one lock. */
static void test_one_busy_lock(void **state)
{
    (void)state;
    double true_ns = 0, said_ns = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        program self = begin(seed, 50);
        uint64_t lengths = seed * 2 + 1;
        for (int i = 0; i < 50000; i++) {
            int64_t hold_ns = pyr_random_gap(&lengths, 7000);
            take(&self, 1, 7, hold_ns);
            self.now_ns += hold_ns + 1000;
            assert_true(self.said_ns < (double)self.now_ns + (double)hold_ns);
        }
        true_ns += self.true_ns;
        said_ns += self.said_ns;
    }
    assert_near(said_ns, true_ns, 0.03);
}

/* A hold of a thousand is a thousand times as long. */
static void test_seldom_long(void **state)
{
    (void)state;
    double true_ns = 0, said_ns = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        program self = begin(seed, 100);
        uint64_t chance = seed * 2 + 1;
        for (int i = 0; i < 200000; i++) {
            int64_t hold_ns = pyr_random_next(&chance) % 1000 == 0 ? 1000000 : 1000;
            take(&self, 1, 7, hold_ns);
            self.now_ns += hold_ns + 9000;
        }
        true_ns += self.true_ns;
        said_ns += self.said_ns;
    }
    assert_near(said_ns, true_ns, 0.1);
}

/* Many threads with a lock each, and one inside the other: several are held at a time. */
static void test_several_at_a_time(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        double true_ns = 0, said_ns = 0;
        for (uint64_t seed = 1; seed <= SEEDS / 20; seed++) {
            program self = begin(seed, 20);
            for (int i = 0; i < 20000; i++) {
                for (unsigned thread = 0; thread < threads; thread++) {
                    take(&self, 16 * thread + 1600, 48 * thread + 4800, 90000);
                    take(&self, 16 * thread + 8000, 48 * thread + 4800, 70000);
                }
                self.now_ns += 110000;
            }
            true_ns += self.true_ns;
            said_ns += self.said_ns;
        }
        assert_near(said_ns, true_ns, 0.1);
    }
}

static void test_each_for_itself(void **state)
{
    (void)state;
    program self = begin(1, 1);
    for (int i = 0; i < 1000; i++) {
        take(&self, 1, 7, 1000 + i);
        self.now_ns += 10;
    }
    assert_true(self.said_ns == self.true_ns);
    assert_int_equal(pyr_hold_room_take(&self.room, INT64_MAX, 3), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_short_ones_to_long_ones),
        cmocka_unit_test(test_one_busy_lock),
        cmocka_unit_test(test_seldom_long),
        cmocka_unit_test(test_several_at_a_time),
        cmocka_unit_test(test_each_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
