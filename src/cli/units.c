/* Values in human units. Pure; any thread. */
#include "cli/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct step {
    double least; /* of the largest value */
    double divisor;
    int decimals;
    const char *suffix;
} step;

static const step TIME[] = {
    {1e12, 1e9, 1, " s"}, {1e9, 1e9, 3, " s"}, {1e6, 1e6, 3, " ms"},
    {1e3, 1e3, 3, " µs"}, {0, 1, 0, " ns"},
};
static const step BYTES[] = {
    {1099511627776.0, 1073741824.0, 1, " GiB"},
    {1073741824.0, 1073741824.0, 3, " GiB"},
    {1048576.0, 1048576.0, 2, " MiB"},
    {1024.0, 1024.0, 2, " KiB"},
    {0, 1, 0, " B"},
};

static pyr_scale choose(const step *steps, double scale_to_base, double largest)
{
    while (steps->least > 0 && fabs(largest) * scale_to_base < steps->least) {
        steps++;
    }
    return (pyr_scale){steps->divisor / scale_to_base, steps->decimals, steps->suffix};
}

pyr_scale pyr_units_scale(double largest, const char *unit)
{
    static const struct {
        const char *unit;
        const step *steps;
        double scale_to_base;
    } KNOWN[] = {
        {"nanoseconds", TIME, 1}, {"microseconds", TIME, 1e3}, {"milliseconds", TIME, 1e6},
        {"seconds", TIME, 1e9},   {"bytes", BYTES, 1},
    };
    for (size_t index = 0; index < sizeof KNOWN / sizeof KNOWN[0]; index++) {
        if (strcmp(unit, KNOWN[index].unit) == 0) {
            return choose(KNOWN[index].steps, KNOWN[index].scale_to_base, largest);
        }
    }
    return (pyr_scale){1, 0, ""};
}

void pyr_units_format(char text[PYR_UNITS_BYTES], pyr_scale scale, double value)
{
    double shown = value / scale.divisor;
    double least = pow(10, -scale.decimals);
    const char *mark = "";
    if (shown != 0 && fabs(shown) < least / 2) {
        mark = shown > 0 ? "<" : ">-";
        shown = least;
    }
    char digits[PYR_UNITS_BYTES / 2];
    int length = snprintf(digits, sizeof digits, "%.*f", scale.decimals, shown);
    if (length < 0 || length >= (int)sizeof digits) {
        snprintf(text, PYR_UNITS_BYTES, "%g%s", shown, scale.suffix);
        return;
    }
    const char *point = strchr(digits, '.');
    size_t whole = point != NULL ? (size_t)(point - digits) : (size_t)length;
    size_t sign = digits[0] == '-' ? 1 : 0;
    size_t out = (size_t)snprintf(text, PYR_UNITS_BYTES, "%s", mark);
    for (size_t at = 0; at < (size_t)length && out + 2 < PYR_UNITS_BYTES; at++) {
        if (at > sign && at < whole && (whole - at) % 3 == 0) {
            text[out++] = ',';
        }
        text[out++] = digits[at];
    }
    snprintf(text + out, PYR_UNITS_BYTES - out, "%s", scale.suffix);
}

void pyr_units_single(char text[PYR_UNITS_BYTES], double value, const char *unit)
{
    pyr_units_format(text, pyr_units_scale(value, unit), value);
}

void pyr_units_percent(char text[PYR_UNITS_BYTES], double share)
{
    snprintf(text, PYR_UNITS_BYTES, "%.1f", share * 100);
}

void pyr_units_add(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = value > 0 ? INT64_MAX : INT64_MIN;
    }
}
