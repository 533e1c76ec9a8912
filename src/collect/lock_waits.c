/* Waits for locks: of threads, which stand still meanwhile, and of tasks, which do not keep their
 * thread from other things. Part of the lock collector; hooks in any thread, with the GIL.
 *
 * A thread's wait is in its own storage and in the table of waits; a task's is in that of the hook,
 * with a copy of its stack, of which there are at most MOST_KEPT. Who had the lock is seen as a
 * task begins to wait, if it is a thread; a task has no stack then that could be found at once, and
 * is seen as it gives the lock back.
 */
#include "collect/lock.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collect/lock_collector.h"
#include "collect/wait_holders.h"
#include "collect/waits.h"

enum {
#ifdef PYR_HOSTILE
    MOST_KEPT = 2,
#else
    MOST_KEPT = 4096, /* 2.5 MiB at most with default settings */
#endif
};

static const int64_t LATE_NS = 10000;            /* no acquisition takes so long without a wait */
static const int64_t TIMELINE_WAIT_NS = 1000000; /* shorter ones have no place in time */

static _Atomic unsigned kept_stacks;

struct pyr_task_holder {
    const void *lock;
    unsigned shares;
    pyr_own_stack *stack; /* as it gave the lock back; NULL = it has not yet, or none was kept */
};

pyr_task_holder *pyr_task_holders[PYR_TASK_HOLDER_PLACES]; /* a share each */
unsigned pyr_task_holder_count;

/* ---------------------------------------------------------------------------------- threads ----
 */

static bool is_named(const pyr_own_stack *stack, uint32_t frame, const char *const *names,
                     size_t count)
{
    size_t length;
    if (frame >= stack->count) {
        return false;
    }
    pyr_function function = pyr_symbols_get(stack->symbols, stack->frames[frame].function);
    const char *name = pyr_symbols_text(stack->symbols, function.name, &length);
    for (size_t i = 0; i < count; i++) {
        if (length == strlen(names[i]) && memcmp(name, names[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* Where the standard library waits to be woken by a lock that another thread has for that: a Lock,
 * between processes a Semaphore. Once woken, `Condition.wait` takes the condition's own lock again
 * in the same frame, and that is a wait for who has it. Processes that wait for work stand in line
 * for the lock of a queue. */
static bool is_at_park(const pyr_own_stack *stack, pyr_lock_type type)
{
    static const char *const places[] = {"Condition.wait", "Thread._wait_for_tstate_lock"};
    static const char *const queues[] = {"SimpleQueue.get", "Queue.get", "Queue.put"};
    static const char *const inner[] = {"SemLock.__enter__", "LockType.acquire"}; /* gevent's */
    bool is_of_processes = type >= PYR_LOCK_TYPE_PROCESS_LOCK;
    bool is_conditions_own = type == PYR_LOCK_TYPE_RLOCK || type == PYR_LOCK_TYPE_PROCESS_LOCK ||
                             type == PYR_LOCK_TYPE_PROCESS_RLOCK;
    uint32_t first = is_named(stack, 0, inner, sizeof inner / sizeof inner[0]);
    return (!is_conditions_own &&
            is_named(stack, first, places, sizeof places / sizeof places[0])) ||
           (is_of_processes && is_named(stack, first, queues, sizeof queues / sizeof queues[0]));
}

/* Of the others several threads may have one at a time: a ring of waits does not tell that none of
 * them goes on. */
static bool has_one_holder(pyr_lock_type type)
{
    return type != PYR_LOCK_TYPE_PROCESS_SEMAPHORE &&
           type != PYR_LOCK_TYPE_PROCESS_BOUNDED_SEMAPHORE;
}

pyr_addr pyr_lock_holder_or_heir(const void *lock, pyr_addr thread_state)
{
    pyr_held *held = pyr_held_place(lock);
    pyr_addr holder = pyr_lock_holder(lock);
    if (holder == 0 && atomic_load(&held->lock) == (uintptr_t)lock) {
        holder = pyr_waits_oldest(lock);
    }
    return holder != thread_state ? holder : 0;
}

/* The stacks of who waits and of who has the lock. Whole ones are here only as long as this takes.
 */
static __attribute__((noinline)) void walk_both(pyr_lock_wait *wait, pyr_addr thread_state,
                                                pyr_addr holder, bool has_timeout)
{
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    pyr_own_stack stack;
    if (self) {
        pyr_own_stacks *stacks = self->context.own_stacks;
        pyr_collector_enter(&self->context);
        if (pyr_own_stack_walk(stacks, thread_state, &stack) == PYR_OK) {
            wait->parks = is_at_park(&stack, wait->type);
            pyr_short_stack_keep(&wait->waiter, &stack);
            if (!wait->parks && has_one_holder(wait->type)) {
                int64_t now_ns = pyr_clock_monotonic_ns();
                wait->entry = pyr_waits_add(wait->lock, thread_state, now_ns, has_timeout, &stack);
                pyr_wait_holders_begin(wait->entry, now_ns);
            }
            wait->is_cut = wait->waiter.count < stack.count;
        }
        wait->has_holder = holder != 0 && pyr_own_stack_walk(stacks, holder, &stack) == PYR_OK;
        if (wait->has_holder) {
            pyr_short_stack_keep(&wait->holder, &stack);
        }
        pyr_collector_leave(&self->context);
    }
    pyr_gate_leave(&pyr_lock_gate);
}

void pyr_lock_wait_begin(pyr_lock_wait *wait, const void *lock, pyr_lock_type type,
                         pyr_addr thread_state, pyr_addr holder, bool has_timeout)
{
    wait->lock = wait->object = lock;
    wait->type = type;
    wait->entry = -1;
    wait->has_holder = wait->is_cut = false;
    wait->waiter.epoch = 0;
    wait->parks = pyr_lock_holder(lock) == thread_state;
    if (wait->parks) { /* it took the lock itself: threads may hand work to and fro like this */
        wait->began_ns = pyr_clock_monotonic_ns();
        return;
    }
    walk_both(wait, thread_state, holder, has_timeout);
    wait->began_ns = pyr_clock_monotonic_ns();
}

bool pyr_lock_wait_late(pyr_lock_wait *wait, const void *lock, pyr_lock_type type, int64_t began_ns)
{
    if (pyr_clock_monotonic_ns() - began_ns < LATE_NS) {
        return false;
    }
    wait->began_ns = began_ns;
    wait->lock = wait->object = lock;
    wait->type = type;
    wait->entry = -1;
    wait->parks = wait->has_holder = wait->is_cut = false;
    wait->waiter.epoch = 0;
    return true;
}

bool pyr_lock_wait_drop(pyr_lock_wait *wait)
{
    if (pyr_clock_monotonic_ns() - wait->began_ns >= LATE_NS) {
        return false;
    }
    pyr_waits_remove(wait->entry);
    return true;
}

/* A wait that is over, with whole stacks. */
typedef struct whole_wait {
    const pyr_lock_wait *of;
    bool has_holder;
    pyr_own_stack waiter; /* epoch 0: not walked yet */
    pyr_own_stack holder; /* when has_holder; then scratch */
} whole_wait;

/* Gives a part of a wait, and beside it whoever had the lock meanwhile, if that is known. */
static void give_part(pyr_lock_state *self, pyr_lock_event event, const whole_wait *wait,
                      bool has_holder)
{
    bool pairs = has_holder && !wait->of->parks && wait->holder.epoch == wait->waiter.epoch;
    event.kind = PYR_SAMPLE_KIND_LOCK_ACQUIRE;
    event.stack = &wait->waiter;
    event.pair = pairs ? pyr_lock_pair(&wait->waiter, &wait->holder, wait->of->object) : 0;
    pyr_lock_samples_give(&self->samples, &event);
    if (pairs) {
        event.kind = PYR_SAMPLE_KIND_LOCK_HOLDER;
        event.stack = &wait->holder;
        event.count = 0;
        pyr_lock_samples_give(&self->samples, &event);
    }
}

/* The same, divided among the stacks that the thread was seen with meanwhile which has the lock. */
static void give_share(pyr_lock_state *self, pyr_lock_event event, whole_wait *wait,
                       bool has_holder)
{
    uint32_t times[PYR_WAIT_SIGHTS];
    uint32_t left =
        has_holder ? pyr_wait_holders_seen(wait->of->entry, wait->holder.thread_native_id, times)
                   : 0;
    if (left == 0) {
        give_part(self, event, wait, has_holder);
    }
    for (unsigned which = 0; left > 0; which++) {
        if (times[which] > 0) {
            int64_t rest_ns = event.value;
            event.value = (int64_t)((double)rest_ns * times[which] / left);
            pyr_wait_holders_sight(wait->of->entry, which, &wait->holder);
            give_part(self, event, wait, true);
            left -= times[which];
            event.value = rest_ns - event.value;
            event.count = 0;
        }
    }
}

/* A wait with its stack, divided among those that had the lock meanwhile; it counts with the first.
 * False: there was no stack to be had, and nothing is given. */
static bool give_wait(pyr_lock_state *self, whole_wait *wait, pyr_addr thread_state, int64_t end_ns,
                      pyr_sums sums)
{
    /* Not walked yet, not to the end, or named by a table that is not current any more. */
    bool is_whole =
        !wait->of->is_cut && wait->waiter.epoch == pyr_own_stacks_epoch(self->context.own_stacks);
    if (!is_whole &&
        pyr_own_stack_walk(self->context.own_stacks, thread_state, &wait->waiter) != PYR_OK) {
        return false;
    }
    if (pyr_left_out_matches(self->left_out, &wait->waiter)) {
        return true;
    }
    int64_t waited_ns = end_ns - wait->of->began_ns;
    int64_t parts_ns[PYR_WAIT_PARTS];
    int64_t first_ns = sums.time_ns;
    pyr_wait_holders_end(wait->of->entry, end_ns, parts_ns);
    for (unsigned part = 0; part < PYR_WAIT_PARTS; part++) {
        /* What is given may stand for other waits too, of which nothing else is known. */
        double share = waited_ns > 0 ? (double)parts_ns[part] / (double)waited_ns : 0;
        parts_ns[part] = (int64_t)(share * (double)sums.time_ns);
        parts_ns[part] = parts_ns[part] < first_ns ? parts_ns[part] : first_ns;
        first_ns -= parts_ns[part];
    }
    pyr_lock_event event = {
        .type = wait->of->type,
        .name = pyr_lock_name(self, wait->of->object, thread_state, &wait->waiter),
        .waits = true,
        .parks = wait->of->parks,
        .value = first_ns,
        .count = sums.count - sums.extra,
        .end_ns = waited_ns >= TIMELINE_WAIT_NS ? end_ns : 0,
    };
    give_share(self, event, wait, wait->has_holder);
    event.count = 0;
    for (unsigned part = 0; part < PYR_WAIT_PARTS; part++) {
        event.value = parts_ns[part];
        if (event.value > 0) {
            bool is_known = pyr_wait_holders_stack(wait->of->entry, part, &wait->holder);
            give_share(self, event, wait, is_known);
        }
    }
    return true;
}

/* The wait is over; see pyr_lock_wait_end. */
static bool end_wait(const pyr_lock_wait *wait, whole_wait *whole, pyr_addr thread_state, bool got)
{
    bool wants_room = false;
    int64_t end_ns = pyr_clock_monotonic_ns();
    int64_t waited_ns = end_ns - wait->began_ns;
    pyr_waits_hide(wait->entry);
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    if (self) {
        bool parks = wait->parks;
        const pyr_sums span = {.time_ns = waited_ns, .count = 1, .extra = !got};
        /* A thread waits for one lock at a time, but for any number of its tasks; and threads that
         * only hand on who runs wait very often. */
        bool is_task = pyr_lock_is_of_tasks(wait->type);
        pyr_toll *toll = &self->waits[is_task][parks];
        pyr_sums sums;
        int64_t held_ns = end_ns;
        if (pyr_toll_add(toll, span, &sums)) {
            pyr_collector_enter(&self->context);
            pyr_lock_count_waits(self, sums, parks);
            if (!give_wait(self, whole, thread_state, end_ns, sums)) {
                const pyr_sums back = {-sums.time_ns, -sums.count, -sums.extra};
                pyr_lock_count_waits(self, back, parks);
                pyr_toll_return(toll, sums);
                pyr_lock_count(&self->missed, 1);
            }
            pyr_collector_leave(&self->context);
            if (is_task || parks) {
                pyr_toll_pace(toll, end_ns);
            }
            held_ns = pyr_clock_monotonic_ns(); /* what that took is not the holder's */
        }
        wants_room = pyr_own_stacks_want_room(self->context.own_stacks);
        if (!parks && !whole->has_holder) {
            pyr_lock_count(&self->unknown_holders, 1);
        }
        if (got) {
            pyr_held *held = pyr_lock_note(wait->lock, thread_state);
            if (!parks) {
                pyr_lock_mark(held, 1, (pyr_lock_known_name){0}, held_ns);
            }
            if (wait->entry >= 0 && pyr_waits_count() > 1) { /* one is its own */
                pyr_wait_holders_change(wait->lock, &whole->waiter, end_ns);
            }
        }
    }
    pyr_waits_remove(wait->entry);
    pyr_gate_leave(&pyr_lock_gate);
    return wants_room;
}

bool pyr_lock_wait_end(pyr_lock_wait *wait, pyr_addr thread_state, bool got)
{
    whole_wait whole;
    whole.of = wait;
    whole.has_holder = wait->has_holder;
    whole.waiter.epoch = 0;
    if (wait->waiter.epoch != 0) {
        pyr_short_stack_give(&wait->waiter, &whole.waiter);
    }
    if (wait->has_holder) {
        pyr_short_stack_give(&wait->holder, &whole.holder);
    }
    return end_wait(wait, &whole, thread_state, got);
}

/* ------------------------------------------------------------------------------------ tasks ----
 */

/* What is used of a stack: most are short. */
static size_t bytes_of(const pyr_own_stack *stack)
{
    return offsetof(pyr_own_stack, frames) + stack->count * sizeof stack->frames[0];
}

/* The stack of the calling thread; NULL: none is to be had. */
static pyr_own_stack *keep_stack(pyr_addr thread_state)
{
    pyr_own_stack stack;
    pyr_own_stack *kept = NULL;
    pyr_lock_state *self = pyr_gate_enter(&pyr_lock_gate);
    if (self && atomic_load(&kept_stacks) < MOST_KEPT) {
        pyr_collector_enter(&self->context);
        if (pyr_own_stack_walk(self->context.own_stacks, thread_state, &stack) == PYR_OK) {
            kept = pyr_memory_new(1, bytes_of(&stack));
        }
        pyr_collector_leave(&self->context);
    }
    pyr_gate_leave(&pyr_lock_gate);
    if (kept) {
        memcpy(kept, &stack, bytes_of(&stack));
        atomic_fetch_add(&kept_stacks, 1);
    }
    return kept;
}

static void drop_stack(pyr_own_stack *stack)
{
    if (stack) {
        atomic_fetch_sub(&kept_stacks, 1);
        pyr_memory_free(stack);
    }
}

static void drop_holder(pyr_task_holder *holder)
{
    if (holder && --holder->shares == 0) {
        drop_stack(holder->stack);
        pyr_memory_free(holder);
    }
}

static void vacate(pyr_task_holder **place)
{
    pyr_task_holder_count -= *place != NULL;
    drop_holder(*place);
    *place = NULL;
}

/* A share of what the lock's next release will tell; NULL: no memory. Tasks that wait for another
 * lock of the same place will not be told. */
static pyr_task_holder *share_holder(const void *lock)
{
    pyr_task_holder **place = pyr_task_holder_place(lock);
    if (!*place || (*place)->lock != lock) {
        vacate(place);
        *place = pyr_memory_new(1, sizeof **place);
        if (!*place) {
            return NULL;
        }
        pyr_task_holder_count++;
        **place = (pyr_task_holder){.lock = lock, .shares = 1};
    }
    (*place)->shares++;
    return *place;
}

void pyr_lock_task_release(const void *lock, pyr_addr thread_state)
{
    pyr_task_holder **place = pyr_task_holder_place(lock);
    pyr_task_holder *holder = *place;
    if (!holder || holder->lock != lock) {
        return;
    }
    if (holder->shares > 1) {
        holder->stack = keep_stack(thread_state);
    }
    vacate(place); /* who waits from now on is told by the next release */
}

void pyr_lock_task_wait_begin(pyr_task_wait *wait, const void *lock, uintptr_t key,
                              pyr_lock_type type, bool parks, pyr_addr thread_state)
{
    *wait = (pyr_task_wait){.key = key, .type = type, .stack = keep_stack(thread_state)};
    wait->parks = parks || (wait->stack && is_at_park(wait->stack, type));
    wait->holder = wait->parks ? NULL : share_holder(lock);
    wait->began_ns = pyr_clock_monotonic_ns();
}

void pyr_lock_task_wait_end(pyr_task_wait *wait, const void *object, pyr_addr thread_state,
                            bool got)
{
    /* Not one of a session before, or of the parent of a fork. */
    if (wait->began_ns >= atomic_load(&pyr_lock_started_ns)) {
        const pyr_lock_wait ended = {.began_ns = wait->began_ns,
                                     .lock = (const void *)wait->key,
                                     .object = object,
                                     .type = wait->type,
                                     .parks = wait->parks,
                                     .entry = -1};
        whole_wait whole;
        whole.of = &ended;
        whole.waiter.epoch = 0; /* walked only now */
        whole.has_holder = wait->holder && wait->holder->stack;
        if (whole.has_holder) {
            memcpy(&whole.holder, wait->holder->stack, bytes_of(wait->holder->stack));
        }
        if (wait->stack) {
            memcpy(&whole.waiter, wait->stack, bytes_of(wait->stack));
        }
        if (end_wait(&ended, &whole, thread_state, got)) {
            pyr_lock_tend();
        }
    }
    drop_stack(wait->stack);
    wait->stack = NULL;
    if (wait->holder && wait->holder->shares == 2 &&
        *pyr_task_holder_place(wait->holder->lock) == wait->holder) {
        vacate(pyr_task_holder_place(wait->holder->lock)); /* nobody else waits for it */
    }
    drop_holder(wait->holder);
    wait->holder = NULL;
}
