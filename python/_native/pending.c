/* Pending calls; see the header. */
#include "pending.h"

#include <Python.h>

#include <stdatomic.h>
#include <time.h>

enum { WAITS = 100, WAIT_NS = 100000 };

static atomic_bool is_open;
static atomic_int asking; /* threads; one of the parent's may stand here for ever after a fork */

bool pyr_pending_is_open(void)
{
    return atomic_load(&is_open);
}

void pyr_pending_set_open(bool open)
{
    atomic_store(&is_open, open);
    for (int waits = 0; !open && waits < WAITS && atomic_load(&asking) > 0; waits++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}

bool pyr_pending_add(int (*function)(void *unused))
{
    atomic_fetch_add(&asking, 1);
    bool added = atomic_load(&is_open) && Py_AddPendingCall(function, NULL) == 0;
    atomic_fetch_sub(&asking, 1);
    return added;
}
