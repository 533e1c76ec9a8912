/* Hooks of malloc and its kin in C code: the native heap.
 *
 * Every library of the process calls these functions through slots, which are exchanged for hooks
 * that count, and pass on to what the slot held before. Libraries loaded later are found when
 * somebody looks. Left alone are those whose allocations are counted elsewhere: whatever allocates
 * for the interpreter, whatever defines malloc, and ourselves. There is one set of hooks a process;
 * one owner at a time. Any thread but hooks.
 */
#ifndef PYR_COLLECT_NATIVE_HOOKS_H
#define PYR_COLLECT_NATIVE_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "unwind/native_stack.h"

typedef struct pyr_native_hook_stats {
    uint64_t exchanged; /* slots that got hooks since the start, or were given back */
    uint64_t refused;   /* of which the old function stays: they could not be written to, or hold
                           too many different ones */
} pyr_native_hook_stats;

/* Exchanges the slots of all libraries but those that the addresses lie in. `stacks` are told what
 * is loaded, from now to the close; NULL: nobody is. */
void pyr_native_hooks_open(const void *owner, pyr_native_stacks *stacks,
                           const uintptr_t *left_alone, size_t count);

/* The same for libraries loaded since. */
void pyr_native_hooks_look(void);

/* The same in a few tens of nanoseconds where there are none, for a thread that holds no lock: it
 * waits for the loader as long as that takes. */
void pyr_native_hooks_tick(void);

/* Puts everything back that still is as the hooks left it, unless somebody else owns them by now.
 * Code may have kept a hook's address: hooks pass on for ever. */
void pyr_native_hooks_close(const void *owner);

void pyr_native_hooks_get_stats(pyr_native_hook_stats *stats);

/* Around fork, with all held that functions are named under. The child's slots are as they were. */
void pyr_native_hooks_prefork(void);
void pyr_native_hooks_postfork_parent(void);
PYR_HOOK_SAFE void pyr_native_hooks_postfork_child(void);

#endif
