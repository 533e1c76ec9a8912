/* From a sealed window to its targets: encodes it once a compression, keeps what could not be sent,
 * and tells of trouble once when it begins and once when it ends.
 *
 * One thread at a time (the scheduler's), but for facts and describe, which any thread may call.
 */
#ifndef PYR_SESSION_DELIVERY_H
#define PYR_SESSION_DELIVERY_H

#include "base/status.h"
#include "encode/encode.h"
#include "export/exporter.h"
#include "model/facts.h"
#include "record/window.h"

typedef struct pyr_delivery pyr_delivery;

/* Opens every exporter of the table that the options ask for, at each of its places. `encoding`
 * says how to encode (its compression is the exporters' choice); `losses` gets the count of windows
 * given up. An exporter that cannot be opened is one log line. What the options call borrowed for
 * longer than the call must outlive the delivery. PYR_ENOMEM; PYR_ENOENT: no target is left, `why`
 * says the reason. */
PYR_MUST_USE pyr_status pyr_delivery_open(const pyr_exporter_options *options,
                                          const pyr_encode_options *encoding, pyr_sink losses,
                                          pyr_delivery **delivery, char *why, size_t why_size);

/* Gives up what is still waiting. NULL is fine. */
void pyr_delivery_close(pyr_delivery *delivery);

/* Encodes a window (borrowed) and queues it for each target, at most PYR_LIMIT_PENDING_WINDOWS
 * a target: the oldest makes room, and is counted. A window without samples is left out. */
void pyr_delivery_add(pyr_delivery *delivery, const pyr_window *window, const pyr_facts *facts,
                      int64_t pid);

/* Sends what waits, oldest first, until the monotonic `deadline_ns`, which targets share. */
void pyr_delivery_send(pyr_delivery *delivery, int64_t deadline_ns);

/* The end is near: whatever is being sent, now and later, is given up (kept, where that can be) by
 * the monotonic `deadline_ns`, unless an earlier one was said before. Any thread. */
PYR_HOOK_SAFE void pyr_delivery_hurry(pyr_delivery *delivery, int64_t deadline_ns);

/* Windows that no target has taken yet, as of the last pyr_delivery_send. Any thread. */
uint64_t pyr_delivery_waiting(const pyr_delivery *delivery);

/* Adds section "delivery": windows sent, bytes, failures, what waits. */
void pyr_delivery_facts(const pyr_delivery *delivery, pyr_facts *facts);

/* Where windows go, for the start line. */
void pyr_delivery_describe(const pyr_delivery *delivery, char *text, size_t size);

#endif
