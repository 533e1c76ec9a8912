/* What clients of Pyroscope send: the push of Connect (protobuf or JSON), and /ingest. See
 * intake.h; a worker's thread. Formats: docs/internals/server.md. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pprof/wire.h"
#include "server/folded.h"
#include "server/intake.h"
#include "server/multipart.h"

enum { SERIES = 256, SAMPLES = 256 }; /* of one push; more is refused */

static const char *our_label(const char *name, size_t length)
{
    return length == 12 && memcmp(name, "service_name", 12) == 0 ? "service" : NULL;
}

static pyr_status add_label(pyr_labels *labels, const char *name, size_t name_length,
                            const char *value, size_t value_length)
{
    const char *ours = our_label(name, name_length);
    return pyr_labels_add(labels, ours != NULL ? ours : name,
                          ours != NULL ? strlen(ours) : name_length, value, value_length);
}

/* -------------------------------------------------------------------------------- protobuf ---- */

/* LabelPair: 1 name, 2 value. */
static pyr_status read_label(pyr_wire_reader message, pyr_labels *labels)
{
    pyr_wire_field field;
    pyr_wire_reader texts[2] = {{(const uint8_t *)"", (const uint8_t *)""},
                                {(const uint8_t *)"", (const uint8_t *)""}};
    pyr_status status = PYR_OK;
    while ((status = pyr_wire_next(&message, &field)) == PYR_OK) {
        if (field.type == PYR_WIRE_BYTES && (field.number == 1 || field.number == 2)) {
            texts[field.number - 1] = field.body;
        }
    }
    if (status != PYR_ENOENT) {
        return status;
    }
    return add_label(labels, (const char *)texts[0].at, (size_t)(texts[0].end - texts[0].at),
                     (const char *)texts[1].at, (size_t)(texts[1].end - texts[1].at));
}

/* RawSample: 1 raw_profile, 2 ID. */
static pyr_status read_sample(pyr_request *request, pyr_wire_reader message, pyr_wire_reader series)
{
    pyr_sent sent = {0};
    pyr_wire_field field;
    pyr_status status = PYR_OK;
    while ((status = pyr_wire_next(&message, &field)) == PYR_OK) {
        if (field.type == PYR_WIRE_BYTES && field.number == 1) {
            sent.bytes = field.body.at;
            sent.length = (size_t)(field.body.end - field.body.at);
        }
    }
    status = status == PYR_ENOENT ? pyr_labels_init(&sent.labels) : status;
    while (status == PYR_OK && (status = pyr_wire_next(&series, &field)) == PYR_OK) {
        if (field.type == PYR_WIRE_BYTES && field.number == 1) {
            status = read_label(field.body, &sent.labels);
        }
    }
    if (status != PYR_ENOENT) {
        pyr_labels_fini(&sent.labels);
        return status;
    }
    return pyr_intake_profile(request, &sent);
}

/* RawProfileSeries: 1 labels, 2 samples. */
static pyr_status read_series(pyr_request *request, pyr_wire_reader message)
{
    pyr_wire_reader reader = message;
    pyr_wire_field field;
    pyr_status status = PYR_OK;
    size_t count = 0;
    while ((status = pyr_wire_next(&reader, &field)) == PYR_OK) {
        if (field.type == PYR_WIRE_BYTES && field.number == 2) {
            status = count++ < SAMPLES ? read_sample(request, field.body, message) : PYR_ETOOBIG;
        }
        if (status != PYR_OK) {
            return status;
        }
    }
    return status == PYR_ENOENT ? PYR_OK : status;
}

/* PushRequest: 1 series. */
static pyr_status read_push(pyr_request *request)
{
    pyr_wire_reader reader = {request->body.data, request->body.data + request->body.length};
    pyr_wire_field field;
    pyr_status status = PYR_OK;
    size_t count = 0;
    while ((status = pyr_wire_next(&reader, &field)) == PYR_OK) {
        if (field.type == PYR_WIRE_BYTES && field.number == 1) {
            status = count++ < SERIES ? read_series(request, field.body) : PYR_ETOOBIG;
        }
        if (status != PYR_OK) {
            return status;
        }
    }
    return status == PYR_ENOENT ? PYR_OK : status;
}

/* ------------------------------------------------------------------------------------ JSON ---- */

static int digit_of(char letter)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = letter != '\0' ? strchr(DIGITS, letter) : NULL;
    return found != NULL ? (int)(found - DIGITS) : letter == '-' ? 62 : letter == '_' ? 63 : -1;
}

static pyr_status decode(const char *text, pyr_buffer *out)
{
    uint32_t bits = 0;
    int count = 0;
    for (; digit_of(*text) >= 0; text++) {
        bits = bits << 6 | (uint32_t)digit_of(*text);
        count += 6;
        if (count >= 8) {
            count -= 8;
            uint8_t byte = (uint8_t)(bits >> count);
            (void)pyr_buffer_append(out, &byte, 1);
        }
    }
    return *text == '\0' || *text == '=' ? out->status : PYR_EBAD;
}

static pyr_status read_json_sample(pyr_request *request, const json_t *labels, const json_t *sample)
{
    pyr_sent sent = {0};
    pyr_buffer bytes;
    size_t index = 0;
    json_t *label = NULL;
    const char *raw = json_string_value(json_object_get(sample, "rawProfile"));
    pyr_buffer_init(&bytes, PYR_SERVER_BODY_BYTES);
    pyr_status status = decode(raw != NULL ? raw : "", &bytes);
    if (status == PYR_OK) {
        status = pyr_labels_init(&sent.labels);
    }
    json_array_foreach(labels, index, label)
    {
        const char *name = json_string_value(json_object_get(label, "name"));
        const char *value = json_string_value(json_object_get(label, "value"));
        if (status == PYR_OK && name != NULL && value != NULL) {
            status = add_label(&sent.labels, name, strlen(name), value, strlen(value));
        }
    }
    sent.bytes = bytes.data;
    sent.length = bytes.length;
    if (status == PYR_OK) {
        status = pyr_intake_profile(request, &sent);
    } else {
        pyr_labels_fini(&sent.labels);
    }
    pyr_buffer_fini(&bytes);
    return status;
}

static pyr_status read_json_push(pyr_request *request)
{
    json_t *push = json_loadb((const char *)request->body.data, request->body.length,
                              JSON_REJECT_DUPLICATES, NULL);
    size_t index = 0;
    json_t *series = NULL;
    pyr_status status = json_is_object(push) ? PYR_OK : PYR_EBAD;
    json_array_foreach(json_object_get(push, "series"), index, series)
    {
        size_t number = 0;
        json_t *sample = NULL;
        json_array_foreach(json_object_get(series, "samples"), number, sample)
        {
            if (status == PYR_OK) {
                status = index < SERIES && number < SAMPLES
                             ? read_json_sample(request, json_object_get(series, "labels"), sample)
                             : PYR_ETOOBIG;
            }
        }
    }
    json_decref(push);
    return status;
}

void pyr_intake_push(pyr_worker *worker, pyr_request *request)
{
    (void)worker;
    bool is_json = strncmp(request->content_type, "application/json", 16) == 0;
    if (!is_json && strncmp(request->content_type, "application/proto", 17) != 0) {
        pyr_request_refuse(request, 415, "send application/proto or application/json");
        return;
    }
    if (!pyr_intake_body(request)) {
        return;
    }
    (void)pyr_buffer_text(&request->answer, is_json ? "{}" : "");
    request->answer_type = is_json ? "application/json" : "application/proto";
    pyr_status status = is_json                    ? read_json_push(request)
                        : request->body.length > 0 ? read_push(request)
                                                   : PYR_OK;
    if (status != PYR_OK) {
        pyr_request_refuse(request, 400, "this is no push of Pyroscope: %s",
                           pyr_status_text(status));
    } else if (request->finish == NULL) { /* nothing was sent */
        pyr_request_answer(request, 200, request->answer_type);
    }
}

/* --------------------------------------------------------------------------------- /ingest ---- */

/* app.name{key=value,key2=value2} */
static pyr_status read_name(const char *text, pyr_labels *labels)
{
    size_t length = strcspn(text, "{");
    const char *at = text + length;
    pyr_status status = PYR_OK;
    at += *at == '{' ? 1 : 0;
    while (*at != '\0' && *at != '}' && status == PYR_OK) {
        size_t pair = strcspn(at, ",}");
        const char *equal = memchr(at, '=', pair);
        if (equal != NULL) {
            status = add_label(labels, at, (size_t)(equal - at), equal + 1,
                               pair - (size_t)(equal - at) - 1);
        }
        at += pair + (at[pair] == ',' ? 1 : 0);
    }
    return status == PYR_OK ? pyr_labels_add(labels, "service", 7, text, length) : status;
}

static pyr_status read_times(pyr_request *request, pyr_sent *sent)
{
    const char *from = pyr_request_argument(request, "from");
    const char *until = pyr_request_argument(request, "until");
    int64_t now = pyr_clock_realtime_ns();
    pyr_status status = from != NULL ? pyr_time_parse(from, now, &sent->start_ns) : PYR_OK;
    return status == PYR_OK && until != NULL ? pyr_time_parse(until, now, &sent->end_ns) : status;
}

/* The profile in the body, as its format says; `folded` gets one made of folded lines. */
static pyr_status find_profile(pyr_request *request, pyr_sent *sent, pyr_buffer *folded)
{
    const char *format = pyr_request_argument(request, "format");
    sent->bytes = request->body.data;
    sent->length = request->body.length;
    if (format != NULL && strcmp(format, "pprof") == 0) {
        return PYR_OK;
    }
    if (strncmp(request->content_type, "multipart/form-data", 19) == 0) {
        pyr_multipart multipart;
        pyr_part part;
        pyr_status status = pyr_multipart_start(&multipart, request->content_type,
                                                request->body.data, request->body.length);
        while (status == PYR_OK && (status = pyr_multipart_next(&multipart, &part)) == PYR_OK) {
            if (strcmp(part.name, "profile") == 0) {
                sent->bytes = part.bytes;
                sent->length = part.length;
                return PYR_OK;
            }
        }
        return PYR_EBAD;
    }
    if (format != NULL && strcmp(format, "folded") != 0 && strcmp(format, "groups") != 0 &&
        strcmp(format, "lines") != 0) {
        return PYR_ENOTSUP;
    }
    const char *rate = pyr_request_argument(request, "sampleRate");
    const char *units = pyr_request_argument(request, "units");
    pyr_status status = pyr_folded_to_pprof((const char *)request->body.data, request->body.length,
                                            rate != NULL ? strtoll(rate, NULL, 10) : 100,
                                            units == NULL || strcmp(units, "samples") == 0, folded);
    sent->bytes = folded->data;
    sent->length = folded->length;
    return status;
}

void pyr_intake_ingest(pyr_worker *worker, pyr_request *request)
{
    pyr_sent sent = {0};
    pyr_buffer folded;
    const char *name = pyr_request_argument(request, "name");
    (void)worker;
    if (name == NULL || name[0] == '\0' || !pyr_intake_body(request)) {
        pyr_request_refuse(request, 400, "the argument name is missing");
        return;
    }
    pyr_buffer_init(&folded, PYR_SERVER_BODY_BYTES);
    pyr_status status = pyr_labels_init(&sent.labels);
    if (status == PYR_OK) {
        status = read_name(name, &sent.labels);
    }
    if (status == PYR_OK) {
        status = read_times(request, &sent);
    }
    if (status == PYR_OK) {
        status = find_profile(request, &sent, &folded);
    }
    if (status == PYR_OK && sent.length == 0) {
        status = PYR_EPARTIAL;
    }
    if (status != PYR_OK) {
        pyr_labels_fini(&sent.labels);
        pyr_request_refuse(request, status == PYR_ENOTSUP ? 415 : 400,
                           "this is no profile that /ingest takes (pprof, or folded lines), or its "
                           "arguments are wrong: %s",
                           pyr_status_text(status));
    } else {
        request->answer_type = "application/json";
        (void)pyr_buffer_text(&request->answer, "{}");
        status = pyr_intake_profile(request, &sent);
    }
    pyr_buffer_fini(&folded);
}
