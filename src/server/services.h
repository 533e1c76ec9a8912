/* What each service sent since the server started: counters for /metrics. Any thread. */
#ifndef PYR_SERVER_SERVICES_H
#define PYR_SERVER_SERVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/own_cost.h"
#include "store/labels.h"

enum {
    PYR_SERVICES = 1024, /* more are counted as one, named "(other)" */
    PYR_SERVICE_NAME_BYTES = PYR_LABELS_VALUE_BYTES + 1,
};

typedef struct pyr_services pyr_services;

typedef struct pyr_service_figures {
    uint64_t profiles, bytes; /* on disk; bytes as they came */
    int64_t last_ns;          /* end of the last profile, Unix time */
    pyr_own_cost cost;
} pyr_service_figures;

/* NULL: no memory. */
pyr_services *pyr_services_new(void);
void pyr_services_free(pyr_services *services);

/* Counts a profile that is on disk. */
void pyr_services_count(pyr_services *services, const char *service, size_t bytes, int64_t end_ns,
                        const pyr_own_cost *cost);

/* Figures of the service with this number, its name in `name` (cut to fit). False: there are fewer.
 */
bool pyr_services_at(pyr_services *services, size_t number, char *name, size_t name_size,
                     pyr_service_figures *figures);

#endif
