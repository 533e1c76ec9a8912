/* Unit tests of session/settings (and base/nearest): kinds, bounds, order of sources, warnings.
 * More than 600 lines, because the tables of every variable stand here in full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "session/settings.h"

typedef struct warnings {
    int count;
    char last[600];
} warnings;

static void note(void *context, const char *text)
{
    warnings *noted = context;
    noted->count++;
    snprintf(noted->last, sizeof noted->last, "%s", text);
}

static pyr_status parse(pyr_setting_id id, const char *text, pyr_setting_value *value)
{
    char why[200];
    return pyr_setting_parse(pyr_setting_get(id), text, value, why, sizeof why);
}

static void test_table_is_sound(void **state)
{
    (void)state;
    for (int id = 0; id < PYR_SETTINGS; id++) {
        const pyr_setting *setting = pyr_setting_get((pyr_setting_id)id);
        pyr_setting_value value;
        assert_int_equal(parse((pyr_setting_id)id, setting->fallback, &value), PYR_OK);
        assert_int_equal(pyr_setting_find(setting->name), id);
        assert_true(setting->help[0] != '\0');
    }
    assert_int_equal(pyr_setting_find("NO_SUCH"), -1);
    assert_int_equal(pyr_setting_find("max_frames"), PYR_SETTING_MAX_FRAMES);
}

static void test_good_values(void **state)
{
    (void)state;
    static const struct {
        pyr_setting_id id;
        const char *text;
        int64_t integer;
    } cases[] = {
        {PYR_SETTING_SAMPLING_INTERVAL, "10ms", 10000000},
        {PYR_SETTING_SAMPLING_INTERVAL, "0.01", 10000000},
        {PYR_SETTING_SAMPLING_INTERVAL, " 5 MS ", 5000000},
        {PYR_SETTING_SAMPLING_INTERVAL, "2500us", 2500000},
        {PYR_SETTING_UPLOAD_INTERVAL, "2m", 120000000000},
        {PYR_SETTING_UPLOAD_INTERVAL, "1h", 3600000000000},
        {PYR_SETTING_OUTPUT_MAX_AGE, "7d", 604800000000000},
        {PYR_SETTING_OUTPUT_MAX_BYTES, "512KiB", 524288},
        {PYR_SETTING_OUTPUT_MAX_BYTES, "1.5G", 1610612736},
        {PYR_SETTING_OUTPUT_MAX_BYTES, "10MB", 10000000},
        {PYR_SETTING_OUTPUT_MAX_BYTES, "0", 0},
        {PYR_SETTING_MAX_FRAMES, "599", 599},
        {PYR_SETTING_ENABLED, "TRUE", 1},
        {PYR_SETTING_ENABLED, "off", 0},
        {PYR_SETTING_ENABLED, " No ", 0},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        pyr_setting_value value;
        assert_int_equal(parse(cases[index].id, cases[index].text, &value), PYR_OK);
        assert_int_equal(value.integer, cases[index].integer);
    }
    pyr_setting_value value;
    assert_int_equal(parse(PYR_SETTING_OVERHEAD_PCT, "2.5%", &value), PYR_OK);
    assert_true(value.real > 2.4999 && value.real < 2.5001);
}

static void test_bad_values(void **state)
{
    (void)state;
    static const struct {
        pyr_setting_id id;
        const char *text;
        pyr_status status;
    } cases[] = {
        {PYR_SETTING_SAMPLING_INTERVAL, "", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "fast", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "-1ms", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "1 parsec", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "1ms2", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "0x10", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "nan", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "1e-3", PYR_EBAD},
        {PYR_SETTING_SAMPLING_INTERVAL, "1us", PYR_ETOOBIG},
        {PYR_SETTING_SAMPLING_INTERVAL, "2s", PYR_ETOOBIG},
        {PYR_SETTING_SAMPLING_INTERVAL, "99999999999999999999999s", PYR_EBAD},
        {PYR_SETTING_MAX_FRAMES, "0", PYR_ETOOBIG},
        {PYR_SETTING_MAX_FRAMES, "600", PYR_ETOOBIG},
        {PYR_SETTING_MAX_FRAMES, "1.5", PYR_EBAD},
        {PYR_SETTING_MAX_FRAMES, ".", PYR_EBAD},
        {PYR_SETTING_MAX_FRAMES, "1..2", PYR_EBAD},
        {PYR_SETTING_OVERHEAD_PCT, "0", PYR_ETOOBIG},
        {PYR_SETTING_OVERHEAD_PCT, "101", PYR_ETOOBIG},
        {PYR_SETTING_OUTPUT_MAX_BYTES, "10 apples", PYR_EBAD},
        {PYR_SETTING_ENABLED, "flase", PYR_EBAD},
        {PYR_SETTING_ENABLED, "2", PYR_EBAD},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        pyr_setting_value value;
        assert_int_equal(parse(cases[index].id, cases[index].text, &value), cases[index].status);
    }
    char *big = calloc(PYR_LIMIT_SETTING_BYTES + 2, 1);
    memset(big, 'x', PYR_LIMIT_SETTING_BYTES + 1);
    pyr_setting_value value;
    assert_int_equal(parse(PYR_SETTING_SERVICE, big, &value), PYR_ETOOBIG);
    big[PYR_LIMIT_SETTING_BYTES] = '\0';
    assert_int_equal(parse(PYR_SETTING_SERVICE, big, &value), PYR_OK);
    free(big);
}

static void test_order_of_sources(void **state)
{
    (void)state;
    warnings noted = {0};
    pyr_settings_warn warn = {note, &noted};
    pyr_settings settings;
    pyr_settings_init(&settings);
    char *environment[] = {"DD_SERVICE=dd",
                           "OTEL_SERVICE_NAME=otel",
                           "PYROMETER_ENV=ours",
                           "DD_ENV=theirs",
                           "PYROMETER_VERSION=",
                           "DD_VERSION=7",
                           "DD_SERVICES=no",
                           "DD_PROFILING_ENABLED=auto",
                           "PYROMETER_PACKAGE=/somewhere",
                           "DD_PROFILING_MAX_FRAMES=100",
                           NULL};
    pyr_settings_read(&settings, environment, warn);
    assert_int_equal(noted.count, 0);
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_SERVICE), "dd");
    assert_string_equal(settings.states[PYR_SETTING_SERVICE].source, "DD_SERVICE");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_ENV), "ours");
    assert_string_equal(settings.states[PYR_SETTING_ENV].source, "PYROMETER_ENV");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_VERSION), "7");
    assert_int_equal(pyr_settings_integer(&settings, PYR_SETTING_MAX_FRAMES), 100);
    assert_true(pyr_settings_bool(&settings, PYR_SETTING_ENABLED));

    pyr_settings_set_named(&settings, "service", "argument wins", "argument", warn);
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_SERVICE), "argument wins");

    static pyr_facts facts;
    facts.count = 0;
    pyr_settings_facts(&settings, &facts, true);
    assert_int_equal(facts.count, 2 * 5);
    assert_string_equal(pyr_facts_find(&facts, "settings", "MAX_FRAMES")->text, "100");
    assert_string_equal(pyr_facts_find(&facts, "settings from", "SERVICE")->text, "argument");

    pyr_settings copy;
    assert_int_equal(pyr_settings_copy(&copy, &settings), PYR_OK);
    pyr_settings_fini(&settings);
    assert_string_equal(pyr_settings_text(&copy, PYR_SETTING_SERVICE), "argument wins");
    pyr_settings_fini(&copy);
}

static void test_warnings(void **state)
{
    (void)state;
    warnings noted = {0};
    pyr_settings_warn warn = {note, &noted};
    pyr_settings settings;
    pyr_settings_init(&settings);

    char *wrong[] = {"PYROMETER_SAMPLING_INTERVAL=soon", NULL};
    pyr_settings_read(&settings, wrong, warn);
    assert_int_equal(noted.count, 1);
    assert_string_equal(noted.last,
                        "PYROMETER_SAMPLING_INTERVAL: \"soon\" is ignored, a time such as 10ms, "
                        "60s or 2h is expected; SAMPLING_INTERVAL stays 10ms");
    assert_int_equal(pyr_settings_integer(&settings, PYR_SETTING_SAMPLING_INTERVAL), 10000000);

    char *range[] = {"DD_PROFILING_MAX_FRAMES=6000", NULL};
    pyr_settings_read(&settings, range, warn);
    assert_string_equal(noted.last, "DD_PROFILING_MAX_FRAMES: \"6000\" is ignored, it must be from "
                                    "1 to 599; MAX_FRAMES stays 64");

    char *unknown[] = {"PYROMETER_SAMPLING_INTERVALL=1ms", NULL};
    pyr_settings_read(&settings, unknown, warn);
    assert_int_equal(noted.count, 3);
    assert_string_equal(noted.last, "there is no setting PYROMETER_SAMPLING_INTERVALL; did you "
                                    "mean PYROMETER_SAMPLING_INTERVAL?");

    char *strange[] = {"PYROMETER_QQQQQQQQ=1", "PYROMETER_=1", "PYROMETER_NOVALUE", NULL};
    pyr_settings_read(&settings, strange, warn);
    assert_int_equal(noted.count, 6);

    pyr_settings_set_named(&settings, "max_frame", "3", "argument", warn);
    assert_string_equal(noted.last, "there is no setting max_frame; did you mean MAX_FRAMES?");

    char *flood[40];
    for (size_t index = 0; index < 39; index++) {
        flood[index] = "PYROMETER_ZZZZZZZZ=1";
    }
    flood[39] = NULL;
    noted.count = 0;
    pyr_settings_read(&settings, flood, warn);
    assert_int_equal(noted.count, 8);
    pyr_settings_fini(&settings);
}

/* A value that the kind takes, other than the default, and one that it does not (NULL: it takes
 * all). */
static const struct {
    const char *good, *wrong;
} VALUES[] = {
    [PYR_SETTING_BOOL] = {"yes", "perhaps"},   [PYR_SETTING_DURATION] = {"55 s", "55 parsec"},
    [PYR_SETTING_BYTES] = {"1MiB", "1 apple"}, [PYR_SETTING_PERCENT] = {"7%", "7 %%"},
    [PYR_SETTING_INTEGER] = {"42", "4.2"},     [PYR_SETTING_TEXT] = {"text", NULL},
    [PYR_SETTING_LIST] = {"a:1,b:2", NULL},    [PYR_SETTING_SECRET] = {"hush", NULL},
};

static const char *good_value(pyr_setting_id id)
{
    return id == PYR_SETTING_SAMPLING_INTERVAL ? "20ms" : VALUES[pyr_setting_get(id)->kind].good;
}

/* Reads an environment of one variable; warnings of settings without effect are left out. */
static void read_one(pyr_settings *settings, const char *variable, const char *value,
                     warnings *noted)
{
    char entry[PYR_LIMIT_SETTING_SOURCE + 100];
    snprintf(entry, sizeof entry, "%s=%s", variable, value);
    char *environment[] = {entry, NULL};
    *noted = (warnings){0};
    pyr_settings_init(settings);
    pyr_settings_read(settings, environment, (pyr_settings_warn){note, noted});
}

static void check_variable(pyr_setting_id id, const char *variable)
{
    pyr_settings settings;
    warnings noted;
    read_one(&settings, variable, good_value(id), &noted);
    assert_int_equal(noted.count, 0);
    assert_string_equal(pyr_settings_text(&settings, id), good_value(id));
    assert_string_equal(settings.states[id].source, variable);
    pyr_settings_fini(&settings);

    read_one(&settings, variable, "", &noted); /* not set */
    assert_int_equal(noted.count, 0);
    assert_null(settings.states[id].text);
    pyr_settings_fini(&settings);

    const char *wrong = VALUES[pyr_setting_get(id)->kind].wrong;
    if (wrong != NULL) {
        read_one(&settings, variable, wrong, &noted);
        assert_int_equal(noted.count, 1);
        assert_non_null(strstr(noted.last, variable));
        assert_non_null(strstr(noted.last, wrong));
        assert_null(settings.states[id].text);
        pyr_settings_fini(&settings);
    }
}

static void test_every_name_once_valid_once_wrong(void **state)
{
    (void)state;
    for (int id = 0; id < PYR_SETTINGS; id++) {
        const pyr_setting *setting = pyr_setting_get((pyr_setting_id)id);
        char variable[PYR_LIMIT_SETTING_SOURCE];
        assert_true(snprintf(variable, sizeof variable, PYR_SETTING_PREFIX "%s", setting->name) <
                    (int)sizeof variable);
        check_variable((pyr_setting_id)id, variable);
        for (const char *rest = setting->aliases; *rest != '\0';) {
            size_t length = strcspn(rest, " ");
            assert_in_range(length, 1, PYR_LIMIT_SETTING_SOURCE - 1);
            snprintf(variable, sizeof variable, "%.*s", (int)length, rest);
            check_variable((pyr_setting_id)id, variable);
            rest += length + (rest[length] == ' ' ? 1 : 0);
        }
    }
}

/* Every variable that ddtrace's profiler has, but for those of its own build: it is a setting here,
 * or it is said to have no effect. */
static void test_every_variable_of_ddtrace_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        int id; /* -1: no effect */
    } cases[] = {
        {"DD_PROFILING_ENABLED", PYR_SETTING_ENABLED},
        {"DD_PROFILING_AGENTLESS", PYR_SETTING_AGENTLESS},
        {"DD_PROFILING_ENABLE_CODE_PROVENANCE", PYR_SETTING_ENABLE_CODE_PROVENANCE},
        {"DD_PROFILING_ENDPOINT_COLLECTION_ENABLED", -1},
        {"DD_PROFILING_OUTPUT_PPROF", PYR_SETTING_OUTPUT_PPROF},
        {"DD_PROFILING_UPLOAD_INTERVAL", PYR_SETTING_UPLOAD_INTERVAL},
        {"DD_PROFILING_CAPTURE_PCT", PYR_SETTING_PROCESS_PCT},
        {"DD_PROFILING_MAX_FRAMES", PYR_SETTING_MAX_FRAMES},
        {"DD_PROFILING_IGNORE_PROFILER", -1},
        {"DD_PROFILING_MAX_TIME_USAGE_PCT", PYR_SETTING_OVERHEAD_PCT},
        {"DD_PROFILING_API_TIMEOUT_MS", PYR_SETTING_API_TIMEOUT_MS},
        {"DD_PROFILING_TIMELINE_ENABLED", PYR_SETTING_TIMELINE_ENABLED},
        {"DD_PROFILING_TAGS", PYR_SETTING_TAGS},
        {"DD_PROFILING_ENABLE_ASSERTS", -1},
        {"DD_PROFILING_SAMPLE_POOL_CAPACITY", -1},
        {"DD_PROFILING_STACK_ENABLED", PYR_SETTING_STACK_ENABLED},
        {"DD_PROFILING_STACK_UVLOOP", -1},
        {"DD_PROFILING_STACK_NATIVE_FRAMES", -1},
        {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_ENABLED", -1},
        {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_TARGET_OVERHEAD", PYR_SETTING_OVERHEAD_PCT},
        {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_MAX_INTERVAL_US", -1},
        {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_BASELINE", -1},
        {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_P_STABLE_WINDOW_S", -1},
        {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_P_STABLE_PERCENTILE", -1},
        {"_DD_PROFILING_STACK_MAX_THREADS", -1},
        {"_DD_PROFILING_STACK_MAX_TASKS", -1},
        {"_DD_PROFILING_STACK_FAST_COPY", -1},
        {"DD_PROFILING_LOCK_ENABLED", PYR_SETTING_LOCK_ENABLED},
        {"DD_PROFILING_LOCK_NAME_INSPECT_DIR", -1},
        {"DD_PROFILING_LOCK_EXCLUDE_MODULES", PYR_SETTING_LOCK_EXCLUDE_MODULES},
        {"DD_PROFILING_MEMORY_ENABLED", PYR_SETTING_MEMORY_ENABLED},
        {"DD_PROFILING_MEMORY_EVENTS_BUFFER", -1},
        {"DD_PROFILING_MEMORY_MEM_DOMAIN_ENABLED", -1},
        {"DD_PROFILING_HEAP_ENABLED", PYR_SETTING_HEAP_ENABLED},
        {"DD_PROFILING_HEAP_SAMPLE_SIZE", PYR_SETTING_HEAP_SAMPLE_SIZE},
        {"DD_PROFILING_NATIVE_HEAP_ENABLED", PYR_SETTING_NATIVE_HEAP_ENABLED},
        {"DD_HEAP_SAMPLING_ENABLED", PYR_SETTING_NATIVE_HEAP_ENABLED},
        {"DD_PROFILING_PYTORCH_ENABLED", PYR_SETTING_PYTORCH_ENABLED},
        {"DD_PROFILING_PYTORCH_EVENTS_LIMIT", PYR_SETTING_PYTORCH_EVENTS_LIMIT},
        {"DD_PROFILING_PYTORCH_MAX_FRAMES", -1},
        {"DD_PROFILING_EXCEPTION_ENABLED", PYR_SETTING_EXCEPTION_ENABLED},
        {"DD_PROFILING_EXCEPTION_SAMPLING_INTERVAL", PYR_SETTING_EXCEPTION_SAMPLING_INTERVAL},
        {"DD_PROFILING_EXCEPTION_COLLECT_MESSAGE", PYR_SETTING_EXCEPTION_COLLECT_MESSAGE},
        {"DD_PROFILING_NATIVE_TESTS", -1},
        {"DD_PROFILING_NATIVE_HEAP_TEST_SUPPORT", -1},
        {"DD_PROFILING_MEMALLOC_ASSERT_ON_REENTRY", -1},
        {"DD_PROFILING_FILE_PATH", -1},
        {"DD_PROFILING_UVLOOP", -1},
        {"DD_PROFILING_NATIVE_FRAMES", -1},
        {"DD_PROFILING_NAME_INSPECT_DIR", -1},
        {"DD_PROFILING_SAMPLE_SIZE", PYR_SETTING_HEAP_SAMPLE_SIZE},
        {"DD_PROFILING_SAMPLING_INTERVAL", PYR_SETTING_SAMPLING_INTERVAL},
        {"DD_PROFILING_COLLECT_MESSAGE", PYR_SETTING_EXCEPTION_COLLECT_MESSAGE},
        {"DD_PROFILING_EVENTS_BUFFER", -1},
        {"DD_PROFILING_EVENTS_LIMIT", PYR_SETTING_PYTORCH_EVENTS_LIMIT},
        {"DD_PROFILING_API_URL", -1},
        {"DD_PROFILING_API_KEY", -1},
        {"DD_PROFILING_API_TIMEOUT", -1},
        {"DD_PROFILING_MAX_EVENTS", -1},
        {"DD_PROFILING_STACK_V2_ENABLED", -1},
        {"DD_PROFILING_EXPORT_LIBDD_ENABLED", -1},
        {"DD_PROFILING_MEMALLOC", -1},
        {"DD_SERVICE", PYR_SETTING_SERVICE},
        {"DD_ENV", PYR_SETTING_ENV},
        {"DD_VERSION", PYR_SETTING_VERSION},
        {"DD_TAGS", PYR_SETTING_TAGS},
        {"DD_TRACE_AGENT_URL", PYR_SETTING_URL},
        {"DD_AGENT_HOST", PYR_SETTING_AGENT_HOST},
        {"DD_API_KEY", PYR_SETTING_API_KEY},
        {"DD_SITE", PYR_SETTING_SITE},
        {"DD_GIT_REPOSITORY_URL", PYR_SETTING_GIT_REPOSITORY_URL},
        {"DD_GIT_COMMIT_SHA", PYR_SETTING_GIT_COMMIT_SHA},
        {"AWS_LAMBDA_FUNCTION_NAME", PYR_SETTING_FUNCTION_NAME},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        pyr_settings settings;
        warnings noted;
        const char *variable = cases[index].variable;
        bool is_setting = cases[index].id >= 0;
        pyr_setting_id id = (pyr_setting_id)(is_setting ? cases[index].id : 0);
        read_one(&settings, variable, is_setting ? good_value(id) : "1", &noted);
        if (is_setting) {
            assert_int_equal(noted.count, 0);
            assert_string_equal(settings.states[id].source, variable);
        } else {
            char beginning[120];
            snprintf(beginning, sizeof beginning, "%s has no effect: ", variable);
            assert_int_equal(noted.count, 1);
            assert_memory_equal(noted.last, beginning, strlen(beginning));
        }
        pyr_settings_fini(&settings);
    }
    pyr_settings settings;
    warnings noted;
    read_one(&settings, "DD_PROFILING_ENABLE_ASSERTS", "false", &noted); /* as it is here */
    assert_int_equal(noted.count, 0);
    read_one(&settings, "DD_PROFILING_MAX_FRAME", "1", &noted);
    assert_string_equal(noted.last, "there is no setting DD_PROFILING_MAX_FRAME; did you mean "
                                    "DD_PROFILING_MAX_FRAMES?");
    /* Ours has no variable of that name at Datadog's: no such hint. */
    read_one(&settings, "DD_PROFILING_SPOOL_DIRR", "1", &noted);
    assert_string_equal(noted.last, "there is no setting DD_PROFILING_SPOOL_DIRR; it is ignored");
    pyr_settings_fini(&settings);
}

static void test_false_always_wins(void **state)
{
    (void)state;
    static const char *const words[] = {NULL, "true", "false"};
    /* file, variable, argument */
    for (size_t row = 0; row < 27; row++) {
        const char *file = words[row / 9];
        const char *variable = words[row / 3 % 3];
        const char *argument = words[row % 3];
        bool is_off = row / 9 == 2 || row / 3 % 3 == 2 || row % 3 == 2;
        warnings noted = {0};
        pyr_settings_warn warn = {note, &noted};
        pyr_settings settings;
        char entry[64];
        snprintf(entry, sizeof entry, "PYROMETER_ENABLED=%s", variable != NULL ? variable : "");
        char *environment[] = {entry, NULL};
        pyr_settings_init(&settings);
        if (file != NULL) {
            pyr_settings_set_named(&settings, "enabled", file, PYR_SETTINGS_FILE, warn);
        }
        pyr_settings_read(&settings, environment, warn);
        if (argument != NULL) {
            pyr_settings_set_named(&settings, "enabled", argument, "argument", warn);
        }
        assert_int_equal(pyr_settings_bool(&settings, PYR_SETTING_ENABLED), !is_off);
        assert_int_equal(noted.count, 0);
        pyr_settings_fini(&settings);
    }
}

static void test_tags_add_up(void **state)
{
    (void)state;
    warnings noted = {0};
    pyr_settings_warn warn = {note, &noted};
    pyr_settings settings;
    pyr_settings_init(&settings);
    pyr_settings_set_named(&settings, "tags", "from:file,a:file", PYR_SETTINGS_FILE, warn);
    char *environment[] = {
        "DD_TAGS=a:dd b:dd env:prod", "DD_PROFILING_TAGS=b:profiling,c:profiling",
        "PYROMETER_TAGS=c:ours",
        "OTEL_RESOURCE_ATTRIBUTES=b=otel,team=a%2Cb%20c,service.name=shop,service.version=3,"
        "deployment.environment=test",
        NULL};
    pyr_settings_read(&settings, environment, warn);
    pyr_settings_set_named(&settings, "tags", "d:argument", "argument", warn);
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_TAGS),
                        "d:argument,c:ours,b:profiling,a:dd,env:prod,team:a_b c,service.name:shop,"
                        "service.version:3,deployment.environment:test,from:file");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_SERVICE), "shop");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_VERSION), "3");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_ENV), "prod");
    assert_string_equal(settings.states[PYR_SETTING_ENV].source, "DD_TAGS");
    assert_string_equal(settings.states[PYR_SETTING_SERVICE].source, "OTEL_RESOURCE_ATTRIBUTES");
    assert_int_equal(noted.count, 0);
    pyr_settings_fini(&settings);

    /* A name of its own is stronger than an attribute or a tag. */
    char *stronger[] = {"OTEL_SERVICE_NAME=name", "OTEL_RESOURCE_ATTRIBUTES=service.name=shop",
                        "DD_ENV=one", "DD_TAGS=env:two", NULL};
    pyr_settings_init(&settings);
    pyr_settings_read(&settings, stronger, warn);
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_SERVICE), "name");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_ENV), "one");
    pyr_settings_fini(&settings);

    /* Attributes that are too long lose whole tags. */
    static char attributes[9000] = "OTEL_RESOURCE_ATTRIBUTES=a=1,b=";
    memset(attributes + strlen(attributes), 'x', sizeof attributes - 1 - strlen(attributes));
    char *too_long[] = {attributes, NULL};
    pyr_settings_init(&settings);
    pyr_settings_read(&settings, too_long, warn);
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_TAGS), "a:1");
    pyr_settings_fini(&settings);

    /* Blanks within a value are no end of it; what is too long is cut at a tag. */
    char *odd[] = {"DD_TAGS=team:blue sky", "OTEL_RESOURCE_ATTRIBUTES=%,=,==,a=%zz,%00=b", NULL};
    pyr_settings_init(&settings);
    pyr_settings_read(&settings, odd, warn);
    assert_non_null(strstr(pyr_settings_text(&settings, PYR_SETTING_TAGS), "team:blue sky,"));
    char long_tag[3000] = "";
    memset(long_tag, 'x', sizeof long_tag - 1);
    pyr_settings_set_named(&settings, "tags", long_tag, "argument", warn);
    long_tag[0] = 'y';
    pyr_settings_set_named(&settings, "tags", long_tag, "argument", warn);
    const char *tags = pyr_settings_text(&settings, PYR_SETTING_TAGS);
    assert_true(strlen(tags) <= PYR_LIMIT_SETTING_BYTES);
    assert_true(tags[0] == 'y' && strstr(tags, "team:blue sky") != NULL);
    assert_null(strstr(tags, ",xx"));
    pyr_settings_fini(&settings);
}

/* A file of variables with ends of lines of Windows, a secret that was written with `echo`. */
static void test_blanks_around_a_value_do_not_count(void **state)
{
    (void)state;
    char *environment[] = {"DD_API_KEY=key\r\n", "DD_SERVICE= my shop \t", "DD_TAGS=a:b,c:d e\r",
                           "PYROMETER_MAX_FRAMES= 7\r", NULL};
    pyr_settings settings;
    pyr_settings_init(&settings);
    pyr_settings_read(&settings, environment, (pyr_settings_warn){NULL, NULL});
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_API_KEY), "key");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_SERVICE), "my shop");
    assert_string_equal(pyr_settings_text(&settings, PYR_SETTING_TAGS), "a:b,c:d e");
    assert_int_equal(pyr_settings_integer(&settings, PYR_SETTING_MAX_FRAMES), 7);
    pyr_settings_fini(&settings);
}

static void test_secrets_are_masked(void **state)
{
    (void)state;
    static const char SECRET_TEXT[] = "hunter2";
    warnings noted = {0};
    pyr_settings_warn warn = {note, &noted};
    pyr_settings settings;
    char *environment[] = {
        "DD_API_KEY=hunter2",
        "PYROMETER_HTTP_HEADERS=authorization:hunter2",
        "HTTPS_PROXY=me:hunter2@proxy:3128",
        "DD_TRACE_AGENT_URL=http://a:8126,https://me:p@hunter2@b/x@y,u:hunter2@c",
        "DD_AGENT_HOST=me:hunter2@host",
        "DD_SITE=hunter2@site",
        "DD_GIT_REPOSITORY_URL=https://hunter2@host/repository",
        NULL};
    pyr_settings_init(&settings);
    pyr_settings_read(&settings, environment, warn);
    static pyr_facts facts;
    facts.count = 0;
    pyr_settings_facts(&settings, &facts, true);
    assert_int_equal(facts.count, 2 * 7);
    for (size_t row = 0; row < facts.count; row++) {
        assert_null(strstr(facts.rows[row].text, SECRET_TEXT));
    }
    char shown[PYR_LIMIT_SHOWN_BYTES];
    for (int id = 0; id < PYR_SETTINGS; id++) {
        pyr_settings_show(&settings, (pyr_setting_id)id, shown);
        assert_null(strstr(shown, SECRET_TEXT));
    }
    pyr_settings_show(&settings, PYR_SETTING_URL, shown);
    assert_string_equal(shown, "http://a:8126,https://***@b/x@y,***@c");
    pyr_settings_show(&settings, PYR_SETTING_AGENT_HOST, shown);
    assert_string_equal(shown, "***@host");
    pyr_settings_show(&settings, PYR_SETTING_API_KEY, shown);
    assert_string_equal(shown, "***");
    /* Nor does a warning say them. */
    char big[PYR_LIMIT_SETTING_BYTES + 100];
    memset(big, 'k', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    pyr_settings_set(&settings, PYR_SETTING_API_KEY, big, "argument", warn);
    assert_int_equal(noted.count, 1);
    assert_null(strstr(noted.last, "kkk"));
    assert_null(strstr(noted.last, SECRET_TEXT));
    pyr_settings_fini(&settings);
}

static void test_settings_of_collectors_that_are_not_there(void **state)
{
    (void)state;
    warnings noted = {0};
    pyr_settings_warn warn = {note, &noted};
    pyr_settings settings;
    pyr_settings_init(&settings);
    pyr_settings_warn_of_effects(&settings, warn);
    assert_int_equal(noted.count, 0); /* nobody asked */
    assert_null(pyr_setting_without_effect(PYR_SETTING_STACK_ENABLED));
    char *environment[] = {"DD_PROFILING_PYTORCH_ENABLED=1", "DD_PROFILING_LOCK_ENABLED=false",
                           NULL};
    pyr_settings_read(&settings, environment, warn);
    pyr_settings_warn_of_effects(&settings, warn);
    if (pyr_setting_without_effect(PYR_SETTING_PYTORCH_ENABLED) != NULL) {
        assert_int_equal(noted.count, 1);
        assert_string_equal(noted.last, "PYTORCH_ENABLED (DD_PROFILING_PYTORCH_ENABLED) has no "
                                        "effect: this version does not have the PyTorch collector");
    } else {
        assert_int_equal(noted.count, 0);
    }
    pyr_settings_fini(&settings);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    warnings noted = {0};
    pyr_settings_warn warn = {note, &noted};
    pyr_settings settings;
    pyr_settings_init(&settings);
    pyr_memory_fail_at(1);
    pyr_settings_set(&settings, PYR_SETTING_MAX_FRAMES, "7", "test", warn);
    pyr_memory_fail_at(0);
    assert_int_equal(noted.count, 1);
    assert_int_equal(pyr_settings_integer(&settings, PYR_SETTING_MAX_FRAMES), 64);
    pyr_settings_set(&settings, PYR_SETTING_MAX_FRAMES, "7", "test", warn);
    pyr_settings_set(&settings, PYR_SETTING_SERVICE, "web", "test", warn);
    for (size_t nth = 1; nth <= 2; nth++) {
        pyr_settings copy;
        pyr_memory_fail_at(nth);
        assert_int_equal(pyr_settings_copy(&copy, &settings), PYR_ENOMEM);
        pyr_memory_fail_at(0);
        pyr_settings_fini(&copy);
    }
    pyr_settings_fini(&settings);
}

/* The page of the user guide is the table; run with PYR_WRITE_DOCS=1 to renew it. */
static void test_document_is_current(void **state)
{
    (void)state;
    pyr_buffer page;
    pyr_buffer_init(&page, 1 << 20);
    assert_int_equal(pyr_settings_document(&page), PYR_OK);
    const char *path = PYR_TESTS_FOLDER "/../docs/settings.md";
    if (getenv("PYR_WRITE_DOCS") != NULL) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(fwrite(page.data, 1, page.length, out), page.length);
        fclose(out);
    }
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    uint8_t *bytes = calloc(page.length + 2, 1);
    assert_int_equal(fread(bytes, 1, page.length + 1, in), page.length);
    assert_memory_equal(bytes, page.data, page.length);
    fclose(in);
    free(bytes);
    pyr_buffer_fini(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_sound),
        cmocka_unit_test(test_good_values),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_order_of_sources),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_every_name_once_valid_once_wrong),
        cmocka_unit_test(test_every_variable_of_ddtrace_is_known),
        cmocka_unit_test(test_false_always_wins),
        cmocka_unit_test(test_tags_add_up),
        cmocka_unit_test(test_blanks_around_a_value_do_not_count),
        cmocka_unit_test(test_secrets_are_masked),
        cmocka_unit_test(test_settings_of_collectors_that_are_not_there),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_document_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
