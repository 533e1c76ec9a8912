/* The door through which a running profiler is asked and steered from outside: `pyrometer ctl`.
 *
 * One thread waits for connections and does nothing else; it stays when the profiler was stopped
 * through this door, so that it can be started again, and goes when the program itself stops it.
 * The socket's name is pyr_control_name of the process. A request is words parted by zero bytes;
 * the answer is one JSON object of sections (as status() has them) with a section "answer": "ok" 1
 * or 0, "running" 1 or 0, "error" where something is wrong.
 *
 * Called by session/process.c, one call at a time, but for what says otherwise.
 */
#ifndef PYR_SESSION_CONTROL_H
#define PYR_SESSION_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/facts.h"
#include "os/local_socket.h"

enum { PYR_CONTROL_REQUEST_BYTES = 16384, PYR_CONTROL_WORDS = 64, PYR_CONTROL_ERROR_BYTES = 256 };

/* The name of the socket of a process. */
void pyr_control_name(const pyr_local_process *process, char name[PYR_LIMIT_SOCKET_NAME]);

/* What needs Python: starts, stops, sets. Called on the control thread without the GIL; words[0] is
 * "start", "stop" or "set", the others NAME=VALUE that were checked. PYR_OK; else `error` is one
 * sentence. */
typedef pyr_status (*pyr_control_command)(const char *const *words, size_t count, char *error,
                                          size_t error_size);

/* Begins to listen, or goes on doing so. PYR_EEXIST, PYR_EPERM, PYR_ENOENT, PYR_EIO, PYR_ETHREAD,
 * PYR_EBUSY: there is no door. */
PYR_MUST_USE pyr_status pyr_control_start(pyr_control_command command);

/* Ends the thread; one that is busy with a request for longer than a moment ends by itself after
 * it. Does nothing on the control thread itself: what was stopped from outside can be started
 * again. */
void pyr_control_stop(void);

/* Whether it listens. It then has one thread. */
bool pyr_control_is_on(void);

/* True on the control thread. */
bool pyr_control_is_self(void);

/* Whether NAME=VALUE may be set while the process runs: false, and one sentence. */
bool pyr_control_check(const char *word, char *why, size_t why_size);

/* In the child of a fork: the door is the parent's. */
PYR_HOOK_SAFE void pyr_control_fork_child(void);

#endif
