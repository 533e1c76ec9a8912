/* Files of /proc about this process's tasks, held open: reading one again costs a third of opening
 * it anew, which is more than all the rest of a tick.
 *
 * Descriptors of the program's table would be seen by it, closed by it and inherited from it, so
 * the thread that reads leaves that table and has one of its own (pyr_os_own_descriptors), which
 * ends with it. Where that is not to be had, each file is opened, read and closed at once. One
 * thread only: the one that called pyr_task_files_begin last.
 */
#ifndef PYR_OS_TASK_FILES_H
#define PYR_OS_TASK_FILES_H

#include <stdint.h>

#include "base/status.h"
#include "os/task.h"

typedef struct pyr_task_files pyr_task_files;

/* NULL: out of memory. */
pyr_task_files *pyr_task_files_new(void);

/* Frees the memory; descriptors end with the thread that began. */
void pyr_task_files_free(pyr_task_files *files);

/* The calling thread leaves the program's descriptor table; what an earlier thread held is
 * forgotten. For threads of ours only: the program's descriptors are gone for it. PYR_OK;
 * PYR_ENOTSUP: it shares the table as before, and everything below still answers. */
pyr_status pyr_task_files_begin(pyr_task_files *files);

/* As pyr_os_task_count: about 0.5 us. */
uint64_t pyr_task_files_count(pyr_task_files *files);

/* As pyr_os_task_wait. */
pyr_task_wait pyr_task_files_wait(pyr_task_files *files, int64_t task, uintptr_t *futex);

/* As pyr_os_task_ran_ns. */
int64_t pyr_task_files_ran_ns(pyr_task_files *files, int64_t task);

#endif
