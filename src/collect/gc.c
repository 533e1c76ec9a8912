/* Pauses of the garbage collector: how long, which generation, how many objects, and the stack that
 * set it off.
 *
 * The hook is a callback of the module gc. A pause is timed from callback to callback; long ones
 * are given one by one, short ones by their time (collect/toll.h), one toll a generation. No lock,
 * no thread: collections of one interpreter follow one another.
 */
#include "collect/gc.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/gate.h"
#include "base/map.h"
#include "base/memory.h"
#include "collect/collector.h"
#include "collect/toll.h"
#include "unwind/own_stack.h"

enum { GENERATIONS = 3 };

static const int64_t TIMELINE_PAUSE_NS = 1000000; /* shorter ones have no place in time */

typedef struct gc_collector {
    pyr_collect_context context;
    pyr_toll tolls[GENERATIONS];
    _Atomic int64_t began_ns; /* 0 = no collection runs */
    bool running;             /* composition root only */
    _Atomic uint64_t collections, time_ns, collected;
} gc_collector;

static pyr_gate gate;

bool pyr_gc_is_on(void)
{
    return atomic_load(&gate.object) != NULL;
}

void pyr_gc_start(void)
{
    gc_collector *self = pyr_gate_enter(&gate);
    if (self) {
        atomic_store(&self->began_ns, pyr_clock_monotonic_ns());
    }
    pyr_gate_leave(&gate);
}

static void give(gc_collector *self, const pyr_own_stack *stack, int64_t generation, pyr_sums sums,
                 int64_t end_ns)
{
    pyr_label labels[PYR_OWN_STACK_LABELS + 1];
    uint32_t count = pyr_own_stack_labels(stack, labels);
    labels[count++] = (pyr_label){.key = PYR_LABEL_GC_GENERATION, .number = generation};
    const pyr_sample sample = {
        .symbols = stack->symbols,
        .kind = PYR_SAMPLE_KIND_GC,
        .frame_count = stack->count,
        .frames = stack->frames,
        .omitted = stack->omitted,
        .label_count = count,
        .labels = labels,
        .values = {sums.time_ns, sums.count, sums.extra},
        .end_ns = self->context.timeline ? end_ns : 0,
    };
    (void)self->context.sink.add(self->context.sink.context, &sample);
}

static void note_pause(gc_collector *self, pyr_addr thread_state, int64_t generation,
                       pyr_sums pause, int64_t end_ns)
{
    pyr_toll *toll = &self->tolls[generation < 0             ? 0
                                  : generation < GENERATIONS ? generation
                                                             : GENERATIONS - 1];
    pyr_sums sums;
    if (pyr_toll_add(toll, pause, &sums)) {
        pyr_own_stack stack;
        pyr_collector_enter(&self->context);
        if (pyr_own_stack_walk(self->context.own_stacks, thread_state, &stack) == PYR_OK) {
            give(self, &stack, generation, sums, pause.time_ns >= TIMELINE_PAUSE_NS ? end_ns : 0);
        } else {
            pyr_toll_return(toll, sums);
            self->context.sink.lose(self->context.sink.context, PYR_LOSS_NAMES_BUSY, 1);
        }
        pyr_collector_leave(&self->context);
    }
    atomic_fetch_add(&self->collections, 1);
    atomic_fetch_add(&self->time_ns, (uint64_t)pause.time_ns);
    atomic_fetch_add(&self->collected, (uint64_t)pause.extra);
}

void pyr_gc_stop(pyr_addr thread_state, int64_t generation, int64_t collected)
{
    int64_t end_ns = pyr_clock_monotonic_ns();
    gc_collector *self = pyr_gate_enter(&gate);
    int64_t began_ns = self ? atomic_exchange(&self->began_ns, 0) : 0;
    if (began_ns != 0 && end_ns >= began_ns) {
        const pyr_sums pause = {.time_ns = end_ns - began_ns, .count = 1, .extra = collected};
        note_pause(self, thread_state, generation, pause, end_ns);
    }
    pyr_gate_leave(&gate);
}

/* -------------------------------------------------------------------------------- collector ----
 */

static pyr_status create(const pyr_collect_context *context, void **collector, char *why,
                         size_t why_size)
{
    (void)why;
    (void)why_size;
    gc_collector *self = pyr_memory_new(1, sizeof *self);
    if (!self) {
        return PYR_ENOMEM;
    }
    self->context = *context;
    for (int i = 0; i < GENERATIONS; i++) {
        pyr_toll_init(&self->tolls[i], pyr_hash_seed());
    }
    *collector = self;
    return PYR_OK;
}

static void destroy(void *collector)
{
    pyr_memory_free(collector);
}

static bool is_in_use(const void *collector)
{
    (void)collector;
    return pyr_gate_is_in_use(&gate);
}

static pyr_status start(void *collector)
{
    gc_collector *self = collector;
    self->running = true;
    atomic_store(&self->began_ns, 0);
    pyr_gate_open(&gate, self);
    return PYR_OK;
}

/* What no pause stands for yet: without a stack, so that sums are exact. */
static void flush(void *collector)
{
    static const char name[] = "<collections between samples>";
    gc_collector *self = collector;
    pyr_own_stack none = {.symbols = self->context.symbols, .count = 1};
    for (int i = 0; i < GENERATIONS; i++) {
        pyr_sums sums = pyr_toll_take(&self->tolls[i]);
        if (sums.count > 0) {
            pyr_label label = {.key = PYR_LABEL_GC_GENERATION, .number = i};
            none.frames[0].function =
                pyr_symbols_function(self->context.symbols, name, sizeof name - 1, "", 0, 0);
            const pyr_sample sample = {
                .symbols = self->context.symbols,
                .kind = PYR_SAMPLE_KIND_GC,
                .frame_count = 1,
                .frames = none.frames,
                .label_count = 1,
                .labels = &label,
                .values = {sums.time_ns, sums.count, sums.extra},
            };
            (void)self->context.sink.add(self->context.sink.context, &sample);
        }
    }
}

static void stop(void *collector)
{
    gc_collector *self = collector;
    if (self->running) {
        self->running = false;
        pyr_gate_close(&gate);
        flush(self);
    }
}

static void renew_symbols(void *collector, pyr_symbols *symbols)
{
    gc_collector *self = collector;
    self->context.symbols = symbols;
}

static void facts(void *collector, pyr_facts *rows, pyr_facts_occasion occasion)
{
    bool reset = occasion != PYR_FACTS_SO_FAR;
    gc_collector *self = collector;
    const struct {
        const char *key;
        _Atomic uint64_t *counter;
    } counts[] = {{"collections", &self->collections},
                  {"time_ns", &self->time_ns},
                  {"collected", &self->collected}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t value =
            reset ? atomic_exchange(counts[i].counter, 0) : atomic_load(counts[i].counter);
        pyr_facts_add_integer(rows, "gc", counts[i].key, (int64_t)value);
    }
}

/* Nothing is held over a fork: the hook waits for nothing. */
static void around_fork(void *collector)
{
    (void)collector;
}

static void postfork_child(void *collector)
{
    gc_collector *self = collector;
    pyr_gate_fork_child(&gate);
    self->running = false;
}

const pyr_collector_class pyr_gc_collector = {
    .name = "gc",
    .setting = "GC_ENABLED",
    .kinds = PYR_SAMPLE_KIND_BIT(GC),
    .create = create,
    .destroy = destroy,
    .is_in_use = is_in_use,
    .start = start,
    .stop = stop,
    .flush = flush,
    .renew_symbols = renew_symbols,
    .facts = facts,
    .prefork = around_fork,
    .postfork_parent = around_fork,
    .postfork_child = postfork_child,
};
