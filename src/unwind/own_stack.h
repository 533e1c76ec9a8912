/* The stack of the calling thread, for hooks: walked directly, named from a table of its own.
 *
 * A thread that runs a hook cannot move meanwhile, and its frames keep their code objects alive, so
 * nothing is copied and nothing proved: the frames are followed where they lie. What has not
 * changed since the last walk is known from it, as long as no code object has died. Names of other
 * code objects seen before come from a bounded table, valid by the scheme of cpython/code_deaths.h;
 * new ones are read from the code object on the spot and take symbols from room that was reserved
 * (pyr_own_stacks_tend). Where there is none left, a frame is "<name not known>", and counted.
 *
 * Any thread, by try-lock, in process only. Lock rank PYR_LOCK_OWN_STACK.
 */
#ifndef PYR_UNWIND_OWN_STACK_H
#define PYR_UNWIND_OWN_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "cpython/code_deaths.h"
#include "cpython/context.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "model/symbols.h"

typedef struct pyr_own_stacks pyr_own_stacks;

/* One stack, in the caller's storage. */
typedef struct pyr_own_stack {
    const pyr_symbols *symbols; /* the table of all ids in it: goes into the sample */
    uint64_t epoch;             /* of that table; one that is not current may be gone */
    uint32_t count;
    uint32_t omitted;                   /* frames beyond the most, at the root end */
    uint64_t thread_id;                 /* pthread id */
    uint64_t thread_native_id;          /* kernel id */
    uint32_t thread_name;               /* string; 0 = not told yet: the encoder finds it */
    uint32_t labels;                    /* string: the program's label set, 0 = none */
    pyr_frame frames[PYR_LIMIT_FRAMES]; /* leaf first; the first `count` are filled */
} pyr_own_stack;

/* The part of a stack at the leaf, for where a whole one takes too much room. */
enum { PYR_SHORT_STACK_FRAMES = 64 };
typedef struct pyr_short_stack {
    const pyr_symbols *symbols;
    uint64_t epoch, thread_id, thread_native_id;
    uint32_t thread_name, labels, count, omitted; /* frames that did not fit are omitted */
    pyr_frame frames[PYR_SHORT_STACK_FRAMES];
} pyr_short_stack;

PYR_HOOK_SAFE void pyr_short_stack_keep(pyr_short_stack *to, const pyr_own_stack *stack);
PYR_HOOK_SAFE void pyr_short_stack_give(const pyr_short_stack *from, pyr_own_stack *stack);

typedef struct pyr_own_stack_stats {
    uint64_t walks;   /* stacks given */
    uint64_t busy;    /* stacks refused: another thread held the lock */
    uint64_t frames;  /* in those stacks */
    uint64_t misses;  /* of them, not in the table */
    uint64_t unnamed; /* of them, given as "<name not known>" */
} pyr_own_stack_stats;

/* Borrows all but the symbols, of which it takes a share: those of a walk are there until the table
 * was renewed twice more. `code_type` is the address of PyCode_Type.
 * `deaths` may be NULL: then nothing is remembered. NULL: out of memory. */
pyr_own_stacks *pyr_own_stacks_new(const pyr_layout *layout, pyr_addr code_type,
                                   const pyr_code_deaths *deaths, pyr_symbols *symbols,
                                   unsigned max_frames);
void pyr_own_stacks_free(pyr_own_stacks *stacks);

/* Names go to `symbols` from now on. Waits for a walk at most; not from a hook. */
void pyr_own_stacks_renew(pyr_own_stacks *stacks, pyr_symbols *symbols);

/* The epoch of the table in use: a number that no other table of this process ever has. Who keeps a
 * stack for a while compares, and does not touch a table that may be gone. */
PYR_HOOK_SAFE uint64_t pyr_own_stacks_epoch(const pyr_own_stacks *stacks);

/* Makes room for names to come. Not hook safe; whoever may allocate calls it now and then: the
 * sampler at each tick, a hook that runs where malloc is allowed after a walk that found none. */
void pyr_own_stacks_tend(pyr_own_stacks *stacks);

/* Whether tending is due: a name found no room since the last time. */
PYR_HOOK_SAFE int pyr_own_stacks_want_room(const pyr_own_stacks *stacks);

/* The name of a thread, by its kernel id (pthread ids are used again at once): the sampler tells
 * what it reads. `symbols` is the table of `name`: one that is not current any more is ignored. Not
 * from a hook. */
void pyr_own_stacks_name_thread(pyr_own_stacks *stacks, uint64_t native_id,
                                const pyr_symbols *symbols, uint32_t name);

/* The name told last of a thread; 0: none. Not from a hook. */
uint32_t pyr_own_stacks_thread_name(pyr_own_stacks *stacks, uint64_t native_id);

/* Where the program's labels are; borrowed. Before the first walk. */
void pyr_own_stacks_read_labels(pyr_own_stacks *stacks, const pyr_label_source *source);

/* Puts the labels that every sample of a hook has (thread id, native id, name, and the program's if
 * there are any) into `labels`, which has room for PYR_OWN_STACK_LABELS; returns how many. */
enum { PYR_OWN_STACK_LABELS = 4 };
PYR_HOOK_SAFE uint32_t pyr_own_stack_labels(const pyr_own_stack *stack, pyr_label *labels);

/* The stack of the calling thread, whose thread state lies at `thread_state` (PyThreadState; the
 * caller has made sure that it is this thread's own, and not being freed; 0: it has none). PYR_OK:
 * *stack is filled, if with nothing else with "<no Python frame>"; PYR_EBUSY: counted, *stack is
 * empty. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_own_stack_walk(pyr_own_stacks *stacks,
                                                         pyr_addr thread_state,
                                                         pyr_own_stack *stack);

/* The same, of the leaf frame alone, if there is one; `has_caller` tells whether there is another
 * one below it. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_own_stack_leaf(pyr_own_stacks *stacks,
                                                         pyr_addr thread_state,
                                                         pyr_own_stack *stack, bool *has_caller);

/* What a walk costs, counted in walks of a bare stack: beneath forty frames nine times as much,
 * most of it for memory that the program has pushed out of the caches. For whoever has a budget:
 * a sixteenth of its samples is left, however deep a recursion is. */
enum { PYR_OWN_STACK_MOST_COST = 16 };
PYR_HOOK_SAFE static inline uint32_t pyr_own_stack_cost(const pyr_own_stack *stack)
{
    uint32_t frames = stack->count + stack->omitted;
    uint32_t cost = frames > 8 ? (frames - 4) / 4 : 1;
    return cost < PYR_OWN_STACK_MOST_COST ? cost : PYR_OWN_STACK_MOST_COST;
}

/* A frame of the calling thread, as it lies in memory. */
typedef struct pyr_own_frame {
    pyr_addr start;    /* of the frame itself */
    pyr_addr code;     /* PyCodeObject */
    pyr_addr locals;   /* the first of its local variables: object pointers */
    pyr_addr tag_mask; /* low bits of these that are no address */
} pyr_own_frame;

/* The topmost frames of the calling thread that run Python code, leaf first; returns how many. They
 * hold until the thread goes on. No lock. */
PYR_HOOK_SAFE uint32_t pyr_own_stack_frames(const pyr_own_stacks *stacks, pyr_addr thread_state,
                                            pyr_own_frame *frames, uint32_t most);

/* A string for a label of such a sample, in the table the stack is of; 0: no room, or a new table
 * since. */
PYR_HOOK_SAFE uint32_t pyr_own_stack_string(pyr_own_stacks *stacks, const pyr_own_stack *stack,
                                            const char *text, size_t length);

/* Counts so far. Any thread. */
PYR_HOOK_SAFE void pyr_own_stacks_stats(const pyr_own_stacks *stacks, pyr_own_stack_stats *stats);

/* Around a fork: the lock is held over it; in the child it is free, and what the table knows is
 * still true. */
void pyr_own_stacks_prefork(pyr_own_stacks *stacks);
void pyr_own_stacks_postfork_parent(pyr_own_stacks *stacks);
PYR_HOOK_SAFE void pyr_own_stacks_postfork_child(pyr_own_stacks *stacks);

#endif
