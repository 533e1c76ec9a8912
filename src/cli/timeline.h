/* Samples laid out in time, a lane a thread: what timeline formats show. */
#ifndef PYR_CLI_TIMELINE_H
#define PYR_CLI_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cli/thread_list.h"
#include "pprof/profile.h"

typedef struct pyr_timeline_run { /* a thread had one stack from start to end */
    uint32_t sample;
    int64_t start_ns, end_ns; /* Unix time, never negative */
} pyr_timeline_run;

typedef struct pyr_timeline_lane {
    pyr_thread thread;
    size_t first, count; /* of runs, by time, not overlapping */
} pyr_timeline_lane;

typedef struct pyr_timeline {
    pyr_timeline_lane *list;
    size_t count;
    pyr_timeline_run *runs;
    bool measured;   /* times are those of the samples; else samples stand one after the other */
    int64_t untimed; /* if measured: value of samples without a time, which are in no lane */
} pyr_timeline;

/* Lays out the samples whose value of `type` (in nanoseconds) is above 0: it is their length, and
 * the label end_timestamp_ns their end. PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_timeline_init(pyr_timeline *lanes, const pyr_profile *profile,
                                          size_t type);
void pyr_timeline_fini(pyr_timeline *lanes);

#endif
