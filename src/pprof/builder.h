/* Makes a pyr_profile piece by piece: growing arrays that become the profile's when it is done.
 * For pprof/, query/ and server/. One owner, one thread at a time.
 */
#ifndef PYR_PPROF_BUILDER_H
#define PYR_PPROF_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/profile.h"

/* Each buffer holds the elements of the profile's array of that name; append to them directly.
 * Errors stick in them and come out of pyr_profile_builder_status and _finish. */
typedef struct pyr_profile_builder {
    pyr_buffer text;    /* the bytes of all strings, each with its NUL */
    pyr_buffer strings; /* pyr_profile_text, data not set yet */
    pyr_buffer types, functions, frames, stack_frames, labels, values, samples, comments;
    pyr_profile head; /* times, period, default type, main binary; the arrays stay empty */
} pyr_profile_builder;

/* Empty. Allocates nothing. */
void pyr_profile_builder_init(pyr_profile_builder *builder);

/* Goes on with a profile, which it takes: more is added to it. Not yet initialised before. */
void pyr_profile_builder_reopen(pyr_profile_builder *builder, pyr_profile *profile);

/* Frees what finish has not given away. */
void pyr_profile_builder_fini(pyr_profile_builder *builder);

/* Adds a string as it is to the table; no deduplication. Invalid UTF-8 is repaired. */
void pyr_profile_builder_string(pyr_profile_builder *builder, const void *bytes, size_t length);

/* Ends a sample that began where `start` says: all frames, labels and values appended since belong
 * to it. */
void pyr_profile_builder_sample(pyr_profile_builder *builder, pyr_profile_sample start);

/* Where a sample would begin now. */
pyr_profile_sample pyr_profile_builder_mark(const pyr_profile_builder *builder);

/* The first failure of any array. */
pyr_status pyr_profile_builder_status(const pyr_profile_builder *builder);

/* The profile; the builder is empty then. */
PYR_MUST_USE pyr_status pyr_profile_builder_finish(pyr_profile_builder *builder,
                                                   pyr_profile **profile);

#endif
