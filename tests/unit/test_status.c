/* Status codes: names, texts and numbers come from one list and stay apart and stable. */
#include "base/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const pyr_status every_status[] = {
#define LIST(name, value, text) PYR_##name,
    PYR_STATUS_MAP(LIST)
#undef LIST
};
#define STATUS_COUNT (sizeof every_status / sizeof *every_status)

static void test_names_and_numbers_are_distinct(void **state)
{
    (void)state;
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        assert_string_not_equal(pyr_status_name(every_status[i]), "UNKNOWN");
        assert_true(strlen(pyr_status_text(every_status[i])) > 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(every_status[i], every_status[j]);
            assert_string_not_equal(pyr_status_name(every_status[i]),
                                    pyr_status_name(every_status[j]));
            assert_string_not_equal(pyr_status_text(every_status[i]),
                                    pyr_status_text(every_status[j]));
        }
    }
}

static void test_only_ok_is_not_negative(void **state)
{
    (void)state;
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        assert_true(every_status[i] == PYR_OK ? every_status[i] == 0 : every_status[i] < 0);
    }
}

/* Numbers already given out; one that changes here breaks whoever stored it. */
static void test_numbers_are_stable(void **state)
{
    (void)state;
    assert_int_equal(PYR_OK, 0);
    assert_int_equal(PYR_ENOMEM, -1);
    assert_int_equal(PYR_EBAD, -5);
    assert_int_equal(PYR_ENOTSUP, -7);
    assert_int_equal(PYR_ETORN, -14);
    assert_string_equal(pyr_status_name(PYR_ETOOBIG), "ETOOBIG");
    assert_string_equal(pyr_status_text(PYR_ENOMEM), "out of memory");
}

static void test_unknown_numbers_have_a_text(void **state)
{
    (void)state;
    static const int unknown[] = {1, -1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_string_equal(pyr_status_name((pyr_status)unknown[i]), "UNKNOWN");
        assert_string_equal(pyr_status_text((pyr_status)unknown[i]), "unknown error");
    }
}

static void test_errno_values(void **state)
{
    (void)state;
    static const struct {
        int error;
        pyr_status status;
    } cases[] = {
        {0, PYR_OK},          {ENOMEM, PYR_ENOMEM}, {EFAULT, PYR_EFAULT}, {ENOSYS, PYR_ENOTSUP},
        {EPERM, PYR_EPERM},   {EACCES, PYR_EPERM},  {EROFS, PYR_EPERM},   {ESRCH, PYR_ENOENT},
        {EEXIST, PYR_EEXIST}, {ENOSPC, PYR_ENOSPC}, {EDQUOT, PYR_ENOSPC}, {EAGAIN, PYR_EBUSY},
        {EPIPE, PYR_EIO},     {INT32_MAX, PYR_EIO}, {-1, PYR_EIO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pyr_status_from_errno(cases[i].error), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_numbers_are_distinct),
        cmocka_unit_test(test_only_ok_is_not_negative),
        cmocka_unit_test(test_numbers_are_stable),
        cmocka_unit_test(test_unknown_numbers_have_a_text),
        cmocka_unit_test(test_errno_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
