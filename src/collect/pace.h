/* When to tick: random places in regular slots, stretched to stay within the budget; and how late
 * the sampler woke. Pure but for randomness seeded once. One thread at a time. */
#ifndef PYR_COLLECT_PACE_H
#define PYR_COLLECT_PACE_H

#include <stdint.h>

typedef struct pyr_pace {
    int64_t base_interval_ns; /* as set */
    int64_t interval_ns;      /* as stretched */
    double budget_pct;
    double quota_cores;    /* of the container, 0 = none */
    int64_t slot_start_ns; /* start of the current slot */
    int64_t planned_ns;    /* the tick within it */
    double cost_ns;        /* smoothed CPU of one tick */
    double program_cores;  /* smoothed CPU use of the program, in cores */
    uint64_t random;
    uint64_t ticks, missed;
    uint64_t late_total_ns;
    uint32_t late[64]; /* wake-up latency: count by power of two of microseconds */
} pyr_pace;

enum { PYR_PACE_MAX_INTERVAL_NS = 1000000000 };

void pyr_pace_init(pyr_pace *pace, int64_t interval_ns, double budget_pct, double quota_cores,
                   int64_t now_ns, uint64_t seed);

/* Plans the next tick after `now_ns`; returns its monotonic time. Slots that passed are counted as
 * missed. */
int64_t pyr_pace_plan(pyr_pace *pace, int64_t now_ns);

/* The sampler woke for the planned tick at `now_ns`. */
void pyr_pace_woke(pyr_pace *pace, int64_t now_ns);

/* A tick cost `cost_ns` of CPU, and the program used `program_ns` in the `elapsed_ns` before it. */
void pyr_pace_spent(pyr_pace *pace, int64_t cost_ns, int64_t program_ns, int64_t elapsed_ns);

/* The latency that `share` (0 to 1) of the wake-ups stayed below, in ns (upper end of its class).
 */
int64_t pyr_pace_latency_ns(const pyr_pace *pace, double share);

/* Forgets the counts of latency, ticks and misses. */
void pyr_pace_reset_counts(pyr_pace *pace);

/* A uniform number in [0, bound). */
uint64_t pyr_pace_random(pyr_pace *pace, uint64_t bound);

#endif
