/* Unit tests of export/provenance: which paths a RECORD stands for, and what becomes of folders. */
#include "export/provenance.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/memory.h"

static void join(void *context, const char *path, size_t length)
{
    char *text = context;
    size_t used = strlen(text);
    snprintf(text + used, 1000 - used, "%s%.*s", used > 0 ? " " : "", (int)length, path);
}

static void test_paths_of_records(void **state)
{
    (void)state;
    static const struct {
        const char *record, *paths;
    } cases[] = {
        {"", ""},
        {"a/__init__.py,sha256=x,12\na/b.py,,\na-1.dist-info/RECORD,,\n", "a"},
        {"a/Z/__init__.py,,\na/__init__.py,,\nab/__init__.py,,", "a ab"},
        {"six.py,,\n__pycache__/six.cpython-311.pyc,,\n", "six.py"},
        {"google/api/__init__.py,,\ngoogle/type/__init__.py,,\n", "google/api google/type"},
        {"_fast.cpython-311-x86_64-linux-gnu.so,,\r\n", "_fast.cpython-311-x86_64-linux-gnu.so"},
        {"../../../bin/tool,,\n/etc/x.py,,\n\"quoted,name\"/__init__.py,,\n", ""},
        {"name/space/only.py,,\n", "name/space/only.py"},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        char paths[1000] = "";
        pyr_provenance_paths(cases[index].record, join, paths);
        assert_string_equal(paths, cases[index].paths);
    }
}

static void count(void *context, const char *path, size_t length)
{
    (void)path;
    (void)length;
    ++*(size_t *)context;
}

/* However much a RECORD holds, there is a most. */
static void test_paths_are_bounded(void **state)
{
    (void)state;
    static char record[40000];
    size_t used = 0, packages = 0;
    for (int index = 0; index < 1000; index++) {
        used += (size_t)snprintf(record + used, sizeof record - used, "p%d/__init__.py,,\n", index);
        used += (size_t)snprintf(record + used, sizeof record - used, "m%d.py,,\n", index);
    }
    pyr_provenance_paths(record, count, &packages);
    assert_int_equal(packages, 64);
}

/* -------------------------------------------------------------------------------- folders --- */

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

static json_t *get(const pyr_provenance_options *options, const char *cache)
{
    pyr_buffer out;
    pyr_buffer_init(&out, PYR_LIMIT_PROVENANCE_BYTES);
    assert_int_equal(pyr_provenance_get(options, cache, &out), PYR_OK);
    json_t *all = json_loadb((const char *)out.data, out.length, 0, NULL);
    assert_non_null(all);
    pyr_buffer_fini(&out);
    return all;
}

/* "kind name version paths", or "" where the library is not there. */
static const char *describe(json_t *all, const char *name)
{
    static char text[600];
    size_t index;
    json_t *library;
    text[0] = '\0';
    json_array_foreach(json_object_get(all, "v1"), index, library)
    {
        if (strcmp(json_string_value(json_object_get(library, "name")), name) == 0) {
            snprintf(text, sizeof text, "%s|%s|",
                     json_string_value(json_object_get(library, "kind")),
                     json_string_value(json_object_get(library, "version")));
            size_t place;
            json_t *path;
            json_array_foreach(json_object_get(library, "paths"), place, path)
            {
                const char *full = json_string_value(path);
                const char *shown =
                    strncmp(full, root, strlen(root)) == 0 ? full + strlen(root) : full;
                size_t used = strlen(text);
                snprintf(text + used, sizeof text - used, "%s;", shown);
            }
        }
    }
    return text;
}

static void make_site(char *paths, size_t size)
{
    write_file("s/Lib_x-2.0.dist-info/METADATA", "Metadata-Version: 2\nName: Lib.x\nVersion: 2.0\n"
                                                 "\nName: body\n");
    write_file("s/Lib_x-2.0.dist-info/RECORD", "lib/__init__.py,,\n");
    write_file("s/own-1.dist-info/METADATA", "Name: own\nversion:1\n");
    write_file("s/own-1.dist-info/RECORD", "own.py,,\n");
    write_file("s/own-1.dist-info/direct_url.json", "{\"dir_info\": {\"editable\": true}}");
    write_file("s/old.egg-info/PKG-INFO", "Name: old\nVersion: 3\n");
    write_file("s/old.egg-info/top_level.txt", "old\nolder\n");
    write_file("s/old/__init__.py", "");
    write_file("s/nothing-1.dist-info/METADATA", "no header\n");
    write_file("s/empty-1.dist-info/RECORD", "x.py,,\n");
    write_file("s/file.egg-info", "a file");
    snprintf(paths, size, "%s/absent\n%s/s\n\n%s", root, root, root);
}

static void test_folders(void **state)
{
    (void)state;
    char paths[300], cache[100];
    make_site(paths, sizeof paths);
    pyr_provenance_options options = {"3.13.0", "/usr/lib/python3.13", paths, "lib-X"};
    json_t *all = get(&options, "");
    assert_string_equal(describe(all, "native"), "library||<native>;");
    assert_memory_equal(describe(all, "stdlib"), "standard library|3.13.0|/usr/lib/python3.13;",
                        44);
    assert_string_equal(describe(all, "Lib.x"), "|2.0|/s/lib;"); /* by MAIN_PACKAGE, ours */
    assert_string_equal(describe(all, "own"), "|1|/s/own.py;");
    assert_string_equal(describe(all, "old"), "library|3|/s/old;/s/older.py;");
    assert_int_equal(json_array_size(json_object_get(all, "v1")), 5);
    json_decref(all);

    /* From the cache, until something is installed. */
    options.main_package = "";
    snprintf(cache, sizeof cache, "%s/cache", root);
    json_decref(get(&options, cache));
    write_file("s/Lib_x-2.0.dist-info/RECORD", "changed/__init__.py,,\n");
    all = get(&options, cache);
    assert_string_equal(describe(all, "Lib.x"), "library|2.0|/s/lib;");
    json_decref(all);
    write_file("s/new-1.dist-info/METADATA", "Name: new\nVersion: 1\n");
    write_file("s/new-1.dist-info/RECORD", "new.py,,\n");
    all = get(&options, cache);
    assert_string_equal(describe(all, "Lib.x"), "library|2.0|/s/changed;");
    assert_string_equal(describe(all, "new"), "library|1|/s/new.py;");
    json_decref(all);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    char paths[300];
    make_site(paths, sizeof paths);
    const pyr_provenance_options options = {"3.13.0", "", paths, ""};
    int failed = 1;
    for (size_t nth = 1; failed && nth < 500; nth++) {
        pyr_buffer out;
        pyr_buffer_init(&out, PYR_LIMIT_PROVENANCE_BYTES);
        pyr_memory_fail_at(nth);
        (void)!pyr_provenance_get(&options, "", &out);
        failed = pyr_memory_has_failed();
        pyr_memory_fail_at(0);
        pyr_buffer_fini(&out);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_of_records),
        cmocka_unit_test(test_paths_are_bounded),
        cmocka_unit_test_setup_teardown(test_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_allocation_fails_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
