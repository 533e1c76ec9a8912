/* Unit tests of export/file: places, sequences, caps, disks that are full or refuse, and many
 * processes in one folder. Each test has a folder of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "export/exporter.h"

enum { PATH_BYTES = 1024 };

static char folder[256]; /* of the test; removed behind it */
static char where[256];  /* the working folder before */
static char why[512];
extern const pyr_exporter_class pyr_exporter_file;
static const pyr_exporter_class *file_class;

static int set_up(void **state)
{
    (void)state;
    assert_non_null(getcwd(where, sizeof where));
    snprintf(folder, sizeof folder, "/tmp/pyrometer-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    setenv("TMPDIR", folder, 1);
    setenv("HOME", folder, 1);
    file_class = &pyr_exporter_file;
    why[0] = '\0';
    return 0;
}

static void remove_folder(const char *path)
{
    DIR *open_folder = opendir(path);
    const struct dirent *entry;
    while (open_folder && (entry = readdir(open_folder)) != NULL) {
        char inner[PATH_BYTES];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(inner) != 0) {
            remove_folder(inner);
        }
    }
    if (open_folder) {
        closedir(open_folder);
    }
    rmdir(path);
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir(where), 0);
    remove_folder(folder);
    return 0;
}

static const char *below(const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void *open_exporter(const char *prefix, int64_t max_bytes, int64_t max_age_s)
{
    void *exporter = NULL;
    why[0] = '\0';
    const pyr_exporter_options options = {
        .output_prefix = prefix,
        .output_max_bytes = max_bytes,
        .output_max_age_s = max_age_s,
    };
    assert_int_equal(file_class->open(&options, &exporter, why, sizeof why), PYR_OK);
    assert_non_null(exporter);
    return exporter; /* `why` says what does not work yet */
}

static pyr_export_job make_job(const char *profile, int64_t pid)
{
    return (pyr_export_job){
        .profile = (const uint8_t *)profile,
        .profile_length = strlen(profile),
        .document = (const uint8_t *)"{}\n",
        .document_length = 3,
        .pid = pid,
    };
}

static pyr_status send(void *exporter, const char *profile, int64_t pid)
{
    pyr_export_job job = make_job(profile, pid);
    why[0] = '\0';
    return file_class->send(exporter, &job, INT64_MAX, why, sizeof why);
}

static void check_file(const char *name, const char *content)
{
    char bytes[256];
    FILE *file = fopen(below(name), "r");
    if (!file) {
        fail_msg("%s is missing", name);
        return;
    }
    size_t length = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    bytes[length] = '\0';
    assert_string_equal(bytes, content);
}

static int exists(const char *name)
{
    struct stat facts;
    return lstat(below(name), &facts) == 0;
}

static void make_file(const char *name, const char *content, int64_t age_s)
{
    FILE *file = fopen(below(name), "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, below(name), times, 0), 0);
}

static size_t count_entries(const char *path)
{
    size_t count = 0;
    DIR *open_folder = opendir(path);
    while (open_folder && readdir(open_folder)) {
        count++;
    }
    closedir(open_folder);
    return count - 2;
}

static void test_writes_profile_and_document(void **state)
{
    (void)state;
    mode_t mask = umask(027);
    void *exporter = open_exporter(below("out/app"), 0, 0);
    assert_int_equal(send(exporter, "first", 42), PYR_OK);
    assert_int_equal(send(exporter, "second", 42), PYR_OK);
    check_file("out/app.42.1.pprof", "first");
    check_file("out/app.42.1.pprof.json", "{}\n");
    check_file("out/app.42.2.pprof", "second");
    assert_int_equal(count_entries(below("out")), 4);
    struct stat facts;
    assert_int_equal(stat(below("out/app.42.1.pprof"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0640);
    assert_int_equal(stat(below("out"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0750);
    umask(mask);
    char text[PATH_BYTES], expected[PATH_BYTES];
    file_class->describe(exporter, text, sizeof text);
    snprintf(expected, sizeof expected, "files %s/out/app.%d.*.pprof", folder, (int)getpid());
    assert_string_equal(text, expected);
    file_class->close(exporter);
}

static void test_never_overwrites(void **state)
{
    (void)state;
    make_file("app.1.7.pprof", "old", 0);
    make_file("app.1.9.pprof.json", "old document", 0);
    make_file("app.2.100.pprof", "another process", 0);
    void *exporter = open_exporter("app", 0, 0);
    assert_int_equal(send(exporter, "new", 1), PYR_OK);
    check_file("app.1.10.pprof", "new");
    make_file("app.1.11.pprof", "of another container", 0);
    assert_int_equal(symlink("/nowhere", below("app.1.12.pprof")), 0);
    assert_int_equal(send(exporter, "newer", 1), PYR_OK);
    check_file("app.1.13.pprof", "newer");
    check_file("app.1.11.pprof", "of another container");
    check_file("app.1.7.pprof", "old");
    check_file("app.1.9.pprof.json", "old document");
    /* A forked child has a pid, and so a sequence, of its own. */
    assert_int_equal(send(exporter, "child", 3), PYR_OK);
    check_file("app.3.1.pprof", "child");
    file_class->close(exporter);
}

static void test_chdir_and_a_removed_folder(void **state)
{
    (void)state;
    void *exporter = open_exporter(NULL, 0, 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(send(exporter, "one", 5), PYR_OK);
    check_file("pyrometer-profiles/profile.5.1.pprof", "one");
    remove_folder(below("pyrometer-profiles"));
    assert_int_equal(send(exporter, "two", 5), PYR_OK);
    check_file("pyrometer-profiles/profile.5.2.pprof", "two");
    file_class->close(exporter);
}

static void test_cap_by_bytes(void **state)
{
    (void)state;
    static const char *const foreign[] = {"app.1.1.txt",
                                          "app.1.pprof",
                                          "application.1.1.pprof",
                                          "other.1.1.pprof",
                                          "app.1.1.pprof.gz",
                                          ".pyrometer-x.tmp",
                                          ".pyrometer-0123456789abcdef.tmpx"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        make_file(foreign[i], "foreign, and older than all", 100000);
    }
    make_file(".pyrometer-0123456789abcdef.tmp", "left by one that died", 100000);
    make_file(".pyrometer-0123456789abcdee.tmp", "being written", 10);
    make_file("app.9.1.pprof", "0123456789012345678901234567890123456789", 500);
    make_file("app.9.1.pprof.json", "0123456789", 500);
    make_file("app.8.5.pprof", "0123456789012345678901234567890123456789", 400);
    void *exporter = open_exporter("app", 100, 0);
    assert_int_equal(send(exporter, "0123456789", 7), PYR_OK); /* 40 + 10 + 40 + 10 + 3 */
    assert_false(exists("app.9.1.pprof"));
    assert_true(exists("app.8.5.pprof"));
    assert_int_equal(send(exporter, "01234567890123456789012345678901234567890123456789", 7),
                     PYR_OK);
    assert_false(exists("app.9.1.pprof.json"));
    assert_false(exists("app.8.5.pprof"));
    check_file("app.7.1.pprof", "0123456789");
    /* What was just written stays, however small the cap. */
    char large[200];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(send(exporter, large, 7), PYR_OK);
    assert_true(exists("app.7.3.pprof") && exists("app.7.3.pprof.json"));
    assert_false(exists("app.7.1.pprof") || exists("app.7.2.pprof"));
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_true(exists(foreign[i]));
    }
    assert_false(exists(".pyrometer-0123456789abcdef.tmp"));
    assert_true(exists(".pyrometer-0123456789abcdee.tmp"));
    file_class->close(exporter);
}

static void test_cap_by_age(void **state)
{
    (void)state;
    make_file("app.9.1.pprof", "old", 5000);
    make_file("app.9.2.pprof", "young", 50);
    void *exporter = open_exporter("app", 0, 3600);
    assert_int_equal(send(exporter, "new", 9), PYR_OK);
    assert_false(exists("app.9.1.pprof"));
    check_file("app.9.2.pprof", "young");
    check_file("app.9.3.pprof", "new");
    file_class->close(exporter);
}

/* Something that is no folder in the way refuses everybody, root too. */
static void test_refused_and_mended(void **state)
{
    (void)state;
    make_file("wall", "", 0);
    void *exporter = open_exporter("wall/app", 0, 0);
    assert_non_null(strstr(why, "wall")); /* told at once */
    assert_non_null(strstr(why, "PYROMETER_OUTPUT_PPROF"));
    assert_true(send(exporter, "lost", 1) != PYR_OK);
    assert_non_null(strstr(why, "wall"));
    assert_false(exists("pyrometer-profiles")); /* nobody asked for another place */
    assert_int_equal(unlink(below("wall")), 0);
    assert_int_equal(send(exporter, "kept", 1), PYR_OK);
    check_file("wall/app.1.1.pprof", "kept");
    file_class->close(exporter);
}

static void test_default_falls_back(void **state)
{
    (void)state;
    assert_int_equal(mkdir(below("temporary"), 0755), 0);
    setenv("TMPDIR", below("temporary"), 1);
    make_file("pyrometer-profiles", "in the way", 0);
    void *exporter = open_exporter(NULL, 0, 0);
    char text[PATH_BYTES];
    file_class->describe(exporter, text, sizeof text);
    assert_non_null(strstr(text, "/temporary/pyrometer-profiles/profile."));
    assert_int_equal(send(exporter, "one", 1), PYR_OK);
    check_file("temporary/pyrometer-profiles/profile.1.1.pprof", "one");
    assert_int_equal(unlink(below("pyrometer-profiles")), 0);
    assert_int_equal(send(exporter, "two", 1), PYR_OK); /* the better place again */
    check_file("pyrometer-profiles/profile.1.1.pprof", "two");
    file_class->close(exporter);
}

static void test_a_foreign_temporary_folder_is_not_used(void **state)
{
    (void)state;
    assert_int_equal(mkdir(below("temporary"), 0755), 0);
    assert_int_equal(mkdir(below("elsewhere"), 0755), 0);
    setenv("TMPDIR", below("temporary"), 1);
    make_file("pyrometer-profiles", "in the way", 0);
    char target[PATH_BYTES];
    snprintf(target, sizeof target, "%s", below("elsewhere"));
    assert_int_equal(symlink(target, below("temporary/pyrometer-profiles")), 0);
    void *exporter = open_exporter(NULL, 0, 0);
    assert_int_equal(send(exporter, "one", 1), PYR_OK);
    assert_int_equal(count_entries(below("elsewhere")), 0);
    char expected[PATH_BYTES];
    snprintf(expected, sizeof expected, "temporary/pyrometer-profiles-%d/profile.1.1.pprof",
             (int)geteuid());
    check_file(expected, "one");
    file_class->close(exporter);
}

/* Runs in a child, whose limit and mounts end with it. 0 = as it should be. */
static int run_in_child(int (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int write_beyond_the_limit(void)
{
    /* As on the exporter's thread, where the signal is blocked. */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    static char large[100000];
    memset(large, 'x', sizeof large - 1);
    void *exporter = open_exporter("app", 0, 0);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){5000, 5000});
    pyr_status refused = send(exporter, large, 1);
    int told = strstr(why, "no space") != NULL;
    size_t left = count_entries(".");
    pyr_status kept = send(exporter, "small", 1);
    file_class->close(exporter);
    return refused != PYR_ENOSPC ? 1 : !told ? 2 : left != 0 ? 3 : kept != PYR_OK ? 4 : 0;
}

static void test_beyond_the_file_size_limit(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(write_beyond_the_limit), 0);
    check_file("app.1.1.pprof", "small");
}

static int write_to_a_full_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", below("disk"), "tmpfs", 0, "size=64k,mode=0755") != 0) {
        return 77; /* not permitted here */
    }
    static char large[100000];
    memset(large, 'x', sizeof large - 1);
    void *exporter = open_exporter("disk/app", 0, 0);
    int wrong = send(exporter, large, 1) != PYR_ENOSPC || !strstr(why, "no space") ||
                count_entries("disk") != 0;
    wrong = wrong || send(exporter, "small", 1) != PYR_OK || !exists("disk/app.1.1.pprof");
    wrong = wrong || mount("tmpfs", below("disk"), "tmpfs", MS_REMOUNT | MS_RDONLY, "") != 0 ||
            send(exporter, "refused", 1) != PYR_EPERM || !strstr(why, "writable");
    file_class->close(exporter);
    return wrong;
}

static void test_full_and_read_only_disks(void **state)
{
    (void)state;
    assert_int_equal(mkdir(below("disk"), 0755), 0);
    int result = run_in_child(write_to_a_full_disk);
    if (result == 77) {
        skip();
    }
    assert_int_equal(result, 0);
}

/* Refuses system call `number` with `error` from now on, as sandboxes and file systems do. */
static int refuse(unsigned number, unsigned error)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static int write_without_renameat2(void)
{
    make_file("app.1.1.pprof", "old", 0);
    void *exporter = open_exporter("app", 0, 0);
    make_file("app.1.2.pprof", "of another container", 0);
    if (!refuse(SYS_renameat2, EINVAL)) {
        return 77;
    }
    int wrong = send(exporter, "by a second name", 1) != PYR_OK;
    make_file("app.1.4.pprof", "of another container", 0);
    if (!refuse(SYS_linkat, EPERM)) {
        return 77;
    }
#ifdef SYS_link
    if (!refuse(SYS_link, EPERM)) {
        return 77;
    }
#endif
    wrong = wrong || send(exporter, "by a claim", 1) != PYR_OK;
    file_class->close(exporter);
    return wrong;
}

static void test_file_systems_without_exclusive_renames(void **state)
{
    (void)state;
    int result = run_in_child(write_without_renameat2);
    if (result == 77) {
        skip();
    }
    assert_int_equal(result, 0);
    check_file("app.1.1.pprof", "old");
    check_file("app.1.2.pprof", "of another container");
    check_file("app.1.3.pprof", "by a second name");
    check_file("app.1.4.pprof", "of another container");
    check_file("app.1.5.pprof", "by a claim");
    assert_int_equal(count_entries(folder), 7); /* two documents, nothing unfinished */
}

enum { PROCESSES = 4, WINDOWS = 40 };

static int write_many(void)
{
    void *exporter = open_exporter("shared/app", 400, 0);
    int failed = 0;
    for (int i = 0; i < WINDOWS; i++) {
        failed += send(exporter, "of many", 1) != PYR_OK; /* one pid for all: containers */
    }
    file_class->close(exporter);
    return failed;
}

static void test_many_processes_in_one_folder(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(write_many());
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    void *exporter = open_exporter("shared/app", 400, 0);
    assert_int_equal(send(exporter, "last", 1), PYR_OK);
    assert_in_range(count_entries(below("shared")), 2, 100);
    file_class->close(exporter);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    size_t before = pyr_memory_in_use();
    make_file("app.1.1.pprof", "old", 500);
    make_file("app.1.2.pprof", "old", 400);
    int failed = 1;
    for (size_t nth = 1; failed; nth++) {
        pyr_memory_fail_at(nth);
        void *exporter = NULL;
        const pyr_exporter_options options = {.output_prefix = "app", .output_max_bytes = 20};
        pyr_status status = file_class->open(&options, &exporter, why, sizeof why);
        if (status == PYR_OK) {
            assert_int_equal(send(exporter, "new", 1), PYR_OK);
            file_class->close(exporter);
        } else {
            assert_int_equal(status, PYR_ENOMEM);
            assert_string_equal(why, "out of memory");
        }
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        assert_int_equal(pyr_memory_in_use(), before);
    }
    file_class->close(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_writes_profile_and_document),
        TEST(test_never_overwrites),
        TEST(test_chdir_and_a_removed_folder),
        TEST(test_cap_by_bytes),
        TEST(test_cap_by_age),
        TEST(test_refused_and_mended),
        TEST(test_default_falls_back),
        TEST(test_a_foreign_temporary_folder_is_not_used),
        TEST(test_beyond_the_file_size_limit),
        TEST(test_full_and_read_only_disks),
        TEST(test_file_systems_without_exclusive_renames),
        TEST(test_many_processes_in_one_folder),
        TEST(test_each_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
