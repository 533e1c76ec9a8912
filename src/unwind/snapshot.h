/* A consistent copy of one thread's stack.
 *
 * One call copies everything twice, nested: [thread state, frames outside the data stack, data
 * stack, current frame, data stack, frames outside, thread state]. The copy is accepted when both
 * agree on every link, and the current frame is the same before, between and after, so that no
 * caller is paired with a callee that it did not call. What to copy is remembered
 * from the last visit (the plan); where it does not fit any more, it is learned again by a plain
 * chase, which is not trusted, and the copy is taken anew. Reading the top again after a chase is
 * not a check: most of what it accepts is impossible.
 *
 * Frames outside the data stack are those of generators and coroutines, and, from 3.12 on, the
 * entry frames that the interpreter keeps on the C stack.
 */
#ifndef PYR_UNWIND_SNAPSHOT_H
#define PYR_UNWIND_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/layout.h"
#include "reader/reader.h"
#include "unwind/plan.h"
#include "unwind/threads.h"

typedef struct pyr_raw_frame {
    pyr_addr code;
    pyr_addr instr; /* the field as it is: prev_instr or instr_ptr */
    bool of_generator;
} pyr_raw_frame;

/* What one copy says; pointers lead into the batch and live until its next clear. */
typedef struct pyr_snapshot {
    pyr_raw_frame *frames;    /* visible frames, leaf first: caller's storage */
    uint32_t capacity;        /* of frames */
    uint32_t count;           /* frames filled */
    uint32_t omitted;         /* visible frames beyond capacity */
    bool holds_gil;           /* proved: held before and after, and not given away between */
    bool gil_free;            /* nobody held it, before and after */
    bool gil_requested;       /* 3.15: it waits for the GIL */
    bool rooted;              /* false: too deep to reach the root, `omitted` is a lower bound */
    pyr_addr exception_info;  /* top of the exception stack */
    pyr_addr exception;       /* value being handled in that entry, 0 = none or not copied */
    pyr_addr exception_below; /* next entry of the exception stack, 0 = none */
    bool exception_copied;    /* the two above are known */
    pyr_addr context;         /* the thread's context, 0 = none */
    bool context_moved;       /* it was another one before */
    int label_spans;          /* first span of the plan's path to the labels */
    const uint8_t *leaf;      /* copied bytes of the leaf frame, when it is the current one */
    size_t leaf_length;
    pyr_addr leaf_addr;
    int cpu;               /* that the thread runs or ran on last, -1 = not known */
    bool leaf_stable;      /* the leaf's instruction is the same in both copies */
    pyr_blank_call *blank; /* in, of the thread's plan; may be NULL */
    bool barely_ran;       /* in: since the last visit, so what is blank may still be */
} pyr_snapshot;

typedef struct pyr_snapshot_spans { /* where a thread's spans lie in the batch */
    int first;
} pyr_snapshot_spans;

/* Adds the spans of one thread to the batch. PYR_ETOOBIG: they do not fit behind what is there. */
PYR_MUST_USE pyr_status pyr_snapshot_add(pyr_batch *batch, const pyr_layout *layout,
                                         const pyr_thread_ref *ref, const pyr_stack_plan *plan,
                                         pyr_snapshot_spans *spans);

/* What shows that a stack is one, beside the equality of its two copies. A program that calls in a
 * tight loop can come round between them. */
typedef enum pyr_snapshot_proof {
    PYR_PROOF_BOTH,  /* the two below */
    PYR_PROOF_ALIVE, /* its frames look alive: what ended frames leave stays as it was. Some rare
                        states of live frames do not (and 3.14+ tells it of few) */
    PYR_PROOF_STILL, /* the current frame was the same before, between and after the copies, at the
                        same instruction in both, which code that calls every few nanoseconds
                        seldom allows */
} pyr_snapshot_proof;

/* Judges the copies after the batch was read. PYR_OK: `out` holds the stack. PYR_ETORN: it moved;
 * `out` holds the callers that stayed where they were, none if count is 0, and all else but the
 * leaf; try again. PYR_EPARTIAL: the plan did not cover it; pyr_stack_plan_learn, then try again.
 * PYR_ENOENT: no such thread state any more (or another one at its place). */
PYR_MUST_USE pyr_status pyr_snapshot_check(const pyr_batch *batch, const pyr_layout *layout,
                                           const pyr_thread_ref *ref, const pyr_stack_plan *plan,
                                           pyr_snapshot_spans spans, pyr_snapshot_proof proof,
                                           pyr_snapshot *out);

#endif
