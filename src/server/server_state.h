/* What the parts of the server share. Private to server/. */
#ifndef PYR_SERVER_SERVER_STATE_H
#define PYR_SERVER_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/lock.h"
#include "server/request.h"
#include "server/server.h"
#include "server/services.h"
#include "store/store.h"
#include "store/view.h"

enum {
    PYR_SERVER_WORKERS = 2,              /* of each kind */
    PYR_SERVER_QUEUE = 4096,             /* requests that wait for a worker */
    PYR_SERVER_BODY_BYTES = 32 << 20,    /* most of one request */
    PYR_SERVER_BODIES_BYTES = 128 << 20, /* of all that are being read or wait */
    PYR_SERVER_ANSWER_BYTES = 256 << 20,
    PYR_SERVER_HOST_BYTES = 256,
};

typedef enum pyr_route_kind {
    PYR_ROUTE_OPEN,   /* anybody who reaches the address: health, the page itself */
    PYR_ROUTE_INGEST, /* needs the token for ingest, where there is one */
    PYR_ROUTE_READ,   /* needs the token for reading, where there is one */
} pyr_route_kind;

/* A worker's own things. */
typedef struct pyr_worker {
    pyr_server *server;
    pthread_t thread;
    bool is_running;
    bool answers_questions;
    pyr_view *view; /* opened at the first question */
} pyr_worker;

typedef struct pyr_route {
    const char *method, *path;
    pyr_route_kind kind;
    bool is_question; /* for which of the two kinds of worker */
    void (*handle)(pyr_worker *worker, pyr_request *request);
    const char *about; /* for openapi.json */
} pyr_route;

typedef struct pyr_queue {
    pyr_request *first, **last;
    size_t count;
    pthread_cond_t arrived;
} pyr_queue;

typedef struct pyr_listener {
    pyr_server *server;
    void *daemon;
    int socket;
    bool is_unix;
    char text[PYR_SERVER_HOST_BYTES];
    char path[PYR_SERVER_HOST_BYTES]; /* of a unix socket */
} pyr_listener;

typedef struct pyr_server_counters { /* since the start; any thread */
    _Atomic uint64_t requests, refused, questions;
    _Atomic uint64_t question_ns, ingest_ns;
    _Atomic uint64_t by_class[6]; /* answers by the first digit of their code */
} pyr_server_counters;

struct pyr_server {
    pyr_server_options options;
    char host[PYR_SERVER_HOST_BYTES]; /* name of this machine */
    pyr_store *store;
    pyr_listener listeners[PYR_SERVER_ADDRESSES];
    size_t listener_count;
    char *certificate, *key;
    struct pyr_watch *watch;
    pyr_lock lock; /* of the queues */
    pyr_queue ingest, questions;
    bool stops;
    pyr_worker workers[2 * PYR_SERVER_WORKERS];
    _Atomic size_t body_bytes;
    _Atomic size_t unanswered; /* requests from a worker's hands until their answer is sent */
    pthread_mutex_t large;     /* held while a large profile is parsed: one at a time */
    pyr_server_counters counters;
    pyr_services *services;
    int64_t started_ns;
};

/* The route of a request; NULL: none has that path, or with *other_method: another method has. */
const pyr_route *pyr_route_find(const char *method, const char *path, bool *other_method);
const pyr_route *pyr_route_at(size_t index); /* NULL after the last */

/* The worker is done with the request, whose answer is set or will be when its uploads are. */
void pyr_request_release(pyr_request *request);

/* The view of a worker, opened if need be and begun; NULL: the request has been refused. */
pyr_view *pyr_worker_view(pyr_worker *worker, pyr_request *request);

#endif
