/* Ranked mutexes; see the header. Thin over pthreads: what it adds is the set of ranks that the
 * calling thread holds, for deferred signals, and in test builds for the order check. Owns nothing.
 */
#include "base/lock.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Read by handlers on the same thread, which never change them but for `deferred`. Initial-exec: a
 * handler must not be the one that allocates a module's thread-local storage. */
static _Thread_local volatile uint32_t held_ranks __attribute__((tls_model("initial-exec")));
static _Thread_local volatile sig_atomic_t deferred __attribute__((tls_model("initial-exec")));

static uint32_t bit_of(unsigned rank)
{
    return UINT32_C(1) << rank;
}

#if defined(PYR_HOSTILE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

static void check_order(const pyr_lock *lock)
{
    if (held_ranks >> lock->rank != 0) {
        fprintf(stderr, "pyrometer: lock order: rank %u acquired while holding %#x\n", lock->rank,
                (unsigned)held_ranks);
        abort();
    }
}

#else

static void check_order(const pyr_lock *lock)
{
    (void)lock;
}

#endif

static bool holds_any(void)
{
    return held_ranks >> (PYR_LOCK_GATHER + 1) != 0;
}

static void raise_deferred(void)
{
    if (deferred != 0 && !holds_any()) {
        int number = (int)deferred;
        deferred = 0;
        raise(number);
    }
}

void pyr_lock_init(pyr_lock *lock, unsigned rank)
{
    *lock = (pyr_lock)PYR_LOCK_INIT(rank);
}

void pyr_lock_fini(pyr_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

/* A rank is noted before its lock is taken and until after it is given back: a signal in between
 * finds it held. */
void pyr_lock_acquire(pyr_lock *lock)
{
    check_order(lock);
    held_ranks |= bit_of(lock->rank);
    pthread_mutex_lock(&lock->mutex);
}

bool pyr_lock_try(pyr_lock *lock)
{
    uint32_t before = held_ranks;
    held_ranks = before | bit_of(lock->rank);
    if (pthread_mutex_trylock(&lock->mutex) == 0) {
        return true;
    }
    held_ranks = before;
    raise_deferred();
    return false;
}

void pyr_lock_release(pyr_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
    held_ranks &= ~bit_of(lock->rank);
    raise_deferred();
}

bool pyr_lock_defer_signal(int number)
{
    if (!holds_any()) {
        return false;
    }
    deferred = number;
    return true;
}

void pyr_lock_fork_child(pyr_lock *lock)
{
    /* The holder may be a thread that does not exist here, so nobody can unlock: start anew. */
    held_ranks &= ~bit_of(lock->rank);
    pyr_lock_init(lock, lock->rank);
}
