/* How much of the CPU that a thread used and no look has put yet goes to the stack seen now.
 *
 * Not all of it: it was used before, by whatever ran since the last look that found the thread
 * running, and where it computes and waits by turns about as long as a tick, the longer stretches
 * would get part of the CPU of the shorter ones. Each such look is a random point of the thread's
 * CPU time, so all of them should get the same for the time that they stand for: what one has had
 * on average so far, a ratio estimate (docs/design/0001). What that leaves over is paid off by and
 * by. Pure; one thread at a time.
 */
#ifndef PYR_COLLECT_SPENDING_H
#define PYR_COLLECT_SPENDING_H

#include <stdint.h>

typedef struct pyr_spending { /* zeroed: nothing spent yet */
    double used_ns;           /* CPU that came in for a look which spends: average */
    double stands_for_ns;     /* time that such a look stands for: average */
    int64_t left_ns;          /* what the last one left */
    int looks;                /* in the averages */
} pyr_spending;

/* Of `carry_ns` (from 0), what a look that stands for `stands_for_ns` (from 1) takes: 0 to all. */
int64_t pyr_spending_take(pyr_spending *spending, int64_t carry_ns, int64_t stands_for_ns);

#endif
