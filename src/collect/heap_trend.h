/* Which allocation sites grow: the live bytes of each, window after window, and how sure growth is.
 *
 * A site here is a stack, whatever thread and domain. Its live bytes of the last 30 windows are
 * kept; growth is their slope, and a suspect is a site that surely grows and does not level off.
 * What "surely" means, and how often it is wrong: docs/design/0009-leaks.md. Bounded; one thread at
 * a time.
 */
#ifndef PYR_COLLECT_HEAP_TREND_H
#define PYR_COLLECT_HEAP_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/facts.h"
#include "model/sample.h"

enum {
#ifdef PYR_HOSTILE
    PYR_HEAP_TRENDS = 16,
#else
    PYR_HEAP_TRENDS = 1024, /* sites followed: those with most alive */
#endif
    PYR_HEAP_TREND_WINDOWS = 30,
    PYR_HEAP_TREND_LEAST = 10, /* windows before anything is said */
};

typedef struct pyr_heap_trends pyr_heap_trends;

/* What is alive of a stack, in one of its threads and domains. */
typedef struct pyr_heap_part {
    const pyr_frame *frames; /* leaf first */
    uint32_t frame_count, omitted;
    double bytes, variance;
    const double *by_age; /* PYR_LEAK_AGES */
} pyr_heap_part;

/* How a site is judged. */
typedef struct pyr_heap_trend {
    pyr_frame leaf, caller; /* function 0 = none */
    double bytes, variance;
    double by_age[PYR_LEAK_AGES];
    double growth, growth_error; /* bytes a second */
    double confidence;
    uint32_t windows;
    bool is_suspect;
} pyr_heap_trend;

/* NULL: no memory. */
pyr_heap_trends *pyr_heap_trends_new(void);
void pyr_heap_trends_free(pyr_heap_trends *trends);

/* A look at everything alive: begin, add for each part, end at monotonic `now_ns`. A look less than
 * half a second after the one before replaces it. */
void pyr_heap_trends_begin(pyr_heap_trends *trends);
void pyr_heap_trends_add(pyr_heap_trends *trends, const pyr_heap_part *part);
void pyr_heap_trends_end(pyr_heap_trends *trends, int64_t now_ns);

/* The sites worth showing: suspects first, then by how much they surely grow; at most `most`.
 * Returns how many. */
size_t pyr_heap_trends_rank(const pyr_heap_trends *trends, pyr_heap_trend *ranked, size_t most);

/* Forgets everything: names are of another table, or all blocks were forgotten. */
void pyr_heap_trends_clear(pyr_heap_trends *trends);

#endif
