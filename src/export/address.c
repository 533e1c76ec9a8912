/* Reads addresses; see the header. Pure. Hosts are checked by whoever resolves them. */
#include "export/address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool take_scheme(const char **text, const char *scheme)
{
    size_t length = strlen(scheme);
    if (strncasecmp(*text, scheme, length) != 0) {
        return false;
    }
    *text += length;
    return true;
}

/* A visible character of ASCII: anything else needs percent signs in a URL. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || (unsigned char)*text >= 0x7F) {
            return false;
        }
    }
    return true;
}

/* Whoever is told of a wrong address may show it, but for what may hold a password. */
static pyr_status refuse(const char *text, pyr_status status)
{
    return strchr(text, '@') != NULL ? PYR_EPERM : status;
}

pyr_status pyr_address_parse(const char *text, pyr_address *address)
{
    *address = (pyr_address){0};
    if (strlen(text) >= PYR_LIMIT_URL_BYTES) {
        return refuse(text, PYR_ETOOBIG);
    }
    const char *rest = text;
    if (take_scheme(&rest, "unix://") || text[0] == '/') {
        if (rest[0] != '/') {
            return PYR_EBAD;
        }
        snprintf(address->socket, sizeof address->socket, "%s", rest);
        snprintf(address->base, sizeof address->base, "http://localhost");
        return PYR_OK;
    }
    address->is_secure = take_scheme(&rest, "https://");
    if (!address->is_secure && !take_scheme(&rest, "http://")) {
        return refuse(text, PYR_EBAD);
    }
    size_t host = strcspn(rest, "/");
    if (host == 0 || !is_plain(rest) || strpbrk(rest, "?#") != NULL) {
        return refuse(text, PYR_EBAD);
    }
    if (memchr(rest, '@', host) != NULL) {
        return PYR_EPERM;
    }
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '/') {
        length--;
    }
    memcpy(address->base, text, length);
    return PYR_OK;
}

void pyr_address_explain(const char *text, pyr_status status, char *why, size_t why_size)
{
    if (status == PYR_EPERM) {
        snprintf(why, why_size,
                 "the address has a user or password in it; use HTTP_HEADERS for what is secret");
    } else {
        snprintf(why, why_size,
                 "\"%.100s\" is no address: http://host:port, https://host or unix:///path is",
                 text);
    }
}

const char *pyr_address_next(const char **rest, size_t *length)
{
    const char *begin = *rest + strspn(*rest, ", ");
    *length = strcspn(begin, ", ");
    *rest = begin + *length;
    return begin;
}
