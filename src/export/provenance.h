/* Which code is whose: the standard library, installed distributions, and the user's own.
 *
 * Datadog's code-provenance.json. Read from the metadata that installers leave (*.dist-info,
 * *.egg-info), never by importing anything. The exporter's thread, once a process at most.
 */
#ifndef PYR_EXPORT_PROVENANCE_H
#define PYR_EXPORT_PROVENANCE_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/status.h"

enum { PYR_LIMIT_PROVENANCE_BYTES = 8 << 20 };

typedef struct pyr_provenance_options {
    const char *python;        /* "3.13.0" */
    const char *stdlib;        /* its folder */
    const char *library_paths; /* folders with distributions, parted by '\n': sys.path */
    const char *main_package;  /* a distribution that is the user's own code; "" = none */
} pyr_provenance_options;

/* Appends the JSON. A distribution installed from a folder (`pip install .`, editable or not) is
 * the user's own code too. What cannot be read is left out. PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_provenance_make(const pyr_provenance_options *options, pyr_buffer *out);

/* The same, but taken from a file in the private folder `cache` if another process left it there
 * and no library folder has changed since; else made, and left there. "" = no cache. */
PYR_MUST_USE pyr_status pyr_provenance_get(const pyr_provenance_options *options, const char *cache,
                                           pyr_buffer *out);

/* Pure: the paths of a distribution by its RECORD: its packages (folders with an __init__.py, the
 * outermost), and modules that lie in none. Calls `add` with each, relative to the library folder.
 */
void pyr_provenance_paths(const char *record,
                          void (*add)(void *context, const char *path, size_t length),
                          void *context);

#endif
