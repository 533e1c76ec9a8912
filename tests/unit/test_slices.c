/* Unit tests of record/slices: what is written is read, whatever else is in the file. */
#include "record/slices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"

enum { FILE_BYTES = 64 * 1024, ENOUGH = 4096 };

typedef struct recording {
    uint8_t bytes[FILE_BYTES];
    size_t end;
} recording;

typedef struct seen {
    pyr_slice slices[ENOUGH];
    size_t count, most;
} seen;

static uint8_t text[20000];

static void begin(recording *file)
{
    memset(file, 0, sizeof *file);
    pyr_slices_write_head(&(pyr_slices_head){.bytes = FILE_BYTES, .pid = 77, .start_ns = 123456789},
                          file->bytes);
}

static pyr_slice make(uint64_t sequence, size_t profile, size_t document)
{
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * 7 + sequence);
    }
    return (pyr_slice){.sequence = sequence,
                       .start_ns = (int64_t)sequence * 1000,
                       .end_ns = (int64_t)sequence * 1000 + 999,
                       .delivered_ns = -5,
                       .profile = text,
                       .profile_length = profile,
                       .document = text + profile,
                       .document_length = document};
}

/* Where it was put; 0: too large. */
static size_t put(recording *file, uint64_t sequence, size_t profile, size_t document)
{
    pyr_buffer out;
    pyr_buffer_init(&out, FILE_BYTES);
    pyr_slice slice = make(sequence, profile, document);
    assert_int_equal(pyr_slice_write(&slice, &out), PYR_OK);
    assert_int_equal(out.length % PYR_SLICE_STEP, 0);
    size_t place = pyr_slices_place(FILE_BYTES, out.length, &file->end);
    if (place != 0) {
        assert_true(place >= PYR_SLICES_HEAD_BYTES && place + out.length <= FILE_BYTES);
        memcpy(file->bytes + place, out.data, out.length);
    }
    pyr_buffer_fini(&out);
    return place;
}

static int note(void *context, const pyr_slice *slice)
{
    seen *found = context;
    found->slices[found->count++] = *slice;
    return found->count == found->most;
}

static size_t read_all(const recording *file, seen *found, size_t *broken)
{
    *found = (seen){.most = ENOUGH};
    assert_int_equal(pyr_slices_each(file->bytes, sizeof file->bytes, note, found, broken), 0);
    return found->count;
}

static void check_same(const pyr_slice *found, uint64_t sequence, size_t profile, size_t document)
{
    pyr_slice wanted = make(sequence, profile, document);
    assert_int_equal(found->sequence, sequence);
    assert_int_equal(found->start_ns, wanted.start_ns);
    assert_int_equal(found->end_ns, wanted.end_ns);
    assert_int_equal(found->delivered_ns, -5);
    assert_int_equal(found->profile_length, profile);
    assert_int_equal(found->document_length, document);
    assert_memory_equal(found->profile, text, profile);
    assert_memory_equal(found->document, text + profile, document);
}

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    static const size_t SIZES[][2] = {{1, 0}, {0, 0}, {64, 64}, {63, 1}, {1000, 3000}, {0, 65}};
    recording file;
    seen found;
    size_t broken;
    pyr_slices_head head;
    begin(&file);
    assert_int_equal(pyr_slices_read_head(file.bytes, sizeof file.bytes, &head), PYR_OK);
    assert_int_equal(head.bytes, FILE_BYTES);
    assert_int_equal(head.pid, 77);
    assert_int_equal(head.start_ns, 123456789);
    assert_int_equal(read_all(&file, &found, &broken), 0);
    size_t count = sizeof SIZES / sizeof SIZES[0];
    for (size_t i = 0; i < count; i++) {
        assert_true(put(&file, i + 1, SIZES[i][0], SIZES[i][1]) > 0);
    }
    assert_int_equal(read_all(&file, &found, &broken), count);
    assert_int_equal(broken, 0);
    for (size_t i = 0; i < count; i++) {
        check_same(&found.slices[i], i + 1, SIZES[i][0], SIZES[i][1]);
    }
    found = (seen){.most = 2};
    assert_int_equal(pyr_slices_each(file.bytes, sizeof file.bytes, note, &found, NULL), 1);
    assert_int_equal(found.count, 2);
}

static void test_the_newest_remain(void **state)
{
    (void)state;
    recording file;
    seen found;
    size_t broken;
    begin(&file);
    for (uint64_t sequence = 1; sequence <= 500; sequence++) {
        size_t profile = 500 + sequence * 37 % 2500;
        assert_true(put(&file, sequence, profile, 800) > 0);
        size_t count = read_all(&file, &found, &broken);
        /* At most the one that is being overwritten is broken, and all but a quarter is in use. */
        assert_true(broken <= 1);
        /* Back from the newest without a gap; older ones may be left near the end of the file. */
        uint64_t oldest = sequence + 1;
        size_t used = 0;
        for (size_t looked = 0; looked <= count; looked++) {
            for (size_t i = 0; i < count; i++) {
                if (found.slices[i].sequence == oldest - 1) {
                    used += found.slices[i].profile_length + found.slices[i].document_length;
                    oldest--;
                }
            }
        }
        assert_true(oldest <= sequence);
        assert_true(oldest == 1 || used > FILE_BYTES / 2);
    }
    assert_int_equal(put(&file, 501, FILE_BYTES / 4, 0), 0);
}

/* A writer may die after any byte of a slice: all others are there. */
static void test_torn_slices(void **state)
{
    (void)state;
    recording file;
    seen found;
    size_t broken;
    pyr_buffer out;
    begin(&file);
    for (uint64_t sequence = 1; sequence <= 30; sequence++) {
        put(&file, sequence, 1500, 1000);
    }
    size_t before = read_all(&file, &found, &broken);
    uint64_t oldest_before = 30 - before + 1;
    pyr_buffer_init(&out, FILE_BYTES);
    pyr_slice slice = make(31, 1500, 1000);
    assert_int_equal(pyr_slice_write(&slice, &out), PYR_OK);
    size_t place = pyr_slices_place(FILE_BYTES, out.length, &file.end);
    for (size_t written = 0; written <= out.length; written++) {
        recording torn = file;
        memcpy(torn.bytes + place, out.data, written);
        size_t count = read_all(&torn, &found, &broken);
        assert_true(broken <= 2);
        assert_true(count + 2 >= before);
        for (size_t i = 0; i < count; i++) {
            assert_true(found.slices[i].sequence >= oldest_before);
            check_same(&found.slices[i], found.slices[i].sequence, 1500, 1000);
        }
    }
    pyr_buffer_fini(&out);
}

static void test_hostile_lengths(void **state)
{
    (void)state;
    recording file;
    seen found;
    size_t broken;
    begin(&file);
    size_t place = put(&file, 1, 100, 100);
    assert_int_equal(read_all(&file, &found, &broken), 1);
    for (size_t at = 0; at < 64 + 200; at++) { /* each byte damaged */
        file.bytes[place + at] ^= 0x80;
        assert_int_equal(read_all(&file, &found, &broken), 0);
        file.bytes[place + at] ^= 0x80;
    }
    /* Cut short at a page that cannot be read. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (size_t length = 0; length <= 512; length++) {
        pyr_slices_head head;
        uint8_t *start = pages + page - length;
        memcpy(start, file.bytes, length);
        found = (seen){.most = ENOUGH};
        assert_int_equal(pyr_slices_each(start, length, note, &found, &broken), 0);
        assert_int_equal(found.count, length >= place + 64 + 200);
        assert_int_equal(pyr_slices_read_head(start, length, &head),
                         length >= PYR_SLICES_HEAD_BYTES ? PYR_OK : PYR_EBAD);
    }
    munmap(pages, 2 * page);
    pyr_slices_head head;
    for (size_t at = 0; at < PYR_SLICES_HEAD_BYTES; at++) {
        file.bytes[at] ^= 1;
        assert_int_equal(pyr_slices_read_head(file.bytes, sizeof file.bytes, &head), PYR_EBAD);
        file.bytes[at] ^= 1;
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    pyr_buffer out;
    pyr_slice slice = make(1, 10000, 5000);
    pyr_buffer_init(&out, FILE_BYTES);
    pyr_memory_fail_at(1);
    assert_int_equal(pyr_slice_write(&slice, &out), PYR_ENOMEM);
    pyr_memory_fail_at(0);
    pyr_buffer_fini(&out);
    pyr_buffer_init(&out, 2000);
    assert_int_equal(pyr_slice_write(&slice, &out), PYR_ETOOBIG);
    pyr_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_the_newest_remain),
        cmocka_unit_test(test_torn_slices),
        cmocka_unit_test(test_hostile_lengths),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
