/* Unit tests of session/delivery: queues, retries, drops, and one log line a change of state.
 *
 * The table of exporters is this file's own: the linker takes it instead of the core's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "export/exporter.h"
#include "record/recorder.h"
#include "session/delivery.h"

/* An exporter that does as it is told, and notes what it gets. */
typedef struct fake {
    pyr_status open_status, send_status;
    const char *open_why;
    int opened, closed, sent, tried;
    uint64_t sequences[16];
    uint8_t magic;
} fake;

static fake first, second;
static bool second_is_asked_for = true;
static const _Atomic int64_t *hurry_ns; /* as the exporters see it */

static pyr_status open_fake(fake *one, void **exporter, char *why, size_t why_size)
{
    one->opened++;
    if (one->open_why != NULL) {
        snprintf(why, why_size, "%s", one->open_why);
    }
    *exporter = one;
    return one->open_status;
}

static pyr_status open_first(const pyr_exporter_options *options, void **exporter, char *why,
                             size_t why_size)
{
    hurry_ns = options->hurry_ns;
    return open_fake(&first, exporter, why, why_size);
}

static pyr_status open_second(const pyr_exporter_options *options, void **exporter, char *why,
                              size_t why_size)
{
    (void)options;
    return open_fake(&second, exporter, why, why_size);
}

static void close_fake(void *exporter)
{
    ((fake *)exporter)->closed++;
}

static pyr_status send_fake(void *exporter, const pyr_export_job *job, int64_t deadline_ns,
                            char *why, size_t why_size)
{
    fake *one = exporter;
    assert_true(deadline_ns > 0);
    assert_true(job->profile_length > 2 && job->document_length > 2);
    assert_int_equal(job->document[0], '{');
    assert_true(job->end_ns >= job->start_ns && job->pid == 42);
    one->magic = job->profile[0];
    one->tried++;
    if (one->send_status == PYR_OK) {
        one->sequences[one->sent++] = job->sequence;
    } else {
        snprintf(why, why_size, "the target says no");
    }
    return one->send_status;
}

static void describe_fake(void *exporter, char *text, size_t size)
{
    snprintf(text, size, "%s", exporter == &first ? "here" : "there");
}

static void choose_second(const pyr_exporter_options *options, pyr_export_places *places)
{
    (void)options;
    places->count = second_is_asked_for;
}

static const pyr_exporter_class first_class = {
    .name = "first",
    .compression = PYR_PPROF_GZIP,
    .open = open_first,
    .close = close_fake,
    .send = send_fake,
    .describe = describe_fake,
};
static const pyr_exporter_class second_class = {
    .name = "second",
    .compression = PYR_PPROF_ZSTD,
    .open = open_second,
    .close = close_fake,
    .send = send_fake,
    .describe = describe_fake,
    .places = choose_second,
    .is_last_resort = true,
};
const pyr_exporter_class *const pyr_exporter_classes[] = {&first_class, &second_class, NULL};

/* A recorder with one symbol, and the delivery of its windows. */
typedef struct world {
    pyr_symbols *symbols;
    pyr_recorder *recorder;
    pyr_delivery *delivery;
    uint32_t function;
} world;

static void take_log(int *lines, char *last, size_t size)
{
    pyr_log_level level;
    char text[PYR_LOG_TEXT_BYTES];
    *lines = 0;
    while (pyr_log_take(&level, text, sizeof text)) {
        snprintf(last, size, "%s", text);
        (*lines)++;
    }
}

static pyr_status open_world(world *here, char *why, size_t why_size)
{
    pyr_log_fork_child(); /* no lines, and none was said lately */
    here->symbols = pyr_symbols_new();
    here->recorder = pyr_recorder_new(1 << 20, here->symbols);
    assert_non_null(here->recorder);
    here->function = pyr_symbols_function(here->symbols, "work", 4, "a.py", 4, 1);
    const pyr_exporter_options options = {0};
    const pyr_encode_options encoding = {.period_ns = 10000000};
    here->delivery = NULL;
    return pyr_delivery_open(&options, &encoding, pyr_recorder_sink(here->recorder),
                             &here->delivery, why, why_size);
}

static void close_world(world *here)
{
    pyr_delivery_close(here->delivery);
    assert_int_equal(first.closed + second.closed,
                     (first.opened && first.open_status == PYR_OK) +
                         (second.opened && second.open_status == PYR_OK));
    pyr_recorder_free(here->recorder);
    pyr_symbols_release(here->symbols);
    first = (fake){0};
    second = (fake){0};
}

static uint64_t deliver(world *here, int samples)
{
    pyr_sink sink = pyr_recorder_sink(here->recorder);
    const pyr_frame frame = {here->function, 1};
    pyr_sample sample = {.kind = PYR_SAMPLE_KIND_STACK, .frame_count = 1, .frames = &frame};
    sample.values[0] = 1000;
    for (int index = 0; index < samples; index++) {
        assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    }
    pyr_window *window = NULL;
    assert_int_equal(pyr_recorder_rotate(here->recorder, here->symbols, &window), PYR_OK);
    static pyr_facts facts;
    facts.count = 0;
    pyr_delivery_add(here->delivery, window, &facts, 42);
    pyr_delivery_send(here->delivery, pyr_clock_monotonic_ns() + 1000000000);
    uint64_t lost = pyr_window_lost(window, PYR_LOSS_WINDOW_DROPPED);
    pyr_window_free(window);
    return lost;
}

static int64_t fact(const world *here, const char *key)
{
    static pyr_facts facts;
    facts.count = 0;
    pyr_delivery_facts(here->delivery, &facts);
    return pyr_facts_find(&facts, "delivery", key)->integer;
}

static void test_each_target_gets_its_compression(void **state)
{
    (void)state;
    world here;
    char why[200];
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    deliver(&here, 3);
    assert_int_equal(first.sent, 1);
    assert_int_equal(second.sent, 1);
    assert_int_equal(first.magic, 0x1F);  /* gzip */
    assert_int_equal(second.magic, 0x28); /* zstd */
    assert_int_equal(fact(&here, "windows"), 2);
    assert_int_equal(fact(&here, "waiting"), 0);
    char text[100];
    pyr_delivery_describe(here.delivery, text, sizeof text);
    assert_string_equal(text, "here, there");
    pyr_delivery_describe(here.delivery, text, 4); /* too small: cut, never past the end */
    assert_int_equal(strlen(text), 3);
    close_world(&here);
}

static void test_empty_windows_stay_at_home(void **state)
{
    (void)state;
    world here;
    char why[200];
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    deliver(&here, 0);
    assert_int_equal(first.tried, 0);
    close_world(&here);
}

static void test_what_failed_is_kept_and_sent_later(void **state)
{
    (void)state;
    world here;
    char why[200];
    char line[PYR_LOG_TEXT_BYTES];
    int lines;
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    first.send_status = PYR_EIO;
    deliver(&here, 1);
    deliver(&here, 1);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles cannot be delivered (first): the target says no; the last "
                              "3 are kept");
    assert_int_equal(fact(&here, "waiting"), 2);
    assert_int_equal(fact(&here, "failures"), 2);
    assert_int_equal(second.sent, 2); /* one target's trouble is not the other's */

    first.send_status = PYR_OK;
    deliver(&here, 1);
    assert_int_equal(first.sent, 3);
    assert_int_equal(first.sequences[0], 0);
    assert_int_equal(first.sequences[2], 2);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles are delivered again (first)");
    assert_int_equal(fact(&here, "dropped"), 0);
    close_world(&here);
}

static void test_the_oldest_makes_room_and_is_counted(void **state)
{
    (void)state;
    world here;
    char why[200];
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    first.send_status = PYR_EIO;
    uint64_t lost = 0;
    for (int window = 0; window < PYR_LIMIT_PENDING_WINDOWS + 2; window++) {
        lost += deliver(&here, 1);
    }
    assert_int_equal(fact(&here, "dropped"), 2);
    assert_int_equal(fact(&here, "waiting"), PYR_LIMIT_PENDING_WINDOWS);
    first.send_status = PYR_OK;
    lost += deliver(&here, 1); /* makes room once more, before it is sent */
    assert_int_equal(first.sent, PYR_LIMIT_PENDING_WINDOWS);
    assert_int_equal(first.sequences[0], 3);
    lost += deliver(&here, 1); /* the loss stands in the window after it */
    assert_int_equal(lost, 3);
    close_world(&here);
}

static void test_targets_that_do_not_open(void **state)
{
    (void)state;
    world here;
    char why[200];
    char line[PYR_LOG_TEXT_BYTES];
    int lines;
    first.open_status = PYR_EPERM;
    first.open_why = "not allowed";
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles will not go to first: not allowed");
    deliver(&here, 1);
    assert_int_equal(first.tried, 0);
    assert_int_equal(second.sent, 1);
    close_world(&here);

    first.open_status = second.open_status = PYR_EPERM;
    first.open_why = second.open_why = "not allowed";
    assert_int_equal(open_world(&here, why, sizeof why), PYR_ENOENT);
    assert_null(here.delivery);
    assert_string_equal(why, "not allowed");
    close_world(&here);
}

static void test_open_but_not_yet_able(void **state)
{
    (void)state;
    world here;
    char why[200];
    char line[PYR_LOG_TEXT_BYTES];
    int lines;
    first.open_why = "the folder is missing";
    first.send_status = PYR_EPERM;
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    deliver(&here, 1);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1); /* said at the open, not again at the send */
    assert_non_null(strstr(line, "the folder is missing"));
    close_world(&here);
}

static void test_what_the_exporter_keeps_is_its_own(void **state)
{
    (void)state;
    world here;
    char why[200];
    char line[PYR_LOG_TEXT_BYTES];
    int lines;
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    first.send_status = PYR_EKEPT;
    for (int window = 0; window < PYR_LIMIT_PENDING_WINDOWS + 2; window++) {
        assert_int_equal(deliver(&here, 1), 0); /* none is lost */
    }
    assert_int_equal(first.tried, PYR_LIMIT_PENDING_WINDOWS + 2); /* each once */
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles cannot be delivered (first): the target says no; they wait "
                              "on disk and are sent later");
    assert_int_equal(pyr_delivery_waiting(here.delivery), 1); /* so it is not all delivered */
    first.send_status = PYR_OK;
    deliver(&here, 1);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_int_equal(pyr_delivery_waiting(here.delivery), 0);
    close_world(&here);
}

static void test_what_is_refused_is_lost_and_counted(void **state)
{
    (void)state;
    world here;
    char why[200];
    char line[PYR_LOG_TEXT_BYTES];
    int lines;
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    first.send_status = PYR_EREFUSED;
    deliver(&here, 1);
    assert_int_equal(deliver(&here, 1), 1); /* the loss stands in the window after it */
    assert_int_equal(fact(&here, "dropped"), 2);
    assert_int_equal(fact(&here, "waiting"), 0);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles are refused and lost (first): the target says no");
    close_world(&here);
}

/* An exporter that can do nothing here gives its windows to the one of last resort, compressed as
 * that one wants them. */
static void test_last_resort(void **state)
{
    (void)state;
    world here;
    char why[200];
    char line[PYR_LOG_TEXT_BYTES];
    int lines;
    second_is_asked_for = false;
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    assert_int_equal(second.opened, 0);
    first.send_status = PYR_ENOTSUP;
    deliver(&here, 1);
    assert_int_equal(first.sent, 0);
    assert_int_equal(second.sent, 1);
    assert_int_equal(second.magic, 0x28);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles go to there instead: the target says no");
    char text[100];
    pyr_delivery_describe(here.delivery, text, sizeof text);
    assert_string_equal(text, "there");
    deliver(&here, 1);
    assert_int_equal(first.tried, 1); /* it is not asked again */
    assert_int_equal(second.sent, 2);
    close_world(&here);
    second_is_asked_for = true;

    /* Where that one gets them anyway, nobody needs to. */
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    first.send_status = PYR_ENOTSUP;
    deliver(&here, 1);
    deliver(&here, 1);
    assert_int_equal(second.sent, 2);
    assert_int_equal(first.tried, 1);
    take_log(&lines, line, sizeof line);
    assert_int_equal(lines, 1);
    assert_string_equal(line, "profiles are not sent: the target says no");
    pyr_delivery_describe(here.delivery, text, sizeof text);
    assert_string_equal(text, "there");
    close_world(&here);
}

static void test_hurry_only_comes_nearer(void **state)
{
    (void)state;
    world here;
    char why[200];
    assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
    assert_true(atomic_load(hurry_ns) == INT64_MAX);
    pyr_delivery_hurry(here.delivery, 1000);
    pyr_delivery_hurry(here.delivery, 2000);
    assert_true(atomic_load(hurry_ns) == 1000);
    close_world(&here);
}

/* Each allocation of a delivery fails once: nothing leaks or crashes, and what is lost is counted.
 */
static void test_out_of_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t nth = 1; failed && nth < 500; nth++) {
        world here;
        char why[200];
        assert_int_equal(open_world(&here, why, sizeof why), PYR_OK);
        deliver(&here, 1);
        pyr_sink sink = pyr_recorder_sink(here.recorder);
        const pyr_frame frame = {here.function, 1};
        const pyr_sample sample = {
            .kind = PYR_SAMPLE_KIND_STACK, .frame_count = 1, .frames = &frame, .values = {7}};
        assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
        pyr_window *window = NULL;
        assert_int_equal(pyr_recorder_rotate(here.recorder, here.symbols, &window), PYR_OK);
        static pyr_facts facts;
        facts.count = 0;
        pyr_memory_fail_at(nth);
        pyr_delivery_add(here.delivery, window, &facts, 42);
        pyr_delivery_send(here.delivery, pyr_clock_monotonic_ns() + 1000000000);
        failed = pyr_memory_has_failed() != 0;
        pyr_memory_fail_at(0);
        assert_int_equal(first.sent + second.sent + fact(&here, "dropped"), 4);
        pyr_window_free(window);
        close_world(&here);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_target_gets_its_compression),
        cmocka_unit_test(test_empty_windows_stay_at_home),
        cmocka_unit_test(test_what_failed_is_kept_and_sent_later),
        cmocka_unit_test(test_the_oldest_makes_room_and_is_counted),
        cmocka_unit_test(test_targets_that_do_not_open),
        cmocka_unit_test(test_open_but_not_yet_able),
        cmocka_unit_test(test_what_the_exporter_keeps_is_its_own),
        cmocka_unit_test(test_what_is_refused_is_lost_and_counted),
        cmocka_unit_test(test_last_resort),
        cmocka_unit_test(test_hurry_only_comes_nearer),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
