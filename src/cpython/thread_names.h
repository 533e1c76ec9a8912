/* Names that Python gave to its threads: ident -> name, from the registry of `threading`.
 *
 * sys.modules -> "threading" -> _active (dict: ident -> Thread) -> _name, by remote reads alone, a
 * few calls for all threads, in batches of a few hundred. One object an interpreter; one thread at
 * a time.
 */
#ifndef PYR_CPYTHON_THREAD_NAMES_H
#define PYR_CPYTHON_THREAD_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "cpython/layout.h"
#include "reader/reader.h"

typedef struct pyr_thread_names pyr_thread_names;

/* Borrows reader and layout. NULL: out of memory. */
pyr_thread_names *pyr_thread_names_new(pyr_reader *reader, const pyr_layout *layout);
void pyr_thread_names_free(pyr_thread_names *names);

/* Reads all names of the interpreter at `interp` again. PYR_OK; PYR_ENOENT: threading is not
 * imported there (names are empty then); PYR_ETORN: the registry changed in every try; PYR_EFAULT,
 * PYR_EBAD, PYR_ETOOBIG (more than PYR_LIMIT_THREADS), PYR_ENOMEM. After any error but PYR_ENOENT
 * the names of the last good refresh stay, and the failure is counted. */
PYR_MUST_USE pyr_status pyr_thread_names_refresh(pyr_thread_names *names, pyr_addr interp);

/* The name of thread `ident` (thread_ident), as NUL-terminated UTF-8 of at most
 * PYR_LIMIT_NAME_BYTES - 1 bytes; NULL when it has none. Valid until the next refresh. */
const char *pyr_thread_names_get(const pyr_thread_names *names, uint64_t ident, size_t *length);

/* Threads with a name now. */
size_t pyr_thread_names_count(const pyr_thread_names *names);

/* Refreshes that failed. */
uint64_t pyr_thread_names_failures(const pyr_thread_names *names);

#endif
