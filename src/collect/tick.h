/* One tick of the stack collector: whom to look at, what they do, whose time it was.
 *
 * The looks are rationed. Read always: who holds each GIL. Looked at each tick: the holder and
 * threads whose CPU clock moved lately. The others: when CPU is unexplained, a few a tick, and each
 * at its own back-off, at most PYR_TICK_OLDEST_NS apart. A look is one read of the CPU clock; only
 * when it moved is the stack read. The caller serialises everything by one lock.
 */
#ifndef PYR_COLLECT_TICK_H
#define PYR_COLLECT_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/collector.h"
#include "model/facts.h"
#include "unwind/own_stack.h"

typedef struct pyr_tick pyr_tick;

enum { PYR_TICK_OLDEST_NS = 900000000 };

/* Borrows what the context points to. NULL: out of memory. */
pyr_tick *pyr_tick_new(const pyr_collect_context *context);
void pyr_tick_free(pyr_tick *tick);

/* Notes where all clocks stand: collecting begins now. PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_tick_begin(pyr_tick *tick);

/* The calling thread is the one that will run ticks. It leaves the program's table of descriptors
 * (os/task_files.h). */
void pyr_tick_enter(pyr_tick *tick);

/* One tick. `interval_ns` is the distance of ticks now, `own_ns` the CPU that the last tick cost.
 * PYR_ECLOSED: the interpreter is being finalized, look no more. PYR_EFAULT: nothing could be read,
 * which is counted as a loss; the next tick may. */
PYR_MUST_USE pyr_status pyr_tick_run(pyr_tick *tick, int64_t interval_ns, int64_t own_ns,
                                     uint64_t random);

/* The next tick looks at that thread, however idle it was. `tick`: a pyr_tick. */
void pyr_tick_hurry(void *tick, pyr_addr thread_state);

/* Where it stood at the last tick, with names of the tick's table, into the caller's storage, all
 * but the epoch; false: it was not looked at. */
bool pyr_tick_stack_of(const pyr_tick *tick, pyr_addr thread_state, pyr_own_stack *stack);

/* Gives out everything that is open, up to now, so that the window adds up. */
void pyr_tick_flush(pyr_tick *tick);

/* The same for a recording that may never end: what is left in the accounts of threads that were
 * not seen on a CPU lately stays there. */
void pyr_tick_checkpoint(pyr_tick *tick);

/* Takes names from `symbols` from now on; flush first. */
void pyr_tick_renew_symbols(pyr_tick *tick, pyr_symbols *symbols);

/* After a fork, in the child: the parent's threads and clocks are forgotten. */
void pyr_tick_fork_child(pyr_tick *tick);

/* CPU of the process at the last tick, for the budget. */
int64_t pyr_tick_process_ns(const pyr_tick *tick);

/* Adds facts: counts since the last call with `reset`. */
void pyr_tick_facts(pyr_tick *tick, pyr_facts *facts, bool reset);

#endif
