/* The flight recorder: what the last minutes held, in a file that outlives any end of the process.
 *
 * Every second its thread cuts a slice: what all collectors have gathered since the last one, as a
 * profile of its own, which it writes into a ring in a file (record/slices.h). The kernel has those
 * bytes from then on, whatever becomes of the process. The windows that are delivered know nothing
 * of it: samples go to two recorders. The file goes away when the last window is delivered; a file
 * that stays tells of an unclean end.
 *
 * On by choice, since a slice a second costs more than a window a minute.
 */
#ifndef PYR_SESSION_FLIGHT_H
#define PYR_SESSION_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "encode/encode.h"
#include "model/facts.h"
#include "model/sample.h"
#include "record/recorder.h"
#include "session/identity.h"
#include "session/settings.h"

typedef struct pyr_flight pyr_flight;

enum { PYR_FLIGHT_SEALED = 4 }; /* slices that may wait for the thread */

typedef struct pyr_flight_options {
    const pyr_settings *settings; /* borrowed for the call, as the next */
    const pyr_identity *identity;
    pyr_sink sink; /* where samples go besides */
    /* Has the collectors give out what is open, seals the slice and takes what was sealed
     * (pyr_flight_seal, pyr_flight_take), and adds the facts of the session; returns how many were
     * taken. On the thread of the flight recorder, which owns no lock then. */
    size_t (*cut)(void *context, pyr_window *windows[PYR_FLIGHT_SEALED], pyr_facts *facts);
    void *context;
} pyr_flight_options;

/* Its folder, as the settings say; absolute. */
void pyr_flight_folder(const pyr_settings *settings, char *folder, size_t size);

/* Makes the file, if the settings want one, and removes the oldest ones of processes that are gone
 * when there are many. NULL: it is off; where that is no choice, the log says why. Every function
 * below takes NULL for a flight recorder that is off. */
pyr_flight *pyr_flight_open(const pyr_flight_options *options, pyr_symbols *symbols);

/* Stopped before; the file stays as it is. */
void pyr_flight_free(pyr_flight *flight);

/* What collectors write to: the flight recorder and the sink that it was given. Not for NULL. */
pyr_sink pyr_flight_sink(pyr_flight *flight);

/* The thread; `encoding` says how to encode, but for the compression. PYR_ETHREAD. Started again
 * after a stop it goes on in its file. */
PYR_MUST_USE pyr_status pyr_flight_start(pyr_flight *flight, const pyr_encode_options *encoding);
void pyr_flight_stop(pyr_flight *flight);
bool pyr_flight_is_running(const pyr_flight *flight);

/* Ends the current slice: what follows refers to `next`. Under the lock that serialises with
 * changes of the symbol table. */
void pyr_flight_seal(pyr_flight *flight, pyr_symbols *next);

/* Gives the sealed slices away, oldest first; returns how many. Under the same lock. */
size_t pyr_flight_take(pyr_flight *flight, pyr_window *windows[PYR_FLIGHT_SEALED]);

/* Windows that end before this Unix time are with their targets, or on disk; `is_last`: nothing
 * more will come, so the file goes. Any thread. */
void pyr_flight_delivered(pyr_flight *flight, int64_t end_ns, bool is_last);

/* Nobody wants what the file holds: it goes. Any thread. */
void pyr_flight_end(pyr_flight *flight);

/* Adds section "flight_recorder". Any thread. */
void pyr_flight_facts(const pyr_flight *flight, pyr_facts *facts);

/* Around fork; the child has no part in its parent's file. */
void pyr_flight_prefork(pyr_flight *flight);
void pyr_flight_postfork_parent(pyr_flight *flight);
void pyr_flight_postfork_child(pyr_flight *flight);

#endif
