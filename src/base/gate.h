/* A gate: how hooks that never wait use an object that may be taken away from under them.
 *
 * A hook enters, and has the object until it leaves, or NULL while the gate is closed. Who closes
 * it can then ask whether anybody is still inside. All functions are atomic; hooks in any thread.
 */
#ifndef PYR_BASE_GATE_H
#define PYR_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_gate {
    _Atomic(void *) object; /* NULL = closed */
    _Atomic uint32_t users;
} pyr_gate;

static inline void pyr_gate_open(pyr_gate *gate, void *object)
{
    atomic_store(&gate->object, object);
}

/* Nobody enters any more. */
static inline void pyr_gate_close(pyr_gate *gate)
{
    atomic_store(&gate->object, NULL);
}

/* Whether somebody is inside. */
static inline bool pyr_gate_is_in_use(const pyr_gate *gate)
{
    return atomic_load(&((pyr_gate *)(uintptr_t)gate)->users) != 0;
}

/* Each enter has its leave, also when it gave NULL. */
PYR_HOOK_SAFE static inline void *pyr_gate_enter(pyr_gate *gate)
{
    atomic_fetch_add(&gate->users, 1);
    return atomic_load(&gate->object);
}

PYR_HOOK_SAFE static inline void pyr_gate_leave(pyr_gate *gate)
{
    atomic_fetch_sub(&gate->users, 1);
}

/* In the child of a fork: closed, and those inside were the parent's threads. */
PYR_HOOK_SAFE static inline void pyr_gate_fork_child(pyr_gate *gate)
{
    atomic_store(&gate->object, NULL);
    atomic_store(&gate->users, 0);
}

#endif
