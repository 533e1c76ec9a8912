/* Names: strings and functions by small ids, append-only and shared.
 *
 * A table is filled by collectors and read by the encoder while they go on. Entries never move and
 * never change, so a reader that got an id from a sealed window needs no lock. A table is bounded;
 * when it is more than half full at a rotation, the composition root replaces it by a new one (a
 * new epoch) and the old one lives as long as windows hold it. Ids of different tables do not mix.
 * pyr_symbols_string and _function take a short mutex (rank PYR_LOCK_SYMBOLS) and may allocate: not
 * hook safe. Hooks use the _reserved ones, which live on room that somebody else keeps ready.
 */
#ifndef PYR_MODEL_SYMBOLS_H
#define PYR_MODEL_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_symbols pyr_symbols;

typedef struct pyr_function {
    uint32_t name, file; /* strings */
    int32_t first_line;
} pyr_function;

/* An empty table with one reference; string 0 is "", function 0 is "<symbol table full>", so that
 * a full table shows in the profile. NULL: out of memory. */
pyr_symbols *pyr_symbols_new(void);

/* One reference more, one less; the last one frees. NULL is fine. */
pyr_symbols *pyr_symbols_share(pyr_symbols *symbols);
void pyr_symbols_release(pyr_symbols *symbols);

/* Id of a string, interned; 0 when the table is full (counted) or the text is empty. */
uint32_t pyr_symbols_string(pyr_symbols *symbols, const char *text, size_t length);

/* Id of a function, interned by all three fields; 0 when the table is full (counted). */
uint32_t pyr_symbols_function(pyr_symbols *symbols, const char *name, size_t name_length,
                              const char *file, size_t file_length, int32_t first_line);

/* The same for hooks: wait for nothing and use only room that is there. PYR_EBUSY: somebody holds
 * the mutex; PYR_ENOMEM: no room is left, of what is reserved or of the table. The id is 0 then. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_symbols_string_reserved(pyr_symbols *symbols,
                                                                  const char *text, size_t length,
                                                                  uint32_t *string);
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_symbols_function_reserved(
    pyr_symbols *symbols, const char *name, size_t name_length, const char *file,
    size_t file_length, int32_t first_line, uint32_t *function);

/* Makes room for about a thousand names to come, where it is lacking. Not hook safe. */
void pyr_symbols_reserve(pyr_symbols *symbols);

/* The text of a string (NUL-terminated UTF-8); `length` may be NULL. An unknown id gives "". Any
 * thread, no lock. */
PYR_HOOK_SAFE const char *pyr_symbols_text(const pyr_symbols *symbols, uint32_t string,
                                           size_t *length);

/* A function. An unknown id gives function 0. Any thread, no lock. */
PYR_HOOK_SAFE pyr_function pyr_symbols_get(const pyr_symbols *symbols, uint32_t function);

/* How full the fullest of its bounds is, in percent; and how often something did not fit. */
unsigned pyr_symbols_fill_pct(const pyr_symbols *symbols);
PYR_HOOK_SAFE uint64_t pyr_symbols_overflows(const pyr_symbols *symbols);

/* After a fork, in the child: the mutex is made anew. Hook safe. */
void pyr_symbols_fork_child(pyr_symbols *symbols);

#endif
