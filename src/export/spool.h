/* Requests that could not be sent yet, on disk: they outlive the process, however it ends.
 *
 * A folder of files, one a request, which any number of processes may share: names sort by age,
 * files appear whole or not at all, and whoever sends one claims it first. Bounded by bytes and by
 * age; the oldest go. One thread a spool (the exporter's). No file is touched whose name is not
 * exactly of our form.
 */
#ifndef PYR_EXPORT_SPOOL_H
#define PYR_EXPORT_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

typedef struct pyr_spool pyr_spool;

enum { PYR_SPOOL_NAME_BYTES = 96 };

/* A claimed request. */
typedef struct pyr_spool_entry {
    char name[PYR_SPOOL_NAME_BYTES]; /* "" = before the first */
    int claim;
    pyr_buffer content;
} pyr_spool_entry;

/* A spool in `folder` (absolute, copied) for requests to one target: `target` is any text that
 * tells it from others. `max_bytes` is the most that the folder holds, of all targets; `max_age_ns`
 * how old a request may become; 0: nothing is kept. Touches no file. NULL: no memory. */
pyr_spool *pyr_spool_new(const char *folder, const char *target, int64_t max_bytes,
                         int64_t max_age_ns);
void pyr_spool_free(pyr_spool *spool);

/* Adds a request that belongs to Unix time `time_ns`: `head` and `body` one after the other; `name`
 * gets its name. PYR_ETOOBIG: it alone is more than the spool holds; else as pyr_os_file_write. On
 * failure nothing was added. The caller then prunes. */
PYR_MUST_USE pyr_status pyr_spool_add(pyr_spool *spool, int64_t time_ns, const void *head,
                                      size_t head_length, const void *body, size_t body_length,
                                      char name[PYR_SPOOL_NAME_BYTES]);

/* Claims and reads the oldest request for this target that is younger than `entry->name` (of the
 * one before; zeroed at first) and that nobody else has. PYR_ENOENT: there is none. The caller ends
 * it with pyr_spool_end before the next. */
PYR_MUST_USE pyr_status pyr_spool_next(pyr_spool *spool, pyr_spool_entry *entry);

/* Gives the claim up: `done` removes the request, else it stays for a later try, by anybody. */
void pyr_spool_end(pyr_spool *spool, pyr_spool_entry *entry, int done);

/* Removes the request of that name, which somebody sent from memory. */
void pyr_spool_forget(pyr_spool *spool, const char *name);

/* Removes what is too much or too old; how many of those were requests for this target. Not while
 * an entry is claimed. */
size_t pyr_spool_prune(pyr_spool *spool);

const char *pyr_spool_folder(const pyr_spool *spool);

#endif
