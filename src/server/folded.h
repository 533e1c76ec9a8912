/* Folded lines ("a;b;c 12", root first) into pprof, as old clients of Pyroscope send them. Pure but
 * for memory; bytes are hostile. Private to server/. */
#ifndef PYR_SERVER_FOLDED_H
#define PYR_SERVER_FOLDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

/* Appends a pprof. `is_cpu`: numbers are looks, `rate` a second, and become samples/count and
 * cpu/nanoseconds; else they become samples/count alone. PYR_EBAD: a line that is none. */
PYR_MUST_USE pyr_status pyr_folded_to_pprof(const char *text, size_t length, int64_t rate,
                                            bool is_cpu, pyr_buffer *out);

#endif
