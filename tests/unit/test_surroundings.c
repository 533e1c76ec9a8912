/* Unit tests of export/surroundings: container ids, cgroups, git, from texts and small checkouts.
 */
#include "export/surroundings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define HEX64 "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860"
#define SHA "0123456789abcdef0123456789abcdef01234567"

static void test_container_ids(void **state)
{
    (void)state;
    static const struct {
        const char *cgroup, *id;
    } cases[] = {
        {"13:name=systemd:/docker/" HEX64 "\n", HEX64},
        {"12:pids:/x\n11:memory:/ecs/a/" HEX64, HEX64},
        {"1:name=systemd:/kubepods.slice/pod1.slice/docker-" HEX64 ".scope\n", HEX64},
        {"0::/kubepods/besteffort/pod3d274242-8ee0-11e9-a8a6-1e68d864ef1a/" HEX64 "\n", HEX64},
        {"0::/system.slice/cri-containerd-" HEX64 ".scope\n", HEX64},
        {"1:memory:/ecs/55091c13-b8cf-4801-b527-f4601742204d/"
         "432624d2150b349fe35ba397284dea78-1234567890\n",
         "432624d2150b349fe35ba397284dea78-1234567890"},
        {"1:memory:/garden/6f265890-5165-7fab-6b52-18d1\n", "6f265890-5165-7fab-6b52-18d1"},
        {"1:name=systemd:/34dc0b5e-626f-2c5c-4c51-70e34b10e765\n",
         "34dc0b5e-626f-2c5c-4c51-70e34b10e765"},
        {"0::/\n", ""},
        {"", ""},
        {"0::/user.slice/user-1000.slice/session-2.scope\n", ""},
        {"0::/docker/" HEX64 "a\n", ""}, /* a digit too many */
        {"0::/a/" HEX64 "/child\n", ""}, /* its child's, not its own */
        {"nonsense without a slash " HEX64, ""},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        char id[PYR_LIMIT_CONTAINER_ID];
        pyr_container_id(cases[index].cgroup, id);
        assert_string_equal(id, cases[index].id);
    }
}

static void test_cgroup_folders(void **state)
{
    (void)state;
    char folder[100] = "";
    assert_int_equal(pyr_cgroup_folder("0::/a/b\n", folder, sizeof folder), PYR_OK);
    assert_string_equal(folder, "/sys/fs/cgroup/a/b");
    assert_int_equal(
        pyr_cgroup_folder("12:cpu,cpuacct:/c\n4:memory:/m\n0::/two\n", folder, sizeof folder),
        PYR_OK);
    assert_string_equal(folder, "/sys/fs/cgroup/memory/m");
    assert_int_equal(pyr_cgroup_folder("", folder, sizeof folder), PYR_ENOENT);
    assert_int_equal(pyr_cgroup_folder("x\n:\n1:cpu", folder, sizeof folder), PYR_ENOENT);
}

static void test_urls_lose_their_passwords(void **state)
{
    (void)state;
    static const struct {
        const char *url, *clean;
    } cases[] = {
        {"https://user:pass@host/a/b.git", "https://host/a/b.git"},
        {"https://token@host/a@b", "https://host/a@b"},
        {"https://u:p@ss@host/x", "https://host/x"},
        {"https://host/a", "https://host/a"},
        {"git@github.com:team/repo.git", "git@github.com:team/repo.git"},
        {"/srv/repo", "/srv/repo"},
        {"", ""},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        char clean[100];
        pyr_git_clean_url(cases[index].url, clean, sizeof clean);
        assert_string_equal(clean, cases[index].clean);
    }
}

/* ---------------------------------------------------------------------------- checkouts --- */

static char root[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/pyrometer-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void find(const char *below, pyr_git *git)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, below);
    pyr_git_find(path, git);
}

static void test_git(void **state)
{
    (void)state;
    pyr_git git;
    write_file("a/b/x", "");
    find("a/b", &git); /* /tmp is no checkout */
    assert_string_equal(git.commit_sha, "");

    write_file(".git/HEAD", "ref: refs/heads/feature/x\n");
    write_file(".git/config", "[core]\n\turl = no\n[remote \"other\"]\n url = no\n"
                              "[remote \"origin\"]\n\turl = https://me:pw@h/r.git\n\tfetch = +x\n");
    find("a/b", &git);
    assert_string_equal(git.commit_sha, ""); /* no commit yet */
    assert_string_equal(git.repository_url, "https://h/r.git");

    write_file(".git/packed-refs", "# pack-refs with: peeled\n" SHA " refs/heads/feature/x\n"
                                   "ffffffffffffffffffffffffffffffffffffffff refs/heads/z\n");
    find("a/b", &git);
    assert_string_equal(git.commit_sha, SHA);

    write_file(".git/refs/heads/feature/x", "1111111111111111111111111111111111111111\n");
    find("", &git);
    assert_string_equal(git.commit_sha, "1111111111111111111111111111111111111111");

    write_file(".git/HEAD", SHA "\n"); /* detached */
    find("", &git);
    assert_string_equal(git.commit_sha, SHA);

    write_file(".git/HEAD", "ref: ../../../etc/passwd\n");
    find("", &git);
    assert_string_equal(git.commit_sha, "");
    write_file(".git/HEAD", "");
    find("", &git);
    assert_string_equal(git.commit_sha, "");
}

static void test_git_worktree(void **state)
{
    (void)state;
    pyr_git git;
    write_file("main/.git/config", "[remote \"origin\"]\nurl=ssh://git@h/r\n");
    write_file("main/.git/refs/heads/w", SHA "\n");
    write_file("main/.git/worktrees/w/HEAD", "ref: refs/heads/w\n");
    write_file("main/.git/worktrees/w/commondir", "../..\n");
    write_file("w/.git", "gitdir: ../main/.git/worktrees/w\n");
    find("w", &git);
    assert_string_equal(git.commit_sha, SHA);
    assert_string_equal(git.repository_url, "ssh://h/r");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_container_ids),
        cmocka_unit_test(test_cgroup_folders),
        cmocka_unit_test(test_urls_lose_their_passwords),
        cmocka_unit_test_setup_teardown(test_git, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_git_worktree, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
