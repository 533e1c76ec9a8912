/* Addresses to listen at: from text to a listening socket. Private to server/. */
#ifndef PYR_SERVER_LISTEN_H
#define PYR_SERVER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct pyr_listen_address {
    char host[128]; /* of TCP, without brackets */
    char path[108]; /* of a unix socket; "" = TCP */
    unsigned short port;
    bool is_private; /* only this machine reaches it */
} pyr_listen_address;

/* Reads HOST:PORT, [V6]:PORT, :PORT, PORT, HOST, or unix:PATH. PYR_EINVAL. Pure. */
PYR_MUST_USE pyr_status pyr_listen_parse(const char *text, pyr_listen_address *address);

/* Listens; a dead unix socket in the way is replaced. `url` gets what to open. PYR_EBUSY: somebody
 * else listens there; `why` has a sentence then. */
PYR_MUST_USE pyr_status pyr_listen_open(const pyr_listen_address *address, bool tls, int *socket,
                                        char *url, size_t url_size, char *why, size_t why_size);

#endif
