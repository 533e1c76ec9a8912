/* Random numbers for sampling; see the header. Pure but for the state. */
#include "base/random.h"

#include <string.h>

static const double LN_2 = 0.693147180559945309;
static const double MOST = 9007199254740992.0;

uint64_t pyr_random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

/* The natural logarithm of a normal number above 0, good to 1e-9: hooks may not ask libm. */
static double logarithm(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xFFFFFFFFFFFFF)) | UINT64_C(0x3FF0000000000000);
    double mantissa; /* 1 ... 2 */
    memcpy(&mantissa, &bits, sizeof mantissa);
    if (mantissa > 1.41421356237309505) {
        mantissa /= 2;
        exponent++;
    }
    /* ln m = 2 artanh z, |z| < 0.172 */
    double z = (mantissa - 1) / (mantissa + 1);
    double s = z * z;
    double series = 1 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s / 11))));
    return exponent * LN_2 + 2 * z * series;
}

int64_t pyr_random_gap(uint64_t *state, double mean)
{
    if (!(mean > 1)) {
        return 1;
    }
    /* In (0, 1]: its logarithm is finite. */
    double uniform = ((double)(pyr_random_next(state) >> 11) + 1) / MOST;
    /* ln(1 - 1/m) is near -1/m, and exactly that where doubles cannot tell 1 - 1/m from 1. */
    double rate = mean < MOST / 1024 ? logarithm(1 - 1 / mean) : -1 / mean;
    double gap = logarithm(uniform) / rate;
    return gap >= MOST ? (int64_t)MOST : 1 + (int64_t)gap;
}
