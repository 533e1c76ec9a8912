/* Unit tests of reader/: batches, and reading the own and another process around memory that is
 * missing, protected, or no address at all; under a sandbox that forbids the system calls too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "reader/reader.h"

enum { PAGE = 4096 };

/* One page of known bytes, with nothing readable behind it. */
static uint8_t *guarded_page(void)
{
    uint8_t *pages =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    for (size_t i = 0; i < PAGE; i++) {
        pages[i] = (uint8_t)(i * 7 + i / 256);
    }
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    return pages;
}

static pyr_addr addr(const void *pointer)
{
    return (pyr_addr)(uintptr_t)pointer;
}

/* Every way to fail within one batch; the spans between them arrive whole. */
static void check_bad_spans(pyr_reader *reader, uint8_t *page)
{
    static const pyr_addr bad[] = {
        0,
        8,
        (pyr_addr)-1,
        (pyr_addr)-8,
        (pyr_addr)1 << 63,
        (pyr_addr)1 << 47,
        ((pyr_addr)1 << 47) - 1,
        ((pyr_addr)1 << 47) - 4096,
        (pyr_addr)0xffff800000000000,
        (pyr_addr)0xdbdbdbdbdbdbdbdb,
        (pyr_addr)1 << 56,
    };
    enum { BAD = sizeof bad / sizeof bad[0] };
    pyr_batch *batch = pyr_batch_new(1 << 20);
    assert_non_null(batch);
    int first = pyr_batch_add(batch, addr(page), 100);
    int failing[BAD], good[BAD];
    for (size_t i = 0; i < BAD; i++) {
        failing[i] = pyr_batch_add(batch, bad[i], 1 + i * 3);
        good[i] = pyr_batch_add(batch, addr(page + i * 11), 1 + i * 37);
    }
    int protected_page = pyr_batch_add(batch, addr(page + PAGE), 8);
    int partial = pyr_batch_add(batch, addr(page + PAGE - 20), 64);
    int edge = pyr_batch_add(batch, addr(page + PAGE - 3), 3);
    int last = pyr_batch_add(batch, addr(page), PAGE);
    assert_int_equal(last, 2 * BAD + 4);
    pyr_reader_read_batch(reader, batch);
    assert_memory_equal(pyr_batch_get(batch, first), page, 100);
    for (size_t i = 0; i < BAD; i++) {
        assert_null(pyr_batch_get(batch, failing[i]));
        assert_int_equal(batch->spans[failing[i]].done, 0);
        assert_non_null(pyr_batch_get(batch, good[i]));
        assert_memory_equal(pyr_batch_get(batch, good[i]), page + i * 11, 1 + i * 37);
    }
    assert_null(pyr_batch_get(batch, protected_page));
    assert_null(pyr_batch_get(batch, partial));
    assert_int_equal(batch->spans[partial].done, 20);
    assert_memory_equal(batch->buffer + batch->spans[partial].offset, page + PAGE - 20, 20);
    assert_memory_equal(pyr_batch_get(batch, edge), page + PAGE - 3, 3);
    assert_memory_equal(pyr_batch_get(batch, last), page, PAGE);
    assert_null(pyr_batch_get(batch, -1));
    assert_null(pyr_batch_get(batch, last + 1));
    pyr_batch_free(batch);

    uint64_t word;
    for (size_t i = 0; i < BAD; i++) {
        assert_int_equal(pyr_reader_read(reader, bad[i], &word, sizeof word), PYR_EFAULT);
    }
    assert_int_equal(pyr_reader_read(reader, addr(page + PAGE - 4), &word, 8), PYR_EFAULT);
    assert_int_equal(pyr_reader_read(reader, addr(page + PAGE - 8), &word, 8), PYR_OK);
    assert_memory_equal(&word, page + PAGE - 8, 8);
}

static void test_self_bad_spans(void **state)
{
    (void)state;
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    assert_string_equal(pyr_reader_method(reader), "process_vm_writev");
    uint8_t *page = guarded_page();
    check_bad_spans(reader, page);
    munmap(page + PAGE, PAGE); /* unmapped instead of protected */
    check_bad_spans(reader, page);
    munmap(page, PAGE);
    uint8_t byte;
    assert_int_equal(pyr_reader_read(reader, addr(page), &byte, 1), PYR_EFAULT);
    pyr_reader_close(reader);
    pyr_reader_close(NULL);
}

/* As many spans as a batch takes, in one call when nothing is in the way. */
static void test_full_batch(void **state)
{
    (void)state;
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    uint8_t *page = guarded_page();
    pyr_batch *batch = pyr_batch_new(PYR_LIMIT_SPANS * 64);
    for (int i = 0; i < PYR_LIMIT_SPANS; i++) {
        assert_int_equal(pyr_batch_add(batch, addr(page + i), 1 + (size_t)i % 64), i);
    }
    assert_int_equal(pyr_batch_add(batch, addr(page), 1), -1);
    pyr_reader_read_batch(reader, batch);
    assert_int_equal(batch->calls, 1);
    for (int i = 0; i < PYR_LIMIT_SPANS; i++) {
        assert_int_equal(batch->spans[i].offset % 8, 0);
        assert_memory_equal(pyr_batch_get(batch, i), page + i, 1 + (size_t)i % 64);
    }
    pyr_batch_clear(batch);
    for (int i = 0; i < PYR_LIMIT_SPANS; i++) {
        assert_int_equal(pyr_batch_add(batch, i % 3 ? 0 : addr(page), 8), i);
    }
    pyr_reader_read_batch(reader, batch);
    for (int i = 0; i < PYR_LIMIT_SPANS; i++) {
        assert_int_equal(batch->spans[i].done, i % 3 ? 0 : 8);
    }
    pyr_batch_free(batch);
    pyr_reader_close(reader);
    munmap(page, 2 * PAGE);
}

static void test_batch_bounds(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    assert_null(pyr_batch_new(0));
    assert_null(pyr_batch_new(SIZE_MAX));
    pyr_memory_fail_at(1);
    assert_null(pyr_batch_new(8));
    pyr_memory_fail_at(2);
    assert_null(pyr_batch_new(8));
    pyr_memory_fail_at(0);
    pyr_batch *batch = pyr_batch_new(20); /* rounded to slots of 8 */
    assert_int_equal(batch->capacity, 24);
    assert_int_equal(addr(batch->buffer) % PAGE, 0);
    assert_int_equal(pyr_batch_add(batch, 1, 0), -1);
    assert_int_equal(pyr_batch_add(batch, 1, 25), -1);
    assert_int_equal(pyr_batch_add(batch, 1, SIZE_MAX), -1);
    assert_int_equal(pyr_batch_add(batch, 1, 9), 0);
    assert_int_equal(pyr_batch_add(batch, 1, 9), -1);
    assert_int_equal(pyr_batch_add(batch, 1, 8), 1);
    assert_int_equal(pyr_batch_add(batch, 1, 1), -1);
    assert_null(pyr_batch_get(batch, 0));
    pyr_batch_clear(batch);
    assert_int_equal(pyr_batch_add(batch, 1, 24), 0);
    pyr_batch_free(batch);
    pyr_batch_free(NULL);
    pyr_memory_fail_at(1);
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_ENOMEM);
    pyr_memory_fail_at(1);
    assert_int_equal(pyr_reader_open_pid(getpid(), &reader), PYR_ENOMEM);
    pyr_memory_fail_at(0);
    assert_int_equal(pyr_memory_in_use(), before);
}

/* The same memory twice in one batch is two copies, in order: what proves a stack consistent. */
static void test_two_copies(void **state)
{
    (void)state;
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    volatile uint64_t word = 5;
    pyr_batch *batch = pyr_batch_new(64);
    int one = pyr_batch_add(batch, addr((const void *)&word), 8);
    int two = pyr_batch_add(batch, addr((const void *)&word), 8);
    pyr_reader_read_batch(reader, batch);
    assert_true(pyr_batch_get(batch, one) != pyr_batch_get(batch, two));
    assert_memory_equal(pyr_batch_get(batch, one), pyr_batch_get(batch, two), 8);
    pyr_batch_free(batch);
    pyr_reader_close(reader);
}

/* Runs `body` in a child; its exit status. */
static int in_child(void (*body)(void *), void *argument)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body(argument);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* After a fork the child reads itself, not its parent. */
static void forked(void *argument)
{
    pyr_reader *reader = argument;
    static uint64_t word = 1;
    word = 2;
    pyr_reader_fork_child(reader);
    uint64_t seen;
    if (pyr_reader_read(reader, addr(&word), &seen, 8) != PYR_OK || seen != 2) {
        _exit(1);
    }
}

static void test_fork(void **state)
{
    (void)state;
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    assert_int_equal(in_child(forked, reader), 0);
    pyr_reader_close(reader);
}

static void deny(unsigned first, unsigned second)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], (struct sock_filter *)code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(90);
    }
}

static void without_writev(void *page)
{
    pyr_reader *early, *late;
    if (pyr_reader_open_self(&early) != PYR_OK) {
        _exit(1);
    }
    deny(SYS_process_vm_writev, SYS_process_vm_writev);
    if (pyr_reader_open_self(&late) != PYR_OK) {
        _exit(2);
    }
    check_bad_spans(late, page);
    check_bad_spans(early, page); /* forbidden only after it was opened */
    if (strcmp(pyr_reader_method(early), "process_vm_readv") != 0 ||
        strcmp(pyr_reader_method(late), "process_vm_readv") != 0) {
        _exit(3);
    }
}

static void without_both(void *page)
{
    pyr_reader *early, *late;
    uint64_t word;
    pyr_batch *batch = pyr_batch_new(64);
    if (!batch || pyr_reader_open_self(&early) != PYR_OK) {
        _exit(1);
    }
    deny(SYS_process_vm_writev, SYS_process_vm_readv);
    if (pyr_reader_open_self(&late) != PYR_EPERM) {
        _exit(2);
    }
    pyr_batch_add(batch, addr(page), 8);
    pyr_reader_read_batch(early, batch);
    if (pyr_batch_get(batch, 0) || pyr_reader_read(early, addr(page), &word, 8) != PYR_EFAULT) {
        _exit(3);
    }
}

static void test_sandbox(void **state)
{
    (void)state;
    uint8_t *page = guarded_page();
    assert_int_equal(in_child(without_writev, page), 0);
    assert_int_equal(in_child(without_both, page), 0);
    munmap(page, 2 * PAGE);
}

static void test_pid(void **state)
{
    (void)state;
    uint8_t *page = guarded_page(); /* the child has the same page at the same address */
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        page[5] = 0xEE;
        (void)!write(ready[1], "x", 1);
        pause();
        _exit(0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_pid(child, &reader), PYR_OK);
    assert_string_equal(pyr_reader_method(reader), "process_vm_readv");
    uint8_t seen;
    assert_int_equal(pyr_reader_read(reader, addr(page + 5), &seen, 1), PYR_OK);
    assert_int_equal(seen, 0xEE);
    page[5] = 0xEE;
    check_bad_spans(reader, page);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(pyr_reader_read(reader, addr(page), &seen, 1), PYR_EFAULT);
    pyr_reader_close(reader);
    assert_int_equal(pyr_reader_open_pid(child, &reader), PYR_ENOENT);
    assert_int_equal(pyr_reader_open_pid(0, &reader), PYR_ENOENT);
    assert_int_equal(pyr_reader_open_pid(-1, &reader), PYR_ENOENT);
    assert_int_equal(pyr_reader_open_pid(INT64_C(1) << 40, &reader), PYR_ENOENT);
    munmap(page, 2 * PAGE);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_bad_spans),
        cmocka_unit_test(test_full_batch),
        cmocka_unit_test(test_batch_bounds),
        cmocka_unit_test(test_two_copies),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_pid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
