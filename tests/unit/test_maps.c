/* Unit tests of os/maps: lines as the kernel writes them, broken ones, and cut ones, all at the
 * edge of a page that must not be passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "os/maps.h"

enum { PAGE = 4096 };

static char *guard; /* first byte of the page that must not be read */

static int set_up(void **state)
{
    (void)state;
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0) {
        return -1;
    }
    guard = pages + PAGE;
    return 0;
}

static const char *at_edge(const char *text, size_t length)
{
    assert_true(length <= PAGE);
    memcpy(guard - length, text, length);
    return guard - length;
}

/* Parses one text's first line, at the edge. */
static pyr_status parse(const char *text, pyr_mapping *mapping)
{
    size_t position = 0, length = strlen(text);
    pyr_status status = pyr_maps_next(at_edge(text, length), length, &position, mapping);
    assert_int_equal(position > 0, status == PYR_OK);
    return status;
}

static void check_path(const pyr_mapping *mapping, const char *path)
{
    assert_int_equal(mapping->path_length, strlen(path));
    assert_memory_equal(mapping->path, path, strlen(path));
}

static void test_lines_of_a_process(void **state)
{
    (void)state;
    static const char text[] =
        "00400000-0041f000 r--p 00000000 fe:01 1055310                            /usr/bin/p y\n"
        "7f0000001000-7f0000002000 rw-s 0001f000 103:2a 18446744073709551615      /a/\xff\\012b\n"
        "7f0000002000-7f0000003000 ---p 00000000 00:00 0 \n"
        "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
    const char *edge = at_edge(text, sizeof text - 1);
    size_t position = 0;
    pyr_mapping first, mapping;
    assert_int_equal(pyr_maps_next(edge, sizeof text - 1, &position, &first), PYR_OK);
    assert_int_equal(first.start, 0x400000);
    assert_int_equal(first.end, 0x41f000);
    assert_int_equal(first.inode, 1055310);
    assert_int_equal(first.device_major, 0xfe);
    assert_int_equal(first.device_minor, 1);
    assert_true(first.is_readable && !first.is_writable && !first.is_executable);
    assert_false(first.is_shared);
    check_path(&first, "/usr/bin/p y");

    assert_int_equal(pyr_maps_next(edge, sizeof text - 1, &position, &mapping), PYR_OK);
    assert_int_equal(mapping.offset, 0x1f000);
    assert_int_equal(mapping.inode, UINT64_MAX);
    assert_int_equal(mapping.device_major, 0x103);
    assert_int_equal(mapping.device_minor, 0x2a);
    assert_true(mapping.is_readable && mapping.is_writable && mapping.is_shared);
    check_path(&mapping, "/a/\xff\\012b");
    assert_false(pyr_mapping_is_same_file(&first, &mapping));
    assert_true(pyr_mapping_is_same_file(&first, &first));

    assert_int_equal(pyr_maps_next(edge, sizeof text - 1, &position, &mapping), PYR_OK);
    assert_false(mapping.is_readable || mapping.is_writable || mapping.is_executable);
    check_path(&mapping, "");
    assert_false(pyr_mapping_is_same_file(&mapping, &mapping)); /* no file */
    assert_int_equal(pyr_maps_next(edge, sizeof text - 1, &position, &mapping), PYR_OK);
    check_path(&mapping, "[stack]");
    assert_int_equal(pyr_maps_next(edge, sizeof text - 1, &position, &mapping), PYR_OK);
    assert_int_equal(mapping.end, 0xffffffffff601000);
    assert_true(mapping.is_executable);
    assert_int_equal(position, sizeof text - 1);
    assert_int_equal(pyr_maps_next(edge, sizeof text - 1, &position, &mapping), PYR_ENOENT);
}

static void test_other_forms(void **state)
{
    (void)state;
    pyr_mapping mapping;
    assert_int_equal(
        parse("0-ffffffffffffffff r--p ffffffffffffffff ffffffff:ffffffff 1\n", &mapping), PYR_OK);
    assert_int_equal(mapping.end, UINT64_MAX);
    assert_int_equal(mapping.offset, UINT64_MAX);
    assert_int_equal(mapping.device_major, UINT32_MAX);
    check_path(&mapping, "");
    assert_int_equal(parse("1-2 r--p 0 0:0 0 /x\n", &mapping), PYR_OK);
    check_path(&mapping, "/x");
}

static void test_broken_lines(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "\n",
        " 1-2 r--p 0 0:0 0\n",
        "-2 r--p 0 0:0 0\n",
        "1- r--p 0 0:0 0\n",
        "2-2 r--p 0 0:0 0\n", /* nothing */
        "3-2 r--p 0 0:0 0\n",
        "1-10000000000000000 r--p 0 0:0 0\n", /* past 64 bits */
        "1-2 rw-p 10000000000000000 0:0 0\n",
        "1-2 r--p 0 100000000:0 0\n",
        "1-2 r--p 0 0:100000000 0\n",
        "1-2 r--p 0 0:0 18446744073709551616\n",
        "1-2 r--p 0 0:0 a\n", /* no decimal digit */
        "1-2 r--p 0 0:0\n",
        "1-2 r--p 0 0 0\n",
        "1-2 r--p A 0:0 0\n",
        "1-2 r--q 0 0:0 0\n",
        "1-2 w--p 0 0:0 0\n",
        "1-2 rwxps 0 0:0 0\n",
        "1-2 r--\n",
        "1-2\n",
        "1\n",
        "1+2 r--p 0 0:0 0\n",
        "1-2  r--p 0 0:0 0\n",
    };
    pyr_mapping mapping;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        if (parse(broken[i], &mapping) != PYR_EBAD) {
            fail_msg("not refused: %s", broken[i]);
        }
    }
}

static void test_a_nul_is_a_byte_like_others(void **state)
{
    (void)state;
    static const char in_path[] = "1-2 r--p 0 0:0 7 /a\0b\n";
    static const char in_flags[] = "1-2 r-\0p 0 0:0 7 /a\n";
    pyr_mapping mapping;
    size_t position = 0;
    assert_int_equal(pyr_maps_next(at_edge(in_path, sizeof in_path - 1), sizeof in_path - 1,
                                   &position, &mapping),
                     PYR_OK);
    assert_int_equal(mapping.path_length, 4);
    position = 0;
    assert_int_equal(pyr_maps_next(at_edge(in_flags, sizeof in_flags - 1), sizeof in_flags - 1,
                                   &position, &mapping),
                     PYR_EBAD);
}

static void test_cut_lines(void **state)
{
    (void)state;
    static const char line[] = "7f00-7f10 r-xp 00001000 fe:01 12     /lib/a.so (deleted)\n";
    pyr_mapping mapping;
    for (size_t length = 1; length < sizeof line - 1; length++) {
        size_t position = 0;
        assert_int_equal(pyr_maps_next(at_edge(line, length), length, &position, &mapping),
                         PYR_EPARTIAL);
        assert_int_equal(position, 0);
    }
    size_t position = 0;
    assert_int_equal(pyr_maps_next(NULL, 0, &position, &mapping), PYR_ENOENT);
}

static void test_the_own_process(void **state)
{
    (void)state;
    static char text[1 << 20];
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file), position = 0, ours = 0;
    (void)fclose(file);
    pyr_mapping mapping;
    pyr_status status;
    uint64_t before = 0;
    while ((status = pyr_maps_next(text, length, &position, &mapping)) == PYR_OK) {
        assert_true(mapping.start >= before);
        before = mapping.end;
        bool is_here = (uintptr_t)text >= mapping.start && (uintptr_t)text < mapping.end;
        ours += is_here;
        assert_true(!is_here || mapping.is_writable);
    }
    assert_int_equal(status, PYR_ENOENT);
    assert_int_equal(ours, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_a_process),
        cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_broken_lines),
        cmocka_unit_test(test_a_nul_is_a_byte_like_others),
        cmocka_unit_test(test_cut_lines),
        cmocka_unit_test(test_the_own_process),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
