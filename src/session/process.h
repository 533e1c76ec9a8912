/* The one session of this process: start and stop, forks, SIGTERM. Any thread may call, with or
 * without the GIL; nothing here takes the GIL while it holds a lock.
 *
 * A fork leaves the child with nothing running: pyr_process_resume has it started again there soon,
 * called from a hook that runs after every fork CPython knows of. A child made behind CPython's
 * back resumes at the first call of any function here; until then it is as if it were not profiled.
 */
#ifndef PYR_SESSION_PROCESS_H
#define PYR_SESSION_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "session/identity.h"
#include "session/session.h"

/* Starts the session of this process. PYR_EEXIST: one is running; PYR_ELEFTOUT: PROCESS_PCT leaves
 * this process out, and its children draw lots of their own; else as pyr_session_new and
 * pyr_session_start. `line` gets the start line, or one sentence on failure. */
PYR_MUST_USE pyr_status pyr_process_start(const pyr_settings *settings, const pyr_host *host,
                                          char *line, size_t line_size);

/* Stops it, after a last delivery if `flush`, within EXIT_TIMEOUT. Nothing running is fine. */
void pyr_process_stop(bool flush);

/* A child of a fork is about to end without another word (os._exit): as pyr_process_stop with a
 * last delivery. Does nothing in any other process, which has other ways to end. */
void pyr_process_end_child(void);

/* The program has set an action of SIGTERM: where that is the default, and a session runs, it is
 * handled again. */
void pyr_process_watch_termination(void);

/* Delivers the current window within `timeout_ns`. PYR_OK, PYR_EBUSY (it is not delivered yet),
 * PYR_ECLOSED (not running). */
PYR_MUST_USE pyr_status pyr_process_flush(int64_t timeout_ns);

/* Adds the facts of the running session. False: nothing runs; a process that was left out has a
 * fact that says so. */
bool pyr_process_facts(pyr_facts *facts);

/* The runtime id of the session that runs, else of the one that this process was forked from.
 * False: there is none. */
bool pyr_process_runtime_id(char id[PYR_LIMIT_RUNTIME_ID]);

/* Around a fork that would be the program's first reason to be warned of threads: CPython counts
 * them, ours too. If the calling thread is the only one beside ours, they are ended before the fork
 * and begun again after it. Both do nothing where that does not help. */
void pyr_process_pause(void);
void pyr_process_unpause(void);

/* In the child of a fork: plans the start of a session with its parent's settings, if that had
 * one; see late_start.h. What the child uses until then is part of its first window. */
void pyr_process_resume(void);

/* From the SIGTERM handler: delivers the last window until the monotonic `deadline_ns`. */
PYR_HOOK_SAFE void pyr_process_flush_from_signal(int64_t deadline_ns);

#endif
