/* PROCESS_PCT: which share of the processes is profiled. */
#ifndef PYR_SESSION_SHARE_H
#define PYR_SESSION_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Pure: whether the process is among `pct` percent of all, by a hash of the host's (or pod's) name,
 * its pid and when it started. The same answer at every start of the profiler in it, and a larger
 * share holds all of a smaller one. */
bool pyr_share_includes(double pct, const char *host, int64_t pid, uint64_t birth);

/* The same of the calling process. Makes a few system calls. */
bool pyr_share_includes_this(double pct);

#endif
