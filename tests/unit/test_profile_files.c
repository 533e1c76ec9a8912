/* Unit tests of export/profile_files: which files are ours, and where a prefix points. Pruning is
 * tested with the exporter, in test_file_exporter.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "export/profile_files.h"

enum { PATH_BYTES = 1024 };

static char folder[] = "/tmp/pyrometer-test-XXXXXX"; /* the working folder and home of the tests */

static void test_names(void **state)
{
    (void)state;
    uint64_t pid, sequence;
    assert_int_equal(pyr_profile_files_parse("app.12.3.pprof", "app", &pid, &sequence), 1);
    assert_int_equal(pid, 12);
    assert_int_equal(sequence, 3);
    assert_int_equal(pyr_profile_files_parse("app.12.3.pprof.json", "app", &pid, &sequence), 1);
    static const char *const foreign[] = {
        "app.12.3.pprof.gz",
        "app.12.3.pprofx",
        "app.12.pprof",
        "app.12.3.4.pprof",
        "app.x.3.pprof",
        "app.12..pprof",
        "app..3.pprof",
        "app.-1.3.pprof",
        "app.12.3pprof",
        "application.1.2.pprof",
        "app",
        "app.",
        "app.1.2.json",
        "pp.1.2.pprof",
        "",
        "app.1.99999999999999999999.pprof",
        "app.1.2.pprof.",
        "app. 1.2.pprof",
        "app.1.0x2.pprof",
        "app.1.2.pprof.json.pprof",
    };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_int_equal(pyr_profile_files_parse(foreign[i], "app", &pid, &sequence), 0);
    }
}

static void test_prefixes(void **state)
{
    (void)state;
    char at[PYR_LIMIT_PATH_BYTES], name[PYR_PROFILE_NAME_BYTES];
    char expected[PATH_BYTES];
    assert_int_equal(mkdir("there", 0755), 0);
    const struct {
        const char *prefix, *folder, *name;
    } cases[] = {
        {"app", "", "app"},
        {"./app", "/.", "app"},
        {"new/deep/app", "/new/deep", "app"},
        {"new/", "/new", "profile"},
        {"there", "/there", "profile"},
        {"there//", "/there", "profile"},
        {"~/home/app", "/home", "app"},
        {"~", "", "profile"},
        {"~other/app", "/~other", "app"},
        {"", "", "profile"},
        {"with space/caf\xC3\xA9.x", "/with space", "caf\xC3\xA9.x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(pyr_profile_files_resolve(cases[i].prefix, at, name), PYR_OK);
        snprintf(expected, sizeof expected, "%s%s", folder, cases[i].folder);
        assert_string_equal(at, expected);
        assert_string_equal(name, cases[i].name);
    }
    assert_int_equal(pyr_profile_files_resolve("/app", at, name), PYR_OK);
    assert_string_equal(at, "/");
    char longer[2 * PYR_LIMIT_PATH_BYTES];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(pyr_profile_files_resolve(longer, at, name), PYR_ETOOBIG);
    longer[PYR_PROFILE_NAME_BYTES] = '\0';
    assert_int_equal(pyr_profile_files_resolve(longer, at, name), PYR_ETOOBIG);
    unsetenv("HOME");
    assert_int_equal(pyr_profile_files_resolve("~/app", at, name), PYR_ENOENT);
}

int main(void)
{
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        return 1;
    }
    setenv("HOME", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_prefixes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir("there");
    rmdir(folder);
    return failed;
}
