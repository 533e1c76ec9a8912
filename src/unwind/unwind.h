/* Stacks of many threads at once: frames by name, the C function being called, who holds the GIL.
 *
 * The unwinder reads all asked-for threads in waves, a few calls in all, and tries those that moved
 * again, up to PYR_LIMIT_TRIES times: giving up sooner would hide busy code. One thread at a time.
 */
#ifndef PYR_UNWIND_UNWIND_H
#define PYR_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/bytecode.h"
#include "cpython/code_deaths.h"
#include "cpython/context.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "model/symbols.h"
#include "reader/reader.h"
#include "unwind/snapshot.h"
#include "unwind/threads.h"

typedef struct pyr_unwinder pyr_unwinder;

/* One thread to look at, and what was seen. */
typedef struct pyr_visit {
    const pyr_thread_ref *ref; /* in */
    pyr_stack_plan *plan;      /* in, renewed */
    void *owner;               /* in: the caller's */
    bool barely_ran;           /* in: it used next to no CPU since its last visit */
    pyr_status status;         /* PYR_OK; PYR_ETORN: all of it moved, or a name was not sure;
                                  PYR_ENOENT: the thread state is gone; PYR_EFAULT; PYR_ENOMEM */
    const pyr_frame *frames; /* leaf first, with the native leaf; scratch of the unwinder. Where the
                                thread had moved on before its whole stack was proved, the leaf is
                                "<changing frames>", on the callers that stayed meanwhile */
    uint32_t count, omitted;
    bool rooted;
    uint32_t kept;           /* callers that stayed while the thread moved in its first try, visible
                                or hidden; they are in the plan, root first */
    int cpu;                 /* that it runs or ran on last, -1 = not known */
    bool holds_gil;          /* proved over the time of the copy */
    bool gil_free;           /* nobody held it, before and after */
    bool gil_requested;      /* 3.15: waits for the GIL */
    pyr_site_kind leaf_kind; /* what the leaf's instruction can be busy with */
    const char *native;      /* the C function being called, or NULL; scratch */
    bool still_blank;        /* its leaf stands in no call of C, where it stood at the last visit */
    uint32_t exception;      /* string: type of the exception being handled, 0 = none */
    uint32_t labels;         /* string: the program's label set (unwind/label_sets.h), 0 = none */
    uint32_t tries;
    uint32_t learned; /* how often its plan had to be learned again */
} pyr_visit;

typedef struct pyr_unwind_stats {
    uint64_t visits, tries, torn, no_root, unreadable, stale, learned, native_leaves;
    uint64_t changing;                  /* visits that could prove the callers only */
    uint64_t calls;                     /* system calls made for reading */
    uint64_t label_walks, label_unread; /* paths to labels learned again; labels not proved */
} pyr_unwind_stats;

/* Borrows all but keeps a share of nothing: `symbols` must outlive it or be renewed. `deaths` may
 * be NULL, and so may `labels`. NULL: out of memory. */
pyr_unwinder *pyr_unwinder_new(pyr_reader *reader, const pyr_layout *layout, pyr_addr code_type,
                               const pyr_code_deaths *deaths, const pyr_label_source *labels,
                               pyr_symbols *symbols, unsigned max_frames);
void pyr_unwinder_free(pyr_unwinder *unwinder);

/* Names go to `symbols` from now on; frames given out before do not hold any more. */
void pyr_unwinder_renew(pyr_unwinder *unwinder, pyr_symbols *symbols);

/* Visits `count` threads; `done` is called once for each, in any order, with its result. The first
 * call also makes a look at `looked` (pyr_threads_look; NULL: no look), whose *changed it gives
 * before `done` is called, and whose PYR_ECLOSED or PYR_EFAULT; then `done` is called no more. Else
 * PYR_OK. */
PYR_MUST_USE pyr_status pyr_unwinder_visit(pyr_unwinder *unwinder, pyr_threads *looked,
                                           bool *changed, pyr_visit *visits, size_t count,
                                           void (*done)(void *context, const pyr_visit *visit),
                                           void *context);

/* A frame of our own making, such as "<short-lived threads>". */
pyr_frame pyr_unwinder_synthetic(pyr_unwinder *unwinder, const char *name);

void pyr_unwinder_stats(const pyr_unwinder *unwinder, pyr_unwind_stats *stats);

#endif
