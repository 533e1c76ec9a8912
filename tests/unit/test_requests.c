/* Unit tests of model/requests: exact counts of several threads, and an endpoint too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "model/requests.h"

enum { THREADS = 4, ROUNDS = 20000 };

static pyr_facts facts;

static int64_t count_of(const char *endpoint)
{
    for (size_t at = 0; at < facts.request_count; at++) {
        if (strcmp(facts.requests[at].endpoint, endpoint) == 0) {
            return facts.requests[at].count;
        }
    }
    return 0;
}

static void *serve(void *argument)
{
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        const char *endpoint = round % 4 == 0 ? "/rare" : "/cart";
        pyr_requests_add(pyr_requests_counter(endpoint, strlen(endpoint)));
    }
    return NULL;
}

static void test_counts_of_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int64_t rare = 0, cart = 0, others = 0;
    for (size_t at = 0; at < THREADS; at++) {
        assert_int_equal(pthread_create(&threads[at], NULL, serve, NULL), 0);
    }
    for (size_t at = 0; at < THREADS + 1; at++) { /* windows end meanwhile, and one after all */
        pyr_requests_take(&facts);
        rare += count_of("/rare");
        cart += count_of("/cart");
        others += count_of("(other)");
        if (at < THREADS) {
            assert_int_equal(pthread_join(threads[at], NULL), 0);
        }
    }
    /* Two threads that come with an endpoint for the first time may count it among the others. */
    assert_int_equal(rare + cart + others, THREADS * ROUNDS);
    assert_true(others < 2 * THREADS);
    pyr_requests_take(&facts);
    assert_int_equal(facts.request_count, 0);
}

static void test_drop(void **state)
{
    (void)state;
    pyr_requests_add(pyr_requests_counter("/cart", 5));
    pyr_requests_drop();
    pyr_requests_take(&facts);
    assert_int_equal(facts.request_count, 0);
}

static void test_too_many_and_too_long(void **state)
{
    (void)state;
    char text[200];
    memset(text, 'x', sizeof text);
    pyr_requests_add(pyr_requests_counter(text, sizeof text));
    pyr_requests_take(&facts);
    assert_int_equal(facts.request_count, 1);
    assert_int_equal(strlen(facts.requests[0].endpoint), PYR_LIMIT_ENDPOINT_TEXT - 1);
    for (int endpoint = 0; endpoint < 1000; endpoint++) {
        int length = snprintf(text, sizeof text, "/item/%d", endpoint);
        pyr_requests_add(pyr_requests_counter(text, (size_t)length));
    }
    pyr_requests_take(&facts);
    int64_t all = 0;
    for (size_t at = 0; at < facts.request_count; at++) {
        all += facts.requests[at].count;
    }
    assert_int_equal(all, 1000);
    assert_in_range(facts.request_count, 200, PYR_LIMIT_ENDPOINTS);
    assert_true(count_of("(other)") >= 1000 - PYR_LIMIT_ENDPOINTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_of_threads),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_too_many_and_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
