/* Names of the code objects on stacks that are followed where they lie (own_stack.h).
 *
 * A bounded table of (code object, unit of bytecode), four places a set, valid by the scheme of
 * cpython/code_deaths.h. What is not in it is read from the code object itself, which must be
 * alive, and takes symbols from room that was reserved. One owner, under its lock; hook safe but
 * for new, free and renew.
 */
#ifndef PYR_UNWIND_OWN_NAMES_H
#define PYR_UNWIND_OWN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/code_deaths.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "model/symbols.h"

typedef struct pyr_own_names pyr_own_names;

/* In place of a unit: a frame that has not begun stands on its first line. */
static const uint32_t PYR_UNIT_BEFORE = UINT32_MAX;

/* Borrows all. `deaths` may be NULL: then nothing is remembered. Before the first use comes renew.
 * NULL: out of memory. */
pyr_own_names *pyr_own_names_new(const pyr_layout *layout, const pyr_code_deaths *deaths);
void pyr_own_names_free(pyr_own_names *names);

/* Forgets everything; names go to `symbols` from now on, which is borrowed. */
void pyr_own_names_renew(pyr_own_names *names, pyr_symbols *symbols);

/* The frame of the live code object at `code`, at a unit of its bytecode or PYR_UNIT_BEFORE. Where
 * there is no room for a name it is "<name not known>". */
PYR_HOOK_SAFE pyr_frame pyr_own_names_frame(pyr_own_names *names, pyr_addr code, uint32_t unit);

/* False: the frame is "<name not known>". */
PYR_HOOK_SAFE bool pyr_own_names_knows(const pyr_own_names *names, pyr_frame frame);

/* Frames that were not in the table, so far. Any thread, no lock. */
PYR_HOOK_SAFE uint64_t pyr_own_names_misses(const pyr_own_names *names);

#endif
