/* The slots through which loaded objects call functions of other objects, and exchanging them.
 *
 * An object calls what it imports through a slot, which the loader fills; whoever exchanges what
 * the slot holds sees the calls, with no help of the program. A slot is exchanged only when the
 * loader has finished with it: one in pages that become read-only (RELRO) when they are so, any
 * other when it holds a function. One owner; not hook safe.
 */
#ifndef PYR_OS_IMPORTS_H
#define PYR_OS_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "os/loaded.h"

enum { PYR_IMPORTS_OBJECTS = 4096, PYR_IMPORTS_LEFT_ALONE = 32 };

typedef struct pyr_imports_wanted {
    const char *const *names; /* of the functions whose slots are wanted */
    size_t count;
    /* Objects that these addresses lie in are left alone, and objects that define a function
     * `definer` for others. */
    uintptr_t left_alone[PYR_IMPORTS_LEFT_ALONE];
    size_t left_alone_count;
    const char *definer;
    /* What a slot of the function `name` (index) is to hold that now holds `held`; `held` itself:
     * it stays. `is_data`: the program may have stored there what it likes. */
    uintptr_t (*choose)(void *context, size_t name, uintptr_t held, bool is_data);
    void *context;
    /* What the loader finds for each name: a slot that is not bound yet is taken to hold that; 0:
     * not known. */
    const uintptr_t *usual;
} pyr_imports_wanted;

typedef struct pyr_imports {
    pyr_loaded_counts counts; /* as of the last round */
    bool is_incomplete;       /* something was not finished then */
    unsigned rounds;          /* ... in so many rounds now */
    size_t seen_count;
    uintptr_t seen[PYR_IMPORTS_OBJECTS]; /* segments of objects that need no further look */
    uint64_t exchanged, refused;         /* slots, so far */
} pyr_imports;

/* Forgets what was seen, and the counts. */
void pyr_imports_clear(pyr_imports *imports);

/* Whether objects may have been loaded since the last round, of which there are so many now. */
bool pyr_imports_want_round(const pyr_imports *imports, pyr_loaded_counts now);

/* Goes through all objects that were not seen in an earlier round; a later round is wanted where
 * the loader does not answer (os/loaded.h). */
void pyr_imports_exchange(pyr_imports *imports, const pyr_imports_wanted *wanted);

#endif
