/* Unit tests of src/store: books, blocks and details there and back, cut off and damaged ones,
 * failed allocations, and a store that is written and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pprof/parser.h"
#include "store/block.h"
#include "store/book.h"
#include "store/column.h"
#include "store/detail.h"
#include "store/store.h"
#include "store/sums.h"
#include "store/view.h"
#include "support/pprof_bytes.h"

enum { MAX = 1 << 26 };

static pyr_profile *random_profile(uint64_t seed, size_t samples)
{
    pyr_buffer bytes;
    pyr_profile *profile = NULL;
    pyr_parse_error error;
    pyr_buffer_init(&bytes, MAX);
    pyr_bytes_random(&bytes, seed, samples, PYR_PPROF_RAW);
    assert_int_equal(pyr_profile_parse(bytes.data, bytes.length, MAX, &profile, &error), PYR_OK);
    pyr_buffer_fini(&bytes);
    return profile;
}

static pyr_book *reread(const pyr_book *book, pyr_packer *packer, pyr_book_counts from)
{
    pyr_buffer chunk;
    pyr_buffer_init(&chunk, MAX);
    assert_int_equal(pyr_book_write(book, from, packer, &chunk), PYR_OK);
    pyr_book *copy = pyr_book_new(false);
    assert_int_equal(pyr_book_read(copy, packer, chunk.data, chunk.length), PYR_OK);
    pyr_buffer_fini(&chunk);
    return copy;
}

static pyr_book_counts nothing(void)
{
    pyr_book *empty = pyr_book_new(false);
    pyr_book_counts counts = pyr_book_count(empty);
    pyr_book_free(empty);
    return counts;
}

static void sums_and_book_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        pyr_packer *packer = pyr_packer_new();
        pyr_book *book = pyr_book_new(true);
        pyr_profile *profile = random_profile(seed, 200);
        pyr_sums sums;
        pyr_buffer order;
        pyr_buffer bytes;
        pyr_buffer_init(&order, MAX);
        pyr_buffer_init(&bytes, MAX);
        assert_int_equal(pyr_sums_of_profile(&sums, profile, book, NULL), PYR_OK);
        assert_int_equal(pyr_block_order(&sums, &order), PYR_OK);
        const uint32_t *rows = (const uint32_t *)(const void *)order.data;
        assert_int_equal(pyr_block_write(&sums, rows, packer, &bytes), PYR_OK);
        pyr_book *copy = reread(book, packer, nothing());
        pyr_block block;
        pyr_block head;
        pyr_block_init(&block);
        pyr_block_init(&head);
        assert_int_equal(pyr_block_read(&block, copy, packer, bytes.data, bytes.length), PYR_OK);
        assert_int_equal(block.count, sums.count);
        assert_int_equal(block.type_count, profile->type_count);
        for (size_t type = 0; type < sums.type_count; type++) {
            pyr_status status = pyr_block_values(&block, packer, type);
            uint64_t whole = 0; /* sums wrap: values are of any size here */
            uint64_t expected = 0;
            int64_t added = 0; /* saturates */
            int64_t total = 0;
            for (size_t row = 0; row < sums.count; row++) {
                int64_t value = 0;
                memcpy(&value, sums.values.data + (row * sums.type_count + type) * sizeof value,
                       sizeof value);
                expected += (uint64_t)value;
                if (status == PYR_OK) {
                    memcpy(&value, block.values.data + row * sizeof value, sizeof value);
                    whole += (uint64_t)value;
                    if (__builtin_add_overflow(added, value, &added)) {
                        added = value > 0 ? INT64_MAX : INT64_MIN;
                    }
                }
            }
            assert_true(status == PYR_OK || status == PYR_ENOENT);
            assert_int_equal(whole, expected);
            assert_int_equal(pyr_block_open(&head, copy, bytes.data, bytes.length), PYR_OK);
            assert_int_equal(pyr_block_total(&head, packer, type, &total), status);
            assert_true(total == added);
        }
        pyr_block_fini(&head);
        pyr_block_fini(&block);
        pyr_book_free(copy);
        pyr_buffer_fini(&order);
        pyr_buffer_fini(&bytes);
        pyr_sums_fini(&sums);
        pyr_profile_free(profile);
        pyr_book_free(book);
        pyr_packer_free(packer);
    }
}

/* A value that was written, with the book that it belongs to. */
typedef struct written {
    pyr_packer *packer;
    pyr_book *book;
    pyr_buffer block, detail, chunk;
} written;

/* Rows of samples as the block orders them. */
static void reorder(pyr_buffer *places, const pyr_buffer *order)
{
    const uint32_t *from = (const uint32_t *)(const void *)order->data;
    pyr_sums_place *place = (pyr_sums_place *)(void *)places->data;
    for (size_t sample = 0; sample < places->length / sizeof *place; sample++) {
        uint32_t row = 0;
        while (from[row] != place[sample].row) {
            row++;
        }
        place[sample].row = row;
    }
}

static written write_one(uint64_t seed)
{
    written w = {.packer = pyr_packer_new(), .book = pyr_book_new(true)};
    pyr_profile *profile = random_profile(seed, 40);
    pyr_sums sums;
    pyr_buffer order;
    pyr_buffer places;
    pyr_buffer_init(&order, MAX);
    pyr_buffer_init(&places, MAX);
    pyr_buffer_init(&w.block, MAX);
    pyr_buffer_init(&w.detail, MAX);
    pyr_buffer_init(&w.chunk, MAX);
    assert_int_equal(pyr_sums_of_profile(&sums, profile, w.book, &places), PYR_OK);
    assert_int_equal(pyr_block_order(&sums, &order), PYR_OK);
    assert_int_equal(
        pyr_block_write(&sums, (const uint32_t *)(const void *)order.data, w.packer, &w.block),
        PYR_OK);
    reorder(&places, &order);
    assert_int_equal(pyr_detail_write(profile, (const pyr_sums_place *)(const void *)places.data,
                                      &sums, (const uint32_t *)(const void *)order.data, w.book,
                                      w.packer, &w.detail),
                     PYR_OK);
    assert_int_equal(pyr_book_write(w.book, nothing(), w.packer, &w.chunk), PYR_OK);
    pyr_sums_fini(&sums);
    pyr_buffer_fini(&order);
    pyr_buffer_fini(&places);
    pyr_profile_free(profile);
    return w;
}

static void written_fini(written *w)
{
    pyr_buffer_fini(&w->block);
    pyr_buffer_fini(&w->detail);
    pyr_buffer_fini(&w->chunk);
    pyr_book_free(w->book);
    pyr_packer_free(w->packer);
}

static void read_all(const written *w, const pyr_buffer *block, const pyr_buffer *detail,
                     const pyr_buffer *chunk)
{
    pyr_block read;
    pyr_detail singles;
    pyr_book *book = pyr_book_new(false);
    pyr_block_init(&read);
    pyr_detail_init(&singles);
    (void)!pyr_book_read(book, w->packer, chunk->data, chunk->length);
    pyr_status status = pyr_block_open(&read, w->book, block->data, block->length);
    for (size_t type = 0; status == PYR_OK && type < read.type_count; type++) {
        int64_t total = 0;
        (void)!pyr_block_total(&read, w->packer, type, &total);
    }
    status = pyr_block_read(&read, w->book, w->packer, block->data, block->length);
    for (size_t type = 0; status == PYR_OK && type < read.type_count; type++) {
        (void)!pyr_block_values(&read, w->packer, type);
    }
    if (status == PYR_OK) {
        (void)!pyr_detail_read(&singles, w->book, &read, w->packer, detail->data, detail->length);
    }
    pyr_detail_fini(&singles);
    pyr_block_fini(&read);
    pyr_book_free(book);
}

/* Numbers of every length and sign, at every place in a word. */
static void columns_come_back(void **state)
{
    (void)state;
    enum { NUMBERS = 3000 };
    static int64_t numbers[NUMBERS];
    pyr_packer *packer = pyr_packer_new();
    pyr_column column;
    pyr_buffer bytes;
    uint64_t draw = 11;
    int64_t value = 0;
    pyr_column_init(&column);
    pyr_buffer_init(&bytes, MAX);
    for (size_t at = 0; at < NUMBERS; at++) {
        uint64_t size = pyr_bytes_next(&draw) >> pyr_bytes_next(&draw) % 64;
        numbers[at] = (int64_t)(at % 2 != 0 ? size : -size);
    }
    numbers[0] = INT64_MIN;
    numbers[1] = INT64_MAX;
    numbers[2] = 0;
    for (size_t at = 0; at < NUMBERS; at++) {
        pyr_column_add(&column, numbers[at]);
    }
    assert_int_equal(pyr_column_write(&column, packer, &bytes), PYR_OK);
    pyr_wire_reader reader = {bytes.data, bytes.data + bytes.length};
    assert_int_equal(pyr_column_read(&column, packer, &reader), PYR_OK);
    assert_ptr_equal(reader.at, reader.end);
    for (size_t at = 0; at < NUMBERS; at++) {
        assert_int_equal(pyr_column_next(&column, &value), PYR_OK);
        assert_int_equal(value, numbers[at]);
    }
    assert_int_equal(pyr_column_next(&column, &value), PYR_EBAD);
    pyr_buffer_fini(&bytes);
    pyr_column_fini(&column);
    pyr_packer_free(packer);
}

static void damage_is_noticed_or_harmless(void **state)
{
    (void)state;
    written w = write_one(3);
    uint64_t draw = 5;
    pyr_buffer *const parts[] = {&w.block, &w.detail, &w.chunk};
    for (size_t part = 0; part < 3; part++) {
        pyr_buffer whole = *parts[part];
        for (size_t length = 0; length < whole.length; length += 1 + length / 50) {
            pyr_buffer cut = whole;
            cut.length = length;
            read_all(&w, part == 0 ? &cut : &w.block, part == 1 ? &cut : &w.detail,
                     part == 2 ? &cut : &w.chunk);
        }
        for (int round = 0; round < 2000; round++) {
            size_t at = (size_t)(pyr_bytes_next(&draw) % whole.length);
            uint8_t before = whole.data[at];
            whole.data[at] = (uint8_t)pyr_bytes_next(&draw);
            read_all(&w, &w.block, &w.detail, &w.chunk);
            whole.data[at] = before;
        }
    }
    written_fini(&w);
}

static int compare_values(const void *a, const void *b)
{
    int64_t left = 0;
    int64_t right = 0;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

/* The very values, in whatever order: sums alone would not notice two that are exchanged parts. */
static void check_values(const pyr_detail *detail, const pyr_profile *profile, size_t type)
{
    int64_t *kept = (int64_t *)(void *)detail->values.data + type * detail->count;
    int64_t *sent = pyr_memory_new(detail->count + 1, sizeof *sent);
    for (size_t at = 0; at < detail->count; at++) {
        sent[at] = profile->values[profile->samples[at].value_start + type];
    }
    qsort(kept, detail->count, sizeof *kept, compare_values);
    qsort(sent, detail->count, sizeof *sent, compare_values);
    assert_memory_equal(kept, sent, detail->count * sizeof *kept);
    pyr_memory_free(sent);
}

static void details_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed++) {
        written w = write_one(seed);
        pyr_profile *profile = random_profile(seed, 40);
        pyr_detail detail;
        pyr_block block;
        pyr_detail_init(&detail);
        pyr_block_init(&block);
        assert_int_equal(pyr_block_read(&block, w.book, w.packer, w.block.data, w.block.length),
                         PYR_OK);
        assert_int_equal(
            pyr_detail_read(&detail, w.book, &block, w.packer, w.detail.data, w.detail.length),
            PYR_OK);
        assert_int_equal(detail.count, profile->sample_count);
        for (size_t type = 0; type < block.type_count; type++) {
            check_values(&detail, profile, type);
        }
        pyr_detail_fini(&detail);
        pyr_block_fini(&block);
        pyr_profile_free(profile);
        written_fini(&w);
    }
}

static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    pyr_profile *profile = random_profile(7, 30);
    pyr_packer *packer = pyr_packer_new();
    for (size_t nth = 1;; nth++) {
        pyr_sums sums = {0};
        pyr_buffer order;
        pyr_buffer bytes;
        pyr_buffer places;
        pyr_buffer_init(&order, MAX);
        pyr_buffer_init(&places, MAX);
        pyr_buffer_init(&bytes, MAX);
        pyr_memory_fail_at(nth);
        pyr_book *book = pyr_book_new(true);
        pyr_status status =
            book != NULL ? pyr_sums_of_profile(&sums, profile, book, &places) : PYR_ENOMEM;
        if (status == PYR_OK) {
            status = pyr_block_order(&sums, &order);
        }
        if (status == PYR_OK) {
            status =
                pyr_block_write(&sums, (const uint32_t *)(const void *)order.data, packer, &bytes);
        }
        if (status == PYR_OK) {
            reorder(&places, &order);
            status =
                pyr_detail_write(profile, (const pyr_sums_place *)(const void *)places.data, &sums,
                                 (const uint32_t *)(const void *)order.data, book, packer, &bytes);
        }
        bool failed = pyr_memory_has_failed() != 0;
        pyr_memory_fail_at(0);
        /* A section whose compression has no memory is kept as it is: no error, the same values. */
        assert_true(status == PYR_OK || status == PYR_ENOMEM);
        pyr_sums_fini(&sums);
        pyr_book_free(book);
        pyr_buffer_fini(&order);
        pyr_buffer_fini(&places);
        pyr_buffer_fini(&bytes);
        if (!failed) {
            break;
        }
    }
    pyr_packer_free(packer);
    pyr_profile_free(profile);
}

/* ----------------------------------------------------------------------- a whole store ---- */

typedef struct told {
    _Atomic int count;
    _Atomic int last;
} told;

static void done(pyr_upload *upload, pyr_status status)
{
    told *outcome = upload->context;
    outcome->last = status;
    outcome->count++;
}

static pyr_status count_rows(void *context, const pyr_view_row *row)
{
    size_t *rows = context;
    assert_true(row->samples == 50);
    (*rows)++;
    return PYR_OK;
}

static pyr_status take_series(void *context, const pyr_view_series *series)
{
    *(int64_t *)context = series->id;
    assert_string_equal(series->service, "shop");
    return PYR_OK;
}

static pyr_status put_and_wait(pyr_store *store, pyr_upload *upload, told *outcome)
{
    int before = outcome->count;
    upload->context = outcome;
    upload->done = done;
    assert_int_equal(pyr_store_put(store, upload), PYR_OK);
    while (outcome->count == before) {
        usleep(500);
    }
    return outcome->last;
}

static void remove_folder(const char *folder)
{
    static const char *const FILES[] = {"pyrometer.db", "pyrometer.db-wal", "pyrometer.db-shm",
                                        "pyrometer.lock"};
    for (size_t at = 0; at < sizeof FILES / sizeof FILES[0]; at++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, FILES[at]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void a_store_keeps_counts_once_and_forgets(void **state)
{
    (void)state;
    char folder[] = "/tmp/pyrometer-store-XXXXXX";
    char why[512];
    int64_t hour = INT64_C(3600000000000);
    int64_t start = (pyr_clock_realtime_ns() / hour - 5) * hour;
    told result = {0};
    assert_non_null(mkdtemp(folder));
    pyr_store *store = NULL;
    const pyr_store_options options = {.folder = folder};
    assert_int_equal(pyr_store_open(&options, &store, why, sizeof why), PYR_OK);
    pyr_labels labels;
    assert_int_equal(pyr_labels_init(&labels), PYR_OK);
    assert_int_equal(pyr_labels_add(&labels, "service", 7, "shop", 4), PYR_OK);
    for (int number = 0; number < 6; number++) {
        pyr_profile *profile = random_profile((uint64_t)number + 1, 50);
        pyr_upload upload = {
            .labels = &labels,
            .profile = profile,
            .start_ns = start + number * hour / 4,
            .end_ns = start + (number + 1) * hour / 4,
            .bytes = 1000,
        };
        assert_int_equal(pyr_upload_key(&upload, &number, sizeof number), PYR_OK);
        assert_int_equal(put_and_wait(store, &upload, &result), PYR_OK);
        assert_int_equal(put_and_wait(store, &upload, &result), PYR_EEXIST);
        pyr_profile_free(profile);
    }
    pyr_view *view = NULL;
    size_t rows = 0;
    size_t damaged = 0;
    int64_t series = 0;
    assert_int_equal(pyr_view_open(folder, &view, why, sizeof why), PYR_OK);
    assert_int_equal(pyr_view_begin(view), PYR_OK);
    assert_int_equal(pyr_view_each_series(view, NULL, 0, INT64_MAX, take_series, &series), PYR_OK);
    assert_int_equal(
        pyr_view_scan(view, &series, 1, 0, INT64_MAX, PYR_LEVEL_DAY, count_rows, &rows, &damaged),
        PYR_OK);
    assert_int_equal(rows, 6);
    assert_int_equal(damaged, 0);
    pyr_view_end(view);

    /* Sums of hours come, one profile goes with its hour's sum, and the rest is summed anew. */
    assert_int_equal(pyr_store_upkeep(store, false), PYR_OK);
    assert_true(pyr_store_look(store).rolled >= 2);
    int64_t removed = 0;
    assert_int_equal(pyr_store_delete(store, &series, 1, start, start + hour / 4, &removed),
                     PYR_OK);
    assert_int_equal(removed, 1);
    rows = 0;
    assert_int_equal(pyr_view_begin(view), PYR_OK);
    assert_int_equal(pyr_view_scan(view, &series, 1, 0, INT64_MAX, PYR_LEVEL_PROFILE, count_rows,
                                   &rows, &damaged),
                     PYR_OK);
    assert_int_equal(rows, 5);
    pyr_view_end(view);
    int64_t profiles = 0;
    assert_int_equal(pyr_store_upkeep(store, true), PYR_OK);
    assert_int_equal(pyr_store_check(store, &profiles, why, sizeof why), PYR_OK);
    assert_int_equal(profiles, 5);
    assert_int_equal(pyr_store_delete(store, &series, 1, 0, INT64_MAX, &removed), PYR_OK);
    assert_int_equal(removed, 5);
    pyr_view_close(view);
    pyr_store_close(store);
    pyr_labels_fini(&labels);
    remove_folder(folder);
}

static void labels_are_bounded_and_clean(void **state)
{
    (void)state;
    pyr_labels labels;
    pyr_buffer bytes;
    char name[400];
    memset(name, 'n', sizeof name);
    pyr_buffer_init(&bytes, MAX);
    assert_int_equal(pyr_labels_init(&labels), PYR_OK);
    assert_int_equal(pyr_labels_add(&labels, "b", 1, "x\n\0y", 4), PYR_OK);
    assert_string_equal(pyr_labels_get(&labels, "b"), "x  y");
    assert_int_equal(pyr_labels_add(&labels, "b", 1, "second", 6), PYR_OK);
    assert_string_equal(pyr_labels_get(&labels, "b"), "x  y");
    assert_int_equal(pyr_labels_add(&labels, "", 0, "v", 1), PYR_OK);
    assert_int_equal(pyr_labels_add(&labels, "a", 1, "", 0), PYR_OK);
    assert_int_equal(pyr_labels_add(&labels, name, sizeof name, "v", 1), PYR_ETOOBIG);
    assert_int_equal(labels.count, 1);
    assert_int_equal(pyr_labels_add(&labels, "a", 1, "1", 1), PYR_OK);
    assert_int_equal(pyr_labels_write(&labels, &bytes), PYR_OK);
    assert_memory_equal(bytes.data, "a\0001\0b\0x  y\0", 11);
    const char *at = (const char *)bytes.data;
    const char *key = NULL;
    const char *value = NULL;
    assert_true(pyr_labels_next(&at, (const char *)bytes.data + 11, &key, &value));
    assert_string_equal(value, "1");
    assert_false(pyr_labels_next(&at, at + 3, &key, &value)); /* cut off */
    for (int number = 0; number < PYR_LABELS_COUNT - 2; number++) {
        int length = snprintf(name, sizeof name, "n%d", number);
        assert_int_equal(pyr_labels_add(&labels, name, (size_t)length, "v", 1), PYR_OK);
    }
    assert_int_equal(pyr_labels_add(&labels, "one more", 8, "v", 1), PYR_ETOOBIG);
    pyr_buffer_fini(&bytes);
    pyr_labels_fini(&labels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_book_come_back),
        cmocka_unit_test(columns_come_back),
        cmocka_unit_test(damage_is_noticed_or_harmless),
        cmocka_unit_test(details_come_back),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(a_store_keeps_counts_once_and_forgets),
        cmocka_unit_test(labels_are_bounded_and_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
