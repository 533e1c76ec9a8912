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

/* Whatever is given, put back and taken in between, no span is lost or told twice; and taking does
 * not bring the next one nearer: a span has the same chance as ever. */
static void test_sums(void **state)
{
    (void)state;
    enum { SPANS = 200000 };
    pyr_toll toll;
    pyr_sums all = {0};
    int64_t given = 0;
    pyr_toll_init(&toll, 11);
    for (int64_t i = 0; i < SPANS; i++) {
        pyr_sums sums = {0};
        if (pyr_toll_add(&toll, (pyr_sums){.time_ns = 1000, .count = 1, .extra = i % 10 == 0},
                         &sums)) {
            given++;
            if (given % 7 == 0) {
                pyr_toll_return(&toll, sums);
                sums = (pyr_sums){0};
            }
        } else if (i % 30 == 0) {
            pyr_sums open = pyr_toll_open(&toll);
            sums = pyr_toll_take(&toll);
            assert_memory_equal(&open, &sums, sizeof sums);
        }
        all.time_ns += sums.time_ns;
        all.count += sums.count;
        all.extra += sums.extra;
    }
    pyr_sums rest = pyr_toll_take(&toll);
    assert_true(all.time_ns + rest.time_ns == INT64_C(1000) * SPANS);
    assert_true(all.count + rest.count == SPANS && all.extra + rest.extra == SPANS / 10);
    assert_in_range(given, 1850, 2150); /* of 2,000: also where some were put back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pace), cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
