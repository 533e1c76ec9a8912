/* The estimates of heap samples against the truth of simulated programs. Seeds are fixed: a run
 * that is good stays good; the bounds are those of the issue or several standard errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collect/heap_estimate.h"

enum { SITES = 50, RUNS = 40 };

/* A thread that allocates. */
typedef struct thread {
    pyr_heap_account account;
    uint64_t random;
    double distance;
    int64_t left, drawn;
    uint64_t count;
} thread;

static void begin(thread *self, uint64_t seed, double distance)
{
    *self = (thread){.random = seed, .distance = distance};
    self->left = self->drawn = pyr_heap_draw(&self->random, distance);
}

/* Allocates; true: sampled, with its weight. As heap_sampler.c does. */
static int allocate(thread *self, int64_t size, pyr_heap_weight *weight)
{
    self->count++;
    self->left -= size;
    if (self->left >= 0) {
        return 0;
    }
    *weight = pyr_heap_weigh(&self->account, (double)size, self->distance,
                             (double)(self->drawn - self->left - size), (double)self->count - 1);
    self->left = self->drawn = pyr_heap_draw(&self->random, self->distance);
    self->count = 0;
    return 1;
}

/* Log-uniform from 16 bytes to 64 MiB, with far more small ones, as programs have. */
static int64_t mixed_size(uint64_t *random)
{
    double most = pyr_heap_uniform(random) < 0.001 ? 22 : 9;
    return (int64_t)(16 * exp2(most * pyr_heap_uniform(random)));
}

static void totals_are_near_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        thread self;
        uint64_t random = seed * 77;
        double bytes = 0, count = 0, said_bytes = 0, said_count = 0;
        begin(&self, seed, 512 * 1024);
        for (int i = 0; i < 20000000; i++) {
            pyr_heap_weight weight;
            int64_t size = mixed_size(&random);
            bytes += (double)size;
            count += 1;
            if (allocate(&self, size, &weight)) {
                said_bytes += weight.bytes;
                said_count += weight.count;
            }
        }
        print_message("%.0f GB: bytes %.5f, counts %.5f of the truth\n", bytes / 1e9,
                      said_bytes / bytes, said_count / count);
        assert_true(fabs(said_bytes / bytes - 1) < 0.01);
        assert_true(fabs(said_count / count - 1) < 0.01);
    }
}

static void totals_of_small_objects_are_within_some_distances(void **state)
{
    (void)state;
    thread self;
    double said = 0, said_count = 0;
    begin(&self, 5, 65536);
    for (int i = 0; i < 10000000; i++) {
        pyr_heap_weight weight;
        if (allocate(&self, 48, &weight)) {
            said += weight.bytes;
            said_count += weight.count;
        }
    }
    /* 7,324 samples: without the correction one standard error would be 86 distances. */
    assert_true(fabs(said - 480e6) < 16 * 65536);
    assert_true(fabs(said_count - 1e7) < 16 * 65536.0 / 48 * 3);
}

/* Each site is right in the mean, whatever its size and its neighbours' are. */
static void sites_have_no_bias(void **state)
{
    (void)state;
    static const int64_t sizes[] = {16, 100, 512, 5000, 40000, 300000, 5000000};
    enum { KINDS = sizeof sizes / sizeof sizes[0], TURNS = 1500000 };
    double said[KINDS] = {0}, said_count[KINDS] = {0}, variance[KINDS] = {0};
    double variance_count[KINDS] = {0}, made[KINDS] = {0};
    thread self;
    uint64_t random = 99;
    begin(&self, 11, 100000);
    for (int i = 0; i < TURNS; i++) {
        size_t kind = (size_t)(pow(pyr_heap_uniform(&random), 3) * KINDS);
        pyr_heap_weight weight;
        made[kind]++;
        if (allocate(&self, sizes[kind], &weight)) {
            said[kind] += weight.bytes;
            said_count[kind] += weight.count;
            variance[kind] += weight.variance_bytes;
            variance_count[kind] += weight.variance_count;
        }
    }
    for (size_t kind = 0; kind < KINDS; kind++) {
        double bytes = made[kind] * (double)sizes[kind];
        print_message("size %ld: bytes off by %.2f, count by %.2f standard errors\n",
                      (long)sizes[kind], (said[kind] - bytes) / sqrt(variance[kind] + 1),
                      (said_count[kind] - made[kind]) / sqrt(variance_count[kind] + 1));
        assert_true(fabs(said[kind] - bytes) < 4 * sqrt(variance[kind]) + 1e-3 * bytes);
        assert_true(fabs(said_count[kind] - made[kind]) <
                    4 * sqrt(variance_count[kind]) + 1e-3 * made[kind]);
        assert_true(sqrt(variance[kind]) < 0.1 * bytes + 500000);
    }
}

/* 2,000 site-runs: the 95 % interval covers the truth in 93 to 97 of 100. */
static void intervals_cover_the_truth(void **state)
{
    (void)state;
    int covered = 0, covered_count = 0;
    for (int run = 0; run < RUNS; run++) {
        double made[SITES] = {0}, said[SITES] = {0}, variance[SITES] = {0};
        double count[SITES] = {0}, said_count[SITES] = {0}, variance_count[SITES] = {0};
        uint64_t random = 1234 + (uint64_t)run * 7919;
        thread self;
        begin(&self, 4321 + (uint64_t)run * 104729, 65536);
        for (int i = 0; i < 400000; i++) {
            size_t site = (size_t)(pyr_heap_uniform(&random) * SITES);
            int64_t size = 32 + (int64_t)(pyr_heap_uniform(&random) * 40 * (double)(site + 1));
            pyr_heap_weight weight;
            made[site] += (double)size;
            count[site]++;
            if (allocate(&self, size, &weight)) {
                said[site] += weight.bytes;
                variance[site] += weight.variance_bytes;
                said_count[site] += weight.count;
                variance_count[site] += weight.variance_count;
            }
        }
        for (int site = 0; site < SITES; site++) {
            double low, high;
            pyr_heap_interval(said[site], variance[site], &low, &high);
            covered += made[site] >= low && made[site] <= high;
            pyr_heap_interval(said_count[site], variance_count[site], &low, &high);
            covered_count += count[site] >= low && count[site] <= high;
        }
    }
    print_message("covered: bytes %d, counts %d of %d\n", covered, covered_count, RUNS * SITES);
    assert_in_range(covered, RUNS * SITES * 93 / 100, RUNS * SITES * 97 / 100);
    assert_in_range(covered_count, RUNS * SITES * 93 / 100, RUNS * SITES * 97 / 100);
}

static void lost_samples_are_made_up_for(void **state)
{
    (void)state;
    thread self;
    double said = 0;
    begin(&self, 3, 65536);
    for (int i = 0; i < 5000000; i++) {
        pyr_heap_weight weight;
        pyr_heap_account before = self.account;
        int64_t drawn = self.drawn;
        uint64_t count = self.count;
        int64_t left = self.left - 64;
        if (allocate(&self, 64, &weight)) {
            if (i % 10 == 0) {
                self.account = before;
                pyr_heap_miss(&self.account, 64, self.distance, (double)(drawn - left - 64),
                              (double)count);
            } else {
                said += weight.bytes;
            }
        }
    }
    assert_true(fabs(said / 320e6 - 1) < 0.01);
}

static void edges(void **state)
{
    (void)state;
    uint64_t random = 0; /* a state that must not stay */
    double low = -1, high = -1;
    assert_true(pyr_heap_random(&random) != pyr_heap_random(&random));
    for (int i = 0; i < 1000; i++) {
        assert_true(pyr_heap_draw(&random, 1e-9) == 1);
        assert_true(pyr_heap_draw(&random, 1e300) <= INT64_C(1) << 60);
        double uniform = pyr_heap_uniform(&random);
        assert_true(uniform >= 0 && uniform < 1);
    }
    pyr_heap_interval(0, 0, &low, &high);
    assert_true(low == 0 && high == 0);
    pyr_heap_interval(100, 0, &low, &high); /* surely sampled */
    assert_true(low == 100 && high == 100);
    pyr_heap_interval(65536, 65536.0 * 65536, &low, &high); /* one sample */
    assert_true(low >= 0 && low < 20000 && high > 200000 && high < 400000);
    assert_true(pyr_heap_chance(64e6, 65536) == 1);
    /* A thread that said far too much never says less than nothing. */
    pyr_heap_account account = {.carry_bytes = -1e12, .carry_count = -1e12};
    pyr_heap_weight weight = pyr_heap_weigh(&account, 16, 65536, 0, 0);
    assert_true(weight.bytes > 0 && weight.count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_near_exact),
        cmocka_unit_test(totals_of_small_objects_are_within_some_distances),
        cmocka_unit_test(sites_have_no_bias),
        cmocka_unit_test(intervals_cover_the_truth),
        cmocka_unit_test(lost_samples_are_made_up_for),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
