/* The program's own labels of the threads that are visited, as strings of the symbol table.
 *
 * What leads to a thread's label set is copied between the two copies of its stack, in the same
 * call, so that stack and labels belong together; the path is remembered from the last visit, and
 * walked anew where it has changed. Texts are remembered by their hash. Where the program has never
 * used a label, all this costs one load a visit. One thread at a time.
 */
#ifndef PYR_UNWIND_LABEL_SETS_H
#define PYR_UNWIND_LABEL_SETS_H

#include <stdint.h>

#include "cpython/context.h"
#include "cpython/layout.h"
#include "model/symbols.h"
#include "reader/reader.h"
#include "unwind/snapshot.h"

typedef struct pyr_label_sets pyr_label_sets;

/* Borrows all; `source` may be NULL: nothing is ever read. NULL: out of memory. */
pyr_label_sets *pyr_label_sets_new(pyr_reader *reader, const pyr_layout *layout,
                                   const pyr_label_source *source, pyr_symbols *symbols);
void pyr_label_sets_free(pyr_label_sets *sets);

/* Forgets the texts and gives them to `symbols` from now on. */
void pyr_label_sets_renew(pyr_label_sets *sets, pyr_symbols *symbols);

/* The set in force when a good snapshot was taken, as one string: "key\x1Fvalue" parted by "\x1E";
 * 0 = no labels. PYR_ETORN: the path had changed; the plan has the new one, so another snapshot
 * will do. With `last` there is none: then what was walked just now, some microseconds after the
 * stack, is taken. */
PYR_MUST_USE pyr_status pyr_label_sets_find(pyr_label_sets *sets, const pyr_batch *batch,
                                            const pyr_snapshot *snapshot, pyr_stack_plan *plan,
                                            bool last, uint32_t *string);

/* How often a path was walked anew, and how often no label could be proved. */
void pyr_label_sets_stats(const pyr_label_sets *sets, uint64_t *walks, uint64_t *unread);

#endif
