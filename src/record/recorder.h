/* The recorder: takes samples from any thread, never waits, seals windows.
 *
 * Writers use one of PYR_LIMIT_LANES lanes by try-lock; each lane has memory reserved in advance
 * (address space at creation, pages as they are touched). What does not fit is dropped and counted.
 * A rotation swaps the lanes' memory and gives the old one away as an immutable window.
 */
#ifndef PYR_RECORD_RECORDER_H
#define PYR_RECORD_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/sample.h"
#include "model/symbols.h"

typedef struct pyr_recorder pyr_recorder;
typedef struct pyr_window pyr_window; /* record/window.h */

/* A recorder whose windows hold at most `window_bytes` each; samples refer to `symbols`, of which
 * it takes a share. NULL: out of memory. */
pyr_recorder *pyr_recorder_new(size_t window_bytes, pyr_symbols *symbols);
/* The same, whose lanes have the lock ranks from `rank` on: for a second one in a process. */
pyr_recorder *pyr_recorder_new_ranked(size_t window_bytes, unsigned rank, pyr_symbols *symbols);
void pyr_recorder_free(pyr_recorder *recorder);

/* The sink that collectors write to; borrowed, valid until free. */
pyr_sink pyr_recorder_sink(pyr_recorder *recorder);

/* Seals the current window and starts the next one, whose samples refer to `next_symbols` (of
 * which it takes a share). The caller owns the window. PYR_ENOMEM: nothing happened, samples go on
 * into the same window. Never concurrent with itself. */
PYR_MUST_USE pyr_status pyr_recorder_rotate(pyr_recorder *recorder, pyr_symbols *next_symbols,
                                            pyr_window **window);

/* Bytes that lanes have claimed in the current window, in whole blocks. Any thread. */
size_t pyr_recorder_used(const pyr_recorder *recorder);

/* Around fork: all lanes are held across it; the child drops what is recorded and its losses, so
 * that no sample is delivered twice. Hook safe. */
void pyr_recorder_prefork(pyr_recorder *recorder);
void pyr_recorder_postfork_parent(pyr_recorder *recorder);
void pyr_recorder_postfork_child(pyr_recorder *recorder);

#endif
