/* The table of waits, and rings in it; see the header.
 *
 * One table a process, in static memory. An entry belongs to the thread that claimed it; its words
 * are atomic, and `since_ns` is set last and cleared first, so that the watcher, which has no GIL,
 * sees an entry whole or not at all: it reads `since_ns` before and after. What it follows are
 * addresses as identities, which it never reads from.
 */
#include "collect/waits.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "collect/lock.h"

enum {
    ENTRIES = PYR_WAITS,
    FRAMES = 32, /* told */
    LINE_BYTES = 480,
    TOLD = 16, /* rings remembered */
};

typedef struct wait_entry {
    _Atomic bool is_claimed;
    _Atomic int64_t since_ns; /* 0 = nothing to see */
    _Atomic uintptr_t lock, thread;
    _Atomic bool has_timeout;
    pyr_short_stack stack;
} wait_entry;

static const int64_t SETTLED_NS = 200000000;

static wait_entry table[ENTRIES];
/* What each waits for, 0 = nothing: side by side, because who gets a lock goes through all. */
static _Atomic uintptr_t waited_for[ENTRIES];
static _Atomic unsigned waiting;
static _Atomic unsigned next_entry;

/* The watcher's own. */
static uint64_t seen_rings[TOLD], told_rings[TOLD];
static unsigned seen_count, told_next;

/* ---------------------------------------------------------------------------------- entries ----
 */

int pyr_waits_add(const void *lock, pyr_addr thread_state, int64_t now_ns, bool has_timeout,
                  const pyr_own_stack *stack)
{
    unsigned first = atomic_fetch_add_explicit(&next_entry, 1, memory_order_relaxed);
    for (unsigned i = 0; i < ENTRIES; i++) {
        wait_entry *entry = &table[(first + i) % ENTRIES];
        bool free = false;
        if (!atomic_compare_exchange_strong(&entry->is_claimed, &free, true)) {
            continue;
        }
        atomic_store(&entry->lock, (uintptr_t)lock);
        atomic_store(&entry->thread, thread_state);
        atomic_store(&entry->has_timeout, has_timeout);
        pyr_short_stack_keep(&entry->stack, stack);
        atomic_store(&entry->since_ns, now_ns);
        atomic_store(&waited_for[(first + i) % ENTRIES], (uintptr_t)lock);
        atomic_fetch_add(&waiting, 1);
        return (int)((first + i) % ENTRIES);
    }
    return -1;
}

void pyr_waits_remove(int entry)
{
    if (entry >= 0 && atomic_load(&table[entry].is_claimed)) {
        pyr_waits_hide(entry);
        atomic_store(&table[entry].is_claimed, false);
        atomic_fetch_sub(&waiting, 1);
    }
}

void pyr_waits_hide(int entry)
{
    if (entry >= 0) {
        atomic_store(&waited_for[entry], 0);
        atomic_store(&table[entry].since_ns, 0);
    }
}

int pyr_waits_next(const void *lock, int entry)
{
    for (int next = entry + 1; next < ENTRIES; next++) {
        if (atomic_load_explicit(&waited_for[next], memory_order_relaxed) == (uintptr_t)lock) {
            return next;
        }
    }
    return -1;
}

const void *pyr_waits_lock(int entry)
{
    return (const void *)atomic_load_explicit(&waited_for[entry], memory_order_relaxed);
}

pyr_addr pyr_waits_oldest(const void *lock)
{
    int64_t oldest_ns = INT64_MAX;
    pyr_addr thread = 0;
    for (int at = pyr_waits_next(lock, -1); at >= 0; at = pyr_waits_next(lock, at)) {
        int64_t since_ns = atomic_load(&table[at].since_ns);
        if (since_ns != 0 && since_ns < oldest_ns) {
            oldest_ns = since_ns;
            thread = atomic_load(&table[at].thread);
        }
    }
    return thread;
}

unsigned pyr_waits_count(void)
{
    return atomic_load_explicit(&waiting, memory_order_relaxed);
}

void pyr_waits_clear(void)
{
    for (unsigned i = 0; i < ENTRIES; i++) {
        pyr_waits_hide((int)i);
        atomic_store(&table[i].is_claimed, false);
    }
    atomic_store(&waiting, 0);
}

/* ------------------------------------------------------------------------------------ rings ----
 */

typedef struct ring {
    unsigned count; /* 0: there is none */
    int members[ENTRIES];
    bool has_timeout;  /* one of the waits does */
    uint64_t identity; /* of these waits; where one has a timeout, of the threads and locks */
} ring;

/* The entry of a thread that waits, or -1. */
static int find_thread(uintptr_t thread)
{
    for (int i = 0; i < ENTRIES; i++) {
        if (atomic_load(&table[i].since_ns) != 0 && atomic_load(&table[i].thread) == thread) {
            return i;
        }
    }
    return -1;
}

/* The entry of the thread that holds what this one waits for, or -1: it does not wait itself. */
static int find_holder(int entry)
{
    uintptr_t lock = atomic_load(&table[entry].lock);
    pyr_addr holder = pyr_lock_holder((const void *)lock);
    /* A thread that waits for what it took itself waits to be woken. */
    return holder != 0 && holder != atomic_load(&table[entry].thread) ? find_thread(holder) : -1;
}

/* Follows waits from `start`, to the ring that it belongs to. */
static void find_ring(int start, ring *found)
{
    uint64_t waits = 0, threads = 0; /* sums, so that it does not matter where one begins */
    int at = start;
    found->count = 0;
    found->has_timeout = false;
    do {
        uint64_t thread = atomic_load(&table[at].thread);
        found->members[found->count++] = at;
        found->has_timeout |= atomic_load(&table[at].has_timeout);
        waits += (uint64_t)atomic_load(&table[at].since_ns) * UINT64_C(0x9E3779B97F4A7C15) ^ thread;
        threads += atomic_load(&table[at].lock) * UINT64_C(0x9E3779B97F4A7C15) ^ thread;
        at = find_holder(at);
    } while (at >= 0 && at != start && found->count < ENTRIES);
    found->count = at == start && found->count > 1 ? found->count : 0;
    found->identity = found->has_timeout ? threads : waits;
}

static bool contains(const uint64_t *rings, unsigned count, uint64_t identity)
{
    for (unsigned i = 0; i < count; i++) {
        if (rings[i] == identity) {
            return true;
        }
    }
    return false;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "deadlock: thread worker (140...) waits in f.py:12:f < f.py:3:main": for the lock of the next. */
static void tell_member(const wait_entry *entry, bool is_deadlock, const pyr_symbols *symbols,
                        pyr_own_stacks *stacks, uint64_t epoch, pyr_waits_tell *tell, void *context)
{
    char line[LINE_BYTES];
    const pyr_short_stack *stack = &entry->stack;
    bool named = stack->epoch == epoch;
    /* A young thread may have got its name after it began to wait. */
    uint32_t name = stack->thread_name != 0 || !stacks
                        ? stack->thread_name
                        : pyr_own_stacks_thread_name(stacks, stack->thread_native_id);
    size_t used =
        (size_t)snprintf(line, sizeof line, "%s: thread %s (%llu) waits%s in ",
                         is_deadlock ? "deadlock" : "ring of waits that a timeout may end",
                         named && name ? pyr_symbols_text(symbols, name, NULL) : "",
                         (unsigned long long)stack->thread_id,
                         atomic_load(&entry->has_timeout) ? ", with a timeout," : "");
    for (uint32_t i = 0; named && i < stack->count && i < FRAMES && used < sizeof line; i++) {
        pyr_function function = pyr_symbols_get(symbols, stack->frames[i].function);
        used +=
            (size_t)snprintf(line + used, sizeof line - used, "%s%s:%u:%s", i ? " < " : "",
                             base_of(pyr_symbols_text(symbols, function.file, NULL)),
                             stack->frames[i].line, pyr_symbols_text(symbols, function.name, NULL));
    }
    tell(context, is_deadlock, line);
}

/* So long ago that a ring is no passing one. */
static bool is_settled(const wait_entry *entry, int64_t now_ns)
{
    int64_t since_ns = atomic_load(&entry->since_ns);
    return since_ns != 0 && now_ns - since_ns > SETTLED_NS;
}

/* The ring that a wait belongs to, if all of it stands for long enough. */
static void find_settled_ring(int start, int64_t now_ns, ring *found)
{
    found->count = 0;
    if (is_settled(&table[start], now_ns)) {
        find_ring(start, found);
    }
    for (unsigned i = 0; i < found->count; i++) {
        found->count = is_settled(&table[found->members[i]], now_ns) ? found->count : 0;
    }
}

pyr_waits_told pyr_waits_look(const pyr_symbols *symbols, pyr_own_stacks *stacks, uint64_t epoch,
                              pyr_waits_tell *tell, void *context)
{
    pyr_waits_told told = {0};
    uint64_t now_seen[TOLD];
    unsigned now_count = 0;
    int64_t now_ns = pyr_clock_monotonic_ns();
    if (pyr_waits_count() < 2) {
        seen_count = 0;
        return told;
    }
    for (int start = 0; start < ENTRIES && now_count < TOLD; start++) {
        ring found, again;
        find_settled_ring(start, now_ns, &found);
        if (found.count == 0 || contains(now_seen, now_count, found.identity)) {
            continue;
        }
        now_seen[now_count++] = found.identity;
        if (!contains(seen_rings, seen_count, found.identity) ||
            contains(told_rings, TOLD, found.identity)) {
            continue;
        }
        for (unsigned i = 0; i < found.count; i++) {
            tell_member(&table[found.members[i]], !found.has_timeout, symbols, stacks, epoch, tell,
                        context);
        }
        /* Still the same: then what was told was true all the time. */
        find_ring(start, &again);
        if (again.count == found.count && again.identity == found.identity) {
            told_rings[told_next++ % TOLD] = found.identity;
            told.deadlocks += !found.has_timeout;
            told.with_timeout += found.has_timeout;
        }
    }
    memcpy(seen_rings, now_seen, now_count * sizeof now_seen[0]);
    seen_count = now_count;
    return told;
}
