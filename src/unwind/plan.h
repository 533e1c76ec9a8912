/* What to copy of one thread's stack: where its pieces lie, as its last visit found them.
 *
 * Learned by a plain chase, which nobody believes but the next copy. One thread at a time.
 */
#ifndef PYR_UNWIND_PLAN_H
#define PYR_UNWIND_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/context.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "reader/reader.h"
#include "unwind/codes.h"
#include "unwind/threads.h"

/* Links remembered: each entry from C has its own, and a program that runs generators from C goes
 * back and forth between a few. */
enum { PYR_STACK_LINKS = 4 };

enum {
    PYR_STACK_CHUNK_HEADER = 24, /* previous, size, top of _PyStackChunk */
    PYR_STACK_OUTSIDE = 400,     /* frames elsewhere: two copies of all fit into a batch */
};

/* Where a leaf stood when it turned out to be in no call of C: most threads that wait for the GIL
 * stand behind a call that has ended, and finding this out again costs several reads. */
typedef struct pyr_blank_call {
    pyr_addr leaf, instr, callee; /* callee: what lies where it would be */
    uint8_t reused;               /* times in a row */
} pyr_blank_call;

/* A frame as the last visit named it, which spares most look-ups: callers seldom change. */
typedef struct pyr_named_frame {
    pyr_addr code, instr;
    pyr_frame frame;
    bool of_generator, hidden;
} pyr_named_frame;

/* What to copy of one thread: kept between visits. */
typedef struct pyr_stack_plan {
    struct pyr_stack_piece {
        pyr_addr addr;   /* a data-stack chunk, newest first */
        uint32_t length; /* bytes from its start, header included */
    } * pieces;
    pyr_addr *outside;               /* frames elsewhere, leaf first */
    pyr_addr links[PYR_STACK_LINKS]; /* to the current frame, on versions that have them */
    pyr_addr exception;              /* top of the exception stack */
    pyr_context_path labels;         /* what leads to its label set; empty = nothing to copy */
    uint16_t piece_count, piece_capacity;
    uint16_t outside_count, outside_capacity;
    bool deep; /* deeper than what is copied: only its upper end is */
    pyr_blank_call blank;
    pyr_named_frame *named;      /* of the last visit, root first */
    pyr_codes_stamp named_since; /* they hold as long as this does */
    uint16_t named_count, named_capacity;
} pyr_stack_plan;

void pyr_stack_plan_fini(pyr_stack_plan *plan);

/* How many frames can be in what a plan copies: a walk of more goes round in a circle. */
size_t pyr_stack_plan_most_frames(const pyr_layout *layout, const pyr_stack_plan *plan);

/* Renews the plan by a chase; `scratch` is cleared and used. Frames that the old plan knew outside
 * the data stack stay in it up to a bound: a generator that runs now and then is among them.
 * PYR_OK, PYR_EFAULT (moved under us: try again), PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_stack_plan_learn(pyr_reader *reader, pyr_batch *scratch,
                                             const pyr_layout *layout, const pyr_thread_ref *ref,
                                             pyr_stack_plan *plan);

#endif
