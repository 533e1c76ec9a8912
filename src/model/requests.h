/* How many requests a process began, by endpoint: the program says so by a label `endpoint`.
 *
 * One table of the process, bounded: endpoints beyond it count as "(other)". Nothing is ever taken
 * out of it, so texts stay where they are. Any thread, without a lock. A fork copies the counts:
 * whoever starts profiling drops what is there.
 */
#ifndef PYR_MODEL_REQUESTS_H
#define PYR_MODEL_REQUESTS_H

#include <stddef.h>

#include "model/facts.h"

typedef struct pyr_request_counter pyr_request_counter;

/* The counter of an endpoint, which is cut to PYR_LIMIT_ENDPOINT_TEXT - 1 bytes; never NULL, lent
 * for ever. */
pyr_request_counter *pyr_requests_counter(const char *endpoint, size_t length);

/* One more. */
void pyr_requests_add(pyr_request_counter *counter);

/* Moves all counts into the facts, of which only these are replaced. */
void pyr_requests_take(pyr_facts *facts);

/* Forgets all counts. */
void pyr_requests_drop(void);

#endif
