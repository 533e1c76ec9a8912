/* Connections that take too long to say what they want are ended: whoever sends a byte now and then
 * would hold them for ever. Private to server/. */
#ifndef PYR_SERVER_WATCH_H
#define PYR_SERVER_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct pyr_watch pyr_watch;

enum { PYR_WATCH_CONNECTIONS = 2048 };

/* Starts the thread that looks once a second. NULL: no memory, no thread. */
pyr_watch *pyr_watch_start(void);
void pyr_watch_stop(pyr_watch *watch);

/* A connection with this socket began; its number, or -1 when there are too many. */
int pyr_watch_add(pyr_watch *watch, int socket);
void pyr_watch_remove(pyr_watch *watch, int number);

/* What it is doing from now on. */
typedef enum pyr_watch_state {
    PYR_WATCH_HEAD,    /* the head of its request must be here within 10 s */
    PYR_WATCH_BODY,    /* the body within a minute */
    PYR_WATCH_WORKING, /* it waits for us */
    PYR_WATCH_IDLE,    /* the head of its next request within 90 s */
} pyr_watch_state;

void pyr_watch_set(pyr_watch *watch, int number, pyr_watch_state state);

size_t pyr_watch_count(pyr_watch *watch);

#endif
