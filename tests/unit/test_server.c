/* Unit tests of what src/server and src/query parse: multipart, times, addresses, tokens, folded
 * lines, conditions and selectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pyroscope.pb-c.h>

#include "base/memory.h"
#include "model/sample.h"
#include "pprof/parser.h"
#include "query/question.h"
#include "server/connect.h"
#include "server/folded.h"
#include "server/guard.h"
#include "server/listen.h"
#include "server/multipart.h"
#include "server/own_cost.h"
#include "server/request.h"
#include "support/pprof_bytes.h"

#define BODY                                                                                       \
    "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"event\"; filename=\"e.json\"\r\n"   \
    "Content-Type: x\r\n\r\n{}\r\n--b\r\ncontent-disposition: form-data; name=data\r\n\r\n"        \
    "a\r\n--c\r\n\r\n--b\r\n\r\n\r\n--b--\r\nepilogue"

static void multipart_parts(void **state)
{
    (void)state;
    pyr_multipart multipart;
    pyr_part part;
    const char *type = "Multipart/Form-Data; charset=x; boundary=\"b\"";
    assert_int_equal(pyr_multipart_start(&multipart, type, BODY, sizeof BODY - 1), PYR_OK);
    assert_int_equal(pyr_multipart_next(&multipart, &part), PYR_OK);
    assert_string_equal(part.name, "event");
    assert_string_equal(part.file_name, "e.json");
    assert_int_equal(part.length, 2);
    assert_memory_equal(part.bytes, "{}", 2);
    assert_int_equal(pyr_multipart_next(&multipart, &part), PYR_OK);
    assert_string_equal(part.name, "data");
    assert_int_equal(part.length, 8); /* what looks like a boundary and is none belongs to it */
    assert_int_equal(pyr_multipart_next(&multipart, &part), PYR_OK);
    assert_string_equal(part.name, "");
    assert_int_equal(part.length, 0);
    assert_int_equal(pyr_multipart_next(&multipart, &part), PYR_ENOENT);
}

static void multipart_cut_off_anywhere(void **state)
{
    (void)state;
    size_t whole = (size_t)(strstr(BODY, "--b--") - BODY) + 5;
    for (size_t length = 0; length < whole; length++) {
        pyr_multipart multipart;
        pyr_part part;
        const uint8_t *body = pyr_bytes_guard(BODY, length);
        pyr_status status =
            pyr_multipart_start(&multipart, "multipart/form-data;boundary=b", body, length);
        while (status == PYR_OK) {
            status = pyr_multipart_next(&multipart, &part);
            if (status == PYR_OK && part.length > 0) {
                assert_true(part.bytes + part.length <= body + length);
            }
        }
        assert_true(status == PYR_EPARTIAL || status == PYR_EBAD);
        pyr_bytes_unguard(body, length);
    }
    pyr_multipart multipart;
    assert_int_equal(pyr_multipart_start(&multipart, "text/plain", BODY, 10), PYR_EINVAL);
    assert_int_equal(pyr_multipart_start(&multipart, "multipart/form-data", BODY, 10), PYR_EINVAL);
}

static void times(void **state)
{
    (void)state;
    const int64_t now = INT64_C(1700000000000000000);
    const struct {
        const char *text;
        int64_t time;
    } good[] = {
        {"now", now},
        {"now-5m", now - INT64_C(300000000000)},
        {"now-2d", now - INT64_C(172800000000000)},
        {"1700000000", now},
        {"1700000000000", now},
        {"1700000000000000", now},
        {"1700000000000000001", now + 1},
        {"2023-11-14T22:13:20Z", now},
        {"2023-11-14T22:13:20.000000007Z", now + 7},
        {"2023-11-14T22:13:20.5+00:00", now + 500000000},
    };
    static const char *const BAD[] = {"",
                                      "now-",
                                      "now+1h",
                                      "now-5",
                                      "-1",
                                      "5x",
                                      "1e9",
                                      "99999999999999999999",
                                      "2023-11-14",
                                      "2023-11-14T22:13:20",
                                      "1969-01-01T00:00:00Z",
                                      "now-99999999999d"};
    int64_t time = 0;
    for (size_t at = 0; at < sizeof good / sizeof good[0]; at++) {
        assert_int_equal(pyr_time_parse(good[at].text, now, &time), PYR_OK);
        assert_int_equal(time, good[at].time);
    }
    for (size_t at = 0; at < sizeof BAD / sizeof BAD[0]; at++) {
        assert_int_equal(pyr_time_parse(BAD[at], now, &time), PYR_EINVAL);
    }
}

static void addresses(void **state)
{
    (void)state;
    const struct {
        const char *text, *host;
        unsigned short port;
        bool is_private;
    } good[] = {
        {"4077", "127.0.0.1", 4077, true},
        {":80", "127.0.0.1", 80, true},
        {"localhost:1", "localhost", 1, true},
        {"0.0.0.0:8126", "0.0.0.0", 8126, false},
        {"[::1]:4040", "::1", 4040, true},
        {"[::]:4040", "::", 4040, false},
        {"10.0.0.1", "10.0.0.1", 4077, false},
        {"127.0.0.2:9", "127.0.0.2", 9, true},
        {"name.example:9", "name.example", 9, false},
    };
    static const char *const BAD[] = {"x:", "x:y", "x:70000", "[::1", "[::1]x", "unix:", "x:-1"};
    pyr_listen_address address;
    for (size_t at = 0; at < sizeof good / sizeof good[0]; at++) {
        assert_int_equal(pyr_listen_parse(good[at].text, &address), PYR_OK);
        assert_string_equal(address.host, good[at].host);
        assert_int_equal(address.port, good[at].port);
        assert_int_equal(address.is_private, good[at].is_private);
    }
    for (size_t at = 0; at < sizeof BAD / sizeof BAD[0]; at++) {
        assert_int_equal(pyr_listen_parse(BAD[at], &address), PYR_EINVAL);
    }
    assert_int_equal(pyr_listen_parse("unix:///run/p", &address), PYR_OK);
    assert_string_equal(address.path, "/run/p");
}

static void who_may(void **state)
{
    (void)state;
    static const char TOKEN[] = "sixteen-or-more!";
    pyr_guard_headers headers = {.authorization = "Bearer sixteen-or-more!"};
    assert_true(pyr_guard_has_token(&headers, TOKEN));
    headers.authorization = "bearer sixteen-or-more!";
    assert_true(pyr_guard_has_token(&headers, TOKEN));
    headers.authorization = "Bearer sixteen-or-more";
    assert_false(pyr_guard_has_token(&headers, TOKEN));
    headers.authorization = "Basic OnNpeHRlZW4tb3ItbW9yZSE=";
    assert_true(pyr_guard_has_token(&headers, TOKEN));
    headers.authorization = "Basic ";
    assert_false(pyr_guard_has_token(&headers, TOKEN));
    assert_false(pyr_guard_has_token(&headers, ""));

    static const char *const NAMES[] = {"box"};
    assert_true(pyr_guard_host_is_own("BOX:4077", NAMES, 1));
    assert_true(pyr_guard_host_is_own("[::1]", NAMES, 0));
    assert_false(pyr_guard_host_is_own("box.evil", NAMES, 1));
    assert_false(pyr_guard_host_is_own("[::1", NAMES, 1));
    assert_false(pyr_guard_host_is_own("[::1].evil", NAMES, 1) &&
                 !pyr_guard_host_is_own("[::1]", NAMES, 1));
}

static void folded_lines(void **state)
{
    (void)state;
    pyr_buffer out;
    pyr_profile *profile = NULL;
    pyr_parse_error error;
    pyr_buffer_init(&out, 1 << 20);
    static const char TEXT[] = "a;b;c 3\r\n\na 1";
    assert_int_equal(pyr_folded_to_pprof(TEXT, sizeof TEXT - 1, 100, true, &out), PYR_OK);
    assert_int_equal(pyr_profile_parse(out.data, out.length, 1 << 20, &profile, &error), PYR_OK);
    assert_int_equal(profile->sample_count, 2);
    assert_int_equal(profile->samples[0].frame_count, 3);
    assert_int_equal(profile->values[profile->samples[0].value_start], 3);
    assert_int_equal(profile->values[profile->samples[0].value_start + 1], 30000000);
    uint32_t leaf = profile->stack_frames[profile->samples[0].frame_start];
    assert_string_equal(
        profile->strings[profile->functions[profile->frames[leaf].function].name].data, "c");
    pyr_profile_free(profile);
    static const char *const BAD[] = {"a", "a;b x", " 5", "5", "a 99999999999999999"};
    for (size_t at = 0; at < sizeof BAD / sizeof BAD[0]; at++) {
        pyr_buffer_clear(&out);
        pyr_status status = pyr_folded_to_pprof(BAD[at], strlen(BAD[at]), 100, true, &out);
        assert_true(status == PYR_EBAD || strcmp(BAD[at], " 5") == 0);
    }
    pyr_buffer_fini(&out);
}

static void conditions(void **state)
{
    (void)state;
    pyr_question question;
    char why[PYR_QUESTION_WHY_BYTES];
    pyr_question_init(&question);
    assert_int_equal(pyr_question_where(&question, "thread name=~a|b", why, sizeof why), PYR_OK);
    assert_int_equal(pyr_question_where(&question, "x!=", why, sizeof why), PYR_OK);
    assert_int_equal(pyr_question_where(&question, "package!~flask.*", why, sizeof why), PYR_OK);
    assert_int_equal(question.count, 3);
    assert_string_equal(question.conditions[0].name, "thread name");
    assert_true(pyr_condition_matches(&question.conditions[0], "b", 1));
    assert_false(pyr_condition_matches(&question.conditions[0], "ab", 2)); /* both ends */
    assert_true(question.conditions[1].is_negative);
    assert_int_equal(question.conditions[2].place, PYR_CONDITION_PACKAGE);
    static const char *const BAD[] = {"", "x", "=y", "x~y", "x=~("};
    for (size_t at = 0; at < sizeof BAD / sizeof BAD[0]; at++) {
        assert_int_equal(pyr_question_where(&question, BAD[at], why, sizeof why), PYR_EINVAL);
    }
    pyr_question_fini(&question);
    assert_int_equal(pyr_question_selector(
                         &question, " { service_name = \"a\\\"b\" , \"thread name\"!~\"w.*\", } ",
                         why, sizeof why),
                     PYR_OK);
    assert_int_equal(question.count, 2);
    assert_string_equal(question.conditions[0].name, "service");
    assert_string_equal(question.conditions[0].value, "a\"b");
    pyr_question_fini(&question);
    assert_int_equal(pyr_question_selector(&question, "{}", why, sizeof why), PYR_OK);
    static const char *const WRONG[] = {"{a}", "{a=b}", "{a=\"b}", "{a=\"b\" c=\"d\"}", "a=\"b\""};
    for (size_t at = 0; at < sizeof WRONG / sizeof WRONG[0]; at++) {
        pyr_question_fini(&question);
        assert_int_equal(pyr_question_selector(&question, WRONG[at], why, sizeof why), PYR_EINVAL);
    }
    pyr_question_fini(&question);
}

static void packages(void **state)
{
    (void)state;
    const struct {
        const char *file, *package;
    } all[] = {
        {"/v/lib/python3.11/site-packages/flask/app.py", "flask"},
        {"/usr/lib/python3/dist-packages/six.py", "six"},
        {"/usr/lib/python3.11/json/decoder.py", "stdlib"},
        {"<frozen importlib._bootstrap>", "stdlib"},
        {"<native>", "native"},
        {"/srv/app.py", "app"},
        {"", "app"},
    };
    for (size_t at = 0; at < sizeof all / sizeof all[0]; at++) {
        size_t length = 0;
        const char *package = pyr_package_of(all[at].file, strlen(all[at].file), &length);
        assert_int_equal(length, strlen(all[at].package));
        assert_memory_equal(package, all[at].package, length);
    }
}

/* A question as Connect sends it; `body` stays the caller's. */
typedef struct sent_call {
    pyr_connect call;
    pyr_request request;
    bool good;
} sent_call;

static void send_call(sent_call *sent, const char *type, const void *body, size_t length)
{
    sent->call = (pyr_connect){0}; /* ended also where it was not begun */
    sent->request = (pyr_request){
        .path = "/querier.v1.QuerierService/Series", .content_type = type, .content_encoding = ""};
    pyr_buffer_init(&sent->request.body, 1 << 20);
    pyr_buffer_init(&sent->request.answer, 1 << 20);
    pyr_status status = pyr_buffer_append(&sent->request.body, body, length);
    sent->good = status == PYR_OK && pyr_connect_start(&sent->call, &sent->request,
                                                       &pyr__connect__series_question__descriptor);
}

static void end_call(sent_call *sent)
{
    pyr_connect_end(&sent->call);
    pyr_buffer_fini(&sent->request.body);
    pyr_buffer_fini(&sent->request.answer);
}

/* matchers "{}" and "a", label_names "x", start 300, end 1<<40 */
static const char SERIES[] = "\x0a\x02{}\x0a\x01"
                             "a\x12\x01x\x18\xac\x02 \x80\x80\x80\x80\x80 ";
static const char SERIES_JSON[] = "{\"matchers\":[\"{}\",\"a\"],\"labelNames\":[\"x\"],"
                                  "\"start\":300,\"end\":\"1099511627776\",\"more\":[{}]}";

static void connect_both(void **state)
{
    (void)state;
    for (int json = 0; json < 2; json++) {
        sent_call sent;
        size_t count = 0;
        send_call(&sent, json ? "application/json; charset=utf-8" : "application/proto",
                  json ? SERIES_JSON : SERIES, json ? sizeof SERIES_JSON - 1 : sizeof SERIES - 1);
        assert_true(sent.good);
        assert_int_equal(pyr_connect_integer(&sent.call, "start"), 300);
        assert_int_equal(pyr_connect_integer(&sent.call, "end"), INT64_C(1) << 40);
        char *const *matchers = pyr_connect_strings(&sent.call, "matchers", &count);
        assert_int_equal(count, 2);
        assert_string_equal(matchers[1], "a");
        assert_string_equal(pyr_connect_string(&sent.call, "profile_typeID"), "");
        pyr_connect_answer(&sent.call, sent.call.question);
        assert_int_equal(sent.request.code, 200);
        const pyr_buffer *answer = &sent.request.answer;
        static const char BACK[] = "{\"matchers\":[\"{}\",\"a\"],\"labelNames\":[\"x\"],"
                                   "\"start\":\"300\",\"end\":\"1099511627776\"}";
        assert_int_equal(answer->length, json ? sizeof BACK - 1 : sizeof SERIES - 1);
        assert_memory_equal(answer->data, json ? BACK : SERIES, answer->length);
        end_call(&sent);
    }
    sent_call other;
    send_call(&other, "application/connect+proto", SERIES, sizeof SERIES - 1);
    assert_false(other.good);
    assert_int_equal(other.request.code, 415);
    end_call(&other);
}

static void connect_cut_off_anywhere(void **state)
{
    (void)state;
    for (size_t length = 0; length < sizeof SERIES - 1; length++) {
        sent_call sent;
        send_call(&sent, "application/proto", SERIES, length);
        assert_int_equal(sent.good, sent.request.code == 0);
        end_call(&sent);
        send_call(&sent, "application/json", SERIES_JSON, length);
        assert_int_equal(sent.good, length == 0); /* nothing is an empty question */
        assert_int_equal(sent.request.code, length == 0 ? 0 : 400);
        end_call(&sent);
    }
}

static void connect_without_memory(void **state)
{
    (void)state;
    for (size_t nth = 1; nth < 100; nth++) {
        sent_call sent;
        pyr_memory_fail_at(nth);
        send_call(&sent, nth % 2 == 0 ? "application/proto" : "application/json",
                  nth % 2 == 0 ? SERIES : SERIES_JSON,
                  nth % 2 == 0 ? sizeof SERIES - 1 : sizeof SERIES_JSON - 1);
        if (sent.good) {
            pyr_connect_answer(&sent.call, sent.call.question);
        }
        bool has_failed = pyr_memory_has_failed() != 0;
        pyr_memory_fail_at(0);
        assert_true(has_failed || sent.request.code == 200);
        end_call(&sent);
        if (!has_failed && nth % 2 == 0) {
            return;
        }
    }
    fail();
}

/* The server knows each kind of loss that agents know, and no other. */
static void kinds_of_losses(void **state)
{
    (void)state;
    assert_int_equal(PYR_OWN_LOSSES, PYR_LOSSES + 1);
    for (int loss = 0; loss < PYR_LOSSES; loss++) {
        assert_string_equal(pyr_own_cost_loss((size_t)loss), pyr_loss_id((pyr_loss)loss));
    }
    assert_string_equal(pyr_own_cost_loss(PYR_LOSSES), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_losses),
        cmocka_unit_test(multipart_parts),
        cmocka_unit_test(multipart_cut_off_anywhere),
        cmocka_unit_test(times),
        cmocka_unit_test(addresses),
        cmocka_unit_test(who_may),
        cmocka_unit_test(folded_lines),
        cmocka_unit_test(connect_both),
        cmocka_unit_test(connect_cut_off_anywhere),
        cmocka_unit_test(connect_without_memory),
        cmocka_unit_test(conditions),
        cmocka_unit_test(packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
