/* CPU time of what is not a Python thread, so that a window adds up to the process's CPU clock:
 * threads of C libraries, the profiler's own threads, and threads too short-lived to be seen.
 *
 * All tasks of the process are read once a window. One thread at a time.
 */
#ifndef PYR_COLLECT_TASKS_H
#define PYR_COLLECT_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/followed.h"

typedef struct pyr_tasks pyr_tasks;

/* Notes what every task has used until now. NULL: out of memory. */
pyr_tasks *pyr_tasks_new(void);
void pyr_tasks_free(pyr_tasks *tasks);

/* Gives out what all tasks used before pyr_tasks_new. Once, right after it. */
void pyr_tasks_give_past(const pyr_tasks *tasks, int64_t now_ns, pyr_follow_context *context);

/* CPU of a task as of the last call of pyr_tasks_account, 0 for a task that came later. */
int64_t pyr_tasks_before(const pyr_tasks *tasks, int64_t native_id);

/* Gives out what tasks used since the last time, but for those that `is_followed` claims (they
 * account for themselves), and then what is still missing from the process's clock. */
void pyr_tasks_account(pyr_tasks *tasks, bool (*is_followed)(const void *owner, int64_t native_id),
                       const void *owner, int64_t now_ns, pyr_follow_context *context);

/* CPU of the profiler's own threads in the last account. */
int64_t pyr_tasks_own_ns(const pyr_tasks *tasks);

#endif
