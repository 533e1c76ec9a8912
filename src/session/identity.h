/* Which process a profile is of. Plain data, made once a session. */
#ifndef PYR_SESSION_IDENTITY_H
#define PYR_SESSION_IDENTITY_H

#include <stdint.h>

#include "export/surroundings.h"
#include "model/facts.h"
#include "session/settings.h"

enum { PYR_LIMIT_RUNTIME_ID = 37, PYR_LIMIT_HOST_BYTES = 65 };

typedef struct pyr_identity {
    int64_t pid, parent_pid;
    int64_t start_ns;                      /* Unix time of the profiler's start in this process */
    char runtime_id[PYR_LIMIT_RUNTIME_ID]; /* random, a UUID (RFC 9562, version 4) */
    char parent_runtime_id[PYR_LIMIT_RUNTIME_ID]; /* of the process that made it, or "" */
    char host[PYR_LIMIT_HOST_BYTES];
    char container[PYR_LIMIT_CONTAINER_ID]; /* its id, "" = none, or hidden */
    const char *python;                     /* "3.13.0"; borrowed */
} pyr_identity;

/* The identity of the calling process, with the same runtime ids at each start of the profiler;
 * `parent_id` ("" = none) is the runtime id of the process that it was made by. One thread at a
 * time; reads a small file of /proc. */
void pyr_identity_make(pyr_identity *identity, const char *parent_id, const char *python);

/* Adds section "identity": the above, and service, env, version and tags of the settings. */
void pyr_identity_facts(const pyr_identity *identity, const pyr_settings *settings,
                        pyr_facts *facts);

#endif
