/* Mutexes with a rank. A thread takes locks in rising rank only, so no two can deadlock.
 *
 * The enum below is the whole lock order of the core. Hostile and sanitizer builds check it at
 * each acquire and abort on a violation. A try never waits, so it may be made in any order. Guarded
 * fields name their lock where they are declared.
 *
 * Each thread knows what it holds, so that a handler of signals that would wait for another thread
 * of ours can tell whether that one waits for the interrupted thread, and run a little later then.
 */
#ifndef PYR_BASE_LOCK_H
#define PYR_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/limits.h"
#include "base/status.h"

typedef enum pyr_lock_rank {
    PYR_LOCK_SESSION,   /* start, stop and flush of the profiler */
    PYR_LOCK_GATHER,    /* one window being gathered */
    PYR_LOCK_COLLECTOR, /* the stack collector's state; the others' follow, one rank each */
    PYR_LOCK_MEMORY,
    PYR_LOCK_NATIVE, /* slots of libraries, which the native heap exchanges */
    PYR_LOCK_EXCEPTION,
    PYR_LOCK_CONTENTION,   /* the lock collector's */
    PYR_LOCK_PAUSES,       /* the collector of garbage collections */
    PYR_LOCK_OWN_STACK,    /* names for stacks that hooks walk */
    PYR_LOCK_NATIVE_STACK, /* rules for the C stacks that they walk */
    PYR_LOCK_LANE,         /* lane 0 of the recorder; lane n is PYR_LOCK_LANE + n */
    PYR_LOCK_SLICE_LANE = PYR_LOCK_LANE + PYR_LIMIT_LANES,    /* likewise, of the flight recorder */
    PYR_LOCK_SYMBOLS = PYR_LOCK_SLICE_LANE + PYR_LIMIT_LANES, /* writers of a symbol table */
    PYR_LOCK_LOG,                                             /* the queue of log lines */
    PYR_LOCK_SERVER,                                          /* requests of `pyrometer serve` */
    PYR_LOCK_STORE,                                           /* its connection that writes */
    PYR_LOCK_UPLOADS,                                         /* its uploads that wait */
} pyr_lock_rank;

typedef struct pyr_lock {
    pthread_mutex_t mutex;
    unsigned rank;
} pyr_lock;

/* For static storage. */
#define PYR_LOCK_INIT(lock_rank)                                                                   \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (lock_rank)                                    \
    }

/* A free lock. `rank` may lie between two names of the enum (lanes). */
PYR_HOOK_SAFE void pyr_lock_init(pyr_lock *lock, unsigned rank);
void pyr_lock_fini(pyr_lock *lock);

/* Waits for the lock. Any thread that holds no lock of this or a higher rank. */
void pyr_lock_acquire(pyr_lock *lock);

/* Takes the lock if it is free; true when taken. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_lock_try(pyr_lock *lock);

PYR_HOOK_SAFE void pyr_lock_release(pyr_lock *lock);

/* Signal handlers only. Where the interrupted thread holds a lock of windows, hooks or the log (any
 * but SESSION's and GATHER's, which are held for longer and have means of their own): true, and the
 * thread raises `number` again as it gives back the last of them. */
PYR_HOOK_SAFE PYR_MUST_USE bool pyr_lock_defer_signal(int number);

/* After a fork, in the child: the lock is free, whoever held it before. */
PYR_HOOK_SAFE void pyr_lock_fork_child(pyr_lock *lock);

#endif
