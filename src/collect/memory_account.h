/* Where the memory of this process goes: what the kernel, malloc and pymalloc say, beside what the
 * heap sampler estimates, and the rest that none of them explains.
 *
 * Any thread but hooks; a few system calls and a walk of malloc's free lists.
 */
#ifndef PYR_COLLECT_MEMORY_ACCOUNT_H
#define PYR_COLLECT_MEMORY_ACCOUNT_H

#include <stdint.h>

#include "collect/memory_host.h"
#include "model/facts.h"

/* What others measured, in bytes. */
typedef struct pyr_memory_known {
    double
        python_live; /* estimate: alive in Python's allocators, of what was made since the start */
    double native_live; /* estimate: alive of what C code allocated since the start; -1 = unknown */
    double small_live;  /* of the former, what stands in pymalloc's arenas */
    pyr_arenas arenas;
} pyr_memory_known;

/* Adds the rows of section "memory". What cannot be read is left out. */
void pyr_memory_account(const pyr_memory_known *known, pyr_facts *facts);

#endif
