/* Tokens, Host, Origin; see the header. Stateless. */
#include "server/guard.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { CREDENTIAL_BYTES = 1024 };

/* Looks at all of both, whatever differs. */
static bool is_equal(const char *given, size_t length, const char *token)
{
    size_t expected = strlen(token);
    unsigned char differs = length != expected;
    for (size_t at = 0; at < length; at++) {
        differs |= (unsigned char)(given[at] ^ token[expected > 0 ? at % expected : 0]);
    }
    return differs == 0 && expected > 0;
}

static int value_of(char digit)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = digit != '\0' ? strchr(DIGITS, digit) : NULL;
    return found != NULL ? (int)(found - DIGITS) : -1;
}

static size_t decode_base64(const char *text, char out[CREDENTIAL_BYTES])
{
    uint32_t bits = 0;
    int count = 0;
    size_t used = 0;
    for (; value_of(*text) >= 0 && used < CREDENTIAL_BYTES; text++) {
        bits = bits << 6 | (uint32_t)value_of(*text);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[used++] = (char)(bits >> count & 0xff);
        }
    }
    return used;
}

bool pyr_guard_has_token(const pyr_guard_headers *headers, const char *token)
{
    const char *plain[] = {headers->api_key, headers->token};
    for (size_t at = 0; at < sizeof plain / sizeof plain[0]; at++) {
        if (plain[at] != NULL && is_equal(plain[at], strlen(plain[at]), token)) {
            return true;
        }
    }
    const char *given = headers->authorization;
    if (given != NULL && strncasecmp(given, "Bearer ", 7) == 0) {
        return is_equal(given + 7, strlen(given + 7), token);
    }
    if (given != NULL && strncasecmp(given, "Basic ", 6) == 0) {
        char decoded[CREDENTIAL_BYTES];
        size_t length = decode_base64(given + 6, decoded);
        const char *colon = memchr(decoded, ':', length);
        return colon != NULL && is_equal(colon + 1, (size_t)(decoded + length - colon - 1), token);
    }
    return false;
}

bool pyr_guard_host_is_own(const char *host, const char *const *names, size_t count)
{
    static const char *const OWN[] = {"localhost", "127.0.0.1", "[::1]"};
    if (host == NULL || host[0] == '\0') {
        return true; /* no browser leaves it out */
    }
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (strspn(host, "[") > 0 && length > strlen(host)) {
        return false;
    }
    for (size_t at = 0; at < sizeof OWN / sizeof OWN[0]; at++) {
        if (strlen(OWN[at]) == length && strncasecmp(OWN[at], host, length) == 0) {
            return true;
        }
    }
    for (size_t at = 0; at < count; at++) {
        if (strlen(names[at]) == length && strncasecmp(names[at], host, length) == 0) {
            return true;
        }
    }
    return false;
}

bool pyr_guard_origin_is_own(const pyr_guard_headers *headers)
{
    const char *site = headers->fetch_site;
    if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) {
        return false;
    }
    if (headers->origin == NULL) {
        return true;
    }
    const char *host = strstr(headers->origin, "://");
    return host != NULL && headers->host != NULL && strcasecmp(host + 3, headers->host) == 0;
}
