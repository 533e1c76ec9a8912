/* event.json of Datadog's intake: whose profile this is, when, and what the profiler says of
 * itself.
 *
 * Pure but for allocation. Source of the format: libdatadog, libdd-profiling/src/exporter; of the
 * tags: dd-trace-py, ddtrace/internal/datadog/profiling/dd_wrapper.
 */
#ifndef PYR_EXPORT_DATADOG_EVENT_H
#define PYR_EXPORT_DATADOG_EVENT_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/status.h"
#include "export/exporter.h"
#include "export/surroundings.h"

/* What stands in every event of a process. */
typedef struct pyr_datadog_source {
    pyr_export_identity identity;
    const char *container; /* its id, "" = none */
    const pyr_kubernetes *kubernetes;
    const pyr_git *git;
    const char *main_package;
    const char *working_folder;
    bool agentless; /* nobody on the way adds the host's name */
} pyr_datadog_source;

/* Appends tags, "key:value,key:value". Each key comes once: what the process knows of itself first,
 * then the user's tags. Of the user's, parted by commas or blanks, those without a name or a value
 * are left out; `bad` gets the first such, or "" (it may be NULL). Invalid UTF-8 is repaired;
 * commas and control characters within a value become '_'. */
pyr_status pyr_datadog_tags(const pyr_datadog_source *source, pyr_buffer *out, char *bad,
                            size_t bad_size);

/* Appends the process tags: how the program was started; as ddtrace forms them. */
pyr_status pyr_datadog_process_tags(const pyr_datadog_source *source, pyr_buffer *out);

/* Appends the event of a window, whose attachments are named in `attachments` (ended by NULL).
 * PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_datadog_event(const pyr_datadog_source *source,
                                          const pyr_export_job *job, const char *const *attachments,
                                          pyr_buffer *out);

#endif
