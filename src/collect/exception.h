/* The exception collector, as its hook in the interpreter sees it.
 *
 * The hook (python/_native/exception_hook.c) runs in the thread that raises, with the GIL of its
 * interpreter. It counts each raise where it happens (pyr_exception_count, one atomic subtraction);
 * only a sampled one goes further (pyr_exception_sample). An exception that passes through more
 * frames is told of only while it is the sampled one (pyr_exception_pending).
 */
#ifndef PYR_COLLECT_EXCEPTION_H
#define PYR_COLLECT_EXCEPTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "collect/countdown.h"
#include "reader/reader.h"

/* Raises until the next one to sample; far away while nothing is collected. */
extern pyr_countdown pyr_exception_countdown;
/* The exception object that was sampled last, while where it is caught is still open; 0 = none. */
extern _Atomic uintptr_t pyr_exception_pending;

/* One raise more; true: this one is sampled, and the caller must call pyr_exception_sample. */
PYR_HOOK_SAFE static inline bool pyr_exception_count(void)
{
    return pyr_countdown_hit(&pyr_exception_countdown);
}

PYR_HOOK_SAFE static inline bool pyr_exception_is_pending(const void *exception)
{
    return atomic_load_explicit(&pyr_exception_pending, memory_order_relaxed) ==
           (uintptr_t)exception;
}

typedef struct pyr_raise {
    pyr_addr thread_state; /* of the calling thread */
    pyr_addr exception;    /* the object: an identity, not read */
    const char *type;      /* module-qualified name, UTF-8 */
    size_t type_length;
    const char *message; /* UTF-8, NULL = none, or not wanted */
    size_t message_length;
    bool is_in_try; /* the raising frame has a handler around it */
} pyr_raise;

/* Whether the collector runs; whether it wants messages. Any thread. */
bool pyr_exception_is_on(void);
PYR_HOOK_SAFE bool pyr_exception_wants_messages(void);

/* Takes the stack of a sampled raise. Keeps the weight for the next one where that fails. */
PYR_HOOK_SAFE void pyr_exception_sample(const pyr_raise *raise);

/* The pending exception came to another frame, or to another place of one: the leaf of this
 * thread's stack. */
PYR_HOOK_SAFE void pyr_exception_pass(pyr_addr thread_state, const void *exception, bool is_in_try);

/* The pending exception's object is used for another one. */
PYR_HOOK_SAFE static inline void pyr_exception_forget(void)
{
    atomic_store_explicit(&pyr_exception_pending, 0, memory_order_relaxed);
}

/* After a sample, where malloc may be called: makes room for names that found none. Not hook safe.
 */
void pyr_exception_tend(void);

/* Says in facts how raises are seen: "sys.monitoring, tool 5", or why not. Static text, any thread.
 */
void pyr_exception_note_hook(const char *text);

#endif
