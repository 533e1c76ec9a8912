/* C frames of the calling thread: held against those that the compiler's own unwinder finds, in
 * functions of every shape; and call frame information that is damaged. */
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include <cmocka.h>

#include "base/memory.h"
#include "collect/heap_estimate.h"
#include "os/cfi.h"
#include "unwind/native_stack.h"

enum { DEEP = 10 };

static pyr_native_stacks *stacks;
static pyr_reader *reader;

static int set_up(void **state)
{
    pyr_loaded_counts now;
    (void)state;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    stacks = pyr_native_stacks_new(reader, 0);
    assert_non_null(stacks);
    assert_true(pyr_loaded_count(&now));
    pyr_native_stacks_look(stacks, now);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyr_native_stacks_free(stacks);
    pyr_reader_close(reader);
    return 0;
}

typedef struct trace {
    uintptr_t addresses[64];
    uint32_t count;
} trace;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *into)
{
    trace *found = into;
    if (found->count < 64) {
        found->addresses[found->count++] = _Unwind_GetIP(context);
    }
    return _URC_NO_REASON;
}

static int compared;

/* Both walks begin in this function, whose own address is where they differ. */
static __attribute__((noinline)) void compare(void)
{
    uintptr_t caller = (uintptr_t)__builtin_return_address(0), ours[PYR_NATIVE_STACK_FRAMES];
    trace truth = {.count = 0};
    uint32_t count = pyr_native_stack_walk(stacks, caller, ours);
    _Unwind_Backtrace(note, &truth);
    assert_true(truth.count > 2);
    assert_true(truth.addresses[1] == caller);
    for (uint32_t at = 0; at < count; at++) {
        /* The last one is where it has all it may have. */
        if (at == PYR_NATIVE_STACK_FRAMES - 1) {
            assert_true(ours[at] == PYR_NATIVE_STACK_UNKNOWN);
        } else {
            assert_true(at + 1 < truth.count);
            assert_true(ours[at] == truth.addresses[at + 1]);
        }
    }
    assert_true(count == PYR_NATIVE_STACK_FRAMES || truth.count - 1 - count <= 1);
    compared++;
}

static volatile int zero;

static __attribute__((noinline)) int plain(int depth)
{
    if (depth > 0) {
        return plain(depth - 1) + 1;
    }
    compare();
    return zero;
}

static __attribute__((noinline)) int with_array(int size)
{
    volatile char room[size]; /* its size is not known: needs a frame pointer */
    room[0] = 1;
    compare();
    return plain(1) + room[0];
}

static __attribute__((noinline)) int aligned(int depth)
{
    volatile struct {
        char bytes[64];
    } __attribute__((aligned(64))) room = {{1}}; /* the stack is aligned anew */
    int more = depth > 0 ? aligned(depth - 1) : with_array(100 + zero);
    compare();
    return room.bytes[zero] + more;
}

static __attribute__((noinline)) int with_many(int a, int b, int c, int d, int e, int f, int g,
                                               int h)
{
    int sum = plain(DEEP) + aligned(2);
    compare();
    return sum + a + b + c + d + e + f + g + h;
}

static int order(const void *one, const void *other)
{
    compare();
    return *(const int *)one - *(const int *)other;
}

static void as_the_compilers_own_unwinder(void **state)
{
    (void)state;
    int numbers[] = {3, 1, 2};
    compared = 0;
    assert_true(with_many(1, 2, 3, 4, 5, 6, 7, 8) > 0);
    qsort(numbers, 3, sizeof numbers[0], order); /* through the C library */
    assert_true(plain(100) == 100);              /* deeper than it looks */
    assert_true(compared > 8);
}

static void *in_a_thread(void *unused)
{
    (void)plain(3);
    return unused;
}

static void to_the_end_of_a_thread(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, in_a_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_caller_that_is_none_is_said_alone(void **state)
{
    (void)state;
    uintptr_t ours[PYR_NATIVE_STACK_FRAMES];
    assert_int_equal(pyr_native_stack_walk(stacks, 0x1234, ours), 2);
    assert_true(ours[0] == 0x1234 && ours[1] == PYR_NATIVE_STACK_UNKNOWN);
}

static __attribute__((noinline)) uint32_t walk_here(pyr_native_stacks *with, uintptr_t *ours)
{
    return pyr_native_stack_walk(with, (uintptr_t)__builtin_return_address(0), ours);
}

static void it_ends_at_the_interpreter(void **state)
{
    (void)state;
    pyr_loaded_counts now;
    uintptr_t ours[PYR_NATIVE_STACK_FRAMES], all[PYR_NATIVE_STACK_FRAMES];
    pyr_native_stacks *others = pyr_native_stacks_new(reader, (uintptr_t)walk_here);
    assert_non_null(others);
    assert_true(pyr_loaded_count(&now));
    pyr_native_stacks_look(others, now);
    /* Between this program's own functions there are some of the test library. */
    uint32_t count = walk_here(others, ours);
    assert_true(count < walk_here(stacks, all));
    assert_memory_equal(&ours[1], &all[1], (count - 1) * sizeof ours[0]);
    assert_true(ours[count - 1] != PYR_NATIVE_STACK_UNKNOWN);
    pyr_native_stacks_free(others);
}

static void without_a_list_nothing_is_known(void **state)
{
    (void)state;
    uintptr_t ours[PYR_NATIVE_STACK_FRAMES];
    pyr_native_stacks *others = pyr_native_stacks_new(reader, 0);
    assert_non_null(others);
    assert_int_equal(walk_here(others, ours), 2);
    assert_true(ours[1] == PYR_NATIVE_STACK_UNKNOWN);
    pyr_native_stacks_free(others);
}

/* ---------------------------------------------------------------------------- damaged bytes ----
 */

typedef struct memory {
    const uint8_t *bytes;
    uintptr_t start;
    size_t length;
} memory;

static size_t read_copy(void *context, uintptr_t address, void *destination, size_t length)
{
    const memory *from = context;
    if (address < from->start || address - from->start >= from->length) {
        return 0;
    }
    size_t at = address - from->start;
    length = length < from->length - at ? length : from->length - at;
    memcpy(destination, from->bytes + at, length);
    return length;
}

typedef struct place_of {
    uintptr_t header, start, end;
} place_of;

static int find_header(struct dl_phdr_info *info, size_t size, void *context)
{
    place_of *found = context;
    uintptr_t inside = (uintptr_t)find_header;
    bool is_it = false;
    (void)size;
    for (int at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && inside - start < segment->p_memsz) {
            is_it = true;
        }
        if (segment->p_type == PT_GNU_EH_FRAME) {
            found->header = start;
        }
    }
    for (int at = 0; is_it && at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[at];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && found->header - start < segment->p_memsz) {
            found->start = start;
            found->end = start + segment->p_memsz;
        }
    }
    return is_it;
}

static void damaged_information_gives_a_rule_or_none(void **state)
{
    (void)state;
    static pyr_cfi_scratch scratch;
    place_of at = {0};
    uint64_t random = 11;
    int good = 0;
    assert_int_equal(dl_iterate_phdr(find_header, &at), 1);
    size_t length = at.end - at.start;
    uint8_t *copy = malloc(length);
    const uintptr_t functions[] = {(uintptr_t)plain, (uintptr_t)aligned, (uintptr_t)with_array};
    assert_non_null(copy);
    for (int turn = 0; turn < 3000; turn++) {
        memory damaged = {copy, at.start, length};
        const pyr_cfi_memory reads = {read_copy, &damaged};
        pyr_cfi_rule rule;
        if (turn % 100 == 0) { /* not by memcpy: a sanitizer sees several variables in it */
            assert_int_equal(pyr_reader_read(reader, at.start, copy, length), PYR_OK);
        }
        uint8_t *byte = &copy[pyr_heap_random(&random) % length];
        for (int more = 0; turn >= 3 && more < 200; more++) {
            byte[(size_t)more % (size_t)(copy + length - byte)] ^=
                (uint8_t)(pyr_heap_random(&random) >> 40);
        }
        damaged.length -= turn % 7 == 6 ? pyr_heap_random(&random) % length : 0;
        good += pyr_cfi_find(&reads, at.header, functions[turn % 3] + 4, &scratch, &rule) == PYR_OK;
        assert_true(turn != 2 || good == 3);
    }
    free(copy);
}

static void no_memory(void **state)
{
    (void)state;
    for (size_t fail = 1; fail <= 3; fail++) {
        pyr_memory_fail_at(fail);
        assert_null(pyr_native_stacks_new(reader, 0));
        pyr_memory_fail_at(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_compilers_own_unwinder),
        cmocka_unit_test(to_the_end_of_a_thread),
        cmocka_unit_test(a_caller_that_is_none_is_said_alone),
        cmocka_unit_test(it_ends_at_the_interpreter),
        cmocka_unit_test(without_a_list_nothing_is_known),
        cmocka_unit_test(damaged_information_gives_a_rule_or_none),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
