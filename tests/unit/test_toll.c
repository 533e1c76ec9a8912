/* Unit tests of collect/toll: sums are exact, and fewer spans are given while they come too fast.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collect/toll.h"

/* Adds `count` spans of `span_ns`, one each `every_ns` of a clock; how many were given. */
static int64_t spend(pyr_toll *toll, int64_t count, int64_t span_ns, int64_t every_ns,
                     int64_t *now_ns, int64_t *given_ns)
{
    int64_t given = 0;
    for (int64_t i = 0; i < count; i++) {
        const pyr_sums span = {.time_ns = span_ns, .count = 1};
        pyr_sums sums;
        *now_ns += every_ns;
        if (pyr_toll_add(toll, span, &sums)) {
            *given_ns += sums.time_ns;
            given++;
            pyr_toll_pace(toll, *now_ns);
        }
    }
    return given;
}

static void test_pace(void **state)
{
    (void)state;
    pyr_toll toll;
    int64_t now_ns = 0, given_ns = 0;
    pyr_toll_init(&toll, 7);
    /* Ten thousand spans a second, each much longer than the least. */
    int64_t given = spend(&toll, 100000, 1000000, 100000, &now_ns, &given_ns);
    assert_in_range(given, 3000, 30000); /* in 10 s */
    given_ns += pyr_toll_take(&toll).time_ns;
    assert_true(given_ns == INT64_C(100000) * 1000000);
    /* Few ones are all given again, after a while. */
    (void)spend(&toll, 100, 1000000, 200000000, &now_ns, &given_ns);
    assert_in_range(spend(&toll, 1000, 1000000, 200000000, &now_ns, &given_ns), 900, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
