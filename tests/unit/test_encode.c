/* Unit tests of encode/: a window becomes a profile that says the same, and a document of its
 * facts; failures leave nothing behind. Profiles are read back with the parser. More than 600
 * lines, because all tests share one recorder and the reader of what it gave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/memory.h"
#include "encode/encode.h"
#include "pprof/parser.h"

static pyr_symbols *symbols;
static pyr_recorder *recorder;
static pyr_buffer out;

static int set_up(void **state)
{
    (void)state;
    symbols = pyr_symbols_new();
    recorder = pyr_recorder_new(1 << 22, symbols);
    pyr_buffer_init(&out, 1 << 24);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_buffer_fini(&out);
    pyr_recorder_free(recorder);
    pyr_symbols_release(symbols);
    return 0;
}

static uint32_t intern(const char *text)
{
    return pyr_symbols_string(symbols, text, strlen(text));
}

static uint32_t function(const char *name, const char *file, int line)
{
    return pyr_symbols_function(symbols, name, strlen(name), file, strlen(file), line);
}

static void add(const pyr_sample *sample)
{
    pyr_sink sink = pyr_recorder_sink(recorder);
    assert_int_equal(sink.add(sink.context, sample), PYR_OK);
}

/* Three samples of two threads, the last one cut. */
static void add_three(int with_end)
{
    pyr_frame frames[] = {{function("Thing.work", "thing.py", 10), 12},
                          {function("main", "main.py", 1), 3}};
    pyr_label labels[] = {
        {.key = PYR_LABEL_THREAD_ID, .number = 140000000000001},
        {.key = PYR_LABEL_THREAD_NATIVE_ID, .number = 77},
        {.key = PYR_LABEL_THREAD_NAME, .text = intern("worker \xC3\xA4")},
        {.key = PYR_LABEL_STATE, .text = intern(pyr_state_name(PYR_STATE_ON_CPU))},
    };
    pyr_sample sample = {
        .kind = PYR_SAMPLE_KIND_STACK,
        .frames = frames,
        .frame_count = 2,
        .labels = labels,
        .label_count = 4,
        .values = {10240, 1, 20480, 1},
        .end_ns = with_end ? 5000000000 : 0,
    };
    add(&sample);
    sample.end_ns = with_end ? 6000000000 : 0;
    sample.values[0] = 5120;
    add(&sample);
    frames[0].line = 13;
    sample.omitted = 1;
    sample.label_count = 2;
    sample.values[0] = 0;
    sample.values[1] = 0;
    sample.end_ns = with_end ? 7000000000 : 0;
    add(&sample);
}

static pyr_window *rotate(void)
{
    pyr_window *window;
    assert_int_equal(pyr_recorder_rotate(recorder, symbols, &window), PYR_OK);
    return window;
}

static const pyr_encode_options timeline = {
    .compression = PYR_PPROF_GZIP,
    .timeline = 1,
    .period_ns = 10000000,
    .executable = "/usr/bin/python3",
};

static pyr_profile *encode_and_parse(const pyr_window *window, const pyr_encode_options *options)
{
    pyr_profile *profile = NULL;
    pyr_parse_error error;
    pyr_buffer_clear(&out);
    assert_int_equal(pyr_encode_pprof(window, options, &out), PYR_OK);
    assert_int_equal(pyr_profile_parse(out.data, out.length, 1 << 24, &profile, &error), PYR_OK);
    return profile;
}

static const char *text_of(const pyr_profile *profile, uint32_t string)
{
    return profile->strings[string].data;
}

static void check_frame(const pyr_profile *profile, const pyr_profile_sample *sample, size_t at,
                        const char *name, const char *file, int64_t line)
{
    assert_true(at < sample->frame_count);
    const pyr_profile_frame *frame =
        &profile->frames[profile->stack_frames[sample->frame_start + at]];
    const pyr_profile_function *own = &profile->functions[frame->function];
    assert_string_equal(text_of(profile, own->name), name);
    assert_string_equal(text_of(profile, own->file), file);
    assert_int_equal(frame->line, line);
}

static int64_t number_of(const pyr_profile *profile, const pyr_profile_sample *sample,
                         const char *key)
{
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, key);
    assert_non_null(label);
    return label->number;
}

/* Times of a timeline stand on this grid. */
static int64_t on_grid(int64_t time_ns)
{
    return time_ns / 1024 * 1024;
}

/* The sample with this end. */
static const pyr_profile_sample *find_sample(const pyr_profile *profile, int64_t end_ns)
{
    for (size_t i = 0; i < profile->sample_count; i++) {
        if (number_of(profile, &profile->samples[i], "end_timestamp_ns") == on_grid(end_ns)) {
            return &profile->samples[i];
        }
    }
    fail_msg("no sample ends at %lld", (long long)end_ns);
    return NULL;
}

/* What the program said becomes a label each; what is not of that form is left out. */
static void test_program_labels(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t labels;
    } sets[] = {
        {"route\x1F/cart", 1},
        {"a\x1F"
         "1\x1E"
         "b\x1F"
         "2\x1Eroute\x1F/cart",
         3},
        {"route", 0},
        {"\x1Fvalue\x1Eroute\x1F", 0},
        {"\x1E\x1E\x1F\x1Eroute\x1F/cart", 1},
        {"k0\x1Fv\x1Ek1\x1Fv\x1Ek2\x1Fv\x1Ek3\x1Fv\x1Ek4\x1Fv\x1Ek5\x1Fv\x1Ek6\x1Fv\x1Ek7\x1Fv\x1E"
         "k8\x1Fv\x1Ek9\x1Fv\x1Ekq\x1Fv\x1Ekr\x1Fv\x1Eks\x1Fv\x1Ekt\x1Fv\x1Eku\x1Fv\x1Ekv\x1Fv\x1E"
         "kw\x1Fv",
         PYR_LIMIT_PROGRAM_LABELS},
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        pyr_frame frame = {function("f", "f.py", 1), 2};
        pyr_label labels[] = {
            {.key = PYR_LABEL_PROGRAM, .text = intern(sets[i].text)},
            {.key = PYR_LABEL_THREAD_NATIVE_ID, .number = 77},
        };
        pyr_sample sample = {.kind = PYR_SAMPLE_KIND_STACK,
                             .frames = &frame,
                             .frame_count = 1,
                             .labels = labels,
                             .label_count = 2,
                             .values = {10240, 1, 20480, 1}};
        add(&sample);
        pyr_window *window = rotate();
        pyr_profile *profile = encode_and_parse(window, &timeline);
        assert_int_equal(profile->sample_count, 1);
        const pyr_profile_sample *read = &profile->samples[0];
        assert_int_equal(read->label_count, sets[i].labels + 1);
        assert_int_equal(number_of(profile, read, "thread native id"), 77);
        const pyr_profile_label *route = pyr_profile_find_label(profile, read, "route");
        if (route) {
            assert_string_equal(text_of(profile, route->text), "/cart");
        }
        pyr_profile_free(profile);
        pyr_window_free(window);
    }
}

static void test_with_timeline(void **state)
{
    (void)state;
    add_three(1);
    pyr_window *window = rotate();
    pyr_profile *profile = encode_and_parse(window, &timeline);
    int64_t offset_ns = pyr_window_epoch_offset_ns(window);

    assert_int_equal(profile->type_count, PYR_SAMPLE_TYPES);
    for (int i = 0; i < PYR_SAMPLE_TYPES; i++) {
        assert_string_equal(text_of(profile, profile->types[i].type),
                            pyr_sample_type_name((pyr_sample_type)i));
        assert_string_equal(text_of(profile, profile->types[i].unit),
                            pyr_sample_type_unit((pyr_sample_type)i));
    }
    assert_string_equal(text_of(profile, profile->default_type), "cpu-time");
    assert_string_equal(text_of(profile, profile->period_type.type), "cpu-time");
    assert_int_equal(profile->period, 10000000);
    assert_string_equal(text_of(profile, profile->main_binary), "/usr/bin/python3");
    assert_int_equal(profile->time_ns, pyr_window_start_ns(window) + offset_ns);
    assert_int_equal(profile->duration_ns, pyr_window_end_ns(window) - pyr_window_start_ns(window));
    assert_int_equal(profile->comment_count, 1);
    assert_string_equal(text_of(profile, profile->comments[0]), "pyrometer " PYR_VERSION);

    assert_int_equal(profile->sample_count, 3);
    const pyr_profile_sample *sample = find_sample(profile, 6000000000 + offset_ns);
    assert_int_equal(sample->frame_count, 2);
    check_frame(profile, sample, 0, "Thing.work", "thing.py", 12);
    check_frame(profile, sample, 1, "main", "main.py", 3);
    static const int64_t values[] = {5120, 1, 20480, 1};
    assert_memory_equal(profile->values + sample->value_start, values, sizeof values);
    assert_int_equal(number_of(profile, sample, "thread id"), 140000000000001);
    assert_int_equal(number_of(profile, sample, "thread native id"), 77);
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, "thread name");
    assert_string_equal(text_of(profile, label->text), "worker \xC3\xA4");
    label = pyr_profile_find_label(profile, sample, "state");
    assert_string_equal(text_of(profile, label->text), "on-cpu");

    sample = find_sample(profile, 7000000000 + offset_ns);
    assert_int_equal(sample->frame_count, 3);
    check_frame(profile, sample, 0, "Thing.work", "thing.py", 13);
    check_frame(profile, sample, 2, "<1 frame omitted>", "", 0);
    assert_null(pyr_profile_find_label(profile, sample, "state"));
    pyr_profile_free(profile);
    pyr_window_free(window);
}

/* Samples that follow each other on two threads: sums survive the grid. */
static void test_rounding_keeps_sums(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    int64_t end_ns[2] = {7000000123, 7000000123}, cpu_sum = 0, wall_sum[2] = {0};
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t thread = i % 3 == 0;
        pyr_label label = {.key = PYR_LABEL_THREAD_ID, .number = thread};
        pyr_sample sample = {
            .kind = PYR_SAMPLE_KIND_STACK,
            .labels = &label,
            .label_count = 1,
            .values = {i % 4 == 0 ? 0 : i * 7919 % 3000, 1, i * 104729 % 5000 + 1, 1},
        };
        end_ns[thread] += sample.values[2];
        sample.end_ns = end_ns[thread];
        cpu_sum += sample.values[0];
        wall_sum[thread] += sample.values[2];
        add(&sample);
    }
    pyr_window *window = rotate();
    pyr_profile *profile = encode_and_parse(window, &timeline);
    assert_int_equal(profile->sample_count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const pyr_profile_sample *sample = &profile->samples[i];
        const int64_t *values = profile->values + sample->value_start;
        assert_int_equal(values[0] % 1024, 0);
        assert_int_equal(values[2] % 1024, 0);
        assert_true(i % 4 != 0 || values[0] == 0); /* none to those who used none */
        cpu_sum -= values[0];
        wall_sum[number_of(profile, sample, "thread id")] -= values[2];
        assert_int_equal(number_of(profile, sample, "end_timestamp_ns") % 1024, 0);
    }
    assert_in_range(cpu_sum, 0, 1023);
    assert_in_range(wall_sum[0] + 1023, 0, 2046);
    assert_in_range(wall_sum[1] + 1023, 0, 2046);
    pyr_profile_free(profile);
    pyr_window_free(window);
}

static void test_without_timeline(void **state)
{
    (void)state;
    add_three(0);
    pyr_window *window = rotate();
    pyr_encode_options options = timeline;
    options.timeline = 0;
    options.executable = NULL;
    options.compression = PYR_PPROF_ZSTD;
    pyr_profile *profile = encode_and_parse(window, &options);
    assert_int_equal(profile->sample_count, 2);
    int64_t sum = 0;
    for (size_t i = 0; i < 2; i++) {
        const pyr_profile_sample *sample = &profile->samples[i];
        assert_null(pyr_profile_find_label(profile, sample, "end_timestamp_ns"));
        sum += profile->values[sample->value_start];
    }
    assert_int_equal(sum, 15360);
    pyr_profile_free(profile);
    pyr_window_free(window);
}

/* A profile has the sample types of the collectors that are on, and no others. */
static void test_types_of_some_kinds(void **state)
{
    (void)state;
    pyr_sink sink = pyr_recorder_sink(recorder);
    const pyr_sample raised = {.kind = PYR_SAMPLE_KIND_EXCEPTION, .values = {7}};
    const pyr_sample pause = {.kind = PYR_SAMPLE_KIND_GC, .values = {5000, 1, 9}};
    assert_int_equal(sink.add(sink.context, &raised), PYR_OK);
    assert_int_equal(sink.add(sink.context, &pause), PYR_OK);
    pyr_window *window = rotate();
    pyr_encode_options options = timeline;
    options.kinds = PYR_SAMPLE_KIND_BIT(EXCEPTION) | PYR_SAMPLE_KIND_BIT(GC);
    pyr_profile *profile = encode_and_parse(window, &options);
    assert_int_equal(profile->type_count, 4);
    assert_string_equal(text_of(profile, profile->types[0].type), "exception-samples");
    assert_string_equal(text_of(profile, profile->types[1].type), "gc-time");
    assert_string_equal(text_of(profile, profile->types[2].type), "gc-count");
    assert_string_equal(text_of(profile, profile->default_type), "exception-samples");
    int64_t sums[4] = {0};
    for (size_t i = 0; i < profile->sample_count; i++) {
        for (size_t k = 0; k < 4; k++) {
            sums[k] += profile->values[profile->samples[i].value_start + k];
        }
    }
    assert_int_equal(sums[0], 7);
    assert_int_equal(sums[1], 5000);
    assert_int_equal(sums[2], 1);
    assert_int_equal(sums[3], 9);
    pyr_profile_free(profile);
    pyr_window_free(window);
}

/* What a hook samples before its thread's name is known gets it from the thread's other samples. */
static void test_names_of_threads_that_came_later(void **state)
{
    (void)state;
    pyr_sink sink = pyr_recorder_sink(recorder);
    uint32_t name = pyr_symbols_string(symbols, "worker", 6);
    pyr_label labels[] = {{.key = PYR_LABEL_THREAD_ID, .number = 77},
                          {.key = PYR_LABEL_THREAD_NAME, .text = 0},
                          {.key = PYR_LABEL_THREAD_NATIVE_ID, .number = 7}};
    const pyr_sample sample = {
        .kind = PYR_SAMPLE_KIND_EXCEPTION, .labels = labels, .label_count = 3, .values = {1}};
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    labels[1].text = name;
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    labels[0].number = 88; /* never named */
    labels[2].number = 8;
    labels[1].text = 0;
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    pyr_window *window = rotate();
    pyr_profile *profile = encode_and_parse(window, &timeline);
    assert_int_equal(profile->sample_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const pyr_profile_sample *read = &profile->samples[i];
        const pyr_profile_label *label = pyr_profile_find_label(profile, read, "thread name");
        assert_non_null(label);
        assert_string_equal(text_of(profile, label->text),
                            number_of(profile, read, "thread id") == 77 ? "worker" : "88");
    }
    pyr_profile_free(profile);
    pyr_window_free(window);
}

static void test_an_empty_window(void **state)
{
    (void)state;
    pyr_window *window = rotate();
    pyr_profile *profile = encode_and_parse(window, &timeline);
    assert_int_equal(profile->sample_count, 0);
    assert_int_equal(profile->type_count, PYR_SAMPLE_TYPES);
    pyr_profile_free(profile);
    pyr_window_free(window);
}

static void test_losses_stand_in_comments(void **state)
{
    (void)state;
    pyr_sink sink = pyr_recorder_sink(recorder);
    sink.lose(sink.context, PYR_LOSS_TORN_STACK, 12);
    sink.lose(sink.context, PYR_LOSS_WINDOW_DROPPED, 1);
    pyr_window *window = rotate();
    pyr_profile *profile = encode_and_parse(window, &timeline);
    assert_int_equal(profile->comment_count, 3);
    assert_string_equal(text_of(profile, profile->comments[1]),
                        "lost 12: stacks that moved in every attempt to read them (torn-stack)");
    pyr_profile_free(profile);
    pyr_window_free(window);
}

static void test_hostile_windows(void **state)
{
    (void)state;
    /* Deepest stack, most labels, unknown ids, labels of no kind, a thread id of 0. */
    static pyr_frame frames[PYR_LIMIT_FRAMES];
    pyr_label labels[PYR_LIMIT_LABELS] = {{.key = PYR_LABEL_THREAD_ID, .number = 0}};
    for (uint32_t i = 1; i < PYR_LIMIT_LABELS; i++) {
        labels[i] = (pyr_label){.key = (pyr_label_key)(i % 7), .text = i * 1000, .number = -1};
    }
    for (uint32_t i = 0; i < PYR_LIMIT_FRAMES; i++) {
        frames[i] = (pyr_frame){UINT32_MAX - i, UINT32_MAX};
    }
    pyr_sample sample = {
        .kind = PYR_SAMPLE_KIND_STACK,
        .frames = frames,
        .frame_count = PYR_LIMIT_FRAMES,
        .omitted = UINT32_MAX,
        .labels = labels,
        .label_count = PYR_LIMIT_LABELS,
        .values = {INT64_MAX, 0, INT64_MAX, 0},
        .end_ns = 1,
    };
    add(&sample);
    pyr_window *window = rotate();
    pyr_profile *profile = encode_and_parse(window, &timeline);
    assert_int_equal(profile->sample_count, 1);
    assert_int_equal(profile->samples[0].frame_count, PYR_LIMIT_FRAMES + 1);
    check_frame(profile, &profile->samples[0], 0, "<symbol table full>", "", UINT32_MAX);
    check_frame(profile, &profile->samples[0], PYR_LIMIT_FRAMES, "<4294967295 frames omitted>", "",
                0);
    assert_int_equal(number_of(profile, &profile->samples[0], "thread id"), 0);
    pyr_profile_free(profile);
    pyr_window_free(window);
}

static void test_a_bounded_buffer(void **state)
{
    (void)state;
    add_three(1);
    pyr_window *window = rotate();
    pyr_buffer small;
    pyr_buffer_init(&small, 100);
    assert_int_equal(pyr_encode_pprof(window, &timeline, &small), PYR_ETOOBIG);
    pyr_buffer_fini(&small);
    pyr_window_free(window);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    add_three(1);
    pyr_window *window = rotate();
    size_t before = pyr_memory_in_use();
    int failed = 1;
    for (size_t nth = 1; failed; nth++) {
        pyr_buffer own;
        pyr_buffer_init(&own, 1 << 20);
        pyr_memory_fail_at(nth);
        pyr_status status = pyr_encode_pprof(window, &timeline, &own);
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        if (status == PYR_OK) { /* also where only a cache could not be kept */
            pyr_profile *profile = NULL;
            pyr_parse_error error;
            assert_int_equal(pyr_profile_parse(own.data, own.length, 1 << 24, &profile, &error),
                             PYR_OK);
            assert_int_equal(profile->sample_count, 3);
            pyr_profile_free(profile);
        } else {
            assert_int_equal(status, PYR_ENOMEM);
        }
        pyr_buffer_fini(&own);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    pyr_window_free(window);
}

/* ------------------------------------------------------------------------------- documents ---- */

static json_t *parse_json(void)
{
    json_error_t error;
    json_t *root = json_loadb((const char *)out.data, out.length, 0, &error);
    assert_non_null(root);
    return root;
}

/* The part of JSON Schema that docs/window.schema.json uses, bar patterns of names. */
static void check_schema(const json_t *rules, const json_t *value);

static void check_type(const json_t *type, const json_t *value)
{
    const char *name = json_string_value(type);
    int fits = (strcmp(name, "object") == 0 && json_is_object(value)) ||
               (strcmp(name, "string") == 0 && json_is_string(value)) ||
               (strcmp(name, "integer") == 0 && json_is_integer(value));
    assert_true(fits);
}

static void check_object(const json_t *rules, const json_t *value)
{
    size_t index;
    json_t *name, *inner;
    json_array_foreach(json_object_get(rules, "required"), index, name)
    {
        if (!json_object_get(value, json_string_value(name))) {
            fail_msg("%s is missing", json_string_value(name));
        }
    }
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        json_t *own = json_object_get(json_object_get(rules, "properties"), key);
        own = own ? own : json_object_get(rules, "additionalProperties");
        assert_non_null(own);
        check_schema(own, inner);
    }
}

static void check_schema(const json_t *rules, const json_t *value)
{
    if (json_object_get(rules, "$ref")) { /* there is one definition: any fact */
        assert_true(json_is_string(value) || json_is_number(value) || json_is_null(value));
        return;
    }
    const json_t *constant = json_object_get(rules, "const");
    assert_true(!constant || json_equal(constant, value));
    const json_t *type = json_object_get(rules, "type");
    if (type) {
        check_type(type, value);
    }
    const json_t *minimum = json_object_get(rules, "minimum");
    assert_true(!minimum || json_integer_value(value) >= json_integer_value(minimum));
    if (json_is_object(value)) {
        check_object(rules, value);
    }
}

static void test_document(void **state)
{
    (void)state;
    static pyr_facts facts;
    facts.count = 0;
    pyr_facts_add_text(&facts, "identity", "service", "caf\xC3\xA9 \"x\"");
    pyr_facts_add_integer(&facts, "identity", "pid", 4711);
    pyr_facts_add_real(&facts, "cost", "cpu_pct", 0.25);
    pyr_facts_add_real(&facts, "cost", "never", 1.0 / 0.0);
    pyr_facts_add_text(&facts, "settings", "broken", "\xFF");
    add_three(1);
    pyr_sink sink = pyr_recorder_sink(recorder);
    sink.lose(sink.context, PYR_LOSS_NO_ROOT, 3);
    pyr_window_free(rotate());
    add_three(1);
    sink.lose(sink.context, PYR_LOSS_NO_ROOT, 4);
    pyr_window *window = rotate();
    assert_int_equal(pyr_encode_document(window, &facts, &out), PYR_OK);
    json_t *root = parse_json();
    json_error_t error;
    json_t *schema = json_load_file(PYR_TESTS_FOLDER "/../docs/window.schema.json", 0, &error);
    assert_non_null(schema);
    check_schema(schema, root);
    json_decref(schema);
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    json_t *identity = json_object_get(root, "identity");
    assert_string_equal(json_string_value(json_object_get(identity, "service")),
                        "caf\xC3\xA9 \"x\"");
    assert_int_equal(json_integer_value(json_object_get(identity, "pid")), 4711);
    json_t *own = json_object_get(root, "window");
    assert_int_equal(json_integer_value(json_object_get(own, "sequence")), 1);
    assert_int_equal(json_integer_value(json_object_get(own, "samples")), 3);
    assert_true(json_integer_value(json_object_get(own, "end_ns")) -
                    json_integer_value(json_object_get(own, "start_ns")) ==
                pyr_window_end_ns(window) - pyr_window_start_ns(window));
    json_t *losses = json_object_get(root, "losses");
    assert_int_equal(json_object_size(losses), 1);
    assert_int_equal(json_integer_value(json_object_get(losses, "no-root")), 4);
    json_t *cost = json_object_get(root, "cost");
    assert_true(json_real_value(json_object_get(cost, "cpu_pct")) == 0.25);
    assert_true(json_is_null(json_object_get(cost, "never")));
    assert_true(json_is_object(json_object_get(root, "tick")));
    assert_true(json_is_object(json_object_get(root, "memory")));
    json_decref(root);
    pyr_buffer small;
    pyr_buffer_init(&small, 10);
    assert_int_equal(pyr_encode_document(window, &facts, &small), PYR_ETOOBIG);
    pyr_buffer_fini(&small);
    pyr_window_free(window);
}

static void test_facts_alone(void **state)
{
    (void)state;
    static pyr_facts facts;
    facts.count = 0;
    assert_int_equal(pyr_encode_facts(&facts, &out), PYR_OK);
    assert_int_equal(out.length, 3);
    assert_memory_equal(out.data, "{}\n", 3);
    pyr_buffer_clear(&out);
    pyr_facts_add_integer(&facts, "tick", "visits", INT64_MIN);
    assert_int_equal(pyr_encode_facts(&facts, &out), PYR_OK);
    json_t *root = parse_json();
    json_t *tick = json_object_get(root, "tick");
    assert_true(json_integer_value(json_object_get(tick, "visits")) == INT64_MIN);
    json_decref(root);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_program_labels),
        TEST(test_with_timeline),
        TEST(test_rounding_keeps_sums),
        TEST(test_without_timeline),
        TEST(test_types_of_some_kinds),
        TEST(test_names_of_threads_that_came_later),
        TEST(test_an_empty_window),
        TEST(test_losses_stand_in_comments),
        TEST(test_hostile_windows),
        TEST(test_a_bounded_buffer),
        TEST(test_each_allocation_fails_once),
        TEST(test_document),
        TEST(test_facts_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
