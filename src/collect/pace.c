/* The pace of ticks; see the header. Pure.
 *
 * Ticks at random places of their slots cannot run in lock-step with periodic work of the program,
 * and make the account of CPU time unbiased. The interval is what the cost of a tick allows: cost
 * divided by the budget, never below what is set.
 */
#include "collect/pace.h"

#include <string.h>

enum {
    SMOOTHING = 32,      /* ticks that averages reach back over */
    OUTLIER_NS = 500000, /* a tick that costs more than this and */
    OUTLIER_TIMES = 8,   /* so many times the average counts as this much only */
};

uint64_t pyr_pace_random(pyr_pace *pace, uint64_t bound)
{
    /* xorshift64*: enough for jitter (Vigna, 2016). */
    uint64_t x = pace->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    pace->random = x;
    return bound ? (x * 0x2545F4914F6CDD1DU >> 11) % bound : 0;
}

void pyr_pace_init(pyr_pace *pace, int64_t interval_ns, double budget_pct, double quota_cores,
                   int64_t now_ns, uint64_t seed)
{
    *pace = (pyr_pace){.base_interval_ns = interval_ns,
                       .interval_ns = interval_ns,
                       .budget_pct = budget_pct,
                       .quota_cores = quota_cores,
                       .slot_start_ns = now_ns,
                       .random = seed | 1};
}

int64_t pyr_pace_plan(pyr_pace *pace, int64_t now_ns)
{
    int64_t next = pace->slot_start_ns + pace->interval_ns;
    if (now_ns >= next + pace->interval_ns) {
        int64_t passed = (now_ns - next) / pace->interval_ns;
        pace->missed += (uint64_t)passed;
        next += passed * pace->interval_ns;
    }
    pace->slot_start_ns = next;
    pace->planned_ns = next + (int64_t)pyr_pace_random(pace, (uint64_t)pace->interval_ns);
    return pace->planned_ns;
}

void pyr_pace_woke(pyr_pace *pace, int64_t now_ns)
{
    int64_t late = now_ns > pace->planned_ns ? now_ns - pace->planned_ns : 0;
    uint64_t micros = (uint64_t)late / 1000;
    unsigned power = micros ? 64U - (unsigned)__builtin_clzll(micros) : 0;
    pace->late[power < 63 ? power : 63]++;
    pace->late_total_ns += (uint64_t)late;
    pace->ticks++;
}

void pyr_pace_spent(pyr_pace *pace, int64_t cost_ns, int64_t program_ns, int64_t elapsed_ns)
{
    double weight = 1.0 / SMOOTHING;
    /* The first tick meets every thread and every name for the first time; a single such tick
     * must not stretch the interval for seconds. Steady cost still does, within some ticks. */
    double most = OUTLIER_TIMES * pace->cost_ns;
    most = most < OUTLIER_NS ? OUTLIER_NS : most;
    double cost = (double)cost_ns < most ? (double)cost_ns : most;
    pace->cost_ns += weight * (cost - pace->cost_ns);
    if (elapsed_ns > 0) {
        double cores = (double)program_ns / (double)elapsed_ns;
        pace->program_cores += weight * (cores - pace->program_cores);
    }
    double cores = pace->quota_cores > 0 ? pace->quota_cores : 1.0;
    cores = pace->program_cores > cores ? pace->program_cores : cores;
    double interval = pace->cost_ns / (cores * pace->budget_pct / 100);
    interval =
        interval < (double)pace->base_interval_ns ? (double)pace->base_interval_ns : interval;
    double longest = pace->base_interval_ns > PYR_PACE_MAX_INTERVAL_NS
                         ? (double)pace->base_interval_ns
                         : (double)PYR_PACE_MAX_INTERVAL_NS;
    pace->interval_ns = (int64_t)(interval > longest ? longest : interval);
}

int64_t pyr_pace_latency_ns(const pyr_pace *pace, double share)
{
    uint64_t total = 0, below = 0;
    for (unsigned i = 0; i < 64; i++) {
        total += pace->late[i];
    }
    for (unsigned i = 0; i < 64 && total > 0; i++) {
        below += pace->late[i];
        if ((double)below >= share * (double)total) {
            return (int64_t)(1000ULL << (i < 40 ? i : 40));
        }
    }
    return 0;
}

void pyr_pace_reset_counts(pyr_pace *pace)
{
    memset(pace->late, 0, sizeof pace->late);
    pace->late_total_ns = pace->ticks = pace->missed = 0;
}
