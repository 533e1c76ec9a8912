/* Countdowns; see the header. No state but the caller's; never waits. */
#include "collect/countdown.h"

#include "base/random.h"

/* Adds gaps to a countdown that stands `from` above what is left of it, until it is above 0. */
static void arm(pyr_countdown *countdown, double mean, int64_t from)
{
    for (;;) {
        countdown->gap = pyr_random_gap(&countdown->random, mean);
        int64_t step = countdown->gap - from;
        if (atomic_fetch_add(&countdown->left, step) + step > 0) {
            return;
        }
        /* More happened meanwhile than the gap is long: that goes to the next sample. */
        countdown->carried += countdown->gap;
        from = 0;
    }
}

void pyr_countdown_go_on(pyr_countdown *countdown, double mean, int64_t carry)
{
    countdown->carried = carry;
    arm(countdown, mean, 0);
}

void pyr_countdown_stop(pyr_countdown *countdown)
{
    atomic_store(&countdown->left, PYR_COUNTDOWN_FAR);
}

void pyr_countdown_start(pyr_countdown *countdown, double mean, uint64_t seed)
{
    countdown->random = seed | 1;
    countdown->carried = 0;
    atomic_store(&countdown->left, PYR_COUNTDOWN_FAR);
    arm(countdown, mean, PYR_COUNTDOWN_FAR);
}

bool pyr_countdown_take(pyr_countdown *countdown, int64_t *rest)
{
    int64_t left = atomic_load(&countdown->left);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&countdown->left, &left, PYR_COUNTDOWN_FAR)) {
            *rest = countdown->gap - left + countdown->carried;
            return true;
        }
    }
    return false;
}

void pyr_countdown_resume(pyr_countdown *countdown, double mean)
{
    countdown->carried = 0;
    arm(countdown, mean, PYR_COUNTDOWN_FAR);
}
