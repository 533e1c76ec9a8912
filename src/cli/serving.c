/* A server's options and life; see the header.
 *
 * Owns no thread itself. Waiting is by signalfd and pidfd, so that there is no handler and no
 * polling. The server that `run --serve` starts is a grandchild: the command, which this process
 * becomes, has no child that it does not know.
 */
#include "cli/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "cli/message.h"
#include "os/claim.h"
#include "server/request.h"

enum { TOKEN_BYTES = 4096, WHY_BYTES = 1024, PROFILE_BYTES = 16 << 20 };

int pyr_serving_folder(const char *given, char folder[PYR_SERVING_PATH_BYTES])
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    if (given != NULL && given[0] != '\0') {
        length = snprintf(folder, PYR_SERVING_PATH_BYTES, "%s", given);
    } else if (data != NULL && data[0] == '/') {
        length = snprintf(folder, PYR_SERVING_PATH_BYTES, "%s/pyrometer", data);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(folder, PYR_SERVING_PATH_BYTES, "%s/.local/share/pyrometer", home);
    }
    if (length < 0 || length >= PYR_SERVING_PATH_BYTES - 64) {
        return pyr_message_wrong("where to keep profiles is not known: give --data DIR");
    }
    return PYR_EXIT_GOOD;
}

bool pyr_serving_bytes(const char *text, int64_t *bytes)
{
    static const struct {
        const char *unit;
        int64_t bytes;
    } UNITS[] = {{"", 1},
                 {"B", 1},
                 {"KiB", INT64_C(1) << 10},
                 {"MiB", INT64_C(1) << 20},
                 {"GiB", INT64_C(1) << 30},
                 {"TiB", INT64_C(1) << 40}};
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 12) {
        return false;
    }
    for (size_t at = 0; at < sizeof UNITS / sizeof UNITS[0]; at++) {
        if (strcmp(text + digits, UNITS[at].unit) == 0) {
            return !__builtin_mul_overflow(strtoll(text, NULL, 10), UNITS[at].bytes, bytes);
        }
    }
    return false;
}

static int read_token(const char *path, char *token, size_t size, const char **result)
{
    pyr_buffer bytes;
    if (path == NULL) {
        return PYR_EXIT_GOOD;
    }
    pyr_buffer_init(&bytes, TOKEN_BYTES);
    pyr_status status = pyr_os_file_read(path, &bytes);
    size_t length = 0;
    while (length < bytes.length && bytes.data[length] > ' ' && bytes.data[length] < 0x7f) {
        length++;
    }
    bool good = status == PYR_OK && length >= 16 && length < size;
    if (good) {
        memcpy(token, bytes.data, length);
        token[length] = '\0';
        *result = token;
    }
    pyr_buffer_fini(&bytes);
    if (status != PYR_OK) {
        return pyr_message_wrong("%s cannot be read: %s", path, pyr_status_text(status));
    }
    return good ? PYR_EXIT_GOOD
                : pyr_message_wrong("%s has no token: write 16 to %zu printable characters, for "
                                    "example from: openssl rand -hex 24",
                                    path, size - 1);
}

static int read_arguments(pyr_serving *serving, const pyr_serving_arguments *arguments)
{
    pyr_server_options *options = &serving->options;
    int64_t bytes = PROFILE_BYTES;
    options->addresses = arguments->listen.items;
    options->address_count = arguments->listen.count;
    options->hosts = arguments->hosts.items;
    options->host_count = arguments->hosts.count;
    options->certificate = arguments->certificate;
    options->key = arguments->key;
    options->folder = serving->folder;
    if (arguments->keep != NULL && pyr_span_parse(arguments->keep, &options->keep_ns) != PYR_OK) {
        return pyr_message_wrong("--keep cannot be \"%s\"; give it a span such as 24h or 30d",
                                 arguments->keep);
    }
    if (arguments->keep_bytes != NULL &&
        !pyr_serving_bytes(arguments->keep_bytes, &options->keep_bytes)) {
        return pyr_message_wrong("--keep-bytes cannot be \"%s\"; give it a size such as 20GiB",
                                 arguments->keep_bytes);
    }
    if (arguments->profile_bytes != NULL && (!pyr_serving_bytes(arguments->profile_bytes, &bytes) ||
                                             bytes < 1024 || bytes > INT64_C(1) << 30)) {
        return pyr_message_wrong("--profile-bytes cannot be \"%s\"; give it 1KiB to 1GiB",
                                 arguments->profile_bytes);
    }
    options->profile_bytes = (size_t)bytes;
    int code = pyr_serving_folder(arguments->data, serving->folder);
    if (code == PYR_EXIT_GOOD) {
        code = read_token(arguments->read_token_file, serving->read_token,
                          sizeof serving->read_token, &options->read_token);
    }
    if (code == PYR_EXIT_GOOD) {
        code = read_token(arguments->ingest_token_file, serving->ingest_token,
                          sizeof serving->ingest_token, &options->ingest_token);
    }
    return code;
}

int pyr_serving_start(pyr_serving *serving, const pyr_serving_arguments *arguments)
{
    char why[WHY_BYTES];
    struct rlimit files;
    memset(serving, 0, sizeof *serving);
    int code = read_arguments(serving, arguments);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max < 65536 ? files.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* a connection is a file */
    }
    if (pyr_server_start(&serving->options, &serving->server, why, sizeof why) != PYR_OK) {
        return pyr_message_wrong("%s", why);
    }
    return PYR_EXIT_GOOD;
}

void pyr_serving_wait(int64_t pid)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    struct pollfd waits[2] = {
        {.fd = signalfd(-1, &signals, SFD_CLOEXEC), .events = POLLIN},
        {.fd = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1, .events = POLLIN},
    };
    if (pid > 0 && waits[1].fd < 0) {
        return; /* it has ended */
    }
    while (poll(waits, 2, -1) < 0 && errno == EINTR) {
    }
    (void)close(waits[0].fd);
    if (waits[1].fd >= 0) {
        (void)close(waits[1].fd);
    }
}

/* ---------------------------------------------------------------------------------- beside ---- */

/* The grandchild: serves until `command` ends, and says where through `ready`. */
static void serve_beside(int64_t command, int ready)
{
    pyr_serving serving;
    sigset_t signals;
    const pyr_serving_arguments arguments = {0};
    (void)sigfillset(&signals);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    int code = pyr_serving_start(&serving, &arguments);
    if (code == PYR_EXIT_GOOD) {
        const char *url = pyr_server_address(serving.server, 0);
        if (write(ready, url, strlen(url)) < 0) {
            code = PYR_EXIT_WRONG;
        }
    }
    (void)close(ready);
    if (code == PYR_EXIT_GOOD) {
        pyr_serving_wait(command);
        pyr_server_stop(serving.server);
    }
    _exit(code);
}

int pyr_serving_beside(char *url, size_t size)
{
    int ready[2];
    int64_t command = getpid();
    if (pipe2(ready, O_CLOEXEC) != 0) {
        return pyr_message_wrong("the server cannot be started: %m");
    }
    pid_t child = fork();
    if (child == 0) {
        (void)setsid(); /* Ctrl-C is the command's */
        (void)close(ready[0]);
        if (fork() == 0) {
            serve_beside(command, ready[1]);
        }
        _exit(0);
    }
    (void)close(ready[1]);
    if (child < 0) {
        (void)close(ready[0]);
        return pyr_message_wrong("the server cannot be started: %m");
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    size_t used = 0;
    while (used + 1 < size) {
        ssize_t got = read(ready[0], url + used, size - 1 - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    url[used] = '\0';
    (void)close(ready[0]);
    return used > 0 ? PYR_EXIT_GOOD : PYR_EXIT_WRONG; /* it has said why */
}
