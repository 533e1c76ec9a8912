/* Who may ask what: tokens, and the checks of Host and Origin that keep web pages of others away
 * from a server on this machine. Pure; any thread. Private to server/. */
#ifndef PYR_SERVER_GUARD_H
#define PYR_SERVER_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pyr_guard_headers { /* NULL = not sent */
    const char *host, *origin, *fetch_site, *authorization, *api_key, *token;
} pyr_guard_headers;

/* True when one of the headers carries the token: Authorization: Bearer or Basic (as password),
 * DD-API-KEY, or X-Pyrometer-Token. Takes the same time for every wrong one. */
bool pyr_guard_has_token(const pyr_guard_headers *headers, const char *token);

/* True when the name in a Host header is this machine's loopback, or one of `names`. */
bool pyr_guard_host_is_own(const char *host, const char *const *names, size_t count);

/* True when the request does not come from a page of another origin. */
bool pyr_guard_origin_is_own(const pyr_guard_headers *headers);

#endif
