/* Reading costs out of documents; see the header. Stateless; any thread. */
#include "server/own_cost.h"

#include <stdint.h>
#include <string.h>

/* The ids of model/sample.h, which is the other side of the border. */
static const char *const LOSSES[PYR_OWN_LOSSES] = {
    "torn-stack",  "no-root",           "unreadable",   "stale-code",   "too-many-threads",
    "lanes-busy",  "window-full",       "symbols-full", "missed-ticks", "window-dropped",
    "old-symbols", "missed-allocation", "missed-block", "names-busy",   "other",
};

const char *pyr_own_cost_loss(size_t kind)
{
    return LOSSES[kind];
}

static size_t find_loss(const char *name)
{
    size_t kind = 0;
    while (kind < PYR_OWN_LOSSES - 1 && strcmp(LOSSES[kind], name) != 0) {
        kind++;
    }
    return kind;
}

void pyr_own_cost_add_document(pyr_own_cost *cost, const json_t *document)
{
    const char *key = NULL;
    json_t *value = NULL;
    /* Of all the profiler's threads, in newer documents; else of each kind by itself. */
    const json_t *own = json_object_get(document, "cost");
    const json_t *all = json_object_get(own, "own_threads_cpu_ns");
    double cpu_ns = all != NULL ? json_number_value(all)
                                : json_number_value(json_object_get(own, "sampler_cpu_ns")) +
                                      json_number_value(json_object_get(own, "export_cpu_ns"));
    /* The iteration wants a pointer to what may change; it only reads. */
    json_object_foreach((json_t *)(uintptr_t)json_object_get(document, "losses"), key, value)
    {
        cost->lost[find_loss(key)] += json_number_value(value);
    }
    const json_t *window = json_object_get(document, "window");
    const json_t *memory = json_object_get(document, "memory");
    double bytes = json_number_value(json_object_get(memory, "profiler_bytes"));
    cost->cpu_ns += cpu_ns;
    cost->window_ns += json_number_value(json_object_get(window, "end_ns")) -
                       json_number_value(json_object_get(window, "start_ns"));
    cost->bytes = bytes > cost->bytes ? bytes : cost->bytes;
    cost->windows++;
}

void pyr_own_cost_add(pyr_own_cost *cost, const pyr_own_cost *other)
{
    cost->windows += other->windows;
    cost->cpu_ns += other->cpu_ns;
    cost->window_ns += other->window_ns;
    cost->bytes = other->bytes > cost->bytes ? other->bytes : cost->bytes;
    for (size_t kind = 0; kind < PYR_OWN_LOSSES; kind++) {
        cost->lost[kind] += other->lost[kind];
    }
}
