/* Unit tests of export/address: what a URL setting may say. */
#include "export/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_good_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *base, *socket;
        bool is_secure;
    } cases[] = {
        {"http://localhost:8126", "http://localhost:8126", "", false},
        {"http://agent/", "http://agent", "", false},
        {"HTTP://agent", "HTTP://agent", "", false},
        {"https://gateway/datadog//", "https://gateway/datadog", "", true},
        {"http://[::1]:8126/a/b", "http://[::1]:8126/a/b", "", false},
        {"http://a/x@y", "http://a/x@y", "", false},
        {"unix:///var/run/datadog/apm.socket", "http://localhost", "/var/run/datadog/apm.socket",
         false},
        {"/run/a b.sock", "http://localhost", "/run/a b.sock", false},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        pyr_address address;
        assert_int_equal(pyr_address_parse(cases[index].text, &address), PYR_OK);
        assert_string_equal(address.base, cases[index].base);
        assert_string_equal(address.socket, cases[index].socket);
        assert_int_equal(address.is_secure, cases[index].is_secure);
    }
}

static void test_bad_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",           "localhost:8126", "ftp://a",      "http://",      "https:///path",
        "unix://a/b", "unix:",          "http://a b",   "http://a\n/b", "http://\xC3\xA4",
        "http://a?b", "http://a/#b",    "file:///tmp/", "http:/a",
    };
    pyr_address address;
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        assert_int_equal(pyr_address_parse(bad[index], &address), PYR_EBAD);
    }
    assert_int_equal(pyr_address_parse("http://user:pass@host/", &address), PYR_EPERM);
    assert_int_equal(pyr_address_parse("user:pass@host:8126", &address), PYR_EPERM);
    assert_int_equal(pyr_address_parse("ftp://user:pass@host", &address), PYR_EPERM);
    assert_int_equal(pyr_address_parse("unix://@name", &address), PYR_EBAD);
    char large[PYR_LIMIT_URL_BYTES + 1];
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    memcpy(large, "http://", 7);
    assert_int_equal(pyr_address_parse(large, &address), PYR_ETOOBIG);
    large[PYR_LIMIT_URL_BYTES - 1] = '\0';
    assert_int_equal(pyr_address_parse(large, &address), PYR_OK);
}

static void test_lists(void **state)
{
    (void)state;
    size_t length;
    const char *rest = " ,http://a, b,,";
    assert_memory_equal(pyr_address_next(&rest, &length), "http://a", 8);
    assert_int_equal(length, 8);
    assert_memory_equal(pyr_address_next(&rest, &length), "b", 1);
    assert_int_equal(length, 1);
    pyr_address_next(&rest, &length);
    assert_int_equal(length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_addresses),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
