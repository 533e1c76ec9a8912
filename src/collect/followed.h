/* A thread that the stack collector follows: its accounts of CPU and wall time, and its open run.
 *
 * Every nanosecond of a thread's wall time goes to exactly one sample, and every nanosecond of its
 * CPU clock too (docs/design: where CPU time is put). A run is a stretch in which the thread was
 * seen with the same stack in the same state; it becomes one sample. One thread at a time.
 */
#ifndef PYR_COLLECT_FOLLOWED_H
#define PYR_COLLECT_FOLLOWED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/spending.h"
#include "model/sample.h"
#include "model/symbols.h"
#include "unwind/snapshot.h"
#include "unwind/threads.h"

/* A stack that is kept. */
typedef struct pyr_kept_stack {
    pyr_frame *frames; /* leaf first, owned */
    uint32_t count, capacity, omitted;
    uint32_t exception; /* string, 0 = none */
    uint32_t labels;    /* string: the program's label set, 0 = none */
} pyr_kept_stack;

/* What a look at an idle thread touches stands in front, on as few lines of the cache as it can. */
typedef struct pyr_followed {
    pyr_thread_ref ref;
    uint32_t name;       /* string of the symbol table, 0 = not known yet */
    bool listed;         /* found by the last update of the list */
    bool active;         /* its clock moved at the last look */
    bool settled;        /* blocked: valid as long as its clock stands still */
    uint8_t unsure;      /* sights in a row that could not tell whether it had a CPU */
    bool shares_thread;  /* other interpreters have states of the same kernel thread */
    bool keeps_account;  /* ... and this one keeps the account of its CPU */
    int64_t cpu_ns;      /* its clock at the last look, -1 = never looked */
    int64_t carry_ns;    /* CPU used and not yet put on a stack */
    int64_t on_cpu_ns;   /* CPU put on stacks and not yet matched by wall time "on-cpu" */
    int64_t seen_ns;     /* wall time is accounted for until here */
    int64_t look_ns;     /* next look of an idle thread */
    int64_t looked_ns;   /* time of the last look */
    int64_t back_off_ns; /* distance of such looks, at most */
    bool has_run;
    pyr_state state;                      /* of the open run */
    int64_t run_values[PYR_LIMIT_VALUES]; /* by the row of PYR_SAMPLE_KIND_STACK */
    pyr_kept_stack stack;                 /* of the open run; count 0 with has_run false = none */
    pyr_stack_plan plan;
    pyr_kept_stack blocker;     /* of who had the GIL while the open run waits for it */
    pyr_thread_ref blocker_ref; /* when blocker.count > 0 */
    uint32_t blocker_name;      /* string */
    /* Of who keeps the account: */
    pyr_spending spending;
    pyr_kept_stack busy; /* a stack seen on a CPU, which gets what is left over */
    bool has_busy;
} pyr_followed;

/* Where samples go and how they are labelled. */
typedef struct pyr_follow_context {
    pyr_sink sink;
    pyr_symbols *symbols;
    bool timeline;
    uint32_t state_names[PYR_STATES]; /* strings */
    pyr_frame unseen;                 /* "<CPU between samples>" */
    int64_t cpu_put_ns;               /* CPU of all samples given out: for the window's sum */
} pyr_follow_context;

/* What a good look saw. */
typedef struct pyr_sight {
    const pyr_frame *frames;
    uint32_t count, omitted;
    uint32_t exception;
    uint32_t labels;
    pyr_state state;       /* PYR_STATE_ON_CPU: splits into on-cpu and runnable here */
    bool spends;           /* CPU that is carried is put here: as much as this look stands for */
    int64_t stands_for_ns; /* time that a look which spends stands for, from 1 */
    int64_t now_ns;
    int64_t since_ns; /* wall time before this goes to the open run, after it to the new one */
} pyr_sight;

void pyr_followed_init(pyr_followed *thread, const pyr_thread_ref *ref, int64_t now_ns);
void pyr_followed_fini(pyr_followed *thread);

/* The thread was seen: closes the run if it differs and accounts. `account`: who keeps the account
 * of its CPU, mostly itself. PYR_ENOMEM: the sight is not noted, and its time goes to the next one.
 */
PYR_MUST_USE pyr_status pyr_followed_see(pyr_followed *thread, pyr_followed *account,
                                         const pyr_sight *sight, pyr_follow_context *context);

/* `holder` has the GIL that the thread, in an open run of waits for it, waits for. */
void pyr_followed_blame(pyr_followed *thread, const pyr_followed *holder);

/* It did not move until `now_ns`: the open run goes on. */
void pyr_followed_extend(pyr_followed *thread, int64_t now_ns, bool looked);

/* Gives out the open run, which goes on, and what CPU is left over if the thread was seen on a CPU
 * since the last cut; else it is carried on. */
void pyr_followed_cut(pyr_followed *thread, pyr_follow_context *context);

/* Gives out the open run and what CPU is left over; at the end of a window or of the thread. */
void pyr_followed_flush(pyr_followed *thread, pyr_follow_context *context);

/* Forgets stacks, whose names are of an old symbol table. Flush first. */
void pyr_followed_forget(pyr_followed *thread);

#endif
