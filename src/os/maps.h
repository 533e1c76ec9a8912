/* The address space of a process as /proc/PID/maps tells it. Pure: text in, one mapping at a time
 * out; any thread, no allocation.
 *
 * Source: show_map_vma in the kernel's fs/proc/task_mmu.c. A path may hold any byte; the kernel
 * writes a newline as \012 and does not escape the backslash, so such a path is not certain.
 */
#ifndef PYR_OS_MAPS_H
#define PYR_OS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_mapping {
    uint64_t start, end; /* addresses; start < end */
    uint64_t offset;     /* of `start` in the file */
    uint64_t inode;      /* 0: no file */
    uint32_t device_major, device_minor;
    bool is_readable, is_writable, is_executable, is_shared;
    const char *path; /* in the text, not NUL-terminated: a file, "[heap]" and the like, or empty */
    size_t path_length;
} pyr_mapping;

/* The mapping at *position, which moves to the line behind it. PYR_ENOENT: the text ends there;
 * PYR_EPARTIAL: it ends within a line; PYR_EBAD: a malformed line. *position stays on errors. */
PYR_MUST_USE pyr_status pyr_maps_next(const char *text, size_t length, size_t *position,
                                      pyr_mapping *mapping);

/* True when both are of one file. */
bool pyr_mapping_is_same_file(const pyr_mapping *one, const pyr_mapping *other);

#endif
