/* Profiles on their way to the store; see the header.
 *
 * Each profile is one heap object that lives until the store says that it is on disk; the last of a
 * request answers it. What is said of a failure is what the sender can do about it: 4xx for what
 * will never be taken, 503 for what may be taken later.
 */
#include "server/intake.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pprof/compress.h"
#include "pprof/parser.h"
#include "server/endpoints.h"
#include "server/gunzip.h"

enum { LARGE_BYTES = 1 << 20 }; /* compressed: parsed one at a time, since memory follows size */

static const int64_t MINUTE_NS = INT64_C(60000000000);
static const int64_t FUTURE_NS = INT64_C(86400000000000); /* clocks of senders differ */

typedef struct incoming {
    pyr_upload upload;
    pyr_labels labels;
    pyr_profile *profile;
    pyr_request *request;
    uint8_t *document;
    pyr_own_cost cost;
} incoming;

static void free_arrival(incoming *arrival)
{
    if (arrival != NULL) {
        pyr_labels_fini(&arrival->labels);
        pyr_profile_free(arrival->profile);
        pyr_memory_free(arrival->document);
        pyr_memory_free(arrival);
    }
}

static void done(pyr_upload *upload, pyr_status status)
{
    incoming *arrival = upload->context;
    pyr_request *request = arrival->request;
    if (status != PYR_OK && status != PYR_EEXIST) {
        atomic_store(&request->worst, (int)status);
    }
    if (status == PYR_OK) {
        pyr_services_count(request->server->services, pyr_labels_get(&arrival->labels, "service"),
                           upload->bytes, upload->end_ns, &arrival->cost);
    }
    free_arrival(arrival);
    pyr_request_release(request);
}

void pyr_intake_finish(pyr_request *request)
{
    pyr_status status = (pyr_status)atomic_load(&request->worst);
    if (request->code != 0) {
        return;
    }
    if (status == PYR_EINVAL || status == PYR_ETOOBIG) {
        pyr_request_refuse(request, 422,
                           "the profile cannot be kept: it has more labels, types or stacks than "
                           "the store takes");
    } else if (status != PYR_OK) {
        pyr_request_refuse(request, status == PYR_ENOSPC ? 507 : 503,
                           "the profile could not be written: %s", pyr_status_text(status));
    } else {
        pyr_request_answer(request, 200, request->answer_type);
    }
}

bool pyr_intake_body(pyr_request *request)
{
    const char *encoding = request->content_encoding;
    if (encoding[0] == '\0' || strcmp(encoding, "identity") == 0) {
        return true;
    }
    if (strcmp(encoding, "gzip") != 0 && strcmp(encoding, "zstd") != 0) {
        pyr_request_refuse(request, 415, "the encoding %.40s is not known: gzip and zstd are",
                           encoding);
        return false;
    }
    pyr_buffer plain;
    pyr_buffer_init(&plain, PYR_SERVER_BODY_BYTES);
    pyr_status status = PYR_OK;
    if (!pyr_gunzip(request->body.data, request->body.length, &plain)) {
        pyr_buffer_fini(&plain);
        status = pyr_decompress(request->body.data, request->body.length, &plain);
    }
    if (status != PYR_OK) {
        pyr_buffer_fini(&plain);
        pyr_request_refuse(request, status == PYR_ETOOBIG ? 413 : 400,
                           "the body cannot be uncompressed: %s", pyr_status_text(status));
        return false;
    }
    pyr_buffer_fini(&request->body);
    request->body = plain;
    return true;
}

static pyr_status parse(pyr_request *request, const pyr_sent *sent, incoming *arrival)
{
    pyr_server *server = request->server;
    pyr_parse_error error = {0};
    pyr_buffer plain;
    pyr_buffer_init(&plain, server->options.profile_bytes);
    bool is_large = sent->length > LARGE_BYTES;
    if (is_large) {
        (void)pthread_mutex_lock(&server->large);
    }
    /* What is compressed twice is left to the parser, which refuses it. */
    bool is_plain = pyr_gunzip(sent->bytes, sent->length, &plain) &&
                    pyr_compression_detect(plain.data, plain.length) == PYR_PPROF_RAW;
    pyr_status status = pyr_profile_parse(is_plain ? plain.data : sent->bytes,
                                          is_plain ? plain.length : sent->length,
                                          server->options.profile_bytes, &arrival->profile, &error);
    pyr_buffer_fini(&plain);
    if (is_large) {
        (void)pthread_mutex_unlock(&server->large);
    }
    if (status == PYR_ETOOBIG) {
        pyr_request_refuse(request, 413, "the profile is too large: %s (at most %zu bytes)",
                           error.what, server->options.profile_bytes);
    } else if (status == PYR_ENOMEM) {
        pyr_request_refuse(request, 503, "out of memory");
    } else if (status != PYR_OK) {
        pyr_request_refuse(request, 400, "this is no pprof profile: %s, at byte %zu", error.what,
                           error.offset);
    } else if (arrival->profile->type_count == 0) {
        pyr_request_refuse(request, 400, "the profile has no sample types");
        status = PYR_EINVAL;
    } else {
        status = pyr_endpoints_add(&arrival->profile, sent->endpoint_counts, sent->endpoint_key);
    }
    return status;
}

static pyr_status set_times(pyr_request *request, const pyr_sent *sent, incoming *arrival)
{
    pyr_upload *upload = &arrival->upload;
    const pyr_profile *profile = arrival->profile;
    int64_t now = pyr_clock_realtime_ns();
    int64_t start = sent->start_ns > 0 ? sent->start_ns : profile->time_ns;
    int64_t duration = profile->duration_ns > 0 ? profile->duration_ns : 0;
    bool has_time = start > 0;
    if (!has_time) { /* the same bytes again within a minute are a retry */
        start = now / MINUTE_NS * MINUTE_NS;
    }
    int64_t end = sent->end_ns > start ? sent->end_ns : start;
    if (end == start && __builtin_add_overflow(start, duration, &end)) {
        end = start;
    }
    if (end > now + FUTURE_NS) {
        pyr_request_refuse(request, 400, "the profile is of the future: are the clocks right?");
        return PYR_EINVAL;
    }
    upload->start_ns = start;
    upload->end_ns = end;
    return PYR_OK;
}

static pyr_status add_missing_labels(incoming *arrival)
{
    pyr_labels *labels = &arrival->labels;
    static const char UNKNOWN[] = "unknown";
    return pyr_labels_add(labels, "service", 7, UNKNOWN, sizeof UNKNOWN - 1);
}

pyr_status pyr_intake_profile(pyr_request *request, pyr_sent *sent)
{
    incoming *arrival = pyr_memory_new(1, sizeof *arrival);
    if (arrival == NULL) {
        pyr_labels_fini(&sent->labels);
        pyr_request_refuse(request, 503, "out of memory");
        return PYR_ENOMEM;
    }
    arrival->labels = sent->labels;
    arrival->cost = sent->cost;
    arrival->request = request;
    pyr_upload *upload = &arrival->upload;
    pyr_status status = parse(request, sent, arrival);
    if (status == PYR_OK) {
        status = set_times(request, sent, arrival);
    }
    if (status == PYR_OK) {
        status = add_missing_labels(arrival);
    }
    if (status == PYR_OK && sent->document != NULL && sent->document_length > 0) {
        arrival->document = pyr_memory_resize(NULL, sent->document_length, 1);
        status = arrival->document != NULL ? PYR_OK : PYR_ENOMEM;
        if (status == PYR_OK) {
            memcpy(arrival->document, sent->document, sent->document_length);
        }
    }
    upload->labels = &arrival->labels;
    upload->profile = arrival->profile;
    upload->bytes = sent->length;
    upload->document = arrival->document;
    upload->document_length = arrival->document != NULL ? sent->document_length : 0;
    upload->done = done;
    upload->context = arrival;
    if (status == PYR_OK) {
        status = pyr_upload_key(upload, sent->bytes, sent->length);
    }
    if (status == PYR_OK) {
        request->finish = pyr_intake_finish;
        atomic_fetch_add(&request->pending, 1);
        status = pyr_store_put(request->server->store, upload);
        if (status != PYR_OK) {
            atomic_fetch_sub(&request->pending, 1);
        }
    }
    if (status != PYR_OK) {
        free_arrival(arrival);
        pyr_request_refuse(request, 503, "too many profiles wait to be written; try again");
    }
    return status;
}

/* ------------------------------------------------------------------------------------ tags ---- */

static const char *our_name(const char *name, size_t length)
{
    static const char *const NAMES[][2] = {
        {"runtime-id", "runtime_id"}, {"process_id", "pid"}, {"service_name", "service"},
        {"default_env", "env"},       {"hostname", "host"},  {"environment", "env"},
    };
    for (size_t at = 0; at < sizeof NAMES / sizeof NAMES[0]; at++) {
        if (strlen(NAMES[at][0]) == length && memcmp(NAMES[at][0], name, length) == 0) {
            return NAMES[at][1];
        }
    }
    return NULL;
}

pyr_status pyr_intake_tags(pyr_labels *labels, const char *text, size_t length)
{
    const char *end = text + length;
    pyr_status status = PYR_OK;
    while (text < end && status == PYR_OK) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma != NULL ? comma : end;
        const char *colon = memchr(text, ':', (size_t)(stop - text));
        if (colon != NULL) {
            size_t name_length = (size_t)(colon - text);
            const char *ours = our_name(text, name_length);
            status = pyr_labels_add(labels, ours != NULL ? ours : text,
                                    ours != NULL ? strlen(ours) : name_length, colon + 1,
                                    (size_t)(stop - colon - 1));
            /* Tags beyond what the store takes are left out: the profile counts more. */
            status = status == PYR_ETOOBIG ? PYR_OK : status;
        }
        text = stop + 1;
    }
    return status;
}
