/* `pyrometer serve`: HTTP in front of the store. See docs/internals/server.md.
 *
 * Threads: one of the HTTP library for each address; workers that take profiles in; workers that
 * answer questions; one that watches slow connections; and the store's. None of them writes to
 * standard streams.
 */
#ifndef PYR_SERVER_SERVER_H
#define PYR_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_SERVER_ADDRESSES = 16, PYR_SERVER_PORT = 4077 };

typedef struct pyr_server pyr_server;

typedef struct pyr_server_options {
    const char *folder;                    /* of the store */
    const char *const *addresses;          /* HOST:PORT, [V6]:PORT, PORT, or unix:PATH */
    size_t address_count;                  /* 0 = 127.0.0.1:4077 */
    const char *read_token, *ingest_token; /* NULL = none */
    const char *certificate, *key;         /* PEM files; NULL = no TLS */
    const char *const *hosts; /* names by which browsers may call it, beside localhost */
    size_t host_count;
    int64_t keep_ns, keep_bytes; /* retention, see pyr_store_options */
    size_t profile_bytes;        /* most of one profile, uncompressed */
} pyr_server_options;

/* Opens the store and listens. PYR_EPERM: an address that others reach without tokens; PYR_EBUSY:
 * an address or the store is taken; PYR_ENOTSUP ...; `why` has a sentence then. */
PYR_MUST_USE pyr_status pyr_server_start(const pyr_server_options *options, pyr_server **server,
                                         char *why, size_t why_size);

/* Where address `index` is: what to open, "http://127.0.0.1:4077". */
const char *pyr_server_address(const pyr_server *server, size_t index);

/* Takes no more requests, answers those that are there, writes what waits, closes. NULL is fine. */
void pyr_server_stop(pyr_server *server);

#endif
