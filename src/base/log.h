/* Log lines of native threads, queued until Python takes them to its logger.
 *
 * One queue a process, in static memory: adding a line allocates nothing and never calls Python.
 * At most PYR_LIMIT_LOG_LINES wait; more are counted and told in one line. A line that says the
 * same as one of the last minute (digits apart) is counted instead of queued.
 */
#ifndef PYR_BASE_LOG_H
#define PYR_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The numbers of Python's logging module. */
typedef enum pyr_log_level {
    PYR_LOG_DEBUG = 10,
    PYR_LOG_INFO = 20,
    PYR_LOG_WARNING = 30,
    PYR_LOG_ERROR = 40,
} pyr_log_level;

enum { PYR_LOG_TEXT_BYTES = 512 }; /* of a line, its NUL included; longer ones are cut */

/* Queues a printf-formatted line. Any thread; not hook safe (it formats and takes a lock, held
 * for a copy only). */
void pyr_log_add(pyr_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for a line that the caller says once: it is never taken for another one's repetition,
 * as lines about several threads are that differ by their numbers only. */
void pyr_log_add_anyway(pyr_log_level level, const char *line_text);

/* Moves the oldest line to the caller (NUL-terminated valid UTF-8, cut to `size`): 1, or 0 when
 * none waits. Any thread. */
int pyr_log_take(pyr_log_level *level, char *text, size_t size);

/* Lines that wait to be taken. Any thread. */
size_t pyr_log_waiting(void);

/* Lines that were not queued because the queue was full, since the process began. */
uint64_t pyr_log_dropped(void);

/* After a fork, in the child: the parent's lines are the parent's. */
PYR_HOOK_SAFE void pyr_log_fork_child(void);

#endif
