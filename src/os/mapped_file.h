/* The files that another process has mapped: opened, and read at any place.
 *
 * Any thread; not hook safe. A path in /proc/PID/maps is only a hint: the file may be deleted,
 * replaced, or lie in another mount namespace, and its folder may belong to somebody hostile. So
 * there are several ways to it, none of them certain, and who opens one proves that it is the file.
 */
#ifndef PYR_OS_MAPPED_FILE_H
#define PYR_OS_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "os/maps.h"

enum { PYR_MAPPED_FILE_WAYS = 4 };

/* Opens, for reading, what may be the file behind a mapping of process `pid`, by one of the ways
 * 0 .. PYR_MAPPED_FILE_WAYS - 1. Never waits for a pipe or device. PYR_EINVAL: no regular file;
 * PYR_EPERM, PYR_ENOENT, PYR_ETOOBIG (a path too long). Closed by pyr_mapped_file_close. */
PYR_MUST_USE pyr_status pyr_mapped_file_open(int64_t pid, const pyr_mapping *mapping, int way,
                                             int *file);
void pyr_mapped_file_close(int file);

/* Reads exactly `length` bytes at `offset`. PYR_EPARTIAL: the file ends before; PYR_EIO ... */
PYR_MUST_USE pyr_status pyr_mapped_file_read(int file, uint64_t offset, void *destination,
                                             size_t length);

#endif
