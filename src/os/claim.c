/* Shared files and listeners of claim.h, on POSIX. Stateless.
 *
 * Claims are record locks (fcntl): they belong to the process, so that a child of a fork does not
 * keep them, and the kernel drops them when the process dies. Locks of flock would live on in every
 * child that was forked while one was held.
 */
#include "os/claim.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "os/os.h"

enum { READ_BYTES = 16384 };

pyr_status pyr_os_folder_make_private(const char *path)
{
    char above[PYR_LIMIT_PATH_BYTES];
    snprintf(above, sizeof above, "%s", path);
    char *slash = strrchr(above, '/');
    if (slash != NULL && slash > above) {
        *slash = '\0';
        pyr_status status = pyr_os_folder_make(above);
        if (status != PYR_OK) {
            return status;
        }
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return pyr_status_from_errno(errno);
    }
    return pyr_os_folder_is_own(path) ? PYR_OK : PYR_EPERM;
}

static pyr_status read_regular(int file, pyr_buffer *out)
{
    struct stat facts;
    pyr_status status = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) ? PYR_OK : PYR_EINVAL;
    while (status == PYR_OK) {
        char bytes[READ_BYTES];
        ssize_t count = read(file, bytes, sizeof bytes);
        if (count == 0) {
            break;
        }
        if (count > 0) {
            status = pyr_buffer_append(out, bytes, (size_t)count);
        } else if (errno != EINTR) {
            status = pyr_status_from_errno(errno);
        }
    }
    return status;
}

pyr_status pyr_os_file_read(const char *path, pyr_buffer *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        return pyr_status_from_errno(errno);
    }
    pyr_status status = read_regular(file, out);
    close(file);
    return status;
}

/* Locks the file; PYR_ENOENT: whoever had it before removed it between our look and our lock. */
static pyr_status lock(int file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat facts;
    if (fcntl(file, F_SETLK, &whole) != 0) {
        return pyr_status_from_errno(errno);
    }
    return fstat(file, &facts) == 0 && facts.st_nlink > 0 ? PYR_OK : PYR_ENOENT;
}

pyr_status pyr_os_file_claim(const char *path, pyr_buffer *out, int *claim)
{
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        return pyr_status_from_errno(errno);
    }
    pyr_status status = lock(file);
    if (status == PYR_OK && out != NULL) {
        status = read_regular(file, out);
    }
    if (status != PYR_OK) {
        close(file);
        return status;
    }
    *claim = file;
    return PYR_OK;
}

void pyr_os_file_release(int claim)
{
    close(claim);
}

pyr_status pyr_os_folder_names(const char *path, const char *suffix,
                               int (*visit)(void *context, const char *name), void *context)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return pyr_status_from_errno(errno);
    }
    size_t suffix_length = strlen(suffix);
    const struct dirent *entry;
    int ended = 0;
    while (!ended && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length >= suffix_length &&
            strcmp(entry->d_name + length - suffix_length, suffix) == 0) {
            ended = visit(context, entry->d_name);
        }
    }
    closedir(folder);
    return PYR_OK;
}

int64_t pyr_os_modified_ns(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return 0;
    }
    return (int64_t)facts.st_mtim.tv_sec * 1000000000 + facts.st_mtim.tv_nsec;
}

uint64_t pyr_os_inode(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 ? facts.st_ino : 0;
}

static int listens(const struct sockaddr *address, socklen_t length)
{
    int end = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (end < 0) {
        return 0;
    }
    int answer = connect(end, address, length) == 0;
    if (!answer && errno == EINPROGRESS) {
        /* On loopback the other side has answered by now, or is not there. */
        struct pollfd wait = {.fd = end, .events = POLLOUT};
        int error = 1;
        socklen_t size = sizeof error;
        answer = poll(&wait, 1, 0) == 1 &&
                 getsockopt(end, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }
    close(end);
    return answer;
}

int pyr_os_listens_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        return 0;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return listens((const struct sockaddr *)&address, sizeof address);
}

int pyr_os_listens_loopback(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    return listens((const struct sockaddr *)&address, sizeof address);
}
