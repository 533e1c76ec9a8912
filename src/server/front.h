/* The HTTP library's side of the server: connections and requests come in, answers go out. Private
 * to server/. */
#ifndef PYR_SERVER_FRONT_H
#define PYR_SERVER_FRONT_H

#include <stddef.h>

#include "base/status.h"
#include "server/server_state.h"

/* Starts to take connections from the listener's socket. */
PYR_MUST_USE pyr_status pyr_front_start(pyr_listener *listener, char *why, size_t why_size);

/* Takes no more connections. */
void pyr_front_quiesce(pyr_listener *listener);

/* Ends all connections. No request is suspended any more. */
void pyr_front_stop(pyr_listener *listener);

#endif
