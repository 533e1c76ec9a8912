/* One HTTP request, through libcurl, which is loaded by the first that needs it.
 *
 * For the exporter's thread, without the GIL. No connection outlives its request: at one upload a
 * minute there is nothing to reuse, a name is looked up anew each time, and a fork's child finds no
 * socket of its parent.
 */
#ifndef PYR_EXPORT_HTTP_H
#define PYR_EXPORT_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_HTTP_TEXT_BYTES = 200 };

typedef struct pyr_http_request {
    const char *url;
    const char *socket_path; /* of a unix socket to speak to; NULL = by the URL's host */
    const char *proxy;       /* "" or NULL = none, whatever the environment says */
    const char *ca_file;     /* certificates to trust; "" or NULL = libcurl's own */
    const char *headers;     /* lines "Name: value", each ended by '\n'; may be NULL */
    const char *more_headers;
    const void *body; /* NULL: GET, else POST */
    size_t body_length;
    int64_t deadline_ns;             /* monotonic; the answer must be there by then */
    const _Atomic int64_t *hurry_ns; /* a nearer deadline, which may come at any time; or NULL */
} pyr_http_request;

typedef struct pyr_http_answer {
    int code;              /* 200; 0 = no answer */
    bool is_pyrometer;     /* a server of ours answered */
    int64_t retry_after_s; /* what the server asked for, 0 = nothing */
    /* No answer: why. Else the beginning of the body (what a server says of its refusal), or where
     * a redirection leads. Printable. */
    char text[PYR_HTTP_TEXT_BYTES];
} pyr_http_answer;

/* Loads libcurl, once a process. PYR_ENOTSUP: it is not there or of no use, and `why` says what to
 * install. Takes some ten milliseconds the first time. */
PYR_MUST_USE pyr_status pyr_http_load(char *why, size_t why_size);

/* Sends a request, after pyr_http_load. PYR_OK: an answer came, of whatever code. A 2xx counts as
 * soon as its first line is there and the request is out, whatever happens to its body. Else
 * PYR_EIO (answer->text says why), PYR_EBUSY (time is up), PYR_ENOMEM. Redirections are answers. */
PYR_MUST_USE pyr_status pyr_http_send(const pyr_http_request *request, pyr_http_answer *answer);

#endif
