/* The time of day for decisions that cannot be taken back: what is too old, and goes.
 *
 * A clock that is set forward by mistake for an hour must not empty a store that keeps a month.
 * Pure; one owner, one thread.
 */
#ifndef PYR_STORE_CALM_H
#define PYR_STORE_CALM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pyr_calm {
    bool is_set;
    int64_t offset_ns;   /* of the time of day from the monotonic clock, as far as it is believed */
    int64_t doubtful_ns; /* monotonic: since when the clock has been ahead of that; 0 = it is not */
} pyr_calm;

/* What time it is (Unix, nanoseconds), given what both clocks say. It follows the time of day, but
 * a jump forward by more than an hour only when that has lasted for a day. Starts from zeros. */
int64_t pyr_calm_now(pyr_calm *calm, int64_t realtime_ns, int64_t monotonic_ns);

#endif
