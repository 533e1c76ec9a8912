/* The C function that a thread's topmost Python frame is calling, as the leaf frame of its stack.
 *
 * Found from bytecode and value stack (cpython/callee.h), and proved by reading the frame again
 * after the callee: no guess. Names of static kinds of callables are cached by what their object
 * says. One thread at a time.
 */
#ifndef PYR_UNWIND_NATIVE_LEAF_H
#define PYR_UNWIND_NATIVE_LEAF_H

#include "cpython/bytecode.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "model/symbols.h"
#include "reader/reader.h"
#include "unwind/codes.h"
#include "unwind/snapshot.h"

typedef struct pyr_native_leaf pyr_native_leaf;

typedef struct pyr_native_callee {
    pyr_site_kind site; /* what the leaf's instruction can be busy with */
    const char *name;   /* NULL = no C call, or not known; lives until renew */
    pyr_frame frame;    /* when there is a name */
    bool still_blank;   /* no call, as at the last visit: not looked at again */
} pyr_native_callee;

/* Borrows all. NULL: out of memory. */
pyr_native_leaf *pyr_native_leaf_new(pyr_reader *reader, const pyr_layout *layout,
                                     pyr_symbols *symbols);
void pyr_native_leaf_free(pyr_native_leaf *leaf);

/* Forgets the cache and takes names from `symbols` from now on. */
void pyr_native_leaf_renew(pyr_native_leaf *leaf, pyr_symbols *symbols);

/* Looks at the leaf of a good snapshot, whose code is `code`. Always fills *callee. */
void pyr_native_leaf_find(pyr_native_leaf *leaf, pyr_codes *codes, const pyr_code *code,
                          const pyr_snapshot *snapshot, pyr_native_callee *callee);

#endif
