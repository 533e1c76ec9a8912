/* Holders of locks, one after the other; see the header. Static memory, touched as it is used. */
#include "collect/wait_holders.h"

#include <stdatomic.h>
#include <string.h>

#include "collect/lock.h"
#include "collect/waits.h"

enum {
    FIRST = -1, /* whoever had the lock as the wait began */
    NOBODY = PYR_WAIT_SUCCESSORS,
    TRIES = 1000, /* the sampler copies a stack meanwhile */
};

/* Whose the sights of a row are at the moment. */
enum { SIGHTS_FREE, SIGHTS_OF_SAMPLER, SIGHTS_OF_WAITER };

/* Where holders were seen to stand. */
typedef struct sights {
    _Atomic uint32_t wait; /* number of the wait that goes on, counted by its thread */
    uint32_t of_wait;      /* ... and of that which the rest is of */
    uint32_t count;
    uint32_t times[PYR_WAIT_SIGHTS];
    pyr_short_stack stacks[PYR_WAIT_SIGHTS];
} sights;

typedef struct wait_row {
    int64_t changed_ns; /* since then `current` has the lock */
    int current;
    int count;
    int64_t times_ns[PYR_WAIT_PARTS];
    pyr_short_stack successors[PYR_WAIT_SUCCESSORS];
    sights sights;
} wait_row;

static wait_row rows[PYR_WAITS];
static _Atomic uint8_t owners[PYR_WAITS]; /* of sights; beside them, a fork would touch it all */

/* Only the waiter of an entry takes them for itself. */
static bool has_sights(int entry)
{
    return atomic_load(&owners[entry]) == SIGHTS_OF_WAITER;
}

void pyr_wait_holders_begin(int entry, int64_t now_ns)
{
    if (entry >= 0) {
        wait_row *row = &rows[entry];
        row->changed_ns = now_ns;
        row->current = FIRST;
        row->count = 0;
        memset(row->times_ns, 0, sizeof row->times_ns);
        atomic_fetch_add(&row->sights.wait, 1);
        if (has_sights(entry)) {
            atomic_store(&owners[entry], SIGHTS_FREE);
        }
    }
}

static void add_time(wait_row *row, int64_t now_ns)
{
    if (row->current != FIRST) {
        row->times_ns[row->current] += now_ns - row->changed_ns;
    }
    row->changed_ns = now_ns;
}

static bool has_frames(const pyr_short_stack *one, const pyr_own_stack *stack)
{
    uint32_t count = stack->count < PYR_SHORT_STACK_FRAMES ? stack->count : PYR_SHORT_STACK_FRAMES;
    return one->epoch == stack->epoch && one->count == count &&
           memcmp(one->frames, stack->frames, count * sizeof one->frames[0]) == 0;
}

/* The place of a successor. Threads are told apart while there is room, then only lines. */
static int place_of(wait_row *row, const pyr_own_stack *stack)
{
    int alike = NOBODY;
    for (int at = 0; at < row->count; at++) {
        if (has_frames(&row->successors[at], stack)) {
            alike = at;
            if (row->successors[at].thread_native_id == stack->thread_native_id) {
                return at;
            }
        }
    }
    if (row->count == PYR_WAIT_SUCCESSORS) {
        return alike;
    }
    pyr_short_stack_keep(&row->successors[row->count], stack);
    return row->count++;
}

void pyr_wait_holders_change(const void *lock, const pyr_own_stack *stack, int64_t now_ns)
{
    for (int entry = pyr_waits_next(lock, -1); entry >= 0; entry = pyr_waits_next(lock, entry)) {
        wait_row *row = &rows[entry];
        add_time(row, now_ns);
        row->current = place_of(row, stack);
    }
}

void pyr_wait_holders_end(int entry, int64_t now_ns, int64_t times_ns[PYR_WAIT_PARTS])
{
    memset(times_ns, 0, PYR_WAIT_PARTS * sizeof times_ns[0]);
    if (entry >= 0) {
        wait_row *row = &rows[entry];
        add_time(row, now_ns);
        memcpy(times_ns, row->times_ns, sizeof row->times_ns);
        bool has = has_sights(entry);
        for (int tries = 0; tries < TRIES && !has; tries++) {
            uint8_t free = SIGHTS_FREE;
            has = atomic_compare_exchange_weak(&owners[entry], &free, SIGHTS_OF_WAITER);
        }
    }
}

bool pyr_wait_holders_stack(int entry, unsigned part, pyr_own_stack *stack)
{
    if (entry < 0 || part >= (unsigned)rows[entry].count) {
        return false;
    }
    pyr_short_stack_give(&rows[entry].successors[part], stack);
    return true;
}

/* ----------------------------------------------------------------------------------- sights ----
 */

uint32_t pyr_wait_holders_seen(int entry, uint64_t native_id, uint32_t times[PYR_WAIT_SIGHTS])
{
    uint32_t sum = 0;
    memset(times, 0, PYR_WAIT_SIGHTS * sizeof times[0]);
    if (entry < 0 || !has_sights(entry)) {
        return 0;
    }
    const sights *seen = &rows[entry].sights;
    bool is_of_this = seen->of_wait == atomic_load((_Atomic uint32_t *)(uintptr_t)&seen->wait);
    for (uint32_t at = 0; is_of_this && at < seen->count; at++) {
        times[at] = seen->stacks[at].thread_native_id == native_id ? seen->times[at] : 0;
        sum += times[at];
    }
    return sum;
}

void pyr_wait_holders_sight(int entry, unsigned which, pyr_own_stack *stack)
{
    pyr_short_stack_give(&rows[entry].sights.stacks[which], stack);
}

/* More stacks than there is room for are left out: the others stand for them. */
static void note(sights *seen, const pyr_own_stack *stack)
{
    for (uint32_t at = 0; at < seen->count; at++) {
        if (seen->stacks[at].thread_native_id == stack->thread_native_id &&
            has_frames(&seen->stacks[at], stack)) {
            seen->times[at]++;
            return;
        }
    }
    if (seen->count < PYR_WAIT_SIGHTS) {
        seen->times[seen->count] = 1;
        pyr_short_stack_keep(&seen->stacks[seen->count++], stack);
    }
}

/* Notes it for one wait, if that goes on. */
static void see(int entry, const void *lock, const pyr_own_stack *stack)
{
    sights *seen = &rows[entry].sights;
    uint8_t free = SIGHTS_FREE;
    if (atomic_compare_exchange_strong(&owners[entry], &free, SIGHTS_OF_SAMPLER)) {
        uint32_t wait = atomic_load(&seen->wait);
        if (seen->of_wait != wait) {
            seen->of_wait = wait;
            seen->count = 0;
        }
        if (pyr_waits_lock(entry) == lock) {
            note(seen, stack);
        }
        atomic_store(&owners[entry], SIGHTS_FREE);
    }
}

/* Who has what an entry waits for; 0: nobody, or not known, or it waits for nothing. */
static pyr_addr holder_of(const void *lock)
{
    return lock ? pyr_lock_holder(lock) : 0;
}

void pyr_wait_holders_each(void (*tell)(void *context, pyr_addr thread_state), void *context)
{
    pyr_addr told = 0;
    for (int entry = 0; entry < PYR_WAITS && pyr_waits_count() > 0; entry++) {
        pyr_addr holder = holder_of(pyr_waits_lock(entry));
        if (holder != 0 && holder != told) {
            told = holder;
            tell(context, holder);
        }
    }
}

void pyr_wait_holders_look(pyr_wait_holders_find *find, void *context, pyr_own_stack *scratch)
{
    pyr_addr found = 0; /* whose stack is in `scratch`: many may wait for one */
    for (int entry = 0; entry < PYR_WAITS && pyr_waits_count() > 0; entry++) {
        const void *lock = pyr_waits_lock(entry);
        pyr_addr holder = holder_of(lock);
        if (holder != 0 && (holder == found || find(context, holder, scratch))) {
            found = holder;
            see(entry, lock, scratch);
        }
    }
}

void pyr_wait_holders_clear(void)
{
    for (int entry = 0; entry < PYR_WAITS; entry++) {
        atomic_store(&owners[entry], SIGHTS_FREE);
    }
}
