/* Fuzzes what src/server and src/query parse of a request: multipart bodies, folded lines, times,
 * conditions and selectors, questions in protobuf and JSON. Parts lie within the body; what folded
 * lines give is a profile. */
#include <pyroscope.pb-c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/parser.h"
#include "query/question.h"
#include "server/connect.h"
#include "server/folded.h"
#include "server/guard.h"
#include "server/listen.h"
#include "server/multipart.h"
#include "server/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_multipart(const uint8_t *data, size_t size)
{
    pyr_multipart multipart;
    pyr_part part;
    pyr_status status =
        pyr_multipart_start(&multipart, "multipart/form-data; boundary=b", data, size);
    while (status == PYR_OK) {
        status = pyr_multipart_next(&multipart, &part);
        if (status == PYR_OK && (part.bytes < data || part.bytes + part.length > data + size)) {
            abort();
        }
    }
}

static void try_folded(const uint8_t *data, size_t size)
{
    pyr_buffer out;
    pyr_buffer_init(&out, 1 << 24);
    if (pyr_folded_to_pprof((const char *)data, size, 100, size % 2 == 0, &out) == PYR_OK) {
        pyr_profile *profile = NULL;
        pyr_parse_error error;
        if (pyr_profile_parse(out.data, out.length, 1 << 26, &profile, &error) != PYR_OK) {
            abort();
        }
        pyr_profile_free(profile);
    }
    pyr_buffer_fini(&out);
}

static void try_connect(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const QUESTIONS[] = {
        &pyr__connect__series_question__descriptor,
        &pyr__connect__stacktraces_question__descriptor,
        &pyr__connect__select_series_question__descriptor,
    };
    for (size_t at = 0; at < sizeof QUESTIONS / sizeof QUESTIONS[0]; at++) {
        pyr_connect call;
        pyr_request request = {
            .content_type = size % 2 == 0 ? "application/proto" : "application/json",
            .content_encoding = "",
        };
        pyr_buffer_init(&request.body, 1 << 24);
        pyr_buffer_init(&request.answer, 1 << 24);
        (void)pyr_buffer_append(&request.body, data, size);
        if (pyr_connect_start(&call, &request, QUESTIONS[at])) {
            size_t count = 0;
            char *const *matchers = pyr_connect_strings(&call, "matchers", &count);
            for (size_t one = 0; one < count; one++) {
                (void)strlen(matchers[one]);
            }
            if (at == 0) {
                pyr_connect_answer(&call, call.question); /* what was read can be written */
            }
        } else if (request.code == 0) {
            abort();
        }
        pyr_connect_end(&call);
        pyr_buffer_fini(&request.body);
        pyr_buffer_fini(&request.answer);
    }
}

static void try_texts(const char *text)
{
    char why[PYR_QUESTION_WHY_BYTES];
    pyr_question question;
    pyr_listen_address address;
    int64_t time = 0;
    const pyr_guard_headers headers = {.authorization = text, .host = text, .origin = text};
    pyr_question_init(&question);
    (void)!pyr_question_where(&question, text, why, sizeof why);
    (void)!pyr_question_selector(&question, text, why, sizeof why);
    for (size_t at = 0; at < question.count; at++) {
        (void)pyr_condition_matches(&question.conditions[at], "worker-1", 8);
    }
    pyr_question_fini(&question);
    (void)!pyr_time_parse(text, INT64_C(1700000000000000000), &time);
    (void)!pyr_listen_parse(text, &address);
    if (pyr_guard_has_token(&headers, "a token that nobody would guess, of this length")) {
        abort();
    }
    (void)pyr_guard_host_is_own(text, NULL, 0);
    (void)pyr_guard_origin_is_own(&headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0] == 'c' ? 3 : data[0] % 3) {
    case 0:
        try_multipart(data + 1, size - 1);
        break;
    case 1:
        try_folded(data + 1, size - 1);
        break;
    case 3:
        try_connect(data + 1, size - 1);
        break;
    default: {
        char *text = calloc(size, 1);
        if (text != NULL) {
            memcpy(text, data + 1, size - 1);
            try_texts(text);
        }
        free(text);
    }
    }
    return 0;
}
