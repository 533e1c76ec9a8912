/* Ranked mutexes; see the header. Thin over pthreads: what it adds is the order check of test
 * builds, which keeps the set of ranks that the calling thread holds. Owns nothing. */
#include "base/lock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(PYR_HOSTILE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

static _Thread_local uint32_t held_ranks;

static void check_order(const pyr_lock *lock)
{
    if (held_ranks >> lock->rank != 0) {
        fprintf(stderr, "pyrometer: lock order: rank %u acquired while holding %#x\n", lock->rank,
                (unsigned)held_ranks);
        abort();
    }
}

static void note_held(const pyr_lock *lock)
{
    held_ranks |= UINT32_C(1) << lock->rank;
}

static void note_free(const pyr_lock *lock)
{
    held_ranks &= ~(UINT32_C(1) << lock->rank);
}

#else

static void check_order(const pyr_lock *lock)
{
    (void)lock;
}

static void note_held(const pyr_lock *lock)
{
    (void)lock;
}

static void note_free(const pyr_lock *lock)
{
    (void)lock;
}

#endif

void pyr_lock_init(pyr_lock *lock, unsigned rank)
{
    *lock = (pyr_lock)PYR_LOCK_INIT(rank);
}

void pyr_lock_fini(pyr_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void pyr_lock_acquire(pyr_lock *lock)
{
    check_order(lock);
    pthread_mutex_lock(&lock->mutex);
    note_held(lock);
}

bool pyr_lock_try(pyr_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0) {
        return false;
    }
    note_held(lock);
    return true;
}

void pyr_lock_release(pyr_lock *lock)
{
    note_free(lock);
    pthread_mutex_unlock(&lock->mutex);
}

void pyr_lock_fork_child(pyr_lock *lock)
{
    /* The holder may be a thread that does not exist here, so nobody can unlock: start anew. */
    note_free(lock);
    pyr_lock_init(lock, lock->rank);
}
