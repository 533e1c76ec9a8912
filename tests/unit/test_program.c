/* The program's commands while memory runs out: each allocation fails once, and each time the
 * command must say so, or do without and give the whole result. Sanitizers watch for what leaks. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "pprof/writer.h"

enum { WORDS_MAXIMUM = 12, OUTPUT_BYTES = 1 << 18, ALLOCATIONS_MAXIMUM = 20000 };

static char profile_path[] = "/tmp/test_program.XXXXXX";
static FILE *captured; /* stands behind standard output while a command runs */

static void write_sample(pyr_pprof_writer *writer, const char *leaf, const char *thread,
                         const char *state, int64_t seconds)
{
    const char *const names[] = {leaf, "handle", "main"};
    uint64_t locations[3];
    int64_t values[] = {seconds * 1000000000, seconds * 100, seconds * 1000000000};
    uint64_t file = pyr_pprof_writer_string(writer, "/no/such/app.py", 15);
    for (size_t index = 0; index < 3; index++) {
        uint64_t name = pyr_pprof_writer_string(writer, names[index], strlen(names[index]));
        locations[index] = pyr_pprof_writer_location(
            writer, pyr_pprof_writer_function(writer, name, file, 0), (int64_t)index + 1);
    }
    pyr_pprof_label labels[] = {
        {.key = pyr_pprof_writer_string(writer, "thread name", 11),
         .text = pyr_pprof_writer_string(writer, thread, strlen(thread))},
        {.key = pyr_pprof_writer_string(writer, "state", 5),
         .text = pyr_pprof_writer_string(writer, state, strlen(state))},
    };
    pyr_pprof_writer_sample(writer, locations, 3, values, labels, 2);
}

static int make_profile(void **state)
{
    (void)state;
    static const pyr_pprof_summary summary = {.time_ns = 1764453600000000000,
                                              .duration_ns = 10000000000,
                                              .period_type = "cpu-time",
                                              .period_unit = "nanoseconds",
                                              .period = 10000000,
                                              .default_type = "cpu-time"};
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, 1 << 20);
    pyr_pprof_writer *writer = pyr_pprof_writer_new(&bytes, PYR_PPROF_GZIP);
    assert_non_null(writer);
    pyr_pprof_writer_type(writer, "cpu-time", "nanoseconds");
    pyr_pprof_writer_type(writer, "cpu-samples", "count");
    pyr_pprof_writer_type(writer, "wall-time", "nanoseconds");
    write_sample(writer, "parse", "worker", "on-cpu", 3);
    write_sample(writer, "render", "worker", "gil-wait", 2);
    write_sample(writer, "render", "MainThread", "parked", 1);
    pyr_pprof_writer_comment(writer, "a comment");
    assert_int_equal(pyr_pprof_writer_finish(writer, &summary), PYR_OK);
    pyr_pprof_writer_free(writer);
    int file = mkstemp(profile_path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes.data, bytes.length), (ssize_t)bytes.length);
    close(file);
    pyr_buffer_fini(&bytes);
    captured = tmpfile();
    return captured == NULL;
}

static int remove_profile(void **state)
{
    (void)state;
    unlink(profile_path);
    fclose(captured);
    return 0;
}

/* Runs a command, "P" among its words being the profile; its standard output goes to `output`. */
static int run(int (*command)(int, char **), const char *const *words, char output[OUTPUT_BYTES])
{
    char *arguments[WORDS_MAXIMUM + 1] = {NULL};
    int count = 0;
    for (; words[count] != NULL; count++) {
        arguments[count] = strcmp(words[count], "P") == 0 ? profile_path : (char *)words[count];
    }
    int standard = dup(STDOUT_FILENO);
    rewind(captured);
    assert_int_equal(ftruncate(fileno(captured), 0), 0);
    fflush(stdout);
    dup2(fileno(captured), STDOUT_FILENO);
    int code = command(count, arguments);
    fflush(stdout);
    dup2(standard, STDOUT_FILENO);
    close(standard);
    rewind(captured);
    size_t length = fread(output, 1, OUTPUT_BYTES - 1, captured);
    output[length] = '\0';
    return code;
}

static void fail_each(int (*command)(int, char **), const char *const *words)
{
    static char whole[OUTPUT_BYTES];
    static char output[OUTPUT_BYTES];
    int standard = dup(STDERR_FILENO);
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    int code = run(command, words, whole);
    assert_int_equal(code, PYR_EXIT_GOOD);
    size_t before = pyr_memory_in_use();
    bool failed = true;
    size_t nth = 0;
    size_t refused = 0;
    for (nth = 1; failed && nth < ALLOCATIONS_MAXIMUM; nth++) {
        pyr_memory_fail_at(nth);
        code = run(command, words, output);
        failed = pyr_memory_has_failed() != 0;
        pyr_memory_fail_at(0);
        if (code == PYR_EXIT_GOOD) {
            assert_true(strcmp(output, whole) == 0 || strstr(output, "(out of memory)") != NULL);
        } else {
            assert_int_equal(code, PYR_EXIT_WRONG);
            refused++;
        }
        assert_int_equal(pyr_memory_in_use(), before);
    }
    dup2(standard, STDERR_FILENO);
    close(standard);
    assert_false(failed); /* the last run was one without a failure */
    assert_true(refused > 5);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_report(void **state)
{
    (void)state;
    fail_each(pyr_command_report, WORDS("P", "--focus", "handle", "--hide", "main"));
    fail_each(pyr_command_report, WORDS("P", "P", "--lines", "--json"));
    fail_each(pyr_command_report, WORDS("P", "--tree", "-t", "wall-time"));
    fail_each(pyr_command_report, WORDS("P", "--by", "state", "--thread", "work"));
}

static void test_list(void **state)
{
    (void)state;
    fail_each(pyr_command_list, WORDS("render|parse", "P", "-t", "wall-time"));
}

static void test_flamegraph(void **state)
{
    (void)state;
    fail_each(pyr_command_flamegraph, WORDS("P", "-o", "-"));
}

static void test_convert(void **state)
{
    (void)state;
    fail_each(pyr_command_convert, WORDS("P", "-f", "collapsed"));
    fail_each(pyr_command_convert, WORDS("P", "-f", "speedscope"));
    fail_each(pyr_command_convert, WORDS("P", "-f", "gecko"));
    fail_each(pyr_command_convert, WORDS("P", "-f", "chrometrace"));
    fail_each(pyr_command_convert, WORDS("P", "-f", "pprof"));
}

static void test_diff(void **state)
{
    (void)state;
    fail_each(pyr_command_diff, WORDS("P", "P", "--all"));
    fail_each(pyr_command_diff, WORDS("P", "P", "--json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report),     cmocka_unit_test(test_list),
        cmocka_unit_test(test_flamegraph), cmocka_unit_test(test_convert),
        cmocka_unit_test(test_diff),
    };
    return cmocka_run_group_tests(tests, make_profile, remove_profile);
}
