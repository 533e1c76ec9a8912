/* What the two halves of detail.c agree on. Private to detail*.c. */
#ifndef PYR_STORE_DETAIL_FORMAT_H
#define PYR_STORE_DETAIL_FORMAT_H

#include <stdint.h>

enum {
    PYR_DETAIL_FORMAT = 4,
    PYR_DETAIL_FORMAT_APART = 3, /* read only: a column for each type, after the way in which it is
                                  * kept; sets as they are; moments as varints */
    PYR_DETAIL_FORMAT_WHOLE = 2, /* so too, and all rows and all values are there, as varints */
    PYR_DETAIL_SAMPLES = 1 << 23,
    PYR_DETAIL_NUMBERS = 32, /* numeric labels of one sample; more are left out */
    PYR_DETAIL_EXTRA_BYTES = 1 << 26,
};

/* How the values of a type are kept that are not 0: as they are, or as the difference from what is
 * expected; nothing is expected of the first of a lane. */
enum {
    PYR_DETAIL_PLAIN,
    PYR_DETAIL_FROM_LAST, /* the distance from the sample before it */
    PYR_DETAIL_FROM_SAME, /* the distance from the sample before it that has this type */
    PYR_DETAIL_WAYS,
    PYR_DETAIL_REST = 4, /* added: of the last sample in each row it is what the row's sum leaves */
};

/* Guesses which row follows which within a lane: what did so last time, unless something else did
 * so twice since; the next row where that is not known. */
typedef struct pyr_detail_guess {
    uint32_t follower; /* plus 1; 0 = none yet */
    uint32_t trust;
} pyr_detail_guess;

enum { PYR_DETAIL_TRUST = 3 };

static inline int64_t pyr_detail_guess_after(const pyr_detail_guess *guesses, uint32_t before)
{
    uint32_t follower = guesses[before].follower;
    return follower > 0 ? (int64_t)follower - 1 : (int64_t)before + 1;
}

static inline void pyr_detail_guess_learn(pyr_detail_guess *guesses, uint32_t before, uint32_t row)
{
    pyr_detail_guess *guess = &guesses[before];
    if (guess->follower == row + 1) {
        guess->trust += guess->trust < PYR_DETAIL_TRUST;
    } else if (guess->trust > 0) {
        guess->trust--;
    } else {
        guess->follower = row + 1;
    }
}

#endif
