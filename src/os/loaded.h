/* The programs and libraries that the loader has in this process, as they lie in memory.
 *
 * What is seen of an object is valid within a visit only: visits are made under the loader's lock
 * on its list, so nothing is unloaded meanwhile. That lock is not held while libraries initialize
 * themselves, but a program may hold it, in its own dl_iterate_phdr, for as long as it likes: all
 * here return false then, after half a second at most. A visit is made on another thread than the
 * caller's; it must not load, unload, or wait for who may. Objects in namespaces of their own
 * (dlmopen) are not seen. Any thread, with any locks; not hook safe.
 *
 * Sources: System V ABI (generic and processor supplements), elf.h, dl_iterate_phdr(3).
 */
#ifndef PYR_OS_LOADED_H
#define PYR_OS_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Relocations of one table of an object. */
typedef struct pyr_loaded_relocations {
    const ElfW(Rela) * first;
    size_t count;
} pyr_loaded_relocations;

typedef struct pyr_loaded {
    uintptr_t base;   /* what loading added to addresses */
    const char *path; /* as the loader knows it; empty for the program */
    const ElfW(Phdr) * segments;
    size_t segment_count;
    const ElfW(Sym) * symbols; /* the dynamic ones; NULL = none */
    size_t symbol_count;
    const char *names; /* of symbols */
    size_t names_bytes;
    const uint32_t *hash; /* DT_GNU_HASH; NULL = none */
    pyr_loaded_relocations relocations[2];
    uintptr_t relro_start, relro_end; /* pages that are read-only once it is relocated */
} pyr_loaded;

/* How many objects were loaded, and unloaded, so far: when neither has changed, nothing has. */
typedef struct pyr_loaded_counts {
    uint64_t added, removed;
} pyr_loaded_counts;

PYR_MUST_USE bool pyr_loaded_count(pyr_loaded_counts *counts);

/* The same in a few tens of nanoseconds, and for a thread that holds no lock, since it waits for
 * the loader as long as that takes. */
PYR_MUST_USE bool pyr_loaded_count_here(pyr_loaded_counts *counts);

/* Visits all objects until `visit` returns true; what lacks a dynamic section is left out. False:
 * nothing was visited. */
PYR_MUST_USE bool pyr_loaded_each(bool (*visit)(void *context, const pyr_loaded *object),
                                  void *context);

/* Around fork, with all held that calls of the above are made under: a child in which one of our
 * threads had the loader's lock would never load anything. Where the program has it, in the child
 * all here return false for ever. Afterwards in the parent there is nothing to do. */
void pyr_loaded_prefork(void);
PYR_HOOK_SAFE void pyr_loaded_fork_child(void);

/* Whether the bytes lie in the object: in one segment of it, with these flags (PF_*) at least. */
bool pyr_loaded_has(const pyr_loaded *object, uintptr_t address, size_t bytes, uint32_t flags);

/* The name of a symbol, "" where there is none. */
const char *pyr_loaded_symbol_name(const pyr_loaded *object, size_t symbol);

/* Whether the object defines a function of this name for others. */
bool pyr_loaded_defines(const pyr_loaded *object, const char *name);

/* The symbol of the function that covers an address; NULL: it has none that others may see. */
const char *pyr_loaded_function_at(const pyr_loaded *object, uintptr_t address);

#endif
