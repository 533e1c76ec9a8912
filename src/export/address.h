/* Addresses of receivers: what stands in a URL setting. Pure. */
#ifndef PYR_EXPORT_ADDRESS_H
#define PYR_EXPORT_ADDRESS_H

#include <stdbool.h>

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

#endif
