/* The type of the exception that a thread is handling, by name.
 *
 * Most threads handle none, and say so by None in the entry of their exception stack: the address
 * of None is learned once. Names of types are remembered by the type's address, head and name, read
 * anew at each visit: one read of three places instead of fifteen. One thread at a time. */
#ifndef PYR_UNWIND_HANDLED_H
#define PYR_UNWIND_HANDLED_H

#include <stdint.h>

#include "cpython/layout.h"
#include "model/symbols.h"
#include "reader/reader.h"
#include "unwind/snapshot.h"

typedef struct pyr_handled pyr_handled;

/* Borrows all. NULL: out of memory. */
pyr_handled *pyr_handled_new(pyr_reader *reader, const pyr_layout *layout, pyr_symbols *symbols);
void pyr_handled_free(pyr_handled *handled);

/* Forgets the names and gives them to `symbols` from now on. */
void pyr_handled_renew(pyr_handled *handled, pyr_symbols *symbols);

/* The string that names the type, from a good snapshot; 0: none is being handled, or it cannot be
 * read. `scratch` is cleared and used (64 KiB). */
uint32_t pyr_handled_find(pyr_handled *handled, pyr_batch *scratch, const pyr_snapshot *snapshot);

#endif
