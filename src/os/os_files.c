/* The files and folders of os.h. Stateless. Retries interrupted calls; follows no symbolic link in
 * the last part of a path that it makes. */
#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

enum { WRITE_BYTES = 1 << 20 }; /* of one call: a slow disk is noticed between calls */

pyr_status pyr_os_folder_make(const char *path)
{
    char partial[PYR_LIMIT_PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof partial) {
        return PYR_EINVAL;
    }
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        partial[i] = '\0';
        if (mkdir(partial, 0755) != 0 && !pyr_os_folder_exists(partial)) {
            return errno == EEXIST ? PYR_EEXIST : pyr_status_from_errno(errno);
        }
        partial[i] = path[i];
    }
    return PYR_OK;
}

pyr_status pyr_os_folder_check(const char *path)
{
    return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? PYR_OK
                                                                   : pyr_status_from_errno(errno);
}

int pyr_os_folder_exists(const char *path)
{
    int before = errno;
    struct stat facts;
    int exists = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    errno = before;
    return exists;
}

int pyr_os_folder_is_own(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid();
}

static pyr_status write_all(int file, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file, bytes, length < WRITE_BYTES ? length : WRITE_BYTES);
        if (written < 0 && errno != EINTR) {
            return pyr_status_from_errno(errno);
        }
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return PYR_OK;
}

/* Makes a new file, never as a standard stream that the program has closed: what it still prints
 * there must not come into our file. Streams that are free are held meanwhile by what cannot be
 * written to. */
static int create_file(const char *path)
{
    int held[STDERR_FILENO + 1];
    size_t count = 0;
    int place = open("/", O_PATH | O_CLOEXEC);
    while (place >= 0 && place <= STDERR_FILENO && count < sizeof held / sizeof held[0]) {
        held[count++] = place;
        place = open("/", O_PATH | O_CLOEXEC);
    }
    if (place >= 0) {
        close(place);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    int error = errno;
    while (count > 0) {
        close(held[--count]);
    }
    errno = error;
    return file;
}

pyr_status pyr_os_file_write(const char *path, const void *bytes, size_t length)
{
    int file = create_file(path);
    if (file < 0) {
        return pyr_status_from_errno(errno);
    }
    pyr_status status = write_all(file, bytes, length);
    /* Network file systems and quotas may tell of a full disk only here. */
    if (close(file) != 0 && errno != EINTR && status == PYR_OK) {
        status = pyr_status_from_errno(errno);
    }
    if (status != PYR_OK) {
        unlink(path);
    }
    return status;
}

pyr_status pyr_os_file_write_at(const char *path, uint64_t offset, const void *bytes, size_t length)
{
    int file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        return pyr_status_from_errno(errno);
    }
    pyr_status status = PYR_OK;
    const uint8_t *from = bytes;
    while (length > 0 && status == PYR_OK) {
        ssize_t written = pwrite(file, from, length, (off_t)offset);
        if (written < 0 && errno != EINTR) {
            status = pyr_status_from_errno(errno);
        } else if (written > 0) {
            from += written;
            offset += (uint64_t)written;
            length -= (size_t)written;
        }
    }
    close(file);
    return status;
}

pyr_status pyr_os_file_publish(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        return PYR_OK;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM) {
        return pyr_status_from_errno(errno);
    }
    /* A file system (NFS, some FUSE) or a sandbox without it (some say EPERM): a second name does
     * the same. */
    if (link(from, to) == 0) {
        unlink(from);
        return PYR_OK;
    }
    if (errno != EPERM && errno != ENOTSUP && errno != ENOSYS) {
        return pyr_status_from_errno(errno);
    }
    /* No second names either (FAT through FUSE): claim the name, then replace our own claim. */
    pyr_status status = pyr_os_file_write(to, NULL, 0);
    if (status == PYR_OK && rename(from, to) != 0) {
        status = pyr_status_from_errno(errno);
        unlink(to);
    }
    return status;
}

pyr_status pyr_os_file_remove(const char *path)
{
    return unlink(path) == 0 ? PYR_OK : pyr_status_from_errno(errno);
}

pyr_status pyr_os_folder_each(const char *path, const char *prefix,
                              int (*visit)(void *context, const pyr_os_file *file), void *context)
{
    DIR *folder = opendir(path);
    if (!folder) {
        return pyr_status_from_errno(errno);
    }
    size_t prefix_length = strlen(prefix);
    const struct dirent *entry;
    int ended = 0;
    while (!ended && (entry = readdir(folder)) != NULL) {
        struct stat facts;
        if (strncmp(entry->d_name, prefix, prefix_length) == 0 &&
            fstatat(dirfd(folder), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(facts.st_mode)) {
            pyr_os_file file = {
                .name = entry->d_name,
                .bytes = facts.st_size,
                .modified_ns = (int64_t)facts.st_mtim.tv_sec * 1000000000 + facts.st_mtim.tv_nsec,
            };
            ended = visit(context, &file);
        }
    }
    closedir(folder);
    return PYR_OK;
}

pyr_status pyr_os_working_folder(char *path, size_t size)
{
    return getcwd(path, size) ? PYR_OK : pyr_status_from_errno(errno);
}

void pyr_os_temporary_folder(char *path, size_t size)
{
    const char *folder = secure_getenv("TMPDIR");
    snprintf(path, size, "%s", folder && *folder == '/' ? folder : "/tmp");
}
