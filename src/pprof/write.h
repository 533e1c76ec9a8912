/* Encodes a whole profile again, through the streaming writer. */
#ifndef PYR_PPROF_WRITE_H
#define PYR_PPROF_WRITE_H

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/compress.h"
#include "pprof/profile.h"

/* Appends `profile` to `out`, whose maximum bounds it. What parsing the result gives is equal to
 * `profile`, but for what has no meaning: order and duplicates in the tables, entries that nothing
 * refers to, the unit that a numeric label 0 without one is given (see writer.h), and what follows
 * a NUL in the texts of types, comments and the main binary. PYR_ENOMEM, PYR_ETOOBIG. One thread.
 */
PYR_MUST_USE pyr_status pyr_profile_write(const pyr_profile *profile,
                                          pyr_pprof_compression compression, pyr_buffer *out);

#endif
