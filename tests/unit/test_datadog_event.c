/* Unit tests of export/datadog_event: tags, process tags, times, and what stands for nothing. */
#include "export/datadog_event.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

static const pyr_kubernetes no_kubernetes;
static const pyr_git no_git;

static pyr_datadog_source make_source(const char *tags)
{
    return (pyr_datadog_source){
        .identity = {.tags = tags, .pid = 7, .host = "here", .python = "3.13.0"},
        .container = "",
        .kubernetes = &no_kubernetes,
        .git = &no_git,
        .main_package = "",
        .working_folder = "/srv/My App",
    };
}

/* The tags that follow what every process has. */
static const char *user_tags(const char *tags, const char *service, char *bad)
{
    static char text[600];
    pyr_buffer out;
    pyr_datadog_source source = make_source(tags);
    source.identity.service = service;
    pyr_buffer_init(&out, 1 << 16);
    assert_int_equal(pyr_datadog_tags(&source, &out, bad, 100), PYR_OK);
    snprintf(text, sizeof text, "%.*s", (int)out.length, (const char *)out.data);
    pyr_buffer_fini(&out);
    const char *last = strstr(text, "runtime_platform:");
    assert_non_null(last);
    const char *comma = strchr(last, ',');
    return comma != NULL ? comma + 1 : "";
}

static void test_user_tags(void **state)
{
    (void)state;
    static const struct {
        const char *given, *taken, *bad;
    } cases[] = {
        {"", "", ""},
        {"a:b", "a:b", ""},
        {"a:b,c:d", "a:b,c:d", ""},
        {" a:b , c:d ,", "a:b,c:d", ""},
        {"a:b c:d", "a:b,c:d", ""},
        {"a:b c,d:e", "a:b c,d:e", ""}, /* a comma parts, so blanks do not */
        {"a:b:c", "a:b:c", ""},
        {"a:1,a:2", "a:1", ""},
        {"a,b:c", "b:c", "a"},
        {"a:,b:c", "b:c", "a:"},
        {":a,b:c", "b:c", ":a"},
        {"process_id:9,language:ruby", "", ""},
        {"a:\xC3\xA4\xE2\x82\xAC", "a:\xC3\xA4\xE2\x82\xAC", ""},
        {"a:x\xFFy", "a:x\xEF\xBF\xBDy", ""},
        {"a\xFF:x,b:c", "b:c", "a\xEF\xBF\xBD:x"},
        {"aa:1,a:2", "aa:1,a:2", ""}, /* one key within the other */
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        char bad[100];
        assert_string_equal(user_tags(cases[index].given, "", bad), cases[index].taken);
        assert_string_equal(bad, cases[index].bad);
    }
    char bad[100];
    assert_string_equal(user_tags("service:mine", "", bad), "service:mine");
    assert_string_equal(user_tags("service:mine", "other", bad), "");
}

static void assert_process_tags(const char *program, bool is_module, const char *service,
                                const char *expected)
{
    pyr_buffer out;
    pyr_datadog_source source = make_source("");
    source.identity.program = program;
    source.identity.is_module = is_module;
    source.identity.service = service;
    pyr_buffer_init(&out, 1000);
    assert_int_equal(pyr_datadog_process_tags(&source, &out), PYR_OK);
    assert_int_equal(pyr_buffer_append(&out, "", 1), PYR_OK);
    assert_string_equal((const char *)out.data, expected);
    pyr_buffer_fini(&out);
}

static void test_process_tags(void **state)
{
    (void)state;
    assert_process_tags("app/Main.py", false, "web",
                        "entrypoint.basedir:app,entrypoint.name:main,entrypoint.type:script,"
                        "entrypoint.workdir:my_app,svc.user:true");
    assert_process_tags(
        "/usr/bin/gunicorn", false, "",
        "entrypoint.name:gunicorn,entrypoint.type:script,entrypoint.workdir:my_app");
    assert_process_tags("x.py", false, NULL,
                        "entrypoint.basedir:my_app,entrypoint.name:x,entrypoint.type:script,"
                        "entrypoint.workdir:my_app");
    assert_process_tags("shop.worker", true, "",
                        "entrypoint.name:shop.worker,entrypoint.type:module,"
                        "entrypoint.workdir:my_app");
    assert_process_tags("", false, "", "entrypoint.basedir:my_app,entrypoint.workdir:my_app");
}

static void test_event(void **state)
{
    (void)state;
    static const char *const attachments[] = {"profile.pprof", NULL};
    static pyr_facts facts;
    facts.count = 0;
    pyr_facts_add_integer(&facts, "tick", "interval_ns", 10000000);
    pyr_facts_add_integer(&facts, "losses", "torn-stack", 3);
    pyr_facts_add_text(&facts, "settings", "ENV", "prod");
    pyr_facts_add_text(&facts, "identity", "host", "not internal");
    const pyr_export_job job = {
        .facts = &facts,
        .samples = 12,
        .start_ns = INT64_C(1700000000000000007),
        .end_ns = INT64_C(1700000060123456789),
    };
    pyr_datadog_source source = make_source("");
    pyr_buffer out;
    pyr_buffer_init(&out, 1 << 16);
    assert_int_equal(pyr_datadog_event(&source, &job, attachments, &out), PYR_OK);
    json_t *event = json_loadb((const char *)out.data, out.length, 0, NULL);
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "start")),
                        "2023-11-14T22:13:20.000000007Z");
    assert_string_equal(json_string_value(json_object_get(event, "end")),
                        "2023-11-14T22:14:20.123456789Z");
    json_t *internal = json_object_get(event, "internal");
    assert_int_equal(json_integer_value(json_object_get(internal, "sampling_interval_us")), 10000);
    assert_int_equal(json_integer_value(json_object_get(internal, "losses.torn-stack")), 3);
    assert_int_equal(json_integer_value(json_object_get(internal, "sample_count")), 12);
    assert_null(json_object_get(internal, "identity.host"));
    assert_null(json_object_get(internal, "sampling_event_count")); /* not known, so not said */
    assert_true(json_is_null(json_object_get(event, "endpoint_counts")));
    json_decref(event);
    pyr_buffer_clear(&out);
    facts.request_count = 2;
    facts.requests[0] = (pyr_request_count){"/cart", 12};
    facts.requests[1] = (pyr_request_count){"(other)", 1};
    assert_int_equal(pyr_datadog_event(&source, &job, attachments, &out), PYR_OK);
    event = json_loadb((const char *)out.data, out.length, 0, NULL);
    json_t *counts = json_object_get(event, "endpoint_counts");
    assert_int_equal(json_object_size(counts), 2);
    assert_int_equal(json_integer_value(json_object_get(counts, "/cart")), 12);
    assert_int_equal(json_integer_value(json_object_get(counts, "(other)")), 1);
    json_decref(event);
    pyr_buffer_fini(&out);

    pyr_buffer_init(&out, 100);
    assert_int_equal(pyr_datadog_event(&source, &job, attachments, &out), PYR_ETOOBIG);
    pyr_buffer_fini(&out);
    int failed = 1;
    for (size_t nth = 1; failed && nth < 100; nth++) {
        pyr_buffer_init(&out, 1 << 16);
        pyr_memory_fail_at(nth);
        pyr_status status = pyr_datadog_event(&source, &job, attachments, &out);
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        assert_true(status == PYR_OK || failed);
        pyr_buffer_fini(&out);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_tags),
        cmocka_unit_test(test_process_tags),
        cmocka_unit_test(test_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
