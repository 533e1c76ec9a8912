/* Values in human units. */
#ifndef PYR_CLI_UNITS_H
#define PYR_CLI_UNITS_H

#include <stdint.h>

enum { PYR_UNITS_BYTES = 64 };

/* One scale for all values of a table, so that a column adds up by eye. */
typedef struct pyr_scale {
    double divisor;
    int decimals;
    const char *suffix; /* " s", " MiB", "" for counts; borrowed from the unit when not known */
} pyr_scale;

/* The scale for values up to `largest` of a pprof unit ("nanoseconds", "bytes", "count"). */
pyr_scale pyr_units_scale(double largest, const char *unit);

/* "1,234.567 s". A value that is not 0 but too small for the scale is shown as "<0.001 s". */
void pyr_units_format(char text[PYR_UNITS_BYTES], pyr_scale scale, double value);

/* A value in its own best scale: "12.345 s". */
void pyr_units_single(char text[PYR_UNITS_BYTES], double value, const char *unit);

/* "12.3" for 0.123: one decimal, no sign. */
void pyr_units_percent(char text[PYR_UNITS_BYTES], double share);

/* Adds without wrapping: sums of values from a file that lies stay at the ends of the range. */
void pyr_units_add(int64_t *sum, int64_t value);

#endif
