/* Lines of bytecode: a pure decoder of co_linetable (3.11 and later; CPython's
 * Objects/locations.md, InternalDocs/code_objects.md since 3.14).
 *
 * A unit is a 2-byte code unit; unit 0 is the first of the bytecode. Input is hostile: nothing
 * beyond (table, length) is read, and every number is bounded. Hook safe, any thread.
 */
#ifndef PYR_CPYTHON_LINETABLE_H
#define PYR_CPYTHON_LINETABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A run of units that belong to one line. */
typedef struct pyr_line_run {
    uint32_t start; /* unit; the run ends where the next one starts */
    int32_t line;   /* 0: no line */
} pyr_line_run;

/* The line of one unit, or 0 when the table says that it has none. PYR_OK; PYR_ENOENT past the end
 * of the table (an empty one included); PYR_EBAD, PYR_EPARTIAL for a malformed table before that
 * unit. *line is 0 unless PYR_OK. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_linetable_line(const uint8_t *table, size_t length,
                                                         int first_line, size_t unit_index,
                                                         int *line);

/* The whole table as runs, ascending, neighbours with one line merged; the last run has line 0 and
 * starts where the table ends. *count receives their number even when `capacity` is too small
 * (PYR_ETOOBIG, the first ones are filled in; `runs` may be NULL with capacity 0). PYR_EBAD,
 * PYR_EPARTIAL: malformed. */
PYR_MUST_USE pyr_status pyr_linetable_expand(const uint8_t *table, size_t length, int first_line,
                                             pyr_line_run *runs, size_t capacity, size_t *count);

/* The line of a unit in such runs; 0 for none. */
int pyr_linetable_find(const pyr_line_run *runs, size_t count, size_t unit_index);

#endif
