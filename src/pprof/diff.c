/* Differences of two profiles with their intervals; see the header and the note it names.
 *
 * Owns the result until it is given away. Each side is summed once: value and variance for the leaf
 * and for each function of the stack, then the two sides are compared.
 */
#include "pprof/diff.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "pprof/intern.h"

enum { BEFORE, AFTER, SIDES };

typedef struct sum {
    double value, variance; /* variance NAN = unknown */
} sum;

typedef struct tally {
    sum self[SIDES], total[SIDES];
    uint64_t seen; /* number of the sample that counted last */
} tally;

typedef struct differ {
    const pyr_profile *profile[SIDES];
    int type[SIDES], observations[SIDES]; /* columns; -1 = none */
    double scale[SIDES];
    pyr_intern *names; /* name NUL file NUL */
    pyr_buffer tallies;
    sum whole[SIDES];
    uint64_t serial;
} differ;

/* Types whose count type says how many independent looks made the value. The counts of other types
 * (allocations, locks) are estimates of true totals, and say nothing about the sampling. */
static const char *const observed[][2] = {
    {"cpu-time", "cpu-samples"}, {"cpu-samples", "cpu-samples"},   {"wall-time", "wall-samples"},
    {"cpu", "samples"},          {"wall-samples", "wall-samples"}, {"samples", "samples"},
    {"gpu-time", "gpu-samples"}, {"gpu-samples", "gpu-samples"},   {"wall", "samples"},
};

static int find_observations(const pyr_profile *profile, const char *type)
{
    for (size_t i = 0; i < sizeof observed / sizeof observed[0]; i++) {
        if (strcmp(type, observed[i][0]) == 0) {
            return pyr_profile_find_type(profile, observed[i][1]);
        }
    }
    return -1;
}

/* Variance of the value of one sample: see the note. */
static double variance_of(const differ *d, int side, const pyr_profile_sample *sample, double value)
{
    const pyr_profile *profile = d->profile[side];
    if (pyr_profile_find_label(profile, sample, "end_timestamp_ns")) {
        return value * value; /* one event, however often it was looked at */
    }
    if (d->observations[side] < 0) {
        return (double)NAN;
    }
    int64_t looks = profile->values[sample->value_start + (size_t)d->observations[side]];
    return value * value / (looks > 1 ? (double)looks : 1.0);
}

static void add(sum *to, double value, double variance)
{
    to->value += value;
    to->variance += variance;
}

/* The numbers of a profile's functions in `names`. */
static pyr_status number_functions(differ *d, const pyr_profile *profile, uint64_t *numbers)
{
    pyr_buffer key;
    pyr_buffer_init(&key, SIZE_MAX / 2);
    pyr_status status = PYR_OK;
    for (size_t i = 0; i < profile->function_count && status == PYR_OK; i++) {
        const char *name = profile->strings[profile->functions[i].name].data;
        const char *file = profile->strings[profile->functions[i].file].data;
        pyr_buffer_clear(&key);
        pyr_buffer_append(&key, name, strlen(name) + 1);
        status = pyr_buffer_append(&key, file, strlen(file) + 1);
        if (status == PYR_OK) {
            status = pyr_intern_add(d->names, key.data, key.length, &numbers[i]);
        }
    }
    pyr_buffer_fini(&key);
    size_t missing =
        pyr_intern_count(d->names) * sizeof(tally) - d->tallies.length; /* never negative */
    if (status == PYR_OK && missing > 0) {
        status = pyr_buffer_reserve(&d->tallies, missing);
    }
    if (status == PYR_OK && missing > 0) {
        memset(d->tallies.data + d->tallies.length, 0, missing);
        d->tallies.length += missing;
    }
    return status;
}

static pyr_status add_side(differ *d, int side)
{
    const pyr_profile *profile = d->profile[side];
    uint64_t *numbers = pyr_memory_new(profile->function_count, sizeof *numbers);
    pyr_status status = numbers ? number_functions(d, profile, numbers) : PYR_ENOMEM;
    tally *tallies = (tally *)(void *)d->tallies.data;
    for (size_t i = 0; i < profile->sample_count && status == PYR_OK; i++) {
        const pyr_profile_sample *sample = &profile->samples[i];
        double value =
            (double)profile->values[sample->value_start + (size_t)d->type[side]] * d->scale[side];
        if (value == 0) {
            continue;
        }
        double variance = variance_of(d, side, sample, value);
        d->serial++;
        add(&d->whole[side], value, variance);
        for (uint32_t j = 0; j < sample->frame_count; j++) {
            uint32_t frame = profile->stack_frames[sample->frame_start + j];
            tally *function = &tallies[numbers[profile->frames[frame].function]];
            if (j == 0) {
                add(&function->self[side], value, variance);
            }
            if (function->seen != d->serial) { /* recursion counts once */
                function->seen = d->serial;
                add(&function->total[side], value, variance);
            }
        }
    }
    pyr_memory_free(numbers);
    return status;
}

static pyr_diff_measure compare(const sum sides[SIDES], double z)
{
    pyr_diff_measure measure = {.before = sides[BEFORE].value, .after = sides[AFTER].value};
    double error = sqrt(sides[BEFORE].variance + sides[AFTER].variance); /* NAN stays NAN */
    measure.change = measure.after - measure.before;
    measure.margin = z * error;
    measure.doubt = measure.change == 0 ? 1.0 : erfc(fabs(measure.change) / error * M_SQRT1_2);
    measure.doubt = isnan(error) ? (double)NAN : measure.doubt;
    return measure;
}

/* ------------------------------------------------------------------------ significance ---- */

static int compare_doubts(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The largest doubt at which a change still counts, for a family of tests. */
static double threshold(double *doubts, size_t count, double level, pyr_diff_correction correction)
{
    if (correction == PYR_DIFF_EACH || count == 0) {
        return level;
    }
    if (correction == PYR_DIFF_BONFERRONI) {
        return level / (double)count;
    }
    qsort(doubts, count, sizeof *doubts, compare_doubts);
    for (size_t i = count; i > 0; i--) {
        if (doubts[i - 1] <= level * (double)i / (double)count) {
            return doubts[i - 1];
        }
    }
    return 0;
}

static pyr_diff_measure *measure_of(pyr_diff_function *function, bool self)
{
    return self ? &function->self : &function->total;
}

/* Decides for the selfs or for the totals of all functions: each is one family. */
static void decide(pyr_diff *diff, bool self, double level, pyr_diff_correction correction,
                   double *doubts)
{
    size_t count = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const pyr_diff_measure *measure = measure_of(&diff->functions[i], self);
        bool absent = measure->before == 0 && measure->after == 0; /* nothing was tested */
        if (!isnan(measure->doubt) && !absent) {
            doubts[count++] = measure->doubt;
        }
    }
    double limit = threshold(doubts, count, level, correction);
    for (size_t i = 0; i < diff->count; i++) {
        pyr_diff_measure *measure = measure_of(&diff->functions[i], self);
        measure->is_significant = measure->doubt <= limit; /* false for NAN */
    }
}

static int compare_changes(const void *left, const void *right)
{
    double a = fabs(((const pyr_diff_function *)left)->total.change);
    double b = fabs(((const pyr_diff_function *)right)->total.change);
    return (a < b) - (a > b);
}

static pyr_status fill(differ *d, const pyr_diff_options *options, pyr_diff *diff)
{
    double z = options->z > 0 ? options->z : 1.96;
    double level = erfc(z * M_SQRT1_2);
    diff->count = pyr_intern_count(d->names);
    diff->functions = pyr_memory_new(diff->count, sizeof *diff->functions);
    double *doubts = pyr_memory_new(diff->count, sizeof *doubts);
    if (!diff->functions || !doubts) {
        pyr_memory_free(doubts);
        return PYR_ENOMEM;
    }
    const tally *tallies = (const tally *)(const void *)d->tallies.data;
    for (size_t i = 0; i < diff->count; i++) {
        size_t length;
        pyr_diff_function *function = &diff->functions[i];
        function->name = pyr_intern_get(d->names, i, &length);
        function->file = function->name + strlen(function->name) + 1;
        function->self = compare(tallies[i].self, z);
        function->total = compare(tallies[i].total, z);
    }
    diff->whole = compare(d->whole, z);
    diff->whole.is_significant = diff->whole.doubt <= level;
    decide(diff, true, level, options->correction, doubts);
    decide(diff, false, level, options->correction, doubts);
    pyr_memory_free(doubts);
    if (diff->count > 1) {
        qsort(diff->functions, diff->count, sizeof *diff->functions, compare_changes);
    }
    return PYR_OK;
}

/* ------------------------------------------------------------------------------ the whole ---- */

/* Finds the columns: in both profiles, in one unit. */
static pyr_status find_columns(differ *d, const char *wanted, pyr_diff *diff)
{
    const pyr_profile *before = d->profile[BEFORE];
    int first = wanted ? pyr_profile_find_type(before, wanted) : pyr_profile_default_type(before);
    if (first < 0) {
        return PYR_ENOENT;
    }
    const char *name = before->strings[before->types[first].type].data;
    diff->unit = before->strings[before->types[first].unit].data;
    for (int side = BEFORE; side < SIDES; side++) {
        const pyr_profile *profile = d->profile[side];
        d->type[side] = pyr_profile_find_type(profile, name);
        if (d->type[side] < 0 ||
            strcmp(profile->strings[profile->types[d->type[side]].unit].data, diff->unit) != 0) {
            return PYR_ENOENT;
        }
        d->observations[side] = find_observations(profile, name);
    }
    diff->type = name;
    return PYR_OK;
}

pyr_status pyr_diff_new(const pyr_profile *before, const pyr_profile *after,
                        const pyr_diff_options *options, pyr_diff **result)
{
    *result = NULL;
    differ d = {.profile = {before, after}, .scale = {1, 1}};
    pyr_diff *diff = pyr_memory_new(1, sizeof *diff);
    d.names = pyr_intern_new(UINT32_MAX, SIZE_MAX / 2);
    pyr_buffer_init(&d.tallies, SIZE_MAX / 2);
    pyr_status status = diff && d.names ? PYR_OK : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = find_columns(&d, options->type, diff);
    }
    if (status == PYR_OK && before->duration_ns > 0 && after->duration_ns > 0) {
        diff->per_second = true;
        d.scale[BEFORE] = 1e9 / (double)before->duration_ns;
        d.scale[AFTER] = 1e9 / (double)after->duration_ns;
    }
    for (int side = BEFORE; side < SIDES && status == PYR_OK; side++) {
        status = add_side(&d, side);
    }
    if (status == PYR_OK) {
        status = fill(&d, options, diff);
    }
    pyr_buffer_fini(&d.tallies);
    if (diff) {
        diff->storage = d.names;
        d.names = NULL;
    }
    pyr_intern_free(d.names);
    if (status != PYR_OK) {
        pyr_diff_free(diff);
        return status;
    }
    *result = diff;
    return PYR_OK;
}

void pyr_diff_free(pyr_diff *diff)
{
    if (diff) {
        pyr_memory_free(diff->functions);
        pyr_intern_free(diff->storage);
        pyr_memory_free(diff);
    }
}
