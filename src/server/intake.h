/* From a request to the store: what every way of sending profiles shares. Private to server/. */
#ifndef PYR_SERVER_INTAKE_H
#define PYR_SERVER_INTAKE_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/status.h"
#include "server/own_cost.h"
#include "server/server_state.h"
#include "store/labels.h"

/* One profile that was sent. */
typedef struct pyr_sent {
    pyr_labels labels;
    const void *bytes; /* pprof: raw, gzip or zstd */
    size_t length;
    int64_t start_ns, end_ns; /* 0 = as the profile says, else now */
    const void *document;     /* JSON, or NULL */
    size_t document_length;
    const json_t *endpoint_counts; /* requests served, by endpoint; or NULL */
    const char *endpoint_key;      /* label that says the endpoint in this profile's samples */
    pyr_own_cost cost;             /* what its document says */
} pyr_sent;

/* Parses the profile and hands it to the store; the request is answered when all that it sent are
 * on disk. PYR_OK: handed over; else the request was refused with a reason. Takes the labels over
 * in both cases. */
PYR_MUST_USE pyr_status pyr_intake_profile(pyr_request *request, pyr_sent *sent);

/* The body, uncompressed as its Content-Encoding says, in place. False: refused. */
bool pyr_intake_body(pyr_request *request);

/* Answers 200 with a fixed text when all is on disk, or the reason why not. */
void pyr_intake_finish(pyr_request *request);

/* Adds "name:value,name:value" as labels, with Datadog's names made ours. */
PYR_MUST_USE pyr_status pyr_intake_tags(pyr_labels *labels, const char *text, size_t length);

/* The ways in. */
void pyr_intake_datadog(pyr_worker *worker, pyr_request *request);
void pyr_intake_upload(pyr_worker *worker, pyr_request *request);
void pyr_intake_push(pyr_worker *worker, pyr_request *request);
void pyr_intake_ingest(pyr_worker *worker, pyr_request *request);

#endif
