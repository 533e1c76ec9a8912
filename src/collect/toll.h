/* Spans of time (waits, pauses) of which the long ones are given one by one and the short ones by
 * their time: a span stands for itself and for those since the last that was given.
 *
 * Each nanosecond has the same chance, as in a Poisson process with PYR_TOLL_NS between two, so
 * that a span much longer is always given. Sums are exact. Hooks add from any thread.
 */
#ifndef PYR_COLLECT_TOLL_H
#define PYR_COLLECT_TOLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_TOLL_NS = 100000 };

typedef struct pyr_sums { /* of spans */
    int64_t time_ns, count, extra;
} pyr_sums;

typedef struct pyr_toll {
    _Atomic int64_t time_ns, count, extra; /* of those that no given one stands for yet */
    _Atomic int64_t gap_ns;                /* the next is given when time_ns has reached this */
    _Atomic uint64_t random;
    _Atomic unsigned stretch; /* doublings of PYR_TOLL_NS */
    _Atomic unsigned paced;   /* spans given since paced_ns */
    _Atomic int64_t paced_ns;
} pyr_toll;

void pyr_toll_init(pyr_toll *toll, uint64_t seed);

/* Adds a span. True: it is given, with *sums, its own included. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_toll_add(pyr_toll *toll, pyr_sums span, pyr_sums *sums);

/* After a span was given: fewer of them while more than about a thousand a second come, where many
 * spans may go on at a time. */
PYR_HOOK_SAFE void pyr_toll_pace(pyr_toll *toll, int64_t now_ns);

/* Puts back what could not be given, for a later one: the next has the same chance as ever. */
PYR_HOOK_SAFE void pyr_toll_return(pyr_toll *toll, pyr_sums sums);

/* Takes what no span stands for yet. */
PYR_HOOK_SAFE pyr_sums pyr_toll_take(pyr_toll *toll);

/* The same, left where it is. */
PYR_HOOK_SAFE pyr_sums pyr_toll_open(const pyr_toll *toll);

#endif
