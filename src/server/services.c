/* Counters by service; see the header. Owns its lock, under which nothing is waited for. */
#include "server/services.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "pprof/intern.h"

enum { NAME_BYTES = 1 << 20 };

struct pyr_services {
    pthread_mutex_t mutex;
    pyr_intern *names;
    pyr_service_figures figures[PYR_SERVICES];
};

pyr_services *pyr_services_new(void)
{
    static const char OTHER[] = "(other)"; /* number 0 */
    uint64_t number = 0;
    pyr_services *services = pyr_memory_new(1, sizeof *services);
    if (services == NULL) {
        return NULL;
    }
    (void)pthread_mutex_init(&services->mutex, NULL);
    services->names = pyr_intern_new(PYR_SERVICES, NAME_BYTES);
    if (services->names == NULL ||
        pyr_intern_add(services->names, OTHER, sizeof OTHER - 1, &number) != PYR_OK) {
        pyr_services_free(services);
        return NULL;
    }
    return services;
}

void pyr_services_free(pyr_services *services)
{
    if (services != NULL) {
        (void)pthread_mutex_destroy(&services->mutex);
        pyr_intern_free(services->names);
        pyr_memory_free(services);
    }
}

void pyr_services_count(pyr_services *services, const char *service, size_t bytes, int64_t end_ns,
                        const pyr_own_cost *cost)
{
    uint64_t number = 0;
    (void)pthread_mutex_lock(&services->mutex);
    if (pyr_intern_add(services->names, service, strlen(service), &number) != PYR_OK) {
        number = 0;
    }
    pyr_service_figures *figures = &services->figures[number];
    figures->profiles++;
    figures->bytes += bytes;
    figures->last_ns = end_ns > figures->last_ns ? end_ns : figures->last_ns;
    pyr_own_cost_add(&figures->cost, cost);
    (void)pthread_mutex_unlock(&services->mutex);
}

bool pyr_services_at(pyr_services *services, size_t number, char *name, size_t name_size,
                     pyr_service_figures *figures)
{
    (void)pthread_mutex_lock(&services->mutex);
    bool found = number < pyr_intern_count(services->names);
    if (found) {
        size_t length = 0;
        const char *text = pyr_intern_get(services->names, number, &length);
        (void)snprintf(name, name_size, "%.*s", (int)length, text);
        *figures = services->figures[number];
    }
    (void)pthread_mutex_unlock(&services->mutex);
    return found;
}
