/* Which code objects died since when: what makes a name cached by address safe.
 *
 * A hook on the death of code objects (python/_native exchanges PyCode_Type.tp_dealloc) calls
 * pyr_code_deaths_note just before the original runs. A name resolved for address A at sequence S
 * still holds iff pyr_code_deaths_last(A) <= S. Slots are shared by addresses of one hash, so a
 * death can only invalidate too much. All functions are atomic, wait-free and hook safe:
 * interpreters with their own GIL come in parallel.
 */
#ifndef PYR_CPYTHON_CODE_DEATHS_H
#define PYR_CPYTHON_CODE_DEATHS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_CODE_DEATH_SLOTS = 1 << 14 };

typedef struct pyr_code_deaths {
    _Atomic uint64_t sequence;
    _Atomic uint64_t slots[PYR_CODE_DEATH_SLOTS];
} pyr_code_deaths;

static inline uint32_t pyr_code_deaths_slot(uintptr_t code)
{
    return (uint32_t)(((uint64_t)code >> 4) * 0x9E3779B97F4A7C15U >> 50);
}

/* The code object at `code` is about to die. */
PYR_HOOK_SAFE static inline void pyr_code_deaths_note(pyr_code_deaths *deaths, uintptr_t code)
{
    uint64_t now = atomic_fetch_add(&deaths->sequence, 1) + 1;
    _Atomic uint64_t *slot = &deaths->slots[pyr_code_deaths_slot(code)];
    uint64_t before = atomic_load(slot);
    /* Of two deaths in one slot the later sequence must win. */
    while (before < now && !atomic_compare_exchange_weak(slot, &before, now)) {
    }
}

/* The sequence now: note it before reading what is to be cached. */
PYR_HOOK_SAFE static inline uint64_t pyr_code_deaths_now(const pyr_code_deaths *deaths)
{
    return atomic_load(&((pyr_code_deaths *)(uintptr_t)deaths)->sequence);
}

/* The sequence of the last death in the slot of `code`. */
PYR_HOOK_SAFE static inline uint64_t pyr_code_deaths_last(const pyr_code_deaths *deaths,
                                                          uintptr_t code)
{
    return atomic_load(&((pyr_code_deaths *)(uintptr_t)deaths)->slots[pyr_code_deaths_slot(code)]);
}

#endif
