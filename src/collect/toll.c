/* Tolls; see the header. No state but the caller's; never waits. */
#include "collect/toll.h"

#include "base/random.h"

enum {
    PACE_SPANS = 32,
    MOST_STRETCH = 20,
};

static const int64_t PACE_NS = 32000000; /* PACE_SPANS in less are too many */

static void add(_Atomic int64_t *sum, int64_t more)
{
    atomic_fetch_add_explicit(sum, more, memory_order_relaxed);
}

static int64_t take(_Atomic int64_t *sum)
{
    return atomic_exchange_explicit(sum, 0, memory_order_relaxed);
}

void pyr_toll_init(pyr_toll *toll, uint64_t seed)
{
    atomic_init(&toll->gap_ns, 0); /* the first one is given */
    atomic_init(&toll->time_ns, 0);
    atomic_init(&toll->count, 0);
    atomic_init(&toll->extra, 0);
    atomic_init(&toll->random, seed | 1);
    atomic_init(&toll->stretch, 0);
    atomic_init(&toll->paced, 0);
    atomic_init(&toll->paced_ns, 0);
}

static void put(pyr_toll *toll, pyr_sums sums)
{
    add(&toll->time_ns, sums.time_ns);
    add(&toll->count, sums.count);
    if (sums.extra != 0) { /* most have none */
        add(&toll->extra, sums.extra);
    }
}

bool pyr_toll_add(pyr_toll *toll, pyr_sums span, pyr_sums *sums)
{
    put(toll, span);
    if (atomic_load_explicit(&toll->time_ns, memory_order_relaxed) <
        atomic_load_explicit(&toll->gap_ns, memory_order_relaxed)) {
        return false;
    }
    /* Two threads here at once draw the same: that does no harm. */
    uint64_t random = atomic_load_explicit(&toll->random, memory_order_relaxed);
    int64_t next_ns = pyr_random_gap(
        &random, (double)PYR_TOLL_NS * (double)(UINT64_C(1) << atomic_load(&toll->stretch)));
    atomic_store_explicit(&toll->random, random, memory_order_relaxed);
    *sums = pyr_toll_take(toll);
    atomic_store_explicit(&toll->gap_ns, next_ns, memory_order_relaxed);
    return true;
}

void pyr_toll_pace(pyr_toll *toll, int64_t now_ns)
{
    unsigned stretch = atomic_load(&toll->stretch);
    int64_t took_ns = now_ns - atomic_load(&toll->paced_ns);
    if (atomic_fetch_add(&toll->paced, 1) + 1 < PACE_SPANS && took_ns <= 4 * PACE_NS) {
        return;
    }
    if (took_ns < PACE_NS && stretch < MOST_STRETCH) {
        atomic_store(&toll->stretch, stretch + 1);
    } else if (took_ns > 4 * PACE_NS && stretch > 0) {
        atomic_store(&toll->stretch, stretch - 1);
    }
    atomic_store(&toll->paced, 0);
    atomic_store(&toll->paced_ns, now_ns);
}

void pyr_toll_return(pyr_toll *toll, pyr_sums sums)
{
    put(toll, sums);
    add(&toll->gap_ns, sums.time_ns);
}

pyr_sums pyr_toll_take(pyr_toll *toll)
{
    pyr_sums sums = {.time_ns = take(&toll->time_ns)};
    sums.extra = take(&toll->extra); /* before the count, of which it may be a part */
    sums.count = take(&toll->count);
    add(&toll->gap_ns, -sums.time_ns);
    return sums;
}

pyr_sums pyr_toll_open(const pyr_toll *toll)
{
    pyr_toll *from = (pyr_toll *)(uintptr_t)toll;
    return (pyr_sums){
        .time_ns = atomic_load_explicit(&from->time_ns, memory_order_relaxed),
        .count = atomic_load_explicit(&from->count, memory_order_relaxed),
        .extra = atomic_load_explicit(&from->extra, memory_order_relaxed),
    };
}
