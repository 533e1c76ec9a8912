/* How much of the CPU that a thread used and no look has put yet goes to the stack seen now.
 *
 * Not all of it: it was used before, by whatever ran since the last look that found the thread
 * running, and where it computes and waits by turns about as long as a tick, the longer stretches
 * would get part of the CPU of the shorter ones. Each such look is a random point of the thread's
 * CPU time, so all of them should get the same for the time that they stand for: what one has had
 * on average so far, a ratio estimate (docs/design/0001). What that leaves over is paid off by and
 * by, and at the end of a window to one of its looks, drawn by lot: where less had come in than a
 * look stands for, its lot is as large as what it lacks. Pure; one thread at a time.
 */
#ifndef PYR_COLLECT_SPENDING_H
#define PYR_COLLECT_SPENDING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pyr_spending { /* zeroed: nothing spent yet */
    double used_ns;           /* CPU that came in for a look which spends: average */
    double stands_for_ns;     /* time that such a look stands for: average */
    int64_t left_ns; /* what the last one left, less what was settled and is not averaged */
    uint32_t looks;  /* in the averages */
    double lots_ns;  /* of the looks since the account was settled; 0 = there was none */
    uint64_t random;
} pyr_spending;

/* Of `carry_ns` (from 0), what a look that stands for `stands_for_ns` (from 1) takes: 0 to all.
 * `is_drawn`: from now on it is this look that gets what is left when the account is settled. */
int64_t pyr_spending_take(pyr_spending *spending, int64_t carry_ns, int64_t stands_for_ns,
                          bool *is_drawn);

/* The account is settled: all of `carry_ns` was given to the look drawn last. */
void pyr_spending_settle(pyr_spending *spending, int64_t carry_ns);

#endif
