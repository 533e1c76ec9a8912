/* Unit tests of cpython/runtime: this program passes for an interpreter, and looks for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "base/memory.h"
#include "cpython/runtime.h"

/* The names that are looked for; only here, so that they need no header. */
extern uint64_t _PyRuntime[2];
extern const unsigned long Py_Version;
uint64_t _PyRuntime[2] = {1, 2};
const unsigned long Py_Version = 0x030d01f0;
extern char PyCode_Type;
char PyCode_Type = 1;

static pyr_status find(int64_t pid, pyr_runtime *runtime, char *why, size_t why_size)
{
    pyr_reader *reader;
    why[0] = '\0';
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    pyr_status status = pyr_runtime_find(reader, pid, runtime, why, why_size);
    pyr_reader_close(reader);
    return status;
}

static void test_found(void **state)
{
    (void)state;
    pyr_runtime runtime;
    char why[200];
    assert_int_equal(find(getpid(), &runtime, why, sizeof why), PYR_OK);
    assert_int_equal(runtime.address, (uintptr_t)_PyRuntime);
    assert_int_equal(runtime.version, Py_Version);
    assert_int_equal(runtime.code_type, (uintptr_t)&PyCode_Type);
    assert_string_equal(why, "");
}

static void test_no_process(void **state)
{
    (void)state;
    pyr_runtime runtime;
    char why[200], little[10];
    assert_int_equal(find(INT64_MAX, &runtime, why, sizeof why), PYR_ENOENT);
    assert_string_equal(why, "there is no process 9223372036854775807");
    assert_int_equal(find(INT64_MAX, &runtime, little, sizeof little), PYR_ENOENT);
    assert_string_equal(little, "there is ");
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    pyr_runtime runtime;
    char why[200];
    pyr_status status = PYR_ENOMEM;
    pyr_reader *reader;
    assert_int_equal(pyr_reader_open_self(&reader), PYR_OK);
    size_t before = pyr_memory_in_use(), nth = 1;
    for (; nth < 100 && status != PYR_OK; nth++) {
        pyr_memory_fail_at(nth);
        status = pyr_runtime_find(reader, getpid(), &runtime, why, sizeof why);
        assert_int_equal(status, pyr_memory_has_failed() ? PYR_ENOMEM : PYR_OK);
        assert_true(status == PYR_OK || strstr(why, "out of memory"));
        assert_int_equal(pyr_memory_in_use(), before);
    }
    pyr_memory_fail_at(0);
    assert_true(nth > 2 && status == PYR_OK);
    pyr_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_no_process),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
