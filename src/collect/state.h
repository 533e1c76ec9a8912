/* What a thread is doing, in one word: from the GIL, the C function being called, and, where these
 * do not tell, the system call it is blocked in. Pure but for that one look. */
#ifndef PYR_COLLECT_STATE_H
#define PYR_COLLECT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/cpu_wait.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "model/symbols.h"
#include "os/task_files.h"
#include "unwind/unwind.h"

typedef struct pyr_state_evidence {
    const pyr_visit *visit;
    const pyr_symbols *symbols; /* of the visit's frames */
    bool moved;                 /* its CPU clock advanced since the last look */
    bool busy;                  /* ... by at least half of the time since then */
    pyr_cpu_wait cpu;           /* whether it has a CPU */
    bool believe;               /* ... where that cannot be told: take it for running */
    bool may_ask;               /* the budget allows asking the kernel */
    bool goes_on;               /* it waited for the GIL, and stands where it stood, in no call */
    /* Asks the kernel (pyr_task_files_wait); a function so that tests can answer. */
    pyr_task_wait (*ask)(pyr_task_files *files, int64_t task, uintptr_t *futex);
    pyr_task_files *files;
    pyr_addr gil_waits_from, gil_waits_to; /* futex words of the GIL; equal = unknown */
} pyr_state_evidence;

typedef struct pyr_state_verdict {
    pyr_state state; /* PYR_STATE_ON_CPU stands for runnable too: the accounts tell these apart */
    bool spends;     /* seen where it uses CPU: what it used is put on this stack */
    bool settled;    /* blocked: as long as its CPU clock stands still it stays so */
    bool asked;      /* the kernel was asked */
} pyr_state_verdict;

pyr_state_verdict pyr_state_judge(const pyr_state_evidence *evidence);

#endif
