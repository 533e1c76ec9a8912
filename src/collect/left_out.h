/* Places that are left out: the import system's own, and modules that a setting names.
 *
 * Built once, then constant; matching is hook safe.
 */
#ifndef PYR_COLLECT_LEFT_OUT_H
#define PYR_COLLECT_LEFT_OUT_H

#include <stdbool.h>

#include "base/status.h"
#include "unwind/own_stack.h"

typedef struct pyr_left_out pyr_left_out;

/* `modules`: "logging, a.b", names parted by commas or spaces; what is beyond 32 is not taken.
 * NULL: out of memory. */
pyr_left_out *pyr_left_out_new(const char *modules);
void pyr_left_out_free(pyr_left_out *left_out);

/* Whether the leaf of the stack is in such a place: in the file of a module or of one inside it;
 * or, where it is in a module that takes locks for others (threading, queue), its caller. */
PYR_HOOK_SAFE bool pyr_left_out_matches(const pyr_left_out *left_out, const pyr_own_stack *stack);

#endif
