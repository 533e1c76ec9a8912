/* Unit tests of record/: what goes in comes out, exact counts of losses and under rotation,
 * bounds, forks, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "record/lane.h"
#include "record/recorder.h"
#include "record/window.h"

enum { WINDOW_BYTES = 1 << 22 };

static pyr_symbols *symbols;
static pyr_recorder *recorder;
static pyr_sink sink;

static int set_up(void **state)
{
    (void)state;
    symbols = pyr_symbols_new();
    recorder = pyr_recorder_new(WINDOW_BYTES, symbols);
    sink = pyr_recorder_sink(recorder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_recorder_free(recorder);
    pyr_symbols_release(symbols);
    return 0;
}

static pyr_window *rotate(void)
{
    pyr_window *window = NULL;
    assert_int_equal(pyr_recorder_rotate(recorder, symbols, &window), PYR_OK);
    return window;
}

/* Sample number `i` of a family that differs in everything. `room` keeps its parts. */
typedef struct sample_room {
    pyr_frame frames[PYR_LIMIT_FRAMES + 20];
    pyr_label labels[PYR_LIMIT_LABELS];
} sample_room;

static pyr_sample make_sample(sample_room *room, uint32_t i)
{
    uint32_t depths[] = {1, 7, 8, 9, 32, 64, 0, PYR_LIMIT_FRAMES};
    pyr_sample sample = {
        .kind = PYR_SAMPLE_KIND_STACK,
        .frame_count = depths[i % 8],
        .frames = room->frames,
        .omitted = i % 5 == 4 ? i : 0,
        .label_count = i % (PYR_LIMIT_LABELS + 1),
        .labels = room->labels,
        .values = {i * 3, i % 3, INT64_C(1) << (i % 63), 0},
        .end_ns = INT64_C(1000000000000) + (i % 2 ? i * 100 : -(int64_t)i),
    };
    for (uint32_t f = 0; f < sample.frame_count; f++) {
        uint32_t from_root = sample.frame_count - f;
        room->frames[f] = (pyr_frame){from_root * 7 + (from_root % 11 == 0 ? i : 0), f};
    }
    for (uint32_t l = 0; l < sample.label_count; l++) {
        pyr_label_key key = (pyr_label_key)((i + l) % PYR_LABEL_KEYS);
        /* Fill both halves: only the one that counts may come back. */
        room->labels[l] = (pyr_label){.key = key, .text = i + l, .number = (int64_t)i - l};
    }
    return sample;
}

static void check_equal(const pyr_sample *got, const pyr_sample *want)
{
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->frame_count, want->frame_count);
    assert_int_equal(got->omitted, want->omitted);
    assert_memory_equal(got->frames, want->frames, want->frame_count * sizeof(pyr_frame));
    assert_int_equal(got->label_count, want->label_count);
    for (uint32_t l = 0; l < want->label_count; l++) {
        int numeric = pyr_label_is_number(want->labels[l].key);
        assert_int_equal(got->labels[l].key, want->labels[l].key);
        assert_int_equal(got->labels[l].text, numeric ? 0 : want->labels[l].text);
        assert_int_equal(got->labels[l].number, numeric ? want->labels[l].number : 0);
    }
    assert_memory_equal(got->values, want->values, sizeof want->values);
    assert_true(got->end_ns == want->end_ns);
}

static int check_next(void *context, const pyr_sample *got)
{
    static sample_room expected;
    uint32_t *next = context;
    pyr_sample want = make_sample(&expected, (*next)++);
    check_equal(got, &want);
    return 0;
}

static void test_comes_back_as_it_went_in(void **state)
{
    (void)state;
    static sample_room room;
    enum { COUNT = 3000 };
    int64_t before_ns = pyr_clock_monotonic_ns();
    for (uint32_t i = 0; i < COUNT; i++) {
        pyr_sample sample = make_sample(&room, i);
        assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    }
    pyr_window *window = rotate();
    uint32_t next = 0;
    assert_int_equal(pyr_window_samples(window), COUNT);
    assert_int_equal(pyr_window_each(window, check_next, &next), 0);
    assert_int_equal(next, COUNT);
    assert_int_equal(pyr_window_sequence(window), 0);
    assert_ptr_equal(pyr_window_symbols(window), symbols);
    assert_true(pyr_window_start_ns(window) <= before_ns);
    assert_true(pyr_window_end_ns(window) >= before_ns);
    int64_t drift = pyr_window_epoch_offset_ns(window) - pyr_clock_epoch_offset_ns();
    assert_in_range(drift + 1000000000, 0, 2000000000);
    pyr_window_free(window);
    window = rotate();
    assert_int_equal(pyr_window_samples(window), 0);
    assert_int_equal(pyr_window_sequence(window), 1);
    pyr_window_free(window);
}

static int stop_at_third(void *context, const pyr_sample *sample)
{
    (void)sample;
    return ++*(int *)context == 3 ? 42 : 0;
}

static void test_visit_ends_early(void **state)
{
    (void)state;
    static sample_room room;
    for (uint32_t i = 0; i < 20; i++) {
        pyr_sample sample = make_sample(&room, i);
        sample.end_ns = i < 10 ? 0 : sample.end_ns;
        assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    }
    pyr_window *window = rotate();
    int visited = 0;
    assert_int_equal(pyr_window_each(window, stop_at_third, &visited), 42);
    assert_int_equal(visited, 3);
    visited = -10;
    assert_int_equal(pyr_window_each(window, stop_at_third, &visited), 42);
    assert_int_equal(visited, 3);
    pyr_window_free(window);
}

typedef struct totals {
    uint64_t samples;
    int64_t values[PYR_LIMIT_VALUES];
} totals;

static int add_up(void *context, const pyr_sample *sample)
{
    totals *all = context;
    all->samples++;
    for (size_t i = 0; i < PYR_LIMIT_VALUES; i++) {
        all->values[i] = (int64_t)((uint64_t)all->values[i] + (uint64_t)sample->values[i]);
    }
    return 0;
}

static void test_without_end_time_equal_ones_add_up(void **state)
{
    (void)state;
    static sample_room room;
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 40; i++) {
            pyr_sample sample = make_sample(&room, i);
            sample.end_ns = 0;
            sample.values[2] = 1;
            assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
        }
    }
    pyr_window *window = rotate();
    totals all = {0};
    pyr_window_each(window, add_up, &all);
    assert_int_equal(all.samples, 40);
    assert_int_equal(pyr_window_samples(window), 40);
    assert_int_equal(all.values[0], 100 * 3 * (39 * 40 / 2));
    assert_int_equal(all.values[2], 4000);
    pyr_window_free(window);
}

static int check_bounded(void *context, const pyr_sample *sample)
{
    int64_t *next_end_ns = context;
    assert_int_equal(sample->frame_count, PYR_LIMIT_FRAMES);
    assert_int_equal(sample->omitted, 25);
    assert_true(sample->values[0] == INT64_MIN && sample->values[3] == -1);
    assert_true(sample->end_ns == *next_end_ns);
    *next_end_ns = INT64_MAX;
    return 0;
}

static void test_hostile_samples_are_bounded(void **state)
{
    (void)state;
    static sample_room room;
    pyr_sample sample = make_sample(&room, 7);
    sample.frame_count = PYR_LIMIT_FRAMES + 20;
    sample.omitted = 5;
    sample.label_count = 0;
    sample.end_ns = INT64_MIN;
    sample.values[0] = INT64_MIN;
    sample.values[3] = -1;
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    sample.end_ns = INT64_MAX;
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    sample.kind = PYR_SAMPLE_KINDS;
    assert_int_equal(sink.add(sink.context, &sample), PYR_EINVAL);
    sink.lose(sink.context, PYR_LOSSES, 1); /* no such reason: nothing happens */
    pyr_window *window = rotate();
    assert_int_equal(pyr_window_samples(window), 2);
    int64_t next_end_ns = INT64_MIN;
    assert_int_equal(pyr_window_each(window, check_bounded, &next_end_ns), 0);
    assert_true(next_end_ns == INT64_MAX);
    pyr_window_free(window);
}

static void fill(pyr_recorder *target, uint32_t samples, uint64_t *added, uint64_t *refused)
{
    static sample_room room;
    pyr_sink own = pyr_recorder_sink(target);
    *added = *refused = 0;
    for (uint32_t i = 0; i < samples; i++) {
        pyr_sample sample = make_sample(&room, i);
        if (own.add(own.context, &sample) == PYR_OK) {
            (*added)++;
        } else {
            (*refused)++;
        }
    }
}

static void test_full_windows_count_exactly(void **state)
{
    (void)state;
    enum { SMALLEST = PYR_SPACE_BLOCK + PYR_SPACE_UNIT };
    size_t sizes[] = {0, 1, SMALLEST - 1, 3 * SMALLEST, 200000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pyr_recorder *small = pyr_recorder_new(sizes[i], symbols);
        uint64_t added, refused;
        fill(small, 40000, &added, &refused);
        assert_true(refused > 0);
        assert_true((added > 0) == (sizes[i] > SMALLEST));
        assert_true(pyr_recorder_used(small) <= sizes[i] + 8);
        pyr_window *window;
        assert_int_equal(pyr_recorder_rotate(small, symbols, &window), PYR_OK);
        assert_int_equal(pyr_window_samples(window), added);
        assert_int_equal(pyr_window_lost(window, PYR_LOSS_WINDOW_FULL), refused);
        assert_int_equal(pyr_window_lost(window, PYR_LOSS_LANES_BUSY), 0);
        totals all = {0};
        pyr_window_each(window, add_up, &all);
        assert_int_equal(all.samples, added);
        pyr_window_free(window);
        pyr_recorder_free(small);
    }
}

/* What a full window knows already still adds up. */
static void test_a_full_window_goes_on_with_what_it_has(void **state)
{
    (void)state;
    static sample_room room;
    pyr_recorder *small = pyr_recorder_new(200000, symbols);
    pyr_sink own = pyr_recorder_sink(small);
    pyr_sample sample = make_sample(&room, 5);
    sample.end_ns = 0;
    assert_int_equal(own.add(own.context, &sample), PYR_OK);
    uint64_t added, refused;
    fill(small, 40000, &added, &refused);
    assert_true(refused > 0);
    sample = make_sample(&room, 5);
    sample.end_ns = 0;
    assert_int_equal(own.add(own.context, &sample), PYR_OK);
    pyr_window *window;
    assert_int_equal(pyr_recorder_rotate(small, symbols, &window), PYR_OK);
    assert_int_equal(pyr_window_samples(window), added + 1);
    pyr_window_free(window);
    pyr_recorder_free(small);
}

static void test_losses_belong_to_one_window(void **state)
{
    (void)state;
    sink.lose(sink.context, PYR_LOSS_TORN_STACK, 3);
    sink.lose(sink.context, PYR_LOSS_TORN_STACK, 4);
    pyr_window *window = rotate();
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_TORN_STACK), 7);
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_NO_ROOT), 0);
    assert_int_equal(pyr_window_lost(window, PYR_LOSSES), 0);
    pyr_window_free(window);
    window = rotate();
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_TORN_STACK), 0);
    pyr_window_free(window);
}

static void test_names_that_do_not_fit_are_losses(void **state)
{
    (void)state;
    static char longer[PYR_LIMIT_PATH_BYTES];
    memset(longer, 'x', sizeof longer);
    for (uint32_t i = 0; pyr_symbols_overflows(symbols) < 3; i++) {
        memcpy(longer, &i, sizeof i);
        pyr_symbols_string(symbols, longer, sizeof longer);
    }
    pyr_window *window = rotate();
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_SYMBOLS_FULL), 3);
    pyr_window_free(window);
    pyr_symbols *next = pyr_symbols_new();
    assert_int_equal(pyr_recorder_rotate(recorder, next, &window), PYR_OK);
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_SYMBOLS_FULL), 0);
    pyr_window_free(window);
    window = rotate();
    assert_ptr_equal(pyr_window_symbols(window), next);
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_SYMBOLS_FULL), 0);
    pyr_window_free(window);
    pyr_symbols_release(next);
}

static void test_ids_of_another_table_are_refused(void **state)
{
    (void)state;
    static sample_room room;
    pyr_symbols *next = pyr_symbols_new();
    pyr_sample sample = make_sample(&room, 3);
    sample.symbols = symbols;
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    pyr_window *window;
    assert_int_equal(pyr_recorder_rotate(recorder, next, &window), PYR_OK);
    assert_int_equal(pyr_window_samples(window), 1);
    pyr_window_free(window);
    assert_int_equal(sink.add(sink.context, &sample), PYR_EVERSION);
    sample.symbols = next;
    assert_int_equal(sink.add(sink.context, &sample), PYR_OK);
    window = rotate();
    assert_int_equal(pyr_window_samples(window), 1);
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_OLD_SYMBOLS), 1);
    pyr_window_free(window);
    pyr_symbols_release(next);
}

/* Four writers against rotations: each sample is in exactly one window, or counted as lost. */
enum { WRITERS = 4, SAMPLES = 20000 };

static atomic_int writers_left;

static void *write_samples(void *argument)
{
    static const pyr_frame frames[3] = {{1, 10}, {2, 20}, {3, 30}};
    uint64_t writer = *(const uint64_t *)argument;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        pyr_sample sample = {
            .kind = PYR_SAMPLE_KIND_STACK,
            .frames = frames,
            .frame_count = 1 + i % 3,
            .values = {(int64_t)(writer << 32 | i), 1},
            .end_ns = writer % 2 == 0 ? 1000 + i : 0,
        };
        sink.add(sink.context, &sample);
    }
    atomic_fetch_sub(&writers_left, 1);
    return NULL;
}

/* Notes each sample with an end time by its number: twice the same fails. */
static int note_seen(void *context, const pyr_sample *sample)
{
    uint64_t unused;
    if (sample->end_ns == 0) {
        return 0; /* these are added together; their count tells */
    }
    assert_int_equal(sample->values[1], 1);
    assert_false(pyr_map_get(context, (uint64_t)sample->values[0], &unused));
    return pyr_map_put(context, (uint64_t)sample->values[0], 1);
}

static void test_rotation_beside_writers(void **state)
{
    (void)state;
    pthread_t threads[WRITERS];
    uint64_t numbers[WRITERS] = {0, 1, 2, 3};
    atomic_store(&writers_left, WRITERS);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_samples, &numbers[i]), 0);
    }
    pyr_map *seen = pyr_map_new(WRITERS * SAMPLES);
    uint64_t samples = 0, lost = 0, windows = 0;
    int last;
    do {
        last = atomic_load(&writers_left) == 0;
        pyr_window *window = rotate();
        totals all = {0};
        assert_int_equal(pyr_window_each(window, add_up, &all), 0);
        samples += (uint64_t)all.values[1];
        assert_int_equal(pyr_window_each(window, note_seen, seen), 0);
        lost += pyr_window_lost(window, PYR_LOSS_LANES_BUSY);
        assert_int_equal(pyr_window_lost(window, PYR_LOSS_WINDOW_FULL), 0);
        assert_true(pyr_recorder_used(recorder) < WINDOW_BYTES);
        pyr_window_free(window);
        windows++;
    } while (!last);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(samples + lost, WRITERS * SAMPLES);
    assert_in_range(pyr_map_count(seen), WRITERS / 2 * SAMPLES - lost, WRITERS / 2 * SAMPLES);
    assert_true(windows > 1);
    pyr_map_free(seen);
}

static void test_fork_delivers_nothing_twice(void **state)
{
    (void)state;
    uint64_t added, refused;
    fill(recorder, 100, &added, &refused);
    sink.lose(sink.context, PYR_LOSS_TORN_STACK, 3);
    pyr_window_free(rotate());
    fill(recorder, 100, &added, &refused);
    sink.lose(sink.context, PYR_LOSS_TORN_STACK, 3);
    pyr_recorder_prefork(recorder);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pyr_recorder_postfork_child(recorder);
        static sample_room room;
        pyr_sample sample = make_sample(&room, 5);
        pyr_window *window;
        int good = sink.add(sink.context, &sample) == PYR_OK &&
                   pyr_recorder_rotate(recorder, symbols, &window) == PYR_OK &&
                   pyr_window_samples(window) == 1 && pyr_window_sequence(window) == 0 &&
                   pyr_window_lost(window, PYR_LOSS_TORN_STACK) == 0;
        _exit(good ? 7 : 1);
    }
    pyr_sample none = {.kind = PYR_SAMPLE_KIND_STACK};
    assert_int_equal(sink.add(sink.context, &none), PYR_EBUSY); /* all lanes are held */
    pyr_recorder_postfork_parent(recorder);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    pyr_window *window = rotate();
    assert_int_equal(pyr_window_samples(window), 100);
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_TORN_STACK), 3);
    assert_int_equal(pyr_window_lost(window, PYR_LOSS_LANES_BUSY), 1);
    pyr_window_free(window);
}

static void *churn(void *stop)
{
    static sample_room room;
    for (uint32_t i = 0; !atomic_load((atomic_int *)stop); i++) {
        pyr_sample sample = make_sample(&room, i % 100);
        sink.add(sink.context, &sample);
    }
    return NULL;
}

static void test_forks_beside_a_writer(void **state)
{
    (void)state;
    atomic_int stop = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, churn, &stop), 0);
    for (int i = 0; i < 30; i++) {
        pyr_recorder_prefork(recorder);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            pyr_recorder_postfork_child(recorder);
            uint64_t added, refused;
            fill(recorder, 50, &added, &refused);
            pyr_window *window = rotate();
            _exit(pyr_window_samples(window) == 50 && added == 50 ? 7 : 1);
        }
        pyr_recorder_postfork_parent(recorder);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        pyr_window_free(rotate());
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    int failed = 1;
    for (size_t nth = 1; failed; nth++) {
        pyr_memory_fail_at(nth);
        pyr_recorder *own = pyr_recorder_new(WINDOW_BYTES, symbols);
        if (own) {
            uint64_t added, refused;
            fill(own, 10, &added, &refused);
            assert_int_equal(added, 10);
            pyr_window *window;
            if (pyr_recorder_rotate(own, symbols, &window) != PYR_OK) {
                fill(own, 10, &added, &refused); /* it goes on in the same window */
                assert_int_equal(pyr_recorder_rotate(own, symbols, &window), PYR_OK);
                assert_int_equal(pyr_window_samples(window), 20);
            } else {
                assert_int_equal(pyr_window_samples(window), 10);
            }
            pyr_window_free(window);
        }
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        pyr_recorder_free(own);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    pyr_window_free(NULL);
    pyr_recorder_free(NULL);
}

static void test_a_window_outlives_its_recorder(void **state)
{
    (void)state;
    pyr_symbols *own_symbols = pyr_symbols_new();
    pyr_recorder *own = pyr_recorder_new(WINDOW_BYTES, own_symbols);
    pyr_window *window;
    assert_int_equal(pyr_recorder_rotate(own, symbols, &window), PYR_OK);
    pyr_symbols_release(own_symbols);
    pyr_recorder_free(own);
    size_t length;
    pyr_symbols_text(pyr_window_symbols(window), 1, &length);
    assert_true(length > 0);
    pyr_window_free(window);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_comes_back_as_it_went_in),
        TEST(test_visit_ends_early),
        TEST(test_without_end_time_equal_ones_add_up),
        TEST(test_hostile_samples_are_bounded),
        TEST(test_full_windows_count_exactly),
        TEST(test_a_full_window_goes_on_with_what_it_has),
        TEST(test_losses_belong_to_one_window),
        TEST(test_names_that_do_not_fit_are_losses),
        TEST(test_ids_of_another_table_are_refused),
        TEST(test_rotation_beside_writers),
        TEST(test_fork_delivers_nothing_twice),
        TEST(test_forks_beside_a_writer),
        TEST(test_each_allocation_fails_once),
        TEST(test_a_window_outlives_its_recorder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
