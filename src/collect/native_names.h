/* Frames of C code: known by an address while nobody may ask the loader, named when somebody may.
 *
 * A name is that of the function as its library tells it to others, with the library:
 * `png_malloc [libpng16.so.16]`; else the library alone. One owner; not hook safe, but for the
 * frames themselves.
 */
#ifndef PYR_COLLECT_NATIVE_NAMES_H
#define PYR_COLLECT_NATIVE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "model/sample.h"
#include "model/symbols.h"

/* Above all functions of a symbol table; addresses of programs have 47 bits. */
static const uint32_t PYR_NATIVE_FRAME = UINT32_C(1) << 31;

/* A frame that stands for an address. Only within the heap sampler: it goes into no sample. */
PYR_HOOK_SAFE static inline pyr_frame pyr_native_frame(uintptr_t address)
{
    return (pyr_frame){.function = PYR_NATIVE_FRAME | (uint32_t)(address >> 32 & 0xffff),
                       .line = (uint32_t)address};
}

/* The address that a frame stands for; 0: it is a usual frame. */
PYR_HOOK_SAFE static inline uintptr_t pyr_native_frame_address(pyr_frame frame)
{
    return frame.function >> 16 == PYR_NATIVE_FRAME >> 16
               ? (uintptr_t)(frame.function & 0xffff) << 32 | frame.line
               : 0;
}

typedef struct pyr_native_names pyr_native_names;

/* NULL: no memory. */
pyr_native_names *pyr_native_names_new(void);
void pyr_native_names_free(pyr_native_names *names);

/* Before the first want of a round: forgets what may not be true any more. */
void pyr_native_names_begin(pyr_native_names *names);

/* Notes that an address (where a call returns to) wants a name. Beyond a bound it gets none. */
void pyr_native_names_want(pyr_native_names *names, uintptr_t address);

/* Finds the names of all that want one, as functions of `symbols`. */
void pyr_native_names_find(pyr_native_names *names, pyr_symbols *symbols);

/* The function of an address; 0: it has not been looked for. */
uint32_t pyr_native_names_get(const pyr_native_names *names, uintptr_t address);

/* Forgets all, for another table of symbols. */
void pyr_native_names_clear(pyr_native_names *names);

#endif
