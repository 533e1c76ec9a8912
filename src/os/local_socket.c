/* Local sockets, on Linux; see the header. Stateless. */
#include "os/local_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 4,
    HIGHEST = 1024, /* descriptors are taken from below this, or below the limit */
    BELOW = 24,
    STATUS_BYTES = 4096,
    CHUNK_BYTES = 4096,
};

static const char NAMESPACE[] = "/proc/%s/ns/%s";

/* The number in "pid:[4026531836]"; 0: it cannot be read. */
static uint64_t namespace_of(const char *process, const char *kind)
{
    char path[64], text[64];
    snprintf(path, sizeof path, NAMESPACE, process, kind);
    ssize_t length = readlink(path, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    const char *number = strchr(text, '[');
    return number != NULL ? strtoull(number + 1, NULL, 10) : 0;
}

pyr_status pyr_local_process_self(pyr_local_process *process)
{
    *process = (pyr_local_process){.pid = getpid(), .pid_namespace = namespace_of("self", "pid")};
    return process->pid_namespace != 0 ? PYR_OK : PYR_ENOENT;
}

pyr_status pyr_local_process_find(int64_t pid, pyr_local_process *process)
{
    char name[24], path[64], text[STATUS_BYTES];
    snprintf(name, sizeof name, "%lld", (long long)pid);
    snprintf(path, sizeof path, "/proc/%s/status", name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return PYR_ENOENT;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    *process = (pyr_local_process){.pid = pid, .pid_namespace = namespace_of(name, "pid")};
    if (process->pid_namespace == 0) {
        process->pid_namespace = namespace_of("self", "pid"); /* not ours to see: most likely it */
    }
    /* One pid a namespace, the innermost last. */
    const char *pids = strstr(text, "\nNSpid:");
    for (const char *at = pids != NULL ? pids + 7 : "\n"; *at != '\0' && *at != '\n';) {
        char *end;
        long long number = strtoll(at, &end, 10);
        if (end == at) {
            break;
        }
        process->pid = number;
        at = end;
    }
    return PYR_OK;
}

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t length = strnlen(name, PYR_LIMIT_SOCKET_NAME);
    memcpy(address->sun_path + 1, name, length); /* behind the zero that makes it abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* A socket with a high number, or -1. */
static int make_socket(void)
{
    int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (low < 0) {
        return -1;
    }
    struct rlimit limit;
    long most = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HIGHEST
                    ? (long)limit.rlim_cur
                    : (long)HIGHEST;
    int high = fcntl(low, F_DUPFD_CLOEXEC, most > BELOW ? (int)most - BELOW : 0);
    if (high < 0) {
        return low; /* all of those are taken */
    }
    close(low);
    return high;
}

void pyr_local_make_room(void)
{
    int made = make_socket();
    if (made >= 0) {
        close(made);
    }
}

static pyr_status failure(void)
{
    return errno == EADDRINUSE                        ? PYR_EEXIST
           : errno == EACCES || errno == EPERM        ? PYR_EPERM
           : errno == ECONNREFUSED || errno == ENOENT ? PYR_ENOENT
           : errno == EAGAIN || errno == EINTR        ? PYR_EBUSY
                                                      : PYR_EIO;
}

pyr_status pyr_local_listen(const char *name, pyr_local_listener *listener)
{
    struct sockaddr_un address;
    struct stat file;
    socklen_t length = address_of(name, &address);
    *listener = (pyr_local_listener){.descriptor = -1};
    int made = make_socket();
    if (made < 0) {
        return failure();
    }
    if (bind(made, (const struct sockaddr *)&address, length) != 0 || listen(made, BACKLOG) != 0 ||
        fstat(made, &file) != 0) {
        pyr_status status = failure();
        close(made);
        return status;
    }
    *listener = (pyr_local_listener){made, (uint64_t)file.st_dev, (uint64_t)file.st_ino};
    return PYR_OK;
}

int pyr_local_listener_is_open(const pyr_local_listener *listener)
{
    struct stat file;
    return listener->descriptor >= 0 && fstat(listener->descriptor, &file) == 0 &&
           (uint64_t)file.st_dev == listener->device && (uint64_t)file.st_ino == listener->identity;
}

void pyr_local_listener_close(pyr_local_listener *listener)
{
    if (pyr_local_listener_is_open(listener)) {
        close(listener->descriptor);
    }
    listener->descriptor = -1;
}

static pyr_status know_peer(int connection, pyr_local_peer *peer)
{
    struct ucred other;
    socklen_t length = sizeof other;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0) {
        return PYR_EIO;
    }
    *peer = (pyr_local_peer){.pid = other.pid, .user = other.uid};
    return PYR_OK;
}

pyr_status pyr_local_accept(const pyr_local_listener *listener, int *connection,
                            pyr_local_peer *peer)
{
    *connection = -1;
    if (!pyr_local_listener_is_open(listener)) {
        return PYR_ECLOSED;
    }
    int made = accept4(listener->descriptor, NULL, NULL, SOCK_CLOEXEC);
    if (made < 0) {
        return errno == EBADF || errno == EINVAL || errno == ENOTSOCK ? PYR_ECLOSED : PYR_EIO;
    }
    pyr_status status = know_peer(made, peer);
    if (status != PYR_OK) {
        close(made);
        return status;
    }
    *connection = made;
    return PYR_OK;
}

pyr_status pyr_local_connect(const char *name, int *connection, pyr_local_peer *peer)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int made = make_socket();
    *connection = -1;
    if (made < 0) {
        return failure();
    }
    pyr_status status = PYR_OK;
    if (connect(made, (const struct sockaddr *)&address, length) != 0) {
        status = failure();
    } else {
        status = know_peer(made, peer);
    }
    if (status != PYR_OK) {
        close(made);
        return status;
    }
    *connection = made;
    return PYR_OK;
}

void pyr_local_set_timeout(int connection, int64_t timeout_ns)
{
    const struct timeval time = {.tv_sec = timeout_ns / 1000000000,
                                 .tv_usec = timeout_ns % 1000000000 / 1000};
    (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

pyr_status pyr_local_send(int connection, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t sent = send(connection, at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return failure();
        }
        at += sent;
        length -= (size_t)sent;
    }
    return shutdown(connection, SHUT_WR) == 0 ? PYR_OK : PYR_EIO;
}

pyr_status pyr_local_receive(int connection, pyr_buffer *out)
{
    for (;;) {
        char chunk[CHUNK_BYTES];
        ssize_t length = recv(connection, chunk, sizeof chunk, 0);
        if (length == 0) {
            return PYR_OK;
        }
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length < 0) {
            return failure();
        }
        pyr_status status = pyr_buffer_append(out, chunk, (size_t)length);
        if (status != PYR_OK) {
            return status;
        }
    }
}

void pyr_local_close(int connection)
{
    if (connection >= 0) {
        close(connection);
    }
}

pyr_status pyr_local_enter_network(int64_t pid)
{
    char name[24], path[64];
    snprintf(name, sizeof name, "%lld", (long long)pid);
    uint64_t theirs = namespace_of(name, "net");
    if (theirs == 0 || theirs == namespace_of("self", "net")) {
        return PYR_OK;
    }
    snprintf(path, sizeof path, NAMESPACE, name, "net");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return PYR_EPERM;
    }
    int error = setns(file, CLONE_NEWNET);
    close(file);
    return error == 0 ? PYR_OK : PYR_EPERM;
}
