/* Addresses of receivers: what stands in a URL setting. Pure. */
#ifndef PYR_EXPORT_ADDRESS_H
#define PYR_EXPORT_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { PYR_LIMIT_URL_BYTES = 512 };

typedef struct pyr_address {
    char base[PYR_LIMIT_URL_BYTES];   /* "http://host:8126/path", no slash at its end */
    char socket[PYR_LIMIT_URL_BYTES]; /* path of a unix socket, or "" */
    bool is_secure;                   /* https */
} pyr_address;

/* Reads http://host[:port][/path], https://..., unix:///path or a bare absolute path of a socket.
 * PYR_EBAD: none of these; PYR_EPERM: it holds a password, which logs would show; PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_address_parse(const char *text, pyr_address *address);

/* Says what is wrong with an address that was not read, without the password in it. */
void pyr_address_explain(const char *text, pyr_status status, char *why, size_t why_size);

/* The next address of a list parted by commas or blanks, from *rest on, which moves behind it; its
 * length, 0 = there is none. */
const char *pyr_address_next(const char **rest, size_t *length);

#endif
