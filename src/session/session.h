/* A session: every part of the agent, wired together for one process from one set of settings.
 *
 * new builds all parts and starts nothing; start and stop are the two threads' lives; free needs a
 * session that was stopped and came to rest. Calls come from session/process.c, one at a time,
 * except pyr_session_flush, _facts and _flush_from_signal, which any thread may make.
 */
#ifndef PYR_SESSION_SESSION_H
#define PYR_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/code_deaths.h"
#include "cpython/context.h"
#include "cpython/layout.h"
#include "model/facts.h"
#include "reader/reader.h"
#include "session/settings.h"

typedef struct pyr_session pyr_session;

/* What only the extension knows of the interpreter it is loaded in; all borrowed for ever. */
typedef struct pyr_host {
    pyr_addr runtime;                   /* &_PyRuntime */
    uint32_t version;                   /* Py_Version */
    pyr_addr code_type;                 /* &PyCode_Type */
    const pyr_code_deaths *code_deaths; /* NULL = not hooked */
    const pyr_label_source *labels;     /* what the program says of itself; NULL = nothing */
    const char *executable;             /* path, NULL = unknown */
    const char *python;                 /* "3.13.0" */
    const char *stdlib;                 /* folder of the standard library; "" = unknown */
    const char *library_paths;          /* sys.path, parted by '\n' */
    const char *parent_runtime_id;      /* of the process that spawned this one, "" = unknown */
    const char *program;                /* path of the script, or name of the module, run */
    bool is_module;                     /* ... by -m */
    bool tells_of_raises; /* it has sys.monitoring, and python/_native/exception_hook.c hooks it */
    /* Not NULL: the program forks workers behind CPython's back (uWSGI). Called in such a child, by
     * its only thread: tells the interpreter what it ought to know of the fork. */
    void (*adopt_fork)(void);
    /* The child of a fork has started its session, or has none, some time after the hook that runs
     * there: what is left to do in Python has to be asked for. Any thread, with or without the GIL.
     */
    void (*announce_start)(void);
    /* Compares the layout with the real headers: NULL, or the name of the first wrong field. */
    const char *(*selfcheck)(const pyr_layout *layout);
    const struct pyr_memory_host *memory; /* collect/memory_host.h; NULL = no hooks */
    /* Starts, stops, sets: session/control.h. */
    pyr_status (*control)(const char *const *words, size_t count, char *error, size_t error_size);
    /* Tells Python that log lines wait; called on the scheduler's thread, without the GIL. */
    void (*announce_lines)(void);
} pyr_host;

/* How a session comes to be in the child of a fork. */
typedef struct pyr_birth {
    const pyr_session *parent; /* session of the process that this one was forked from, or NULL */
    bool since_fork;           /* what this process used since then is part of the first window */
} pyr_birth;

/* Builds a session; `settings` are copied. On failure `why` gets one sentence for the user:
 * PYR_EVERSION (this Python is not supported), PYR_EPERM, PYR_ENOENT (nothing to collect, or
 * nowhere to put it), PYR_EBAD, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_session_new(const pyr_settings *settings, const pyr_host *host,
                                        const pyr_birth *birth, pyr_session **session, char *why,
                                        size_t why_size);

/* Frees a stopped session, or in the child of a fork its parent's. False: a thread may still use
 * it, in a hook or in a delivery that hangs, and nothing was done; try again later. NULL is fine.
 */
PYR_MUST_USE bool pyr_session_free(pyr_session *session);

/* Starts collectors and scheduler. A collector that cannot start is off, and the log says so.
 * PYR_ETHREAD. */
PYR_MUST_USE pyr_status pyr_session_start(pyr_session *session, char *why, size_t why_size);

/* Stops the collectors, delivers the last window if `flush`, ends the threads; all until the
 * monotonic `deadline_ns`. */
void pyr_session_stop(pyr_session *session, bool flush, int64_t deadline_ns);

/* Threads that it has now. */
size_t pyr_session_threads(const pyr_session *session);

/* Ends the threads for a moment, and start begins them again: nothing is lost but the time between.
 * False: it delivers just now, and nothing was done. */
PYR_MUST_USE bool pyr_session_pause(pyr_session *session);

/* Delivers the current window. PYR_OK, PYR_EBUSY (not by the deadline, or no target takes it yet:
 * it is kept), PYR_ECLOSED. */
PYR_MUST_USE pyr_status pyr_session_flush(pyr_session *session, int64_t deadline_ns);
PYR_HOOK_SAFE void pyr_session_flush_from_signal(pyr_session *session, int64_t deadline_ns);

/* Everything known of the session, for status(). */
void pyr_session_facts(pyr_session *session, pyr_facts *facts);

/* "pyrometer 0.1.0 is on: stack; to ...": the one start line. */
void pyr_session_describe(const pyr_session *session, char *text, size_t size);

const pyr_settings *pyr_session_settings(const pyr_session *session);
const char *pyr_session_runtime_id(const pyr_session *session);

/* Around fork. Its threads do not live in the child, where the session is good only to be the
 * parent of a new one and then to be freed. */
void pyr_session_prefork(pyr_session *session);
void pyr_session_postfork_parent(pyr_session *session);
void pyr_session_postfork_child(pyr_session *session);

#endif
