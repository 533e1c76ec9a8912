/* One lane of a window: samples written compactly into memory that was reserved in advance.
 * Private to record/.
 *
 * All lanes of a window share one space, of which they claim blocks, so that one busy writer may
 * fill it alone. A place in the space is a u32 in units of 8 bytes; 0 is "none". Stacks (as
 * segments that share their roots), label sets and cells are interned: written once, found by hash.
 * While a window is open, a lane is guarded by its lock; once sealed it is only read.
 */
#ifndef PYR_RECORD_LANE_H
#define PYR_RECORD_LANE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/sample.h"

enum {
    PYR_SPACE_UNIT = 8, /* bytes that one step of a place stands for */
#ifdef PYR_HOSTILE
    PYR_SPACE_BLOCK = 1 << 9, /* many borders */
#else
    PYR_SPACE_BLOCK = 1 << 16, /* bytes that a lane claims at once */
#endif
    PYR_LANE_SAMPLE_BYTES = 64, /* at most, of one sample in a strip */
};

/* The memory that the lanes of a window share. */
typedef struct pyr_space {
    uint8_t *bytes;
    size_t size;
    atomic_size_t claimed; /* bytes from the start; begins at one unit, since place 0 is none */
} pyr_space;

typedef struct pyr_lane {
    uint64_t seed;
    uint32_t index, index_size, entry_count; /* hash table of places; sizes are powers of two */
    uint32_t free, free_end;                 /* what is left of the claimed block, in units */
    uint32_t first_strip, strip;             /* samples with an end time, oldest strip first */
    uint32_t last_cell;                      /* samples without: the newest cell */
    int64_t last_end_ns;
    uint64_t sample_count;
} pyr_lane;

/* An empty lane. */
PYR_HOOK_SAFE void pyr_lane_init(pyr_lane *lane, uint64_t seed);

/* Adds a sample; PYR_ETOOBIG: it did not fit, the lane is as good as before.
 * PYR_EINVAL: no such kind. */
PYR_HOOK_SAFE pyr_status pyr_lane_add(pyr_lane *lane, pyr_space *space, const pyr_sample *sample);

/* Calls `visit` for each sample of a sealed lane; see pyr_window_each. */
int pyr_lane_each(const pyr_lane *lane, const pyr_space *space,
                  int (*visit)(void *context, const pyr_sample *sample), void *context);

#endif
