/* The lock collector: how long threads wait for locks, because of whom, and how long locks are
 * held.
 *
 * Waits are all recorded, exactly, with the waiter's stack and, where it is known who held the
 * lock, the holder's: two samples with one pair id. Acquisitions that did not wait, and holds, are
 * sampled: a countdown is drawn like that of exceptions, whose mean adapts so that about a thousand
 * a second are taken; few acquisitions are all seen. A sampled acquisition is marked in the table
 * of held locks, and its release gives the hold with the same weight.
 *
 * Who brings the countdown to 0, or takes it, owns `draw`. No lock of its own, no thread: the
 * sampler's thread looks for deadlocks (pyr_lock_watch).
 */
#include "collect/lock.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/gate.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "collect/lock_collector.h"
#include "collect/lock_watch.h"
#include "collect/wait_holders.h"
#include "collect/waits.h"

enum {
    NAME_FRAMES = 8, /* looked into for a lock's name */
    NAME_BYTES = 256,
};

pyr_held pyr_held_locks[PYR_HELD_PLACES];
_Atomic(pyr_lock_known_name) pyr_held_names[PYR_HELD_PLACES];
_Atomic bool pyr_lock_on;
pyr_countdown pyr_lock_countdown = PYR_COUNTDOWN_INIT;

pyr_gate pyr_lock_gate;
_Atomic int64_t pyr_lock_started_ns;
static _Atomic(const char *) hook_texts[PYR_LOCK_HOOKS];

static _Atomic(pyr_lock_namer *) namer;

void pyr_lock_set_namer(pyr_lock_namer *function)
{
    atomic_store(&namer, function);
}

void pyr_lock_note_hook(pyr_lock_hook hook, const char *text)
{
    atomic_store(&hook_texts[hook], text);
}

/* ---------------------------------------------------------------------------------- samples ----
 */

uint32_t pyr_lock_name(pyr_lock_state *self, const void *object, pyr_addr thread_state,
                       const pyr_own_stack *stack)
{
    pyr_own_frame frames[NAME_FRAMES];
    char text[NAME_BYTES];
    pyr_lock_namer *find = atomic_load(&namer);
    if (!find || !object) {
        return 0;
    }
    uint32_t count =
        pyr_own_stack_frames(self->context.own_stacks, thread_state, frames, NAME_FRAMES);
    size_t length = (*find)(object, frames, count, text, sizeof text);
    return length > 0 ? pyr_own_stack_string(self->context.own_stacks, stack, text, length) : 0;
}

void pyr_lock_sample(const void *lock, const void *object, pyr_lock_type type,
                     pyr_addr thread_state)
{
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    if (self) {
        pyr_lock_drawing *draw = &self->draw;
        int64_t now_ns = pyr_clock_monotonic_ns();
        int64_t weight = pyr_countdown_weight(&pyr_lock_countdown);
        int64_t carry = 0;
        uint32_t cost = 1;
        bool is_seen = false;
        pyr_lock_known_name known = {0};
        pyr_own_stack stack;
        pyr_collector_enter(&self->context);
        if (pyr_own_stack_walk(self->context.own_stacks, thread_state, &stack) == PYR_OK) {
            cost = pyr_own_stack_cost(&stack);
            pyr_lock_count(&self->acquired, weight);
            is_seen = !pyr_left_out_matches(self->left_out, &stack);
            if (is_seen) {
                uint32_t name = pyr_lock_name(self, object, thread_state, &stack);
                known = (pyr_lock_known_name){(uint32_t)stack.epoch, name};
                pyr_lock_samples_give(&self->samples,
                                      &(pyr_lock_event){.kind = PYR_SAMPLE_KIND_LOCK_ACQUIRE,
                                                        .stack = &stack,
                                                        .type = type,
                                                        .name = name,
                                                        .count = weight,
                                                        .end_ns = now_ns});
            }
        } else {
            carry = weight;
            pyr_lock_count(&self->missed, 1);
        }
        pyr_collector_leave(&self->context);
        bool is_hold = lock && is_seen;
        if (is_hold) {
            uintptr_t holder = pyr_lock_is_of_tasks(type) ? (uintptr_t)lock : thread_state;
            pyr_hold_room_add(&draw->room, now_ns, weight, (uintptr_t)lock, holder);
        }
        pyr_lock_pace_sampled(&draw->pace, now_ns, cost);
        pyr_countdown_go_on(&pyr_lock_countdown, pyr_lock_pace_mean(&draw->pace), carry);
        if (is_hold) { /* the last thing: what is ours is no part of the hold */
            pyr_lock_mark(pyr_held_place(lock), weight, known, pyr_clock_monotonic_ns());
        }
    } else {
        pyr_countdown_stop(&pyr_lock_countdown);
    }
    pyr_gate_leave(&pyr_lock_gate);
}

/* Acquisitions since the last sample, as in collect/exception.c. Nothing is told of their holds. */
static void give_rest(pyr_lock_state *self, int64_t weight)
{
    pyr_hold_room_clear(&self->draw.room, pyr_clock_monotonic_ns());
    pyr_lock_samples_give_rest(&self->samples, 0, weight, false, false);
    pyr_lock_count(&self->acquired, weight);
}

static void give_rest_of_waits(pyr_lock_state *self)
{
    for (int i = 0; i < 4; i++) {
        pyr_sums rest = pyr_toll_take(&self->waits[i / 2][i % 2]);
        pyr_lock_samples_give_rest(&self->samples, rest.time_ns, rest.count - rest.extra, true,
                                   i % 2);
        pyr_lock_count_waits(self, rest, i % 2);
    }
}

/* The name that was found as the hold began, if it is of the table of `stack`. */
static uint32_t name_at_end(pyr_lock_state *self, pyr_lock_known_name known, const void *object,
                            pyr_addr thread_state, const pyr_own_stack *stack)
{
    return known.name != 0 && known.epoch == (uint32_t)stack->epoch
               ? known.name
               : pyr_lock_name(self, object, thread_state, stack);
}

void pyr_lock_sample_release(pyr_held *held, const void *object, pyr_lock_type type,
                             pyr_addr thread_state)
{
    int64_t now_ns = pyr_clock_monotonic_ns();
    pyr_lock_known_name known = atomic_load(&pyr_held_names[held - pyr_held_locks]);
    int64_t hold_ns = now_ns - atomic_exchange(&held->since_ns, 0);
    int64_t weight = atomic_load(&held->weight);
    /* Who gives back what another thread took wakes that thread: this is no hold. */
    bool is_hold = atomic_load(&held->holder) == thread_state && hold_ns >= 0;
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    pyr_own_stack stack;
    if (self && is_hold) {
        if (pyr_own_stack_walk(self->context.own_stacks, thread_state, &stack) != PYR_OK) {
            pyr_lock_count(&self->missed, 1);
        } else if (!pyr_left_out_matches(self->left_out, &stack)) {
            pyr_lock_count(&self->released, weight);
            pyr_lock_samples_give(
                &self->samples,
                &(pyr_lock_event){.kind = PYR_SAMPLE_KIND_LOCK_RELEASE,
                                  .stack = &stack,
                                  .type = type,
                                  .name = name_at_end(self, known, object, thread_state, &stack),
                                  .value = pyr_hold_room_take(&self->draw.room, hold_ns, weight),
                                  .count = weight,
                                  .end_ns = now_ns});
        }
    }
    pyr_gate_leave(&pyr_lock_gate);
}

void pyr_lock_miss(void)
{
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    if (self) {
        pyr_lock_count(&self->missed, 1);
    }
    pyr_gate_leave(&pyr_lock_gate);
}

void pyr_lock_tend(void)
{
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    if (self && pyr_own_stacks_want_room(self->context.own_stacks)) {
        pyr_own_stacks_tend(self->context.own_stacks);
    }
    pyr_gate_leave(&pyr_lock_gate);
}

/* -------------------------------------------------------------------------------- deadlocks ----
 */

static void tell(void *context, bool is_deadlock, const char *line)
{
    pyr_lock_state *self = context;
    unsigned at = atomic_load(&self->deadlock_line_count);
    if (is_deadlock || atomic_load(&self->timed_rings) < PYR_LOCK_TIMED_RINGS) {
        pyr_log_add_anyway(PYR_LOG_WARNING, line); /* threads may differ by their numbers only */
    }
    if (is_deadlock && at < PYR_LOCK_DEADLOCKS) {
        snprintf(self->deadlock_lines[at], sizeof self->deadlock_lines[at], "%s", line);
        atomic_store(&self->deadlock_line_count, at + 1);
    }
}

/* Where samples have become rare, the program has: what is left of a long gap would hide it. The
 * process has no memory, so that a gap may be drawn anew at any time. */
static void shorten(pyr_lock_state *self)
{
    pyr_lock_pace *pace = &self->draw.pace;
    int64_t rest;
    if (!pyr_lock_pace_is_rare(pace, pyr_clock_monotonic_ns()) ||
        !pyr_countdown_take(&pyr_lock_countdown, &rest)) {
        return;
    }
    give_rest(self, rest);
    pyr_lock_pace_restart(pace, pyr_clock_monotonic_ns());
    pyr_countdown_resume(&pyr_lock_countdown, pyr_lock_pace_mean(pace));
}

void pyr_lock_watch(const pyr_symbols *symbols, uint64_t epoch)
{
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    if (self && pyr_lock_is_on()) {
        shorten(self);
        if (pyr_waits_count() >= 2) {
            pyr_waits_told told =
                pyr_waits_look(symbols, self->context.own_stacks, epoch, tell, self);
            pyr_lock_count(&self->deadlocks, told.deadlocks);
            pyr_lock_count(&self->timed_rings, told.with_timeout);
        }
    }
    pyr_gate_leave(&pyr_lock_gate);
}

/* -------------------------------------------------------------------------------- collector ----
 */

static void destroy(void *collector)
{
    pyr_lock_state *self = collector;
    if (self) {
        pyr_left_out_free(self->left_out);
        pyr_memory_free(self);
    }
}

static pyr_status create(const pyr_collect_context *context, void **collector, char *why,
                         size_t why_size)
{
    (void)why;
    (void)why_size;
    pyr_lock_state *self = pyr_memory_new(1, sizeof *self);
    if (!self) {
        return PYR_ENOMEM;
    }
    self->left_out = pyr_left_out_new(context->lock_excluded);
    if (!self->left_out) {
        destroy(self);
        return PYR_ENOMEM;
    }
    self->context = *context;
    self->context.lock_excluded = NULL; /* lives no longer than this call */
    for (int i = 0; i < 4; i++) {
        pyr_toll_init(&self->waits[i / 2][i % 2], pyr_hash_seed());
    }
    self->samples.sink = context->sink;
    self->samples.timeline = context->timeline;
    pyr_lock_samples_renew(&self->samples, context->symbols);
    *collector = self;
    return PYR_OK;
}

static bool is_in_use(const void *collector)
{
    (void)collector;
    return pyr_gate_is_in_use(&pyr_lock_gate);
}

static void forget_held(void)
{
    for (size_t i = 0; i < PYR_HELD_PLACES; i++) {
        if (atomic_load_explicit(&pyr_held_locks[i].lock, memory_order_relaxed) != 0) {
            atomic_store_explicit(&pyr_held_locks[i].lock, 0, memory_order_relaxed);
        }
    }
}

static pyr_status start(void *collector)
{
    pyr_lock_state *self = collector;
    self->running = true;
    int64_t now_ns = pyr_clock_monotonic_ns();
    pyr_lock_pace_begin(&self->draw.pace, now_ns);
    pyr_hold_room_clear(&self->draw.room, now_ns);
    atomic_store(&pyr_lock_started_ns, now_ns);
    forget_held();
    pyr_gate_open(&pyr_lock_gate, self);
    pyr_countdown_start(&pyr_lock_countdown, pyr_lock_pace_mean(&self->draw.pace), pyr_hash_seed());
    atomic_store(&pyr_lock_on, true);
    return PYR_OK;
}

static void flush(void *collector)
{
    pyr_lock_state *self = collector;
    int64_t rest;
    if (self->running && pyr_countdown_take(&pyr_lock_countdown, &rest)) {
        give_rest(self, rest);
        pyr_countdown_resume(&pyr_lock_countdown, pyr_lock_pace_mean(&self->draw.pace));
    }
    give_rest_of_waits(self);
}

static void stop(void *collector)
{
    pyr_lock_state *self = collector;
    int64_t rest;
    if (!self->running) {
        return;
    }
    self->running = false;
    atomic_store(&pyr_lock_on, false);
    if (pyr_countdown_take(&pyr_lock_countdown, &rest)) {
        give_rest(self, rest);
    }
    pyr_gate_close(&pyr_lock_gate);
    give_rest_of_waits(self);
}

static void renew_symbols(void *collector, pyr_symbols *symbols)
{
    pyr_lock_state *self = collector;
    self->context.symbols = symbols;
    pyr_lock_samples_renew(&self->samples, symbols);
}

static void add_count(pyr_facts *rows, const char *key, _Atomic uint64_t *counter, int64_t open,
                      bool reset)
{
    uint64_t value = reset ? atomic_exchange(counter, 0) : atomic_load(counter);
    pyr_facts_add_integer(rows, "locks", key, (int64_t)value + open);
}

/* Waits that are not given yet, of threads and tasks together. */
static pyr_sums open_waits(const pyr_lock_state *self, bool parks)
{
    pyr_sums threads = pyr_toll_open(&self->waits[0][parks]);
    pyr_sums tasks = pyr_toll_open(&self->waits[1][parks]);
    return (pyr_sums){.time_ns = threads.time_ns + tasks.time_ns,
                      .count = threads.count + tasks.count,
                      .extra = threads.extra + tasks.extra};
}

static void facts(void *collector, pyr_facts *rows, pyr_facts_occasion occasion)
{
    bool reset = occasion != PYR_FACTS_SO_FAR;
    static const char *const keys[PYR_LOCK_DEADLOCKS] = {"deadlock_1", "deadlock_2", "deadlock_3",
                                                         "deadlock_4"};
    static const char *const hook_keys[PYR_LOCK_HOOKS] = {"hook", "hook_asyncio",
                                                          "hook_multiprocessing", "hook_greenlets"};
    pyr_lock_state *self = collector;
    for (int i = 0; i < PYR_LOCK_HOOKS; i++) {
        const char *text = atomic_load(&hook_texts[i]);
        pyr_facts_add_text(rows, "locks", hook_keys[i], text ? text : "none");
    }
    /* At the end of a window all have just been given: what has come since is the next one's.
     * Before it, who asks without the GIL may meet a wait on its way from there to here. */
    pyr_sums waits = reset ? (pyr_sums){0} : open_waits(self, false);
    pyr_sums parks = reset ? (pyr_sums){0} : open_waits(self, true);
    int64_t failed = waits.extra + parks.extra, all = waits.count + parks.count;
    int64_t got = failed < all ? all - failed : 0;
    add_count(rows, "acquired", &self->acquired, got, reset);
    add_count(rows, "contended", &self->contended, waits.count, reset);
    add_count(rows, "waited_ns", &self->waited_ns, waits.time_ns, reset);
    add_count(rows, "parked", &self->parked, parks.count, reset);
    add_count(rows, "parked_ns", &self->parked_ns, parks.time_ns, reset);
    add_count(rows, "unknown_holders", &self->unknown_holders, 0, reset);
    add_count(rows, "missed", &self->missed, 0, reset);
    pyr_facts_add_integer(rows, "locks", "waiting", pyr_waits_count());
    pyr_facts_add_integer(rows, "locks", "deadlocks", (int64_t)atomic_load(&self->deadlocks));
    pyr_facts_add_integer(rows, "locks", "timed_rings", (int64_t)atomic_load(&self->timed_rings));
    for (unsigned i = 0; i < atomic_load(&self->deadlock_line_count); i++) {
        pyr_facts_add_text(rows, "locks", keys[i], self->deadlock_lines[i]);
    }
}

/* Nothing is held over a fork: hooks wait for nothing. */
static void around_fork(void *collector)
{
    (void)collector;
}

static void postfork_child(void *collector)
{
    pyr_lock_state *self = collector;
    atomic_store(&pyr_lock_on, false);
    pyr_gate_fork_child(&pyr_lock_gate);
    pyr_countdown_stop(&pyr_lock_countdown);
    pyr_waits_clear();
    pyr_wait_holders_clear();
    forget_held();
    self->running = false;
}

const pyr_collector_class pyr_lock_collector = {
    .name = "lock",
    .setting = "LOCK_ENABLED",
    .kinds = PYR_SAMPLE_KIND_BIT(LOCK_ACQUIRE) | PYR_SAMPLE_KIND_BIT(LOCK_RELEASE) |
             PYR_SAMPLE_KIND_BIT(LOCK_HOLDER),
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
