/* HTTP through libcurl; see the header.
 *
 * libcurl is opened by its name with dlopen, not linked: who writes files only never has it, nor
 * the twenty libraries behind it, in the process; one package serves systems with either of
 * Debian's builds; and TLS trusts what the system trusts, kept up to date by it. Its own header
 * gives the types of the functions that are looked up, so that a wrong call does not compile.
 *
 * Owns the table of functions, filled once a process. The exporter's thread only, except that a
 * fork may happen at any moment: its child looks at `state` and never enters a library whose
 * initialisation its parent was in the middle of. Nothing is ever unloaded.
 */
#include "export/http.h"

#include <ctype.h>
#define CURL_DISABLE_TYPECHECK /* its macros want the functions themselves */
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    POLL_MS = 50, /* how soon a nearer deadline is noticed */
    HEADER_BYTES = 2048,
    NS_PER_MS = 1000000,
};

/* Names that libcurl's fourth interface goes by: OpenSSL's build, then Debian's with GnuTLS. */
static const char *const LIBRARIES[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

#define FUNCTIONS(X)                                                                               \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_cleanup)                                                                                \
    X(easy_strerror)                                                                               \
    X(multi_init)                                                                                  \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_info_read)                                                                             \
    X(multi_cleanup)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(global_init)

static struct {
#define FIELD(name) __typeof__(&curl_##name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} curl;

static _Atomic enum { UNKNOWN, LOADING, LOADED, UNUSABLE } state;

static bool find_functions(void *library)
{
    void *symbol = NULL;
#define FIND(name)                                                                                 \
    symbol = dlsym(library, "curl_" #name);                                                        \
    if (symbol == NULL) {                                                                          \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&curl.name, &symbol, sizeof symbol);
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

static bool load(void)
{
    for (size_t index = 0; index < sizeof LIBRARIES / sizeof LIBRARIES[0]; index++) {
        void *library = dlopen(LIBRARIES[index], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            continue;
        }
        if (find_functions(library)) {
            return curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
        }
        dlclose(library);
    }
    return false;
}

pyr_status pyr_http_load(char *why, size_t why_size)
{
    int before = atomic_load(&state);
    if (before == UNKNOWN) {
        atomic_store(&state, LOADING);
        before = load() ? LOADED : UNUSABLE;
        atomic_store(&state, before);
    }
    if (before == LOADED) {
        return PYR_OK;
    }
    snprintf(why, why_size,
             before == LOADING
                 ? "libcurl cannot be used: this process was forked while it was being loaded"
                 : "libcurl.so.4 (7.66 or newer) is needed to send profiles: install libcurl4 "
                   "(Debian, Ubuntu), libcurl (Fedora, Alpine)");
    return PYR_ENOTSUP;
}

/* ---------------------------------------------------------------------------------- answers */

/* Appends what can be shown in a log line; runs of blanks and controls become one blank. */
static void append_printable(char *text, const char *bytes, size_t length)
{
    size_t used = strlen(text);
    for (size_t index = 0; index < length && used + 1 < PYR_HTTP_TEXT_BYTES; index++) {
        unsigned char byte = (unsigned char)bytes[index];
        if (byte > ' ' && byte < 0x7F) {
            text[used++] = (char)byte;
        } else if (used > 0 && text[used - 1] != ' ') {
            text[used++] = ' ';
        }
    }
    text[used] = '\0';
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    pyr_http_answer *answer = context;
    append_printable(answer->text, bytes, size * count);
    return size * count;
}

/* The value of header `name` if `line` is it, else NULL. */
static const char *match_header(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') {
        return NULL;
    }
    return line + length + 1 + strspn(line + length + 1, " \t");
}

static size_t take_header(char *bytes, size_t size, size_t count, void *context)
{
    pyr_http_answer *answer = context;
    char line[HEADER_BYTES];
    size_t length = size * count < sizeof line - 1 ? size * count : sizeof line - 1;
    memcpy(line, bytes, length);
    line[length] = '\0';
    const char *value = match_header(line, "Server");
    if (value != NULL) {
        answer->is_pyrometer = strncasecmp(value, "pyrometer", strlen("pyrometer")) == 0;
    }
    value = match_header(line, "Retry-After");
    if (value != NULL && isdigit((unsigned char)*value)) {
        answer->retry_after_s = strtol(value, NULL, 10);
    }
    value = match_header(line, "Location");
    if (value != NULL) {
        append_printable(answer->text, value, strlen(value));
    }
    return size * count;
}

/* --------------------------------------------------------------------------------- requests */

/* Adds the lines of a text to a list; NULL: no memory, and the list is freed. */
static struct curl_slist *add_headers(struct curl_slist *list, const char *lines)
{
    while (lines != NULL && *lines != '\0') {
        char line[HEADER_BYTES];
        size_t length = strcspn(lines, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1),
                 lines);
        struct curl_slist *longer = line[0] != '\0' ? curl.slist_append(list, line) : list;
        if (longer == NULL) {
            curl.slist_free_all(list);
            return NULL;
        }
        list = longer;
        lines += length + (lines[length] == '\n' ? 1 : 0);
    }
    return list;
}

/* A child forked meanwhile has the socket too, so closing it would not end the connection. */
static int close_socket(void *context, curl_socket_t socket)
{
    (void)context;
    (void)shutdown(socket, SHUT_RDWR);
    return close(socket);
}

static void set_options(CURL *easy, const pyr_http_request *request, struct curl_slist *headers,
                        pyr_http_answer *answer, char *error)
{
    (void)curl.easy_setopt(easy, CURLOPT_URL, request->url);
    (void)curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    (void)curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl.easy_setopt(easy, CURLOPT_USERAGENT, "pyrometer/" PYR_VERSION);
    (void)curl.easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    /* Set, even if empty: else libcurl asks the environment, which the program may be changing. */
    (void)curl.easy_setopt(easy, CURLOPT_PROXY, request->proxy != NULL ? request->proxy : "");
    if (request->socket_path != NULL) {
        (void)curl.easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->socket_path);
    }
    if (request->ca_file != NULL && request->ca_file[0] != '\0') {
        (void)curl.easy_setopt(easy, CURLOPT_CAINFO, request->ca_file);
    }
    if (request->body != NULL) {
        (void)curl.easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl.easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
        (void)curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_length);
    }
    (void)curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl.easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    (void)curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl.easy_setopt(easy, CURLOPT_HEADERDATA, answer);
    (void)curl.easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A name server that hangs must not keep the cleanup waiting. Older libraries ignore this. */
    (void)curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

static int64_t time_left_ms(const pyr_http_request *request)
{
    int64_t deadline_ns = request->deadline_ns;
    if (request->hurry_ns != NULL) {
        int64_t hurry_ns = atomic_load(request->hurry_ns);
        deadline_ns = hurry_ns < deadline_ns ? hurry_ns : deadline_ns;
    }
    return (deadline_ns - pyr_clock_monotonic_ns()) / NS_PER_MS;
}

/* Runs the transfer to its end or its deadline. */
static pyr_status perform(CURLM *multi, const pyr_http_request *request, CURLcode *result)
{
    for (;;) {
        int running = 0;
        int queued = 0;
        if (curl.multi_perform(multi, &running) != CURLM_OK) {
            return PYR_ENOMEM;
        }
        const CURLMsg *message = curl.multi_info_read(multi, &queued);
        if (message != NULL && message->msg == CURLMSG_DONE) {
            *result = message->data.result;
            return PYR_OK;
        }
        int64_t left_ms = time_left_ms(request);
        if (left_ms <= 0) {
            return PYR_EBUSY;
        }
        int wait_ms = left_ms < POLL_MS ? (int)left_ms : POLL_MS;
        if (curl.multi_poll(multi, NULL, 0, wait_ms, NULL) != CURLM_OK) {
            return PYR_ENOMEM;
        }
    }
}

/* What came, if it counts as an answer: see the header. */
static pyr_status judge(CURL *easy, const pyr_http_request *request, pyr_status performed,
                        CURLcode result, const char *error, pyr_http_answer *answer)
{
    long code = 0;
    curl_off_t uploaded = 0;
    (void)curl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    (void)curl.easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    bool complete = performed == PYR_OK && result == CURLE_OK;
    bool accepted =
        code / 100 == 2 && (request->body == NULL || uploaded == (curl_off_t)request->body_length);
    if (code >= 200 && (complete || accepted)) {
        answer->code = (int)code;
        return PYR_OK;
    }
    answer->text[0] = '\0';
    if (performed == PYR_EBUSY) {
        append_printable(answer->text, "no answer in time", strlen("no answer in time"));
    } else if (performed == PYR_OK) {
        const char *text = error[0] != '\0' ? error : curl.easy_strerror(result);
        append_printable(answer->text, text, strlen(text));
        return PYR_EIO;
    }
    return performed != PYR_OK ? performed : PYR_EIO;
}

pyr_status pyr_http_send(const pyr_http_request *request, pyr_http_answer *answer)
{
    char error[CURL_ERROR_SIZE] = "";
    pyr_status status = PYR_ENOMEM;
    *answer = (pyr_http_answer){0};
    CURL *easy = curl.easy_init();
    CURLM *multi = curl.multi_init();
    /* No "Expect": it would cost a round trip, or a second where the server does not know it. */
    struct curl_slist *headers = add_headers(NULL, "Expect:\nConnection: close\n");
    headers = headers != NULL ? add_headers(headers, request->headers) : NULL;
    headers = headers != NULL ? add_headers(headers, request->more_headers) : NULL;
    if (easy != NULL && multi != NULL && headers != NULL) {
        CURLcode result = CURLE_OK;
        set_options(easy, request, headers, answer, error);
        if (curl.multi_add_handle(multi, easy) == CURLM_OK) {
            status = perform(multi, request, &result);
            status = judge(easy, request, status, result, error, answer);
            (void)curl.multi_remove_handle(multi, easy);
        }
    }
    curl.easy_cleanup(easy);
    (void)curl.multi_cleanup(multi);
    curl.slist_free_all(headers);
    return status;
}
