/* The stack collector: CPU and wall time of all threads by their Python stacks.
 *
 * Owns one native thread, the sampler, which ticks at the pace of pace.c. The tick and everything
 * it owns is guarded by `lock` (rank PYR_LOCK_COLLECTOR): the sampler holds it for a tick, whoever
 * flushes holds it to give out what is open. The sampler has no thread state of Python, never takes
 * the GIL, and has every signal blocked.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/memory.h"
#include "collect/collector.h"
#include "collect/lock_watch.h"
#include "collect/native_hooks.h"
#include "collect/pace.h"
#include "collect/tick.h"
#include "collect/wait_holders.h"
#include "os/os.h"
#include "os/task.h"
#include "unwind/own_stack.h"

static const int64_t WATCH_NS = 20000000; /* between two looks at locks */

enum { SLICE_NS = 100000 };              /* asked of the kernel: the shortest that Linux grants */
enum { TURN_NS = 100000, TURNS = 1000 }; /* how long the sampler lets others go first, at most */

typedef struct stack_collector {
    pyr_lock lock;
    pyr_tick *tick;          /* by lock */
    pyr_pace pace;           /* by lock */
    bool closed;             /* by lock: the interpreter went away */
    int64_t sampler_cpu_ns;  /* by lock: clock of the sampler at its last tick */
    int64_t tick_cpu_ns;     /* by lock: what that tick cost */
    int64_t reported_cpu_ns; /* by lock: the same at the last facts with reset */
    int64_t ticked_ns;       /* by lock: time of the last tick */
    uint64_t told_missed;    /* by lock: of the missed ticks of this window, those told */
    uint64_t own_epoch;      /* by lock: of the symbols, as own stacks count */
    bool short_slice;        /* by lock: the kernel took our wish */
    bool running;            /* composition root only */
    pthread_t sampler;
    _Atomic uint32_t stopping; /* futex word: the sampler sleeps on it */
    _Atomic uint32_t waiting;  /* threads of others that want the lock */
    pyr_own_stack holder;      /* scratch of the sampler's */
    pyr_collect_context context;
} stack_collector;

static uint64_t epoch_of(const pyr_collect_context *context)
{
    return context->own_stacks ? pyr_own_stacks_epoch(context->own_stacks) : 0;
}

/* For all but the sampler. */
static void acquire(stack_collector *stack)
{
    atomic_fetch_add(&stack->waiting, 1);
    pyr_lock_acquire(&stack->lock);
    atomic_fetch_sub(&stack->waiting, 1);
}

/* Where ticks take longer than their interval, they follow each other at once, and whoever else
 * wants the lock, perhaps with the GIL, would never find it free. */
static void let_others_go_first(stack_collector *stack)
{
    for (int turn = 0; atomic_load(&stack->waiting) > 0 && turn < TURNS; turn++) {
        pyr_os_sleep(TURN_NS);
    }
}

static pyr_status create(const pyr_collect_context *context, void **collector, char *why,
                         size_t why_size)
{
    (void)why; /* the status says it all */
    (void)why_size;
    stack_collector *stack = pyr_memory_new(1, sizeof *stack);
    if (!stack) {
        return PYR_ENOMEM;
    }
    pyr_lock_init(&stack->lock, PYR_LOCK_COLLECTOR);
    stack->context = *context;
    stack->own_epoch = epoch_of(context);
    stack->tick = pyr_tick_new(context);
    if (!stack->tick) {
        pyr_lock_fini(&stack->lock);
        pyr_memory_free(stack);
        return PYR_ENOMEM;
    }
    *collector = stack;
    return PYR_OK;
}

static void destroy(void *collector)
{
    stack_collector *stack = collector;
    if (stack) {
        pyr_tick_free(stack->tick);
        pyr_lock_fini(&stack->lock);
        pyr_memory_free(stack);
    }
}

/* Where a thread stands that others wait for. */
static bool find_holder(void *context, pyr_addr thread_state, pyr_own_stack *found)
{
    const stack_collector *stack = context;
    found->epoch = stack->own_epoch;
    return pyr_tick_stack_of(stack->tick, thread_state, found);
}

/* One tick and the plan of the next. Returns its time. Under the lock. */
static int64_t tick_once(stack_collector *stack)
{
    int64_t woke = pyr_clock_monotonic_ns();
    int64_t process_before = pyr_tick_process_ns(stack->tick);
    pyr_pace_woke(&stack->pace, woke);
    pyr_wait_holders_each(pyr_tick_hurry, stack->tick);
    pyr_status status =
        pyr_tick_run(stack->tick, stack->pace.interval_ns, stack->tick_cpu_ns, stack->pace.random);
    stack->closed = status == PYR_ECLOSED;
    pyr_wait_holders_look(find_holder, stack, &stack->holder);
    int64_t cpu = pyr_clock_own_cpu_ns();
    stack->tick_cpu_ns = cpu - stack->sampler_cpu_ns;
    pyr_pace_spent(&stack->pace, stack->tick_cpu_ns,
                   pyr_tick_process_ns(stack->tick) - process_before, woke - stack->ticked_ns);
    stack->sampler_cpu_ns = cpu;
    stack->ticked_ns = woke;
    return pyr_pace_plan(&stack->pace, pyr_clock_monotonic_ns());
}

static void *sample(void *context)
{
    stack_collector *stack = context;
    int64_t watched_ns = 0;
    pyr_lock_acquire(&stack->lock);
    pyr_tick_enter(stack->tick);
    stack->short_slice = pyr_os_prefer_short_slice(SLICE_NS) == PYR_OK;
    stack->sampler_cpu_ns = stack->reported_cpu_ns = pyr_clock_own_cpu_ns();
    int64_t next = pyr_pace_plan(&stack->pace, pyr_clock_monotonic_ns());
    pyr_lock_release(&stack->lock);
    for (;;) {
        while (!atomic_load(&stack->stopping) && pyr_clock_monotonic_ns() < next) {
            pyr_os_futex_wait(&stack->stopping, 0, next);
        }
        if (atomic_load(&stack->stopping)) {
            return NULL;
        }
        if (stack->context.own_stacks && pyr_own_stacks_want_room(stack->context.own_stacks)) {
            pyr_own_stacks_tend(stack->context.own_stacks);
        }
        let_others_go_first(stack);
        pyr_lock_acquire(&stack->lock);
        pyr_collector_enter(&stack->context);
        next = tick_once(stack);
        pyr_collector_leave(&stack->context);
        if (stack->ticked_ns - watched_ns >= WATCH_NS) {
            /* Under the lock: the table of symbols cannot be exchanged meanwhile. */
            watched_ns = stack->ticked_ns;
            pyr_lock_watch(stack->context.symbols, stack->own_epoch);
        }
        bool closed = stack->closed;
        pyr_lock_release(&stack->lock);
        pyr_native_hooks_tick();
        if (closed) {
            return NULL;
        }
    }
}

static pyr_status start(void *collector)
{
    stack_collector *stack = collector;
    atomic_store(&stack->stopping, 0);
    acquire(stack);
    int64_t now = pyr_clock_monotonic_ns();
    pyr_pace_init(&stack->pace, stack->context.interval_ns, stack->context.overhead_pct,
                  pyr_os_cpu_quota(), now, pyr_hash_seed());
    stack->closed = false;
    stack->ticked_ns = now;
    pyr_status status = pyr_tick_begin(stack->tick);
    pyr_lock_release(&stack->lock);
    if (status == PYR_OK) {
        status = pyr_os_thread_start(&stack->sampler, "pyrometer-stack", sample, stack);
    }
    stack->running = status == PYR_OK;
    return status;
}

/* Into the window that is open: so before it is sealed, which facts are too late for. */
static void tell_missed(stack_collector *stack)
{
    if (stack->pace.missed > stack->told_missed) {
        stack->context.sink.lose(stack->context.sink.context, PYR_LOSS_MISSED_TICKS,
                                 stack->pace.missed - stack->told_missed);
    }
    stack->told_missed = stack->pace.missed;
}

static void flush(void *collector)
{
    stack_collector *stack = collector;
    acquire(stack);
    pyr_tick_flush(stack->tick);
    tell_missed(stack);
    pyr_lock_release(&stack->lock);
}

static void checkpoint(void *collector)
{
    stack_collector *stack = collector;
    acquire(stack);
    pyr_tick_checkpoint(stack->tick);
    pyr_lock_release(&stack->lock);
}

static void stop(void *collector)
{
    stack_collector *stack = collector;
    if (!stack->running) {
        return;
    }
    stack->running = false;
    flush(stack); /* while the sampler lives, so that its CPU is its own in the profile */
    atomic_store(&stack->stopping, 1);
    pyr_os_futex_wake(&stack->stopping);
    (void)pthread_join(stack->sampler, NULL); /* a tick is bounded: so is this */
    flush(stack);
}

static void renew_symbols(void *collector, pyr_symbols *symbols)
{
    stack_collector *stack = collector;
    acquire(stack);
    stack->context.symbols = symbols;
    pyr_tick_renew_symbols(stack->tick, symbols);
    stack->own_epoch = epoch_of(&stack->context);
    pyr_lock_release(&stack->lock);
}

static void facts(void *collector, pyr_facts *rows, pyr_facts_occasion occasion)
{
    bool reset = occasion != PYR_FACTS_SO_FAR;
    stack_collector *stack = collector;
    acquire(stack);
    pyr_pace *pace = &stack->pace;
    pyr_facts_add_integer(rows, "tick", "interval_ns", pace->interval_ns);
    pyr_facts_add_integer(rows, "tick", "interval_set_ns", pace->base_interval_ns);
    pyr_facts_add_integer(rows, "tick", "ticks", (int64_t)pace->ticks);
    pyr_facts_add_integer(rows, "tick", "missed", (int64_t)pace->missed);
    pyr_facts_add_integer(rows, "tick", "wake_up_mean_ns",
                          pace->ticks ? (int64_t)(pace->late_total_ns / pace->ticks) : 0);
    pyr_facts_add_integer(rows, "tick", "wake_up_p50_ns", pyr_pace_latency_ns(pace, 0.5));
    pyr_facts_add_integer(rows, "tick", "wake_up_p99_ns", pyr_pace_latency_ns(pace, 0.99));
    pyr_facts_add_text(rows, "tick", "slice", stack->short_slice ? "short" : "default");
    pyr_tick_facts(stack->tick, rows, reset);
    pyr_facts_add_integer(rows, "cost", "sampler_cpu_ns",
                          stack->sampler_cpu_ns - stack->reported_cpu_ns);
    pyr_facts_add_real(rows, "cost", "budget_pct", pace->budget_pct);
    if (reset) {
        tell_missed(stack); /* the few since the flush: they stand in the next window */
        stack->reported_cpu_ns = stack->sampler_cpu_ns;
        pyr_pace_reset_counts(pace);
        stack->told_missed = 0;
    }
    pyr_lock_release(&stack->lock);
}

static void prefork(void *collector)
{
    stack_collector *stack = collector;
    acquire(stack); /* waits for a tick at most */
}

static void postfork_parent(void *collector)
{
    stack_collector *stack = collector;
    pyr_lock_release(&stack->lock);
}

static void postfork_child(void *collector)
{
    stack_collector *stack = collector;
    pyr_lock_fork_child(&stack->lock);
    atomic_store(&stack->waiting, 0);
    stack->running = false;
    pyr_tick_fork_child(stack->tick);
}

const pyr_collector_class pyr_stack_collector = {
    .name = "stack",
    .setting = "STACK_ENABLED",
    .kinds = PYR_SAMPLE_KIND_BIT(STACK) | PYR_SAMPLE_KIND_BIT(GIL_WAIT) |
             PYR_SAMPLE_KIND_BIT(GIL_HOLDER),
    .threads = 1,
    .create = create,
    .destroy = destroy,
    .start = start,
    .stop = stop,
    .flush = flush,
    .checkpoint = checkpoint,
    .renew_symbols = renew_symbols,
    .facts = facts,
    .prefork = prefork,
    .postfork_parent = postfork_parent,
    .postfork_child = postfork_child,
};
