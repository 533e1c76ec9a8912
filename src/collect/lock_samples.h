/* What the lock collector gives to the sink, with its labels. Private to the lock collector.
 *
 * Hooks give from any thread; the words of the labels are those of the current symbol table, and
 * are filled before they are shown.
 */
#ifndef PYR_COLLECT_LOCK_SAMPLES_H
#define PYR_COLLECT_LOCK_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/collector.h"
#include "collect/lock.h"

typedef struct pyr_lock_words { /* strings of one table */
    const pyr_symbols *symbols;
    uint32_t types[PYR_LOCK_TYPES], mutex, park;
    uint32_t rest; /* function "<acquisitions between samples>" */
} pyr_lock_words;

typedef struct pyr_lock_samples {
    pyr_sink sink;
    int timeline;
    pyr_lock_words words[2];
    _Atomic unsigned words_at;
} pyr_lock_samples;

typedef struct pyr_lock_event {
    pyr_sample_kind kind;
    const pyr_own_stack *stack;
    pyr_lock_type type;
    bool waits, parks;
    uint64_t pair; /* 0 = none */
    uint32_t name; /* string; 0 = none */
    int64_t value, count;
    int64_t end_ns; /* 0 = without a place in time */
} pyr_lock_event;

/* Takes the words of a table. Not from a hook. */
void pyr_lock_samples_renew(pyr_lock_samples *samples, pyr_symbols *symbols);

PYR_HOOK_SAFE void pyr_lock_samples_give(pyr_lock_samples *samples, const pyr_lock_event *event);

/* Acquisitions and waits that no stack stands for. `waits`: label them by `parks`. */
PYR_HOOK_SAFE void pyr_lock_samples_give_rest(pyr_lock_samples *samples, int64_t waited_ns,
                                              int64_t acquired, bool waits, bool parks);

/* One for all waits of this thread here, for this lock, while that one held it there. Never 0. */
PYR_HOOK_SAFE uint64_t pyr_lock_pair(const pyr_own_stack *waiter, const pyr_own_stack *holder,
                                     const void *lock);

#endif
