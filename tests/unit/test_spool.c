/* Unit tests of export/spool: order, bounds, claims, and what else lies in the folder. */
#include "export/spool.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "os/claim.h"

static char folder[80]; /* the spool's; not made by the test */
static char above[64];  /* removed behind it */
static const int64_t AGE_NS = INT64_C(3600000000000);

static int set_up(void **state)
{
    (void)state;
    snprintf(above, sizeof above, "/tmp/pyrometer-test-XXXXXX");
    assert_non_null(mkdtemp(above));
    snprintf(folder, sizeof folder, "%s/a/spool", above);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", above);
    return system(command);
}

static int64_t now(void)
{
    return pyr_clock_realtime_ns();
}

static pyr_status add(pyr_spool *spool, int64_t time_ns, const char *body)
{
    char name[PYR_SPOOL_NAME_BYTES];
    return pyr_spool_add(spool, time_ns, "head\n\n", 6, body, strlen(body), name);
}

/* Takes the next one, checks what it is, and ends it. */
static void take(pyr_spool *spool, pyr_spool_entry *entry, const char *body, int done)
{
    assert_int_equal(pyr_spool_next(spool, entry), PYR_OK);
    assert_int_equal(entry->content.length, 6 + strlen(body));
    assert_memory_equal(entry->content.data, "head\n\n", 6);
    assert_memory_equal(entry->content.data + 6, body, strlen(body));
    pyr_spool_end(spool, entry, done);
}

static void assert_nothing(pyr_spool *spool, const pyr_spool_entry *after)
{
    pyr_spool_entry entry = *after;
    assert_int_equal(pyr_spool_next(spool, &entry), PYR_ENOENT);
}

static void test_oldest_first_and_until_done(void **state)
{
    (void)state;
    int64_t base = now();
    pyr_spool *spool = pyr_spool_new(folder, "http://a", 1 << 20, AGE_NS);
    pyr_spool_entry entry = {0};
    assert_nothing(spool, &entry); /* and no folder is made */
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(add(spool, base + 2, "second"), PYR_OK);
    assert_int_equal(add(spool, base + 1, "first"), PYR_OK);
    assert_int_equal(add(spool, base + 3, "third"), PYR_OK);
    take(spool, &entry, "first", 0);
    take(spool, &entry, "second", 1);
    take(spool, &entry, "third", 0);
    assert_nothing(spool, &entry);
    entry = (pyr_spool_entry){0};
    take(spool, &entry, "first", 1); /* it was given up, so it is still there */
    take(spool, &entry, "third", 1);
    assert_nothing(spool, &(pyr_spool_entry){0});
    struct stat facts;
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    pyr_spool_free(spool);
}

static void test_targets_are_apart(void **state)
{
    (void)state;
    pyr_spool *one = pyr_spool_new(folder, "http://a", 1 << 20, AGE_NS);
    pyr_spool *other = pyr_spool_new(folder, "http://b", 1 << 20, AGE_NS);
    pyr_spool_entry entry = {0};
    assert_int_equal(add(one, now(), "for a"), PYR_OK);
    assert_nothing(other, &entry);
    pyr_spool_free(one);
    one = pyr_spool_new(folder, "http://a", 1 << 20, AGE_NS); /* as the next process would */
    take(one, &entry, "for a", 1);
    pyr_spool_free(one);
    pyr_spool_free(other);
}

static void test_bounds(void **state)
{
    (void)state;
    int64_t base = now();
    pyr_spool *spool = pyr_spool_new(folder, "t", 100, AGE_NS);
    pyr_spool_entry entry = {0};
    char body[128];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    assert_int_equal(add(spool, base, body), PYR_ETOOBIG);
    body[30] = '\0'; /* 36 bytes with its head: two fit */
    for (int index = 0; index < 4; index++) {
        assert_int_equal(add(spool, base + index, body), PYR_OK);
        body[0]++;
    }
    assert_int_equal(pyr_spool_prune(spool), 2);
    assert_int_equal(pyr_spool_next(spool, &entry), PYR_OK);
    assert_int_equal(entry.content.data[6], 'x' + 2); /* the oldest went */
    pyr_spool_end(spool, &entry, 0);
    assert_int_equal(pyr_spool_next(spool, &entry), PYR_OK);
    pyr_spool_end(spool, &entry, 0);
    assert_nothing(spool, &entry);
    pyr_spool_free(spool);

    spool = pyr_spool_new(folder, "t", 1 << 20, AGE_NS);
    assert_int_equal(add(spool, base - 2 * AGE_NS, "too old"), PYR_OK);
    assert_int_equal(pyr_spool_prune(spool), 1);
    pyr_spool_free(spool);
}

static void make_file(const char *name, const char *text)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int has_file(const char *name)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void test_other_files_are_left_alone(void **state)
{
    (void)state;
    static const char *const others[] = {
        "notes.txt",
        "x.request",
        "0123456789012345678x-1.request",
        "00000000000000000001_1-2.b764e99af88d0d3e.request",
        "00000000000000000001.request",
        "00000000000000000001-1-2.b764e99af88d0d3e.request.txt",
    };
    pyr_spool *spool = pyr_spool_new(folder, "t", 200, AGE_NS);
    assert_int_equal(add(spool, now(), "mine"), PYR_OK);
    for (size_t index = 0; index < sizeof others / sizeof others[0]; index++) {
        make_file(others[index], "somebody's");
    }
    make_file(".request-unfinished", "of a live writer");
    for (int index = 0; index < 9; index++) {
        assert_int_equal(add(spool, now(), "much too much for what the spool may hold"), PYR_OK);
        (void)pyr_spool_prune(spool);
    }
    for (size_t index = 0; index < sizeof others / sizeof others[0]; index++) {
        assert_true(has_file(others[index]));
    }
    assert_true(has_file(".request-unfinished"));
    pyr_spool_entry entry = {0};
    while (pyr_spool_next(spool, &entry) == PYR_OK) {
        assert_memory_equal(entry.content.data, "head\n\n", 6);
        pyr_spool_end(spool, &entry, 1);
    }
    pyr_spool_free(spool);
}

/* A link into another place is no request, and a folder that is a link is no spool. */
static void test_links_are_not_followed(void **state)
{
    (void)state;
    char link[192], target[192];
    pyr_spool *spool = pyr_spool_new(folder, "t", 1 << 20, AGE_NS);
    pyr_spool_entry entry = {0};
    assert_int_equal(add(spool, now(), "x"), PYR_OK);
    take(spool, &entry, "x", 1);
    snprintf(target, sizeof target, "%s/secret", above);
    snprintf(link, sizeof link, "%s/%s", folder, entry.name);
    FILE *file = fopen(target, "w");
    fputs("secret", file);
    fclose(file);
    assert_int_equal(symlink(target, link), 0);
    assert_nothing(spool, &(pyr_spool_entry){0});
    pyr_spool_free(spool);

    snprintf(link, sizeof link, "%s/link", above);
    assert_int_equal(symlink(folder, link), 0);
    spool = pyr_spool_new(link, "t", 1 << 20, AGE_NS);
    assert_int_equal(add(spool, now(), "x"), PYR_EPERM);
    pyr_spool_free(spool);
}

/* What one process sends, no other takes, until it is done or dead. */
static void test_claims(void **state)
{
    (void)state;
    int ready[2];
    pyr_spool *spool = pyr_spool_new(folder, "t", 1 << 20, AGE_NS);
    pyr_spool_entry entry = {0};
    char byte;
    assert_int_equal(add(spool, now(), "one"), PYR_OK);
    assert_int_equal(add(spool, now() + 1, "two"), PYR_OK);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(pyr_spool_next(spool, &entry) == PYR_OK && write(ready[1], "x", 1) == 1 ? pause()
                                                                                      : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    take(spool, &entry, "two", 0);
    assert_nothing(spool, &entry);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    entry = (pyr_spool_entry){0};
    take(spool, &entry, "one", 0);

    /* A child of a fork does not have its parent's claim, nor keeps it after the parent's end. */
    entry = (pyr_spool_entry){0};
    assert_int_equal(pyr_spool_next(spool, &entry), PYR_OK);
    child = fork();
    if (child == 0) {
        pyr_spool_entry other = {0};
        _exit(pyr_spool_next(spool, &other) == PYR_OK && other.content.data[6] == 't' ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    pyr_spool_end(spool, &entry, 1);
    close(ready[0]);
    close(ready[1]);
    pyr_spool_free(spool);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    int failed = 1;
    for (size_t nth = 1; failed && nth < 200; nth++) {
        pyr_memory_fail_at(nth);
        pyr_spool *spool = pyr_spool_new(folder, "t", 1 << 20, AGE_NS);
        pyr_spool_entry entry = {0};
        if (spool != NULL) {
            if (add(spool, now(), "x") == PYR_OK && pyr_spool_next(spool, &entry) == PYR_OK) {
                pyr_spool_end(spool, &entry, 1);
            }
            (void)pyr_spool_prune(spool);
        }
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        pyr_spool_free(spool);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_oldest_first_and_until_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_targets_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_claims, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_allocation_fails_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
