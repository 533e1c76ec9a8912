/* Listening sockets; see the header. Stateless; the thread that starts the server. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/claim.h"

enum { PORT = 4077, BACKLOG = 1024 };

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static pyr_status read_port(const char *text, unsigned short *port)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number > 65535) {
        return PYR_EINVAL;
    }
    *port = (unsigned short)number;
    return PYR_OK;
}

pyr_status pyr_listen_parse(const char *text, pyr_listen_address *address)
{
    memset(address, 0, sizeof *address);
    address->port = PORT;
    if (strncmp(text, "unix:", 5) == 0) {
        const char *path = text + 5 + (strncmp(text + 5, "//", 2) == 0 ? 2 : 0);
        if (path[0] == '\0' || strlen(path) >= sizeof address->path) {
            return PYR_EINVAL;
        }
        memcpy(address->path, path, strlen(path) + 1);
        address->is_private = true;
        return PYR_OK;
    }
    const char *host = text;
    const char *port = strrchr(text, ':');
    size_t length = port != NULL ? (size_t)(port - text) : strlen(text);
    if (text[0] == '[') {
        const char *close = strchr(text, ']');
        if (close == NULL || (close[1] != ':' && close[1] != '\0')) {
            return PYR_EINVAL;
        }
        host = text + 1;
        length = (size_t)(close - host);
        port = close[1] == ':' ? close + 1 : NULL;
    } else if (port == NULL && strspn(text, "0123456789") == strlen(text)) {
        length = 0;
        port = text - 1;
    }
    if (length >= sizeof address->host ||
        (port != NULL && read_port(port + 1, &address->port) != PYR_OK)) {
        return PYR_EINVAL;
    }
    (void)snprintf(address->host, sizeof address->host, "%.*s", (int)length, host);
    if (length == 0) {
        memcpy(address->host, "127.0.0.1", sizeof "127.0.0.1");
    }
    address->is_private = is_loopback(address->host);
    return PYR_OK;
}

static pyr_status fail(int handle, const char *what, char *why, size_t why_size)
{
    int error = errno;
    if (handle >= 0) {
        (void)close(handle);
    }
    snprintf(why, why_size, "cannot listen at %s: %s%s", what, strerror(error),
             error == EADDRINUSE ? "; another program does: choose another with --listen" : "");
    return error == EADDRINUSE ? PYR_EBUSY : pyr_status_from_errno(error);
}

static pyr_status open_unix(const pyr_listen_address *address, int *result, char *url,
                            size_t url_size, char *why, size_t why_size)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, address->path, strlen(address->path) + 1);
    struct stat there;
    if (lstat(address->path, &there) == 0 && S_ISSOCK(there.st_mode) &&
        !pyr_os_listens_unix(address->path)) {
        (void)unlink(address->path); /* of a server that died */
    }
    int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (handle < 0 || bind(handle, (struct sockaddr *)&name, sizeof name) != 0 ||
        chmod(address->path, 0600) != 0 || listen(handle, BACKLOG) != 0) {
        return fail(handle, address->path, why, why_size);
    }
    (void)snprintf(url, url_size, "unix://%s", address->path);
    *result = handle;
    return PYR_OK;
}

static unsigned short port_of(int handle)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    if (getsockname(handle, (struct sockaddr *)&name, &length) != 0) {
        return 0;
    }
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                            : ((struct sockaddr_in *)&name)->sin_port);
}

static int open_tcp(const struct addrinfo *entry)
{
    int yes = 1;
    int handle = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (handle < 0) {
        return -1;
    }
    (void)setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (entry->ai_family == AF_INET6) {
        (void)setsockopt(handle, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    }
    if (bind(handle, entry->ai_addr, entry->ai_addrlen) != 0 || listen(handle, BACKLOG) != 0) {
        int error = errno;
        (void)close(handle);
        errno = error;
        return -1;
    }
    return handle;
}

pyr_status pyr_listen_open(const pyr_listen_address *address, bool tls, int *result, char *url,
                           size_t url_size, char *why, size_t why_size)
{
    if (address->path[0] != '\0') {
        return open_unix(address, result, url, url_size, why, why_size);
    }
    char port[8];
    char text[160];
    bool is_v6 = strchr(address->host, ':') != NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    (void)snprintf(port, sizeof port, "%u", (unsigned)address->port);
    (void)snprintf(text, sizeof text, is_v6 ? "[%s]:%s" : "%s:%s", address->host, port);
    /* localhost means the address that clients try by its number. */
    const char *host = strcmp(address->host, "localhost") == 0 ? "127.0.0.1" : address->host;
    int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0) {
        snprintf(why, why_size, "cannot listen at %s: %s", text, gai_strerror(code));
        return PYR_EINVAL;
    }
    int handle = open_tcp(found);
    freeaddrinfo(found);
    if (handle < 0) {
        return fail(-1, text, why, why_size);
    }
    (void)snprintf(url, url_size, is_v6 ? "%s://[%s]:%u" : "%s://%s:%u", tls ? "https" : "http",
                   address->host, (unsigned)port_of(handle));
    *result = handle;
    return PYR_OK;
}
