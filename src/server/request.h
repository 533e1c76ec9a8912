/* One HTTP request and its answer, as the parts of the server see it. Private to server/.
 *
 * Made on the thread of the HTTP library, worked on by one worker, and answered on the former
 * again. What comes from the client is hostile: bounded, and never a path.
 */
#ifndef PYR_SERVER_REQUEST_H
#define PYR_SERVER_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum {
    PYR_REQUEST_ARGUMENTS = 64,
    PYR_REQUEST_TEXT_BYTES = 24 << 10, /* of all arguments and headers that are kept */
    PYR_REQUEST_WHY_BYTES = 512,
};

typedef struct pyr_server pyr_server;

typedef struct pyr_request {
    pyr_server *server;
    void *connection; /* of the HTTP library */
    const struct pyr_route *route;
    const char *method, *path; /* the path up to 200 bytes; static or in `text` */
    struct {
        const char *name, *value;
    } arguments[PYR_REQUEST_ARGUMENTS]; /* of the query, decoded */
    size_t argument_count;
    const char *content_type, *content_encoding, *additional_tags; /* headers; "" = none */
    pyr_buffer text, body;
    size_t reserved;    /* bytes of the body, counted in the server's budget */
    int64_t started_ns; /* monotonic */
    /* the answer */
    unsigned code; /* 0 = none yet */
    const char *answer_type;
    pyr_buffer answer;
    const char *policy; /* Content-Security-Policy, or NULL */
    const void *fixed;  /* a static answer in place of `answer` */
    size_t fixed_length;
    /* uploads of this request that are not on disk yet, and one for the worker itself */
    _Atomic int pending;
    _Atomic int worst;                           /* pyr_status of the uploads: the gravest */
    void (*finish)(struct pyr_request *request); /* answers when `pending` has come to 0 */
    struct pyr_request *next;                    /* in a queue of the server */
    bool is_suspended;
} pyr_request;

/* The first argument of that name, or NULL. */
const char *pyr_request_argument(const pyr_request *request, const char *name);

/* Answers with an error as JSON, {"error": "..."}, or as Connect's clients expect it on its paths,
 * unless there is an answer already. */
void pyr_request_refuse(pyr_request *request, unsigned code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Answers with what was written to request->answer. */
void pyr_request_answer(pyr_request *request, unsigned code, const char *type);

/* A time: seconds, milliseconds, micro- or nanoseconds since 1970 (by its digits), "now", "now-5m",
 * or 2026-11-30T02:00:00Z. In nanoseconds. Pure. */
PYR_MUST_USE pyr_status pyr_time_parse(const char *text, int64_t now_ns, int64_t *time_ns);

/* A span like 15s, 5m, 1h, 7d, in nanoseconds. Pure. */
PYR_MUST_USE pyr_status pyr_span_parse(const char *text, int64_t *span_ns);

#endif
