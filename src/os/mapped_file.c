/* Files of other processes, on Linux; see the header. Stateless. Files are read, never mapped: one
 * that is cut short meanwhile gives an error and no SIGBUS. */
#include "os/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

pyr_status pyr_mapped_file_open(int64_t pid, const pyr_mapping *mapping, int way, int *file)
{
    char path[PYR_LIMIT_PATH_BYTES];
    int length = 0, bytes = (int)mapping->path_length;
    if (mapping->path_length >= sizeof path) {
        return PYR_ETOOBIG;
    }
    switch (way) {
    case 0: /* the very file, deleted or not; needs CAP_CHECKPOINT_RESTORE */
        length = snprintf(path, sizeof path, "/proc/%" PRId64 "/map_files/%" PRIx64 "-%" PRIx64,
                          pid, mapping->start, mapping->end);
        break;
    case 1: /* in the process's own mount namespace, as in a container */
        length =
            snprintf(path, sizeof path, "/proc/%" PRId64 "/root%.*s", pid, bytes, mapping->path);
        break;
    case 2: /* a process in a chroot of ours: its paths are told from our root */
        length = snprintf(path, sizeof path, "%.*s", bytes, mapping->path);
        break;
    case 3: /* the program, deleted or not */
        length = snprintf(path, sizeof path, "/proc/%" PRId64 "/exe", pid);
        break;
    default:
        return PYR_ENOENT;
    }
    if (length < 0 || (size_t)length >= sizeof path) {
        return PYR_ETOOBIG;
    }
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*file < 0) {
        return pyr_status_from_errno(errno);
    }
    struct stat facts;
    if (fstat(*file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(*file);
        return PYR_EINVAL;
    }
    return PYR_OK;
}

void pyr_mapped_file_close(int file)
{
    close(file);
}

pyr_status pyr_mapped_file_read(int file, uint64_t offset, void *destination, size_t length)
{
    char *to = destination;
    while (length > 0) {
        if (offset > INT64_MAX) {
            return PYR_EPARTIAL;
        }
        ssize_t count = pread(file, to, length, (off_t)offset);
        if (count == 0) {
            return PYR_EPARTIAL;
        }
        if (count > 0) {
            to += count;
            offset += (uint64_t)count;
            length -= (size_t)count;
        } else if (errno != EINTR) {
            return pyr_status_from_errno(errno);
        }
    }
    return PYR_OK;
}
