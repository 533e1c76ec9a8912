/* The thread states of all interpreters, and who holds each GIL.
 *
 * A look is one call: it reads the few words that tell whether anything was created and who holds
 * the GIL now. Only when a list changed, or now and then, is everything walked again (update): a
 * chase through a thousand thread states would cost more than all the rest of a tick, so an update
 * reads the known ones in one batch and follows the links inside the copies. One thread at a time.
 */
#ifndef PYR_UNWIND_THREADS_H
#define PYR_UNWIND_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/layout.h"
#include "reader/reader.h"

typedef struct pyr_threads pyr_threads;

typedef struct pyr_thread_ref {
    pyr_addr state;       /* PyThreadState */
    pyr_addr next;        /* the one behind it in its list */
    pyr_addr interpreter; /* PyInterpreterState */
    pyr_addr gil;         /* the GIL it needs, 0 = unknown */
    uint64_t ident;       /* pthread id, what threading calls ident */
    uint64_t native_id;   /* kernel id */
    uint64_t unique_id;   /* never reused within an interpreter */
} pyr_thread_ref;

typedef struct pyr_gil_ref {
    pyr_addr gil;
    pyr_addr holder; /* thread state that holds it at the time of the look, 0 = free */
} pyr_gil_ref;

/* Borrows reader and layout. NULL: out of memory. */
pyr_threads *pyr_threads_new(pyr_reader *reader, const pyr_layout *layout, pyr_addr runtime);
void pyr_threads_free(pyr_threads *threads);

/* Reads heads, ids and GIL holders in one call; *changed tells that update is needed. PYR_ECLOSED:
 * the interpreter is being finalized: leave it alone. PYR_EFAULT: nothing could be read, this time.
 */
PYR_MUST_USE pyr_status pyr_threads_look(pyr_threads *threads, bool *changed);

/* The same in two halves, so that a look shares its call with other reads: adds its spans to a
 * batch (the index of the first one), and takes what was read. At most PYR_THREADS_LOOK_SPANS
 * spans. */
enum { PYR_THREADS_LOOK_SPANS = 1022 };
int pyr_threads_look_add(const pyr_threads *threads, pyr_batch *batch);
PYR_MUST_USE pyr_status pyr_threads_look_take(pyr_threads *threads, const pyr_batch *batch,
                                              int first, bool *changed);

/* Walks all lists again. PYR_OK; PYR_ETORN: a list changed meanwhile, the old one stays and the
 * next look says changed; PYR_ENOMEM; PYR_ETOOBIG: the first PYR_LIMIT_THREADS are kept. */
PYR_MUST_USE pyr_status pyr_threads_update(pyr_threads *threads);

/* The thread states found by the last update. Valid until the next one. */
size_t pyr_threads_count(const pyr_threads *threads);
const pyr_thread_ref *pyr_threads_get(const pyr_threads *threads, size_t index);

/* Index of a thread state, or -1. */
int64_t pyr_threads_find(const pyr_threads *threads, pyr_addr state);

/* The GILs as of the last look or update. */
size_t pyr_threads_gil_count(const pyr_threads *threads);
const pyr_gil_ref *pyr_threads_gil(const pyr_threads *threads, size_t index);

/* The main interpreter (the last of the list: new ones are put in front), 0 before an update. */
pyr_addr pyr_threads_main_interpreter(const pyr_threads *threads);

/* System calls made for reading so far. */
uint64_t pyr_threads_calls(const pyr_threads *threads);

#endif
