/* The interface of every collector, and the table of them.
 *
 * A collector gathers samples and gives them to a sink; it knows neither recorder nor encoder.
 * A new one is one file and one row of the table in collectors.c. Calls come from the composition
 * root, one at a time, except where said.
 */
#ifndef PYR_COLLECT_COLLECTOR_H
#define PYR_COLLECT_COLLECTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/facts.h"
#include "model/sample.h"
#include "model/symbols.h"
#include "reader/reader.h"

/* What a collector is given: all borrowed, valid until its free. */
typedef struct pyr_collect_context {
    pyr_reader *reader;
    const struct pyr_layout *layout;
    pyr_addr runtime;                          /* address of _PyRuntime */
    pyr_addr code_type;                        /* address of PyCode_Type, 0 = unknown */
    const struct pyr_code_deaths *code_deaths; /* cpython/code_deaths.h; NULL = not hooked */
    const struct pyr_label_source *labels;     /* cpython/context.h; NULL = the program has none */
    pyr_sink sink;
    pyr_symbols *symbols; /* of the current epoch */
    /* Stacks for hooks, of the same epoch: the composition root renews it before collectors. */
    struct pyr_own_stacks *own_stacks;
    int64_t interval_ns;        /* SAMPLING_INTERVAL */
    double overhead_pct;        /* OVERHEAD_PCT */
    unsigned max_frames;        /* MAX_FRAMES */
    int timeline;               /* samples carry end times */
    bool tells_of_raises;       /* the interpreter has a hook on raises */
    int64_t exception_interval; /* EXCEPTION_SAMPLING_INTERVAL */
    bool exception_messages;    /* EXCEPTION_COLLECT_MESSAGE */
    int since_fork;             /* CPU that the process used before the start is accounted, too */
    const char *lock_excluded;  /* LOCK_EXCLUDE_MODULES: parted by commas; valid while created */
    const struct pyr_memory_host *memory_host; /* collect/memory_host.h; NULL = no hooks */
    bool heap_enabled;                         /* HEAP_ENABLED */
    bool native_heap_enabled;                  /* NATIVE_HEAP_ENABLED */
    int64_t heap_sample_bytes;                 /* HEAP_SAMPLE_SIZE; 0 = adapts */
    /* Counts the threads that are in the collector's code just now; NULL: nobody asks. */
    _Atomic uint32_t *inside;
} pyr_collect_context;

/* Around code of a collector whose failure would end the process: a tick, a sample in a hook. */
PYR_HOOK_SAFE static inline void pyr_collector_enter(const pyr_collect_context *context)
{
    if (context->inside != NULL) {
        atomic_fetch_add_explicit(context->inside, 1, memory_order_relaxed);
    }
}

PYR_HOOK_SAFE static inline void pyr_collector_leave(const pyr_collect_context *context)
{
    if (context->inside != NULL) {
        atomic_fetch_sub_explicit(context->inside, 1, memory_order_relaxed);
    }
}

typedef struct pyr_collector_class {
    const char *name;    /* "stack": what the start line and status() say */
    const char *setting; /* "STACK_ENABLED": the setting that switches it */
    uint32_t kinds;      /* PYR_SAMPLE_KIND_BIT of the samples that it gives */
    size_t threads;      /* that it has while it runs */
    /* Makes it; collects nothing yet. `why` gets one sentence on failure. */
    pyr_status (*create)(const pyr_collect_context *context, void **collector, char *why,
                         size_t why_size);
    void (*destroy)(void *collector); /* NULL and half-built are fine; stopped before */
    /* Whether a hook still uses it after its stop: then the session is left alone for ever. NULL:
     * it has no hooks. */
    bool (*is_in_use)(const void *collector);
    pyr_status (*start)(void *collector);
    void (*stop)(void *collector); /* waits for its threads, bounded; emits what is open */
    /* Puts what is open (runs of unchanged stacks) into the sink, up to now. Any thread. */
    void (*flush)(void *collector);
    /* As flush, but what cannot be told yet (CPU not put on a stack) stays open. For slices of a
     * second between two windows, so it must give out each thing once. NULL: nothing is open. */
    void (*checkpoint)(void *collector);
    /* Uses `symbols` from now on (a new epoch); called right after a flush and a rotation. */
    void (*renew_symbols)(void *collector, pyr_symbols *symbols);
    /* Adds its facts: so far, or since the last window's. */
    void (*facts)(void *collector, pyr_facts *facts, pyr_facts_occasion occasion);
    /* Around fork: quiesce without waiting for the network; in the child forget the parent's
     * threads and open runs. The child's collector is stopped until started again. */
    void (*prefork)(void *collector);
    void (*postfork_parent)(void *collector);
    void (*postfork_child)(void *collector);
} pyr_collector_class;

/* One object a collector, defined in the collector's own file. */
extern const pyr_collector_class pyr_stack_collector;
extern const pyr_collector_class pyr_memory_collector;
extern const pyr_collector_class pyr_exception_collector;
extern const pyr_collector_class pyr_lock_collector;
extern const pyr_collector_class pyr_gc_collector;

/* The table, ended by a NULL. */
extern const pyr_collector_class *const pyr_collector_classes[];

#endif
