/* Requests in, answers out; see the header.
 *
 * A request's life: `handle` is called with its head: judged here, and refused before a byte of its
 * body is read; then with pieces of the body, kept within the request's and the server's bounds;
 * then with its end: it goes to a worker, and its connection sleeps (suspended). When the answer is
 * there the connection is woken, and `handle` is called once more to send it. So a thread of the
 * library never waits for a disk or a question.
 */
#include "server/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/guard.h"
#include "server/http_library.h"
#include "server/watch.h"

enum { CONNECTIONS = 1800, HEAD_BYTES = 32 << 10, IDLE_S = 60 };

#define NOTHING_BUT_DATA "default-src 'none'; frame-ancestors 'none'; sandbox"

/* --------------------------------------------------------------------------- the request ---- */

static const char *keep(pyr_request *request, const char *text)
{
    size_t length = strlen(text) + 1;
    if (request->text.length + length > PYR_REQUEST_TEXT_BYTES) {
        return NULL;
    }
    char *kept = (char *)request->text.data + request->text.length;
    memcpy(kept, text, length);
    request->text.length += length;
    return kept;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return pyr_mhd.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const char *keep_header(pyr_request *request, struct MHD_Connection *connection,
                               const char *name)
{
    const char *value = header(connection, name);
    value = value != NULL ? keep(request, value) : NULL;
    return value != NULL ? value : "";
}

static enum MHD_Result take_argument(void *context, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    pyr_request *request = context;
    (void)kind;
    const char *kept_name = keep(request, name);
    const char *kept_value = keep(request, value != NULL ? value : "");
    if (request->argument_count == PYR_REQUEST_ARGUMENTS || kept_name == NULL ||
        kept_value == NULL) {
        pyr_request_refuse(request, 414, "more than %d arguments, or too long",
                           PYR_REQUEST_ARGUMENTS);
        return MHD_NO;
    }
    request->arguments[request->argument_count].name = kept_name;
    request->arguments[request->argument_count++].value = kept_value;
    return MHD_YES;
}

static void judge_caller(pyr_request *request, struct MHD_Connection *connection,
                         const pyr_listener *listener)
{
    const pyr_server_options *options = &request->server->options;
    const pyr_guard_headers headers = {
        .host = header(connection, "Host"),
        .origin = header(connection, "Origin"),
        .fetch_site = header(connection, "Sec-Fetch-Site"),
        .authorization = header(connection, "Authorization"),
        .api_key = header(connection, "DD-API-KEY"),
        .token = header(connection, "X-Pyrometer-Token"),
    };
    pyr_route_kind kind = request->route->kind;
    const char *token = kind == PYR_ROUTE_READ     ? options->read_token
                        : kind == PYR_ROUTE_INGEST ? options->ingest_token
                                                   : NULL;
    bool is_page = kind == PYR_ROUTE_OPEN;
    if (!is_page && !pyr_guard_origin_is_own(&headers)) {
        pyr_request_refuse(request, 403, "the request comes from a page of another origin");
    } else if (token != NULL && !pyr_guard_has_token(&headers, token)) {
        pyr_request_refuse(request, 401, "a token is needed: send it as Authorization: Bearer");
    } else if (token == NULL && !listener->is_unix &&
               !pyr_guard_host_is_own(headers.host, options->hosts, options->host_count)) {
        pyr_request_refuse(request, 421,
                           "this server does not go by the name of the Host header: allow it with "
                           "--host, or call it localhost");
    }
}

static void judge_size(pyr_request *request, struct MHD_Connection *connection)
{
    const char *length = header(connection, "Content-Length");
    if (length != NULL &&
        (strlen(length) > 10 || strtoll(length, NULL, 10) > PYR_SERVER_BODY_BYTES)) {
        pyr_request_refuse(request, 413, "the request is larger than %d bytes",
                           PYR_SERVER_BODY_BYTES);
    }
}

static pyr_request *new_request(const pyr_listener *listener, struct MHD_Connection *connection,
                                const char *method, const char *path)
{
    pyr_request *request = pyr_memory_new(1, sizeof *request);
    if (request == NULL) {
        return NULL;
    }
    request->server = listener->server;
    request->connection = connection;
    request->started_ns = pyr_clock_monotonic_ns();
    pyr_buffer_init(&request->text, PYR_REQUEST_TEXT_BYTES);
    pyr_buffer_init(&request->body, PYR_SERVER_BODY_BYTES);
    pyr_buffer_init(&request->answer, PYR_SERVER_ANSWER_BYTES);
    if (pyr_buffer_reserve(&request->text, PYR_REQUEST_TEXT_BYTES) != PYR_OK) {
        pyr_memory_free(request);
        return NULL;
    }
    bool other_method = false;
    atomic_fetch_add(&request->server->counters.requests, 1);
    request->method = method;
    request->path = path;
    request->route = pyr_route_find(method, path, &other_method);
    if (request->route == NULL) {
        pyr_request_refuse(request, other_method ? 405 : 404,
                           other_method ? "this path does not take this method"
                                        : "there is nothing at this path; see /api/openapi.json");
        return request;
    }
    request->method = request->route->method;
    request->path = request->route->path;
    judge_caller(request, connection, listener);
    if (request->code == 0) {
        judge_size(request, connection);
    }
    if (request->code == 0) {
        (void)pyr_mhd.get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_argument,
                                            request);
        request->content_type = keep_header(request, connection, "Content-Type");
        request->content_encoding = keep_header(request, connection, "Content-Encoding");
        request->additional_tags = keep_header(request, connection, "X-Datadog-Additional-Tags");
    }
    return request;
}

static void take_body(pyr_request *request, const char *bytes, size_t length)
{
    pyr_server *server = request->server;
    if (request->code != 0) {
        return; /* refused: the rest of the body is thrown away */
    }
    size_t all = atomic_fetch_add(&server->body_bytes, length) + length;
    request->reserved += length;
    if (all > PYR_SERVER_BODIES_BYTES) {
        pyr_request_refuse(request, 503, "too much is being received; try again");
    } else if (pyr_buffer_append(&request->body, bytes, length) != PYR_OK) {
        pyr_request_refuse(request, request->body.status == PYR_ETOOBIG ? 413 : 503,
                           "the request is larger than %d bytes, or memory is out",
                           PYR_SERVER_BODY_BYTES);
    }
    if (request->code != 0) {
        pyr_buffer_fini(&request->body);
    }
}

static void free_request(pyr_request *request)
{
    atomic_fetch_sub(&request->server->body_bytes, request->reserved);
    pyr_buffer_fini(&request->text);
    pyr_buffer_fini(&request->body);
    pyr_buffer_fini(&request->answer);
    pyr_memory_free(request);
}

/* ---------------------------------------------------------------------------- the answer ---- */

static void release_answer(void *bytes)
{
    pyr_memory_free(bytes);
}

static struct MHD_Response *make_response(pyr_request *request)
{
    if (request->fixed != NULL) {
        return pyr_mhd.create_response_from_buffer(
            request->fixed_length, (void *)(uintptr_t)request->fixed, MHD_RESPMEM_PERSISTENT);
    }
    size_t length = 0;
    uint8_t *bytes = pyr_buffer_take(&request->answer, &length);
    if (bytes == NULL) {
        return pyr_mhd.create_response_from_buffer(0, (void *)(uintptr_t) "",
                                                   MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response = pyr_mhd.create_response_from_buffer_with_free_callback_cls(
        length, bytes, release_answer, bytes);
    if (response == NULL) {
        pyr_memory_free(bytes);
    }
    return response;
}

static enum MHD_Result send_answer(pyr_request *request, struct MHD_Connection *connection)
{
    struct MHD_Response *response = make_response(request);
    if (response == NULL) {
        return MHD_NO;
    }
    const char *const headers[][2] = {
        {"Server", "pyrometer/" PYR_VERSION},
        {"Content-Type", request->answer_type != NULL ? request->answer_type : "text/plain"},
        {"Content-Security-Policy", request->policy != NULL ? request->policy : NOTHING_BUT_DATA},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    for (size_t at = 0; at < sizeof headers / sizeof headers[0]; at++) {
        (void)pyr_mhd.add_response_header(response, headers[at][0], headers[at][1]);
    }
    if (request->code == 503 || request->code == 429) {
        (void)pyr_mhd.add_response_header(response, "Retry-After", "2");
    }
    if (request->code == 401) {
        (void)pyr_mhd.add_response_header(response, "WWW-Authenticate", "Bearer");
    }
    unsigned class = request->code / 100 < 6 ? request->code / 100 : 5;
    atomic_fetch_add(&request->server->counters.by_class[class], 1);
    enum MHD_Result result = pyr_mhd.queue_response(connection, request->code, response);
    pyr_mhd.destroy_response(response);
    return result;
}

static int watched(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        pyr_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? (int)(intptr_t)info->socket_context - 1 : -1;
}

/* Hands the request to the workers; its connection sleeps until pyr_request_release. */
static void hand_over(pyr_request *request, struct MHD_Connection *connection)
{
    pyr_server *server = request->server;
    pyr_queue *queue = request->route->is_question ? &server->questions : &server->ingest;
    pyr_lock_acquire(&server->lock);
    bool fits = queue->count < PYR_SERVER_QUEUE && !server->stops;
    if (fits) {
        pyr_mhd.suspend_connection(connection);
        atomic_fetch_add(&server->unanswered, 1);
        request->is_suspended = true;
        request->next = NULL;
        *queue->last = request;
        queue->last = &request->next;
        queue->count++;
        (void)pthread_cond_signal(&queue->arrived);
    }
    pyr_lock_release(&server->lock);
    if (!fits) {
        pyr_request_refuse(request, 503, "too many requests wait; try again");
    }
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *bytes,
                              size_t *length, void **state)
{
    pyr_listener *listener = context;
    pyr_request *request = *state;
    (void)version;
    if (request == NULL) {
        pyr_watch_set(listener->server->watch, watched(connection), PYR_WATCH_BODY);
        request = new_request(listener, connection, method, path);
        *state = request;
        if (request != NULL && request->code == 413) {
            return send_answer(request, connection); /* before a body that nobody wants */
        }
        return request != NULL ? MHD_YES : MHD_NO;
    }
    if (*length > 0) {
        take_body(request, bytes, *length);
        *length = 0;
        return MHD_YES;
    }
    if (request->code == 0 && !request->is_suspended) {
        pyr_watch_set(listener->server->watch, watched(connection), PYR_WATCH_WORKING);
        hand_over(request, connection);
        if (request->is_suspended) {
            return MHD_YES;
        }
    }
    pyr_watch_set(listener->server->watch, watched(connection), PYR_WATCH_IDLE);
    return send_answer(request, connection);
}

static void complete(void *context, struct MHD_Connection *connection, void **state,
                     enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)connection;
    (void)code;
    pyr_request *request = *state;
    if (request != NULL) {
        atomic_fetch_sub(&request->server->unanswered, request->is_suspended ? 1 : 0);
        free_request(request);
        *state = NULL;
    }
}

static void notice(void *context, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    pyr_listener *listener = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            pyr_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        int number = info != NULL ? pyr_watch_add(listener->server->watch, info->connect_fd) : -1;
        *socket_context = (void *)(intptr_t)(number + 1);
    } else {
        pyr_watch_remove(listener->server->watch, (int)(intptr_t)*socket_context - 1);
        *socket_context = NULL;
    }
}

/* The library's own messages are about clients that broke off: nobody wants them. */
static void ignore(void *context, const char *format, va_list values)
{
    (void)context;
    (void)format;
    (void)values;
}

pyr_status pyr_front_start(pyr_listener *listener, char *why, size_t why_size)
{
    const pyr_server *server = listener->server;
    bool tls = server->certificate != NULL && !listener->is_unix;
    if (tls && pyr_mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        snprintf(why, why_size, "this libmicrohttpd has no TLS");
        return PYR_ENOTSUP;
    }
    const struct MHD_OptionItem tls_items[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, server->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->key},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem no_items[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (tls ? MHD_USE_TLS : 0);
    listener->daemon = pyr_mhd.start_daemon(
        flags, 0, NULL, NULL, handle, listener, MHD_OPTION_EXTERNAL_LOGGER, ignore, NULL,
        MHD_OPTION_LISTEN_SOCKET, listener->socket, MHD_OPTION_NOTIFY_COMPLETED, complete, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, notice, listener, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_ARRAY,
        tls ? tls_items : no_items, MHD_OPTION_END);
    if (listener->daemon == NULL) {
        snprintf(why, why_size,
                 tls ? "cannot serve at %s: is the certificate, or its key, wrong?"
                     : "cannot serve at %s: no thread, or no memory",
                 listener->text);
        return tls ? PYR_EINVAL : PYR_ETHREAD;
    }
    return PYR_OK;
}

void pyr_front_quiesce(pyr_listener *listener)
{
    if (listener->daemon != NULL) {
        (void)pyr_mhd.quiesce_daemon(listener->daemon);
    }
}

void pyr_front_stop(pyr_listener *listener)
{
    if (listener->daemon != NULL) {
        pyr_mhd.stop_daemon(listener->daemon);
        listener->daemon = NULL;
    }
}
