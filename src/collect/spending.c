/* See the header. */
#include "collect/spending.h"

enum {
    SMOOTHING = 32
}; /* looks that averages reach back over, and in which the rest is paid off */

int64_t pyr_spending_take(pyr_spending *spending, int64_t carry_ns, int64_t stands_for_ns)
{
    double stands_for = (double)stands_for_ns;
    if (spending->looks == 0) { /* as if it had a CPU whenever it wants one, and is seen there */
        spending->looks = 1;
        spending->used_ns = spending->stands_for_ns = stands_for;
    }
    /* Averages of the looks before: this one must not weigh more because it was waited for long. */
    double due = stands_for * spending->used_ns / spending->stands_for_ns;
    due += ((double)carry_ns - due) / SMOOTHING;
    int64_t taken = due >= (double)carry_ns ? carry_ns : (int64_t)due;
    int64_t used = carry_ns > spending->left_ns ? carry_ns - spending->left_ns : 0;
    spending->looks += spending->looks < SMOOTHING;
    spending->used_ns += ((double)used - spending->used_ns) / spending->looks;
    spending->stands_for_ns += (stands_for - spending->stands_for_ns) / spending->looks;
    spending->left_ns = carry_ns - taken;
    return taken;
}
