/* Unit tests of session/share: shares are what they say, stable and nested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/os.h"
#include "session/share.h"

static int count(double pct, const char *host, int processes)
{
    int included = 0;
    for (int pid = 1; pid <= processes; pid++) {
        included += pyr_share_includes(pct, host, pid, 1000000 + (uint64_t)pid % 7);
    }
    return included;
}

static void test_the_share_is_what_it_says(void **state)
{
    (void)state;
    enum { PROCESSES = 20000 };
    static const double shares[] = {0, 0.5, 10, 50, 99, 100};
    for (size_t index = 0; index < sizeof shares / sizeof shares[0]; index++) {
        double expected = shares[index] / 100 * PROCESSES;
        int got = count(shares[index], "host", PROCESSES);
        /* The standard deviation is at most 71. */
        assert_true(got > expected - 300 && got < expected + 300);
    }
    assert_int_equal(count(0, "host", PROCESSES), 0);
    assert_int_equal(count(100, "host", PROCESSES), PROCESSES);
}

/* In every container the pid is 1: the pod's name and the start tell them apart. */
static void test_each_part_counts(void **state)
{
    (void)state;
    int by_host = 0;
    int by_birth = 0;
    for (int index = 0; index < 2000; index++) {
        char host[32];
        snprintf(host, sizeof host, "shop-5d9c7-%d", index);
        by_host += pyr_share_includes(50, host, 1, 77);
        by_birth += pyr_share_includes(50, "shop", 1, (uint64_t)index);
    }
    assert_in_range(by_host, 850, 1150);
    assert_in_range(by_birth, 850, 1150);
}

static void test_a_larger_share_holds_the_smaller(void **state)
{
    (void)state;
    for (int pid = 1; pid < 5000; pid++) {
        bool before = false;
        for (double pct = 0; pct <= 100; pct += 5) {
            bool now = pyr_share_includes(pct, "host", pid, 5);
            assert_true(now || !before);
            before = now;
        }
    }
}

static void test_this_process(void **state)
{
    (void)state;
    assert_true(pyr_share_includes_this(100));
    assert_false(pyr_share_includes_this(0));
    for (double pct = 5; pct < 100; pct += 5) {
        assert_int_equal(pyr_share_includes_this(pct), pyr_share_includes_this(pct));
    }
    uint64_t birth = pyr_os_process_birth();
    assert_true(birth > 0);
    assert_int_equal(pyr_os_process_birth(), birth);
    usleep(30000); /* a tick is 10 ms */
    pid_t child = fork();
    if (child == 0) {
        _exit(pyr_os_process_birth() > birth ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_share_is_what_it_says),
        cmocka_unit_test(test_each_part_counts),
        cmocka_unit_test(test_a_larger_share_holds_the_smaller),
        cmocka_unit_test(test_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
