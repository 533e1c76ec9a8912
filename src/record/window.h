/* A sealed window: immutable samples of a stretch of time, with their losses.
 *
 * Owned by one thread (the exporter); all its functions only read. Samples come in no particular
 * order. */
#ifndef PYR_RECORD_WINDOW_H
#define PYR_RECORD_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "model/sample.h"
#include "model/symbols.h"
#include "record/recorder.h"

void pyr_window_free(pyr_window *window);

/* Monotonic start and end, and what to add to get Unix time. */
int64_t pyr_window_start_ns(const pyr_window *window);
int64_t pyr_window_end_ns(const pyr_window *window);
int64_t pyr_window_epoch_offset_ns(const pyr_window *window);

/* Sequence number, from 0. */
uint64_t pyr_window_sequence(const pyr_window *window);

const pyr_symbols *pyr_window_symbols(const pyr_window *window);

size_t pyr_window_samples(const pyr_window *window);

/* Calls `visit` for each sample; frames and labels are borrowed for the call. Stops when it
 * returns non-zero, and returns that. */
int pyr_window_each(const pyr_window *window, int (*visit)(void *context, const pyr_sample *sample),
                    void *context);

/* How much was lost for one reason. */
uint64_t pyr_window_lost(const pyr_window *window, pyr_loss reason);

#endif
