/* POST /profiling/v1/input as the Datadog Agent takes it, and plain uploads of pprof. See intake.h;
 * a worker's thread. Formats: docs/internals/server.md. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ending.h"
#include "pprof/compress.h"
#include "server/intake.h"
#include "server/multipart.h"

enum { EVENT_BYTES = 4 << 20 };

typedef struct parts {
    pyr_part event, profile, document;
} parts;

static pyr_status read_parts(pyr_multipart *multipart, parts *found)
{
    pyr_part part;
    pyr_status status = PYR_OK;
    memset(found, 0, sizeof *found);
    for (;;) {
        status = pyr_multipart_next(multipart, &part);
        if (status != PYR_OK) {
            return status == PYR_ENOENT ? PYR_OK : status;
        }
        const char *name = part.file_name[0] != '\0' ? part.file_name : part.name;
        if (strcmp(part.name, "event") == 0 || strcmp(name, "event.json") == 0) {
            found->event = part;
        } else if (strcmp(name, "pyrometer.json") == 0) {
            found->document = part;
        } else if (pyr_ends_with(name, strlen(name), ".pprof") ||
                   pyr_ends_with(part.name, strlen(part.name), ".pprof")) {
            found->profile = part;
        }
    }
}

static int64_t time_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    int64_t time_ns = 0;
    if (text == NULL || pyr_time_parse(text, pyr_clock_realtime_ns(), &time_ns) != PYR_OK) {
        return 0;
    }
    return time_ns;
}

/* The host that the sender's own document names. Others expect the Agent to add it, for which we
 * stand: this machine, where only it can reach us. */
static pyr_status add_host(const pyr_server *server, pyr_labels *labels, const json_t *document)
{
    const char *host =
        json_string_value(json_object_get(json_object_get(document, "identity"), "host"));
    if (host == NULL && server->options.ingest_token == NULL) {
        host = server->host;
    }
    return host != NULL ? pyr_labels_add(labels, "host", 4, host, strlen(host)) : PYR_OK;
}

static pyr_status read_event(pyr_request *request, const json_t *event, const json_t *document,
                             pyr_sent *sent)
{
    const char *tags = json_string_value(json_object_get(event, "tags_profiler"));
    const char *more = request->additional_tags;
    pyr_status status = pyr_labels_init(&sent->labels);
    if (status == PYR_OK && tags != NULL) {
        status = pyr_intake_tags(&sent->labels, tags, strlen(tags));
    }
    if (status == PYR_OK) {
        status = pyr_intake_tags(&sent->labels, more, strlen(more));
    }
    if (status == PYR_OK) {
        status = add_host(request->server, &sent->labels, document);
    }
    sent->start_ns = time_of(event, "start");
    sent->end_ns = time_of(event, "end");
    return status;
}

static json_t *load(const pyr_part *part)
{
    return part->length > 0 && part->length <= EVENT_BYTES
               ? json_loadb((const char *)part->bytes, part->length, JSON_REJECT_DUPLICATES, NULL)
               : NULL;
}

void pyr_intake_datadog(pyr_worker *worker, pyr_request *request)
{
    pyr_multipart multipart;
    parts found;
    (void)worker;
    if (!pyr_intake_body(request)) {
        return;
    }
    pyr_status status = pyr_multipart_start(&multipart, request->content_type, request->body.data,
                                            request->body.length);
    if (status == PYR_OK) {
        status = read_parts(&multipart, &found);
    }
    if (status != PYR_OK) {
        pyr_request_refuse(request, 400, "this is no multipart/form-data: %s",
                           pyr_status_text(status));
        return;
    }
    json_t *event = load(&found.event);
    json_t *document = load(&found.document);
    pyr_sent sent = {
        .bytes = found.profile.bytes,
        .length = found.profile.length,
        .document = document != NULL ? found.document.bytes : NULL,
        .document_length = found.document.length,
    };
    if (!json_is_object(event)) {
        pyr_request_refuse(request, 400, "the part event.json is missing, or no JSON object");
    } else if (sent.length == 0) {
        pyr_request_refuse(request, 400, "no part is a profile: one named *.pprof is");
    } else if (read_event(request, event, document, &sent) != PYR_OK) {
        pyr_labels_fini(&sent.labels);
        pyr_request_refuse(request, 503, "out of memory");
    } else {
        sent.endpoint_counts = json_object_get(event, "endpoint_counts");
        sent.endpoint_key = document != NULL ? "endpoint" : "trace endpoint";
        if (document != NULL) {
            pyr_own_cost_add_document(&sent.cost, document);
        }
        (void)pyr_buffer_text(&request->answer, "{}");
        request->answer_type = "application/json";
        if (pyr_intake_profile(request, &sent) != PYR_OK) {
            /* refused with its reason */
            status = PYR_EINVAL;
        }
    }
    json_decref(event);
    json_decref(document);
}

/* ---------------------------------------------------------------------------------- plain ---- */

static pyr_status read_time(pyr_request *request, const char *name, int64_t *time_ns)
{
    const char *text = pyr_request_argument(request, name);
    if (text == NULL || pyr_time_parse(text, pyr_clock_realtime_ns(), time_ns) == PYR_OK) {
        return PYR_OK;
    }
    pyr_request_refuse(request, 400, "%s=%.60s is no time", name, text);
    return PYR_EINVAL;
}

void pyr_intake_upload(pyr_worker *worker, pyr_request *request)
{
    pyr_sent sent = {.bytes = request->body.data, .length = request->body.length};
    (void)worker;
    if (request->body.length == 0) {
        pyr_request_refuse(request, 400,
                           "there is no profile in the body: send it with "
                           "curl --data-binary @FILE");
        return;
    }
    if (read_time(request, "from", &sent.start_ns) != PYR_OK ||
        read_time(request, "until", &sent.end_ns) != PYR_OK) {
        return;
    }
    pyr_status status = pyr_labels_init(&sent.labels);
    for (size_t at = 0; at < request->argument_count && status == PYR_OK; at++) {
        const char *name = request->arguments[at].name;
        const char *value = request->arguments[at].value;
        if (strcmp(name, "from") != 0 && strcmp(name, "until") != 0) {
            status = pyr_labels_add(&sent.labels, name, strlen(name), value, strlen(value));
        }
    }
    if (status != PYR_OK) {
        pyr_labels_fini(&sent.labels);
        pyr_request_refuse(request, status == PYR_ETOOBIG ? 400 : 503,
                           "more than %d labels, or a name is longer than %d bytes",
                           PYR_LABELS_COUNT, PYR_LABELS_NAME_BYTES);
        return;
    }
    (void)pyr_buffer_text(&request->answer, "{}");
    request->answer_type = "application/json";
    if (pyr_intake_profile(request, &sent) != PYR_OK) {
        return;
    }
}
