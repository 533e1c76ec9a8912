/* Starts and stops the server, and runs its workers; see the header.
 *
 * Owns the store, the listeners and the workers. Start takes everything in an order in which each
 * step can be undone; stop goes the same way back: no more connections, no more work, the store's
 * queue written, then the end of the connections.
 */
#include "server/server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "os/claim.h"
#include "os/os.h"
#include "server/front.h"
#include "server/http_library.h"
#include "server/listen.h"
#include "server/server_state.h"
#include "server/watch.h"

enum { RETAINED_BYTES = 64 << 20, PEM_BYTES = 1 << 20, DRAIN_MS = 5000, DRAIN_STEP_US = 10000 };

/* --------------------------------------------------------------------------------- workers ---- */

static pyr_request *take(pyr_worker *worker)
{
    pyr_server *server = worker->server;
    pyr_queue *queue = worker->answers_questions ? &server->questions : &server->ingest;
    pyr_lock_acquire(&server->lock);
    while (queue->first == NULL && !server->stops) {
        (void)pthread_cond_wait(&queue->arrived, &server->lock.mutex);
    }
    pyr_request *request = queue->first;
    if (request != NULL) {
        queue->first = request->next;
        queue->count--;
        if (queue->first == NULL) {
            queue->last = &queue->first;
        }
    }
    pyr_lock_release(&server->lock);
    return request;
}

static void *work(void *context)
{
    pyr_worker *worker = context;
    for (pyr_request *request = take(worker); request != NULL; request = take(worker)) {
        pyr_server_counters *counters = &worker->server->counters;
        int64_t start_ns = pyr_clock_monotonic_ns();
        atomic_store(&request->pending, 1);
        request->route->handle(worker, request);
        int64_t spent_ns = pyr_clock_monotonic_ns() - start_ns;
        if (worker->answers_questions) {
            atomic_fetch_add(&counters->questions, 1);
            atomic_fetch_add(&counters->question_ns, (uint64_t)spent_ns);
            if (worker->view != NULL) {
                pyr_view_end(worker->view);
            }
        } else {
            atomic_fetch_add(&counters->ingest_ns, (uint64_t)spent_ns);
        }
        pyr_request_release(request);
    }
    return NULL;
}

void pyr_request_release(pyr_request *request)
{
    if (atomic_fetch_sub(&request->pending, 1) != 1) {
        return;
    }
    if (request->finish != NULL) {
        request->finish(request);
    }
    if (request->code == 0) {
        pyr_request_refuse(request, 500, "the server has no answer");
    }
    pyr_mhd.resume_connection(request->connection); /* the request is not ours any more */
}

pyr_view *pyr_worker_view(pyr_worker *worker, pyr_request *request)
{
    char why[PYR_REQUEST_WHY_BYTES];
    pyr_status status = PYR_OK;
    if (worker->view == NULL) {
        status = pyr_view_open(worker->server->options.folder, &worker->view, why, sizeof why);
    }
    if (status == PYR_OK) {
        status = pyr_view_begin(worker->view);
    }
    if (status != PYR_OK) {
        pyr_request_refuse(request, 503, "the store cannot be read: %s", pyr_status_text(status));
        return NULL;
    }
    return worker->view;
}

/* ----------------------------------------------------------------------------------- start ---- */

static pyr_status read_pem(const char *path, char **text, char *why, size_t why_size)
{
    pyr_buffer bytes;
    size_t length = 0;
    pyr_buffer_init(&bytes, PEM_BYTES);
    pyr_status status = pyr_os_file_read(path, &bytes);
    if (status == PYR_OK) {
        status = pyr_buffer_append(&bytes, "", 1);
    }
    if (status != PYR_OK) {
        snprintf(why, why_size, "%s cannot be read: %s", path, pyr_status_text(status));
        pyr_buffer_fini(&bytes);
        return status;
    }
    *text = (char *)pyr_buffer_take(&bytes, &length);
    return PYR_OK;
}

static pyr_status open_listener(pyr_server *server, const char *text, char *why, size_t why_size)
{
    const pyr_server_options *options = &server->options;
    pyr_listener *listener = &server->listeners[server->listener_count];
    pyr_listen_address address;
    if (server->listener_count == PYR_SERVER_ADDRESSES ||
        pyr_listen_parse(text, &address) != PYR_OK) {
        snprintf(why, why_size,
                 "%s is no address: write HOST:PORT, PORT or unix:PATH (at most %d of them)", text,
                 PYR_SERVER_ADDRESSES);
        return PYR_EINVAL;
    }
    if (!address.is_private && (options->read_token == NULL || options->ingest_token == NULL)) {
        snprintf(why, why_size,
                 "%s can be reached by others: give --read-token-file and --ingest-token-file, or "
                 "listen at 127.0.0.1 or unix:PATH",
                 text);
        return PYR_EPERM;
    }
    listener->server = server;
    listener->is_unix = address.path[0] != '\0';
    (void)snprintf(listener->path, sizeof listener->path, "%s", address.path);
    pyr_status status = pyr_listen_open(&address, server->certificate != NULL, &listener->socket,
                                        listener->text, sizeof listener->text, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    server->listener_count++;
    return pyr_front_start(listener, why, why_size);
}

static pyr_status start_workers(pyr_server *server)
{
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < 2 * PYR_SERVER_WORKERS && status == PYR_OK; at++) {
        pyr_worker *worker = &server->workers[at];
        worker->server = server;
        worker->answers_questions = at >= PYR_SERVER_WORKERS;
        status = pyr_os_thread_start(&worker->thread,
                                     worker->answers_questions ? "pyr-question" : "pyr-ingest",
                                     work, worker);
        worker->is_running = status == PYR_OK;
    }
    return status;
}

static pyr_status start(pyr_server *server, char *why, size_t why_size)
{
    static const char *const DEFAULT[] = {"127.0.0.1:4077"};
    const pyr_server_options *options = &server->options;
    const pyr_store_options store = {
        .folder = options->folder,
        .keep_ns = options->keep_ns,
        .keep_bytes = options->keep_bytes,
        .upkeep = true,
    };
    pyr_status status = pyr_http_library_load(why, why_size);
    if (status == PYR_OK && options->certificate != NULL) {
        status = read_pem(options->certificate, &server->certificate, why, why_size);
    }
    if (status == PYR_OK && options->certificate != NULL) {
        status = read_pem(options->key != NULL ? options->key : options->certificate, &server->key,
                          why, why_size);
    }
    if (status == PYR_OK) {
        status = pyr_store_open(&store, &server->store, why, why_size);
    }
    if (status != PYR_OK) {
        return status;
    }
    server->services = pyr_services_new();
    server->watch = pyr_watch_start();
    if (server->services == NULL || server->watch == NULL || start_workers(server) != PYR_OK) {
        snprintf(why, why_size, "the server's threads cannot be started");
        return PYR_ETHREAD;
    }
    bool given = options->address_count > 0;
    size_t count = given ? options->address_count : 1;
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        status = open_listener(server, given ? options->addresses[at] : DEFAULT[at], why, why_size);
    }
    return status;
}

static void queue_init(pyr_queue *queue)
{
    queue->last = &queue->first;
    (void)pthread_cond_init(&queue->arrived, NULL);
}

pyr_status pyr_server_start(const pyr_server_options *options, pyr_server **result, char *why,
                            size_t why_size)
{
    pyr_memory_retain(RETAINED_BYTES);
    pyr_server *server = pyr_memory_new(1, sizeof *server);
    *result = NULL;
    if (server == NULL) {
        snprintf(why, why_size, "out of memory");
        return PYR_ENOMEM;
    }
    server->options = *options;
    server->started_ns = pyr_clock_realtime_ns();
    if (gethostname(server->host, sizeof server->host - 1) != 0) {
        server->host[0] = '\0';
    }
    for (size_t at = 0; at < PYR_SERVER_ADDRESSES; at++) {
        server->listeners[at].socket = -1;
    }
    pyr_lock_init(&server->lock, PYR_LOCK_SERVER);
    (void)pthread_mutex_init(&server->large, NULL);
    queue_init(&server->ingest);
    queue_init(&server->questions);
    pyr_status status = start(server, why, why_size);
    if (status != PYR_OK) {
        pyr_server_stop(server);
        return status;
    }
    *result = server;
    return PYR_OK;
}

const char *pyr_server_address(const pyr_server *server, size_t index)
{
    return index < server->listener_count ? server->listeners[index].text : "";
}

/* ------------------------------------------------------------------------------------ stop ---- */

static void stop_workers(pyr_server *server)
{
    pyr_lock_acquire(&server->lock);
    server->stops = true; /* what is in the queues is still worked on */
    (void)pthread_cond_broadcast(&server->ingest.arrived);
    (void)pthread_cond_broadcast(&server->questions.arrived);
    pyr_lock_release(&server->lock);
    for (size_t at = 0; at < 2 * PYR_SERVER_WORKERS; at++) {
        if (server->workers[at].is_running) {
            (void)pthread_join(server->workers[at].thread, NULL);
        }
        pyr_view_close(server->workers[at].view);
    }
}

void pyr_server_stop(pyr_server *server)
{
    if (server == NULL) {
        return;
    }
    for (size_t at = 0; at < server->listener_count; at++) {
        pyr_front_quiesce(&server->listeners[at]);
    }
    stop_workers(server);
    pyr_store_close(server->store); /* tells all uploads, which wakes their connections */
    for (int waited = 0; waited < DRAIN_MS && atomic_load(&server->unanswered) > 0; waited += 10) {
        (void)usleep(DRAIN_STEP_US); /* until the last answers are sent */
    }
    for (size_t at = 0; at < server->listener_count; at++) {
        pyr_listener *listener = &server->listeners[at];
        pyr_front_stop(listener);
        if (listener->socket >= 0) {
            (void)close(listener->socket);
        }
        if (listener->is_unix) {
            (void)unlink(listener->path);
        }
    }
    pyr_watch_stop(server->watch);
    pyr_services_free(server->services);
    (void)pthread_cond_destroy(&server->ingest.arrived);
    (void)pthread_cond_destroy(&server->questions.arrived);
    (void)pthread_mutex_destroy(&server->large);
    pyr_lock_fini(&server->lock);
    pyr_memory_free(server->certificate);
    pyr_memory_free(server->key);
    pyr_memory_free(server);
}
