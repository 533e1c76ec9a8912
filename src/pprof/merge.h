/* Adds profiles up: windows of one process, or processes of one service. */
#ifndef PYR_PPROF_MERGE_H
#define PYR_PPROF_MERGE_H

#include <stddef.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef enum pyr_merge_timestamps {
    PYR_MERGE_DROP_TIMESTAMPS, /* labels end_timestamp_ns go, so equal stacks add up: smallest */
    PYR_MERGE_KEEP_TIMESTAMPS, /* samples of different moments stay apart: timelines, diff */
} pyr_merge_timestamps;

/* Makes the sum of `count` profiles (at least one), which the caller frees.
 *
 * Sample types: the union by name and unit, in order of appearance; a profile that lacks a type
 * counts 0 for it. Samples whose frames and labels are equal (labels in any order) are one, their
 * values added, saturating. time_ns: the earliest known. duration_ns: the sum, which is the time
 * that was observed when the profiles are windows of one process, and process seconds when they are
 * of several, so that a value divided by it is always "per second of one process". Comments: each
 * text once. Default type, main binary and period type: the first profile that has one; period: the
 * largest of that type. Time and memory are linear in the input. Thread context: any one thread.
 * PYR_EINVAL, PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_profile_merge(const pyr_profile *const *profiles, size_t count,
                                          pyr_merge_timestamps timestamps, pyr_profile **merged);

#endif
