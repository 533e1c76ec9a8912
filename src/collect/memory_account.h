/* Where the memory of this process goes: what the kernel, malloc and pymalloc say, beside what the
 * heap sampler estimates, and the rest that none of them explains.
 *
 * Any thread but hooks; a few system calls, and at times a walk of malloc's free lists.
 */
#ifndef PYR_COLLECT_MEMORY_ACCOUNT_H
#define PYR_COLLECT_MEMORY_ACCOUNT_H

#include <stdbool.h>
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

/* What malloc said when it was asked last. It walks its free lists, which takes 50 ms where there
 * are half a million free pieces, and all of the program's threads that need malloc wait for it
 * meanwhile: so that is not asked again before 2,000 times as long has passed. All 0 at first. */
typedef struct pyr_malloc_answer {
    int64_t at_ns; /* monotonic; 0 = not asked yet */
    int64_t took_ns;
    int64_t taken, used, free; /* bytes */
} pyr_malloc_answer;

/* Adds the rows of section "memory". What cannot be read is left out. `may_wait`: malloc may be
 * asked, whose locks somebody may hold. */
void pyr_memory_account(const pyr_memory_known *known, bool may_wait, pyr_malloc_answer *answer,
                        pyr_facts *facts);

#endif
