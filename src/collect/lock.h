/* The lock collector, as its hooks in the interpreter see it.
 *
 * The hooks (python/_native/lock_hook.c) stand around the methods of lock objects, in the thread
 * that calls, with the GIL of its interpreter. What every acquisition and release costs is in this
 * header: a note of who holds the lock, in a table by the lock's address, and one atomic
 * subtraction. Only sampled acquisitions, their releases, and waits go further.
 *
 * The table is a cache: two locks held at once may have the same place, and then nobody is known to
 * hold the older one, and its hold is not measured.
 */
#ifndef PYR_COLLECT_LOCK_H
#define PYR_COLLECT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/countdown.h"
#include "reader/reader.h"
#include "unwind/own_stack.h"

enum {
#ifdef PYR_HOSTILE
    PYR_HELD_PLACES = 1 << 4,
#else
    PYR_HELD_PLACES = 1 << 13, /* of 32 bytes, touched as locks are held */
#endif
};

typedef enum pyr_lock_type { /* their names are in lock_samples.c */
                             PYR_LOCK_TYPE_LOCK,
                             PYR_LOCK_TYPE_RLOCK,
                             PYR_LOCK_TYPE_TASK_LOCK,
                             PYR_LOCK_TYPE_TASK_SEMAPHORE,
                             PYR_LOCK_TYPE_TASK_BOUNDED_SEMAPHORE,
                             PYR_LOCK_TYPE_TASK_CONDITION,
                             PYR_LOCK_TYPE_TASK_EVENT,
                             PYR_LOCK_TYPE_TASK_QUEUE,
                             PYR_LOCK_TYPE_GEVENT_LOCK,
                             PYR_LOCK_TYPE_GEVENT_SEMAPHORE,
                             PYR_LOCK_TYPE_EVENTLET_LOCK,
                             PYR_LOCK_TYPE_EVENTLET_SEMAPHORE,
                             PYR_LOCK_TYPE_PROCESS_LOCK,
                             PYR_LOCK_TYPE_PROCESS_RLOCK,
                             PYR_LOCK_TYPE_PROCESS_SEMAPHORE,
                             PYR_LOCK_TYPE_PROCESS_BOUNDED_SEMAPHORE,
                             PYR_LOCK_TYPES
} pyr_lock_type;

/* Or of greenlets: many of either wait in one thread. */
PYR_HOOK_SAFE static inline bool pyr_lock_is_of_tasks(pyr_lock_type type)
{
    return type >= PYR_LOCK_TYPE_TASK_LOCK && type <= PYR_LOCK_TYPE_EVENTLET_SEMAPHORE;
}

/* A lock that is held. Words are written with the GIL and read without it. */
typedef struct pyr_held {
    _Atomic uintptr_t lock;   /* 0 = none */
    _Atomic uintptr_t holder; /* thread state that took it; 0 = it was given back */
    _Atomic int64_t since_ns; /* 0 = its hold is not measured */
    _Atomic int64_t weight;   /* acquisitions that this one stands for */
} pyr_held;

extern pyr_held pyr_held_locks[PYR_HELD_PLACES];
extern _Atomic bool pyr_lock_on;         /* the collector runs */
extern pyr_countdown pyr_lock_countdown; /* of acquisitions that did not wait */

PYR_HOOK_SAFE static inline pyr_held *pyr_held_place(const void *lock)
{
    uint64_t hash = (uint64_t)(uintptr_t)lock * UINT64_C(0x9E3779B97F4A7C15);
    return &pyr_held_locks[hash >> 32 & (PYR_HELD_PLACES - 1)];
}

PYR_HOOK_SAFE static inline bool pyr_lock_is_on(void)
{
    return atomic_load_explicit(&pyr_lock_on, memory_order_relaxed);
}

/* `lock` is what it is noted by, NULL = it was its taker's already; `object` is what it is named
 * by. */
PYR_HOOK_SAFE void pyr_lock_sample(const void *lock, const void *object, pyr_lock_type type,
                                   pyr_addr thread_state);
PYR_HOOK_SAFE void pyr_lock_sample_release(pyr_held *held, const void *object, pyr_lock_type type,
                                           pyr_addr thread_state);

/* Notes who has the lock now. */
PYR_HOOK_SAFE static inline pyr_held *pyr_lock_note(const void *lock, pyr_addr thread_state)
{
    pyr_held *held = pyr_held_place(lock);
    atomic_store_explicit(&held->lock, (uintptr_t)lock, memory_order_relaxed);
    atomic_store_explicit(&held->holder, thread_state, memory_order_relaxed);
    atomic_store_explicit(&held->since_ns, 0, memory_order_relaxed);
    return held;
}

/* The calling thread took the lock without waiting. */
PYR_HOOK_SAFE static inline void pyr_lock_got(const void *lock, pyr_lock_type type,
                                              pyr_addr thread_state)
{
    (void)pyr_lock_note(lock, thread_state);
    if (pyr_countdown_hit(&pyr_lock_countdown)) {
        pyr_lock_sample(lock, lock, type, thread_state);
    }
}

/* The note of a lock; NULL: there is none, or another lock has its place. */
PYR_HOOK_SAFE static inline pyr_held *pyr_lock_noted(const void *lock)
{
    pyr_held *held = pyr_held_place(lock);
    return atomic_load_explicit(&held->lock, memory_order_relaxed) == (uintptr_t)lock ? held : NULL;
}

/* Whether pyr_lock_sample_release is to end the hold before the lock is given back for good. */
PYR_HOOK_SAFE static inline bool pyr_held_is_measured(pyr_held *held)
{
    return atomic_load_explicit(&held->since_ns, memory_order_relaxed) != 0;
}

PYR_HOOK_SAFE static inline bool pyr_lock_is_measured(const void *lock)
{
    pyr_held *held = pyr_lock_noted(lock);
    return held != NULL && pyr_held_is_measured(held);
}

/* Nobody has the lock. It stays noted: where it is handed over, it is taken already. */
PYR_HOOK_SAFE static inline void pyr_held_note_release(pyr_held *held)
{
    atomic_store_explicit(&held->holder, 0, memory_order_relaxed);
}

/* The thread state noted as the holder; 0 = not known. It may be gone by now. */
PYR_HOOK_SAFE static inline pyr_addr pyr_lock_holder(const void *lock)
{
    const pyr_held *held = pyr_held_place(lock);
    pyr_held *place = (pyr_held *)(uintptr_t)held;
    pyr_addr holder = atomic_load_explicit(&place->holder, memory_order_relaxed);
    return atomic_load_explicit(&place->lock, memory_order_relaxed) == (uintptr_t)lock ? holder : 0;
}

/* The same for a thread that is going to wait: a lock that was given back and is still taken was
 * handed to who waits for it longest, and has not run yet. */
PYR_HOOK_SAFE pyr_addr pyr_lock_holder_or_heir(const void *lock, pyr_addr thread_state);

/* A wait, in the waiting thread's storage: small, since handlers of signals may wait within it. */
typedef struct pyr_lock_wait {
    int64_t began_ns;
    const void *lock;
    const void *object; /* what it is named by; NULL = it has no name */
    pyr_lock_type type;
    bool parks;             /* it waits to be woken */
    bool has_holder;        /* whoever held the lock when the wait began is known */
    int entry;              /* in the table of waits; -1 = none */
    bool is_cut;            /* the waiter's stack is longer than what is kept of it */
    pyr_short_stack waiter; /* as the wait began: it does not move meanwhile. Epoch 0: not here */
    pyr_short_stack holder; /* when has_holder */
} pyr_lock_wait;

/* The calling thread is going to wait: with the GIL, just before. `holder`: the thread state of
 * pyr_lock_holder, if the caller has seen that it exists, else 0; its frames stand still, since the
 * caller has the GIL. `has_timeout`: the wait ends by itself at some time. */
PYR_HOOK_SAFE void pyr_lock_wait_begin(pyr_lock_wait *wait, const void *lock, pyr_lock_type type,
                                       pyr_addr thread_state, pyr_addr holder, bool has_timeout);

/* A call that began at `began_ns` and is over: true when it took so long that it was a wait, which
 * is to be ended; who had the lock is not known. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_lock_wait_late(pyr_lock_wait *wait, const void *lock,
                                                   pyr_lock_type type, int64_t began_ns);

/* A call is over that might have waited: true when it took so little time that it did not, and then
 * the wait is no more. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_lock_wait_drop(pyr_lock_wait *wait);

/* The wait is over; `got`: the thread has the lock now. With the GIL again. True: pyr_lock_tend is
 * due, as soon as malloc may be called. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_lock_wait_end(pyr_lock_wait *wait, pyr_addr thread_state,
                                                  bool got);

/* Whoever gives a lock back that tasks wait for: these share one, from when they began to wait. */
typedef struct pyr_task_holder pyr_task_holder;

/* A task's wait. It goes on while the thread does other things, and ends in another place. */
typedef struct pyr_task_wait {
    int64_t began_ns;
    uintptr_t key; /* pyr_lock_task_key */
    pyr_lock_type type;
    bool parks;
    pyr_own_stack *stack;    /* as it began, with as many frames as it has; NULL = none was kept */
    pyr_task_holder *holder; /* a share; NULL = it is not looked for */
} pyr_task_wait;

/* What stands for a lock that a task has: a semaphore is held by several at a time. `context` is
 * what tells tasks apart. An identity, never an address. */
PYR_HOOK_SAFE static inline uintptr_t pyr_lock_task_key(const void *lock, const void *context)
{
    return (uintptr_t)lock ^ (uintptr_t)context << 17 ^ (uintptr_t)context >> 29;
}

/* Forgets a hold whose end was not seen: the task is about to take the lock anew. */
PYR_HOOK_SAFE static inline void pyr_lock_forget(uintptr_t key)
{
    pyr_held *held = pyr_held_place((const void *)key);
    if (atomic_load_explicit(&held->lock, memory_order_relaxed) == key) {
        atomic_store_explicit(&held->since_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&held->lock, 0, memory_order_relaxed);
    }
}

/* In the thread of the task, as it is about to wait for `lock`: its stack has the coroutines that
 * await. These three allocate, and all calls for tasks have the GIL of one interpreter; each wait
 * that was begun is to be ended, once, in any thread. */
void pyr_lock_task_wait_begin(pyr_task_wait *wait, const void *lock, uintptr_t key,
                              pyr_lock_type type, bool parks, pyr_addr thread_state);

/* The wait is over; `got`: the task has the lock now. `object`: the lock, NULL = it is gone. */
void pyr_lock_task_wait_end(pyr_task_wait *wait, const void *object, pyr_addr thread_state,
                            bool got);

/* In the thread of a task that is about to give `lock` back: its stack is the holder's for all that
 * wait. Only where pyr_lock_has_waiting_tasks. */
void pyr_lock_task_release(const void *lock, pyr_addr thread_state);

enum { PYR_TASK_HOLDER_PLACES = 1 << 10 };
extern pyr_task_holder *pyr_task_holders[PYR_TASK_HOLDER_PLACES]; /* not known yet, by the lock */

PYR_HOOK_SAFE static inline pyr_task_holder **pyr_task_holder_place(const void *lock)
{
    return &pyr_task_holders[(uintptr_t)lock >> 4 & (PYR_TASK_HOLDER_PLACES - 1)];
}

/* Whether tasks may wait for the lock: another lock may have its place. */
PYR_HOOK_SAFE static inline bool pyr_lock_has_waiting_tasks(const void *lock)
{
    return *pyr_task_holder_place(lock) != NULL;
}

extern unsigned pyr_task_holder_count; /* places that are taken */

/* Whether tasks wait for any lock at all. */
PYR_HOOK_SAFE static inline bool pyr_lock_has_any_waiting_tasks(void)
{
    return pyr_task_holder_count > 0;
}

/* A wait that is not measured, since too many are open. */
PYR_HOOK_SAFE void pyr_lock_miss(void);

/* Where malloc may be called: room for names. Not hook safe. */
void pyr_lock_tend(void);

/* Finds what a lock is called, in the thread that samples it, with the GIL: "file.py:12:name" in
 * `text`; returns its length, 0 = not found. `frames` are those of the thread. */
typedef size_t pyr_lock_namer(const void *lock, const pyr_own_frame *frames, uint32_t count,
                              char *text, size_t size);
void pyr_lock_set_namer(pyr_lock_namer *namer);

/* What is hooked of each kind of locks, for facts: static text. */
typedef enum pyr_lock_hook {
    PYR_LOCK_HOOK_THREADS,
    PYR_LOCK_HOOK_TASKS,
    PYR_LOCK_HOOK_PROCESSES,
    PYR_LOCK_HOOK_GREENLETS,
    PYR_LOCK_HOOKS
} pyr_lock_hook;
void pyr_lock_note_hook(pyr_lock_hook hook, const char *text);

#endif
