/* Profile files: where a prefix points, how files are named, which are ours, and keeping them few.
 *
 * `<folder>/<name>.<pid>.<sequence>.pprof`, and `.json` behind it for the document. Only a file
 * whose name is exactly so, digits and all, is ours; no other is ever touched.
 */
#ifndef PYR_EXPORT_PROFILE_FILES_H
#define PYR_EXPORT_PROFILE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

enum { PYR_PROFILE_NAME_BYTES = 200 }; /* of a prefix's last part: leaves room for the numbers */

/* Splits a prefix into an absolute folder and the first part of the names. `~/` is the home folder;
 * a relative prefix starts at the working folder; a prefix that ends with `/` or is an existing
 * folder means files inside of it, named "profile". PYR_ETOOBIG: a part is too long; PYR_ENOENT: no
 * home or working folder. */
PYR_MUST_USE pyr_status pyr_profile_files_resolve(const char *prefix,
                                                  char folder[PYR_LIMIT_PATH_BYTES],
                                                  char name[PYR_PROFILE_NAME_BYTES]);

/* 1 when `file` is a profile of this name, or the document of one; fills its numbers. Pure. */
int pyr_profile_files_parse(const char *file, const char *name, uint64_t *pid, uint64_t *sequence);

/* The highest sequence in use by this name and pid, 0 = none. */
PYR_MUST_USE pyr_status pyr_profile_files_highest(const char *folder, const char *name,
                                                  uint64_t pid, uint64_t *sequence);

/* Removes files of this name, oldest first, until those that remain are younger than `max_age_s`
 * and together within `max_bytes` (0 = no such cap). Those of (`pid`, `sequence`), just written,
 * stay. Also removes what a writer that died left unfinished. Many processes may do so at once. */
void pyr_profile_files_prune(const char *folder, const char *name, int64_t max_bytes,
                             int64_t max_age_s, uint64_t pid, uint64_t sequence);

/* A name for an unfinished file, which no other process uses; hidden, so that nobody reads it. */
void pyr_profile_files_temporary(const char *folder, char *path, size_t size);

#endif
