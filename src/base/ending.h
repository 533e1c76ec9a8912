/* Whether a text ends in another: names of files mostly. */
#ifndef PYR_BASE_ENDING_H
#define PYR_BASE_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The first `length` bytes of `text`, which needs no zero behind them. */
static inline bool pyr_ends_with(const char *text, size_t length, const char *ending)
{
    size_t end = strlen(ending);
    return length >= end && memcmp(text + length - end, ending, end) == 0;
}

#endif
