/* Formats of other viewers. Each writes a selection of samples to a file, and returns the exit code
 * after one line about what went wrong; write errors are left to the caller's ferror. */
#ifndef PYR_CLI_FORMATS_H
#define PYR_CLI_FORMATS_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/input.h"
#include "cli/select.h"
#include "cli/timeline.h"

typedef struct pyr_conversion {
    const pyr_input *input;
    const pyr_selection *selection;
    const char *title;
    bool lines; /* frames by line instead of by function, where the format can tell */
} pyr_conversion;

/* "root;caller;leaf value" a line: flamegraph.pl, inferno. */
int pyr_format_collapsed(const pyr_conversion *conversion, FILE *out);

/* speedscope's own JSON: one "sampled" profile a thread and sample type.
 * Format: jlfwong/speedscope, src/lib/file-format-spec.ts. */
int pyr_format_speedscope(const pyr_conversion *conversion, FILE *out);

/* Processed profile of the Firefox Profiler, version 57: a lane a thread, over time.
 * Format: firefox-devtools/profiler, src/types/profile.ts and docs-developer. */
int pyr_format_gecko(const pyr_conversion *conversion, FILE *out);

/* Chrome trace events ("X", complete): a call that goes on over several samples is one event.
 * Format: the Trace Event Format document; read by Perfetto, chrome://tracing, speedscope. */
int pyr_format_chrometrace(const pyr_conversion *conversion, FILE *out);

/* pprof again: the merged, filtered samples. */
int pyr_format_pprof(const pyr_conversion *conversion, FILE *out);

/* The sample type that gives runs their length: wall-time, else the chosen type when it is a time.
 * PYR_EXIT_WRONG after one line when there is none. Lanes without times are noted, and samples that
 * have none among others that do. Caller: pyr_timeline_fini. */
int pyr_format_lanes(const pyr_conversion *conversion, pyr_timeline *lanes, size_t *type);

#endif
