/* See the header. */
#include "collect/spending.h"

enum {
    SMOOTHING = 32, /* looks that averages reach back over, and over which the rest is paid off */
    EVEN = 8,       /* of a lot, this part of a share is for what every look lacks alike */
    BELIEF = 8,     /* looks that it is worth that a thread has a CPU whenever it wants one */
};

int64_t pyr_spending_take(pyr_spending *spending, int64_t carry_ns, int64_t stands_for_ns,
                          bool *is_drawn)
{
    double stands_for = (double)stands_for_ns;
    if (spending->looks == 0) {
        spending->looks = BELIEF;
        spending->used_ns = spending->stands_for_ns = stands_for;
    }
    /* Averages of the looks before: this one must not weigh more because it was waited for long. */
    double share = stands_for * spending->used_ns / spending->stands_for_ns;
    double due = share + ((double)carry_ns - share) / spending->looks;
    int64_t taken = due >= (double)carry_ns ? carry_ns : (int64_t)due;
    int64_t used = carry_ns > spending->left_ns ? carry_ns - spending->left_ns : 0;
    spending->looks += spending->looks < SMOOTHING;
    spending->used_ns += ((double)used - spending->used_ns) / spending->looks;
    spending->stands_for_ns += (stands_for - spending->stands_for_ns) / spending->looks;
    spending->left_ns = carry_ns - taken;
    double lacks = share > (double)taken ? share - (double)taken : 0;
    double lot = lacks + share / EVEN + 1;
    spending->lots_ns += lot;
    spending->random = spending->random * 6364136223846793005U + 1442695040888963407U;
    *is_drawn = (double)(spending->random >> 11) * 0x1p-53 * spending->lots_ns < lot;
    return taken;
}

void pyr_spending_settle(pyr_spending *spending, int64_t carry_ns)
{
    spending->left_ns -= carry_ns; /* so what came in since the last look counts with the next */
    spending->lots_ns = 0;
}
