/* The enabled collectors of a session: made, started, flushed, held over a fork and freed together.
 *
 * A collector that cannot be had is off, with the reason, and the others go on. One in whose code
 * an earlier process of the program ended (session/guard.h) is off at first and comes on later, by
 * pyr_collecting_resume.
 *
 * A part of its session, which owns what the context borrows. Calls come under the session's
 * gather lock, except those of building and freeing, start, and where said.
 */
#ifndef PYR_SESSION_COLLECTING_H
#define PYR_SESSION_COLLECTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/collector.h"
#include "model/facts.h"
#include "session/guard.h"
#include "session/settings.h"

enum { PYR_COLLECTING_SLOTS = 16, PYR_COLLECTING_WHY_BYTES = 256 };

typedef struct pyr_collecting_slot { /* an enabled collector */
    const pyr_collector_class *class;
    void *collector; /* NULL: not made */
    _Atomic bool running;
    bool unsupported;   /* this Python has nothing for it: no line in the log */
    int64_t resumes_ns; /* monotonic: when it is made after all; 0 = is not held back */
    char why[PYR_COLLECTING_WHY_BYTES]; /* it does not run */
} pyr_collecting_slot;

typedef struct pyr_collecting { /* all zeros: no collectors */
    pyr_collect_context context;
    pyr_guard *guard;
    pyr_collecting_slot slots[PYR_COLLECTING_SLOTS];
    size_t count;
    bool started; /* and not stopped again */
} pyr_collecting;

/* What can be done about a part that could not be made, where that is known. Static storage. */
const char *pyr_collecting_explain(pyr_status status);

/* Makes the collectors that settings switch on. `context` is copied, what it points to borrowed,
 * with the guard, which may be NULL. Good if one could be made or is held back; else the first
 * reason, with `why` for the user: PYR_ENOENT (all are switched off), PYR_ENOMEM (also where others
 * could be made), or a collector's own. */
PYR_MUST_USE pyr_status pyr_collecting_create(pyr_collecting *collecting,
                                              const pyr_collect_context *context,
                                              const pyr_settings *settings, pyr_guard *guard,
                                              char *why, size_t why_size);

/* Whether a hook still uses one of them; then nothing may be freed. Any thread. */
bool pyr_collecting_is_in_use(const pyr_collecting *collecting);

/* Stopped before. */
void pyr_collecting_destroy(pyr_collecting *collecting);

/* Starts them; the log says which could not. PYR_OK: one runs, or will; else PYR_ETHREAD with
 * `why`, also where one lacked a thread or memory, since so would the rest: the caller stops. */
PYR_MUST_USE pyr_status pyr_collecting_start(pyr_collecting *collecting, char *why,
                                             size_t why_size);
void pyr_collecting_stop(pyr_collecting *collecting);

/* Makes and starts those whose time has come; true: there were some. `symbols` are the current
 * ones. Not after a stop. */
bool pyr_collecting_resume(pyr_collecting *collecting, pyr_symbols *symbols);

void pyr_collecting_flush(pyr_collecting *collecting);
void pyr_collecting_checkpoint(pyr_collecting *collecting);
void pyr_collecting_renew_symbols(pyr_collecting *collecting, pyr_symbols *symbols);
void pyr_collecting_facts(const pyr_collecting *collecting, pyr_facts *facts,
                          pyr_facts_occasion occasion);

/* Kinds of the samples that there are, or will be. Any thread. */
uint32_t pyr_collecting_kinds(const pyr_collecting *collecting);

/* Threads that they have now; names of those that run, "stack, memory". Any thread. */
size_t pyr_collecting_threads(const pyr_collecting *collecting);
void pyr_collecting_names(const pyr_collecting *collecting, char *text, size_t size);

void pyr_collecting_prefork(pyr_collecting *collecting);
void pyr_collecting_postfork_parent(pyr_collecting *collecting);
void pyr_collecting_postfork_child(pyr_collecting *collecting);

#endif
