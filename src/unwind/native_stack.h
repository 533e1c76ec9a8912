/* The C frames of the calling thread, for hooks of C code's allocators.
 *
 * A stack is walked by the call frame information that libraries bring (os/cfi.h), from a copy of
 * its topmost part that the kernel makes: so a wrong step ends the walk, never the process. What
 * lies where is known from a list of the loaded objects that somebody else makes now and then, and
 * rules once found are kept by address: usually a walk is one system call. Hooks ask neither the
 * loader nor the C library.
 *
 * Any thread; a walk only tries for the lock. Lock rank PYR_LOCK_NATIVE_STACK.
 */
#ifndef PYR_UNWIND_NATIVE_STACK_H
#define PYR_UNWIND_NATIVE_STACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "os/loaded.h"
#include "reader/reader.h"

enum { PYR_NATIVE_STACK_FRAMES = 24 };

typedef struct pyr_native_stacks pyr_native_stacks;

/* Borrows the reader, one of the own process. A walk ends at the object that `interpreter` lies in:
 * what called it from there on is Python's to tell. NULL: no memory. */
pyr_native_stacks *pyr_native_stacks_new(pyr_reader *reader, uintptr_t interpreter);
void pyr_native_stacks_free(pyr_native_stacks *stacks);

/* Looks at what is loaded, of which there are so many now, if that has changed. Not from a hook. */
void pyr_native_stacks_look(pyr_native_stacks *stacks, pyr_loaded_counts now);

/* Where the calling functions go on, from the one that `caller` is in to the interpreter or the end
 * of the stack; at most PYR_NATIVE_STACK_FRAMES. An end that is not known is
 * PYR_NATIVE_STACK_UNKNOWN; how many, at least 1. */
static const uintptr_t PYR_NATIVE_STACK_UNKNOWN = 1;

PYR_HOOK_SAFE uint32_t pyr_native_stack_walk(pyr_native_stacks *stacks, uintptr_t caller,
                                             uintptr_t addresses[PYR_NATIVE_STACK_FRAMES]);

/* Memory of one, if every page of it is touched: constant. */
size_t pyr_native_stacks_memory(void);

/* Around a fork. */
void pyr_native_stacks_prefork(pyr_native_stacks *stacks);
void pyr_native_stacks_postfork_parent(pyr_native_stacks *stacks);
PYR_HOOK_SAFE void pyr_native_stacks_postfork_child(pyr_native_stacks *stacks);

#endif
