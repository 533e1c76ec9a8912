/* Counts of requests; see the header.
 *
 * Owns one static table with open addressing. A place is claimed by one exchange, filled, and
 * published; who meets a place that is being filled, which takes nanoseconds, counts under
 * "(other)". Texts and hashes are not written after that.
 */
#include "model/requests.h"

#include <stdatomic.h>
#include <string.h>

#include "base/map.h"

enum { PLACES = 2 * PYR_LIMIT_ENDPOINTS, EMPTY = 0, FILLING, KNOWN };

struct pyr_request_counter {
    _Atomic int64_t count;
    _Atomic int state;
    uint64_t hash;
    size_t length;
    char text[PYR_LIMIT_ENDPOINT_TEXT];
};

static pyr_request_counter places[PLACES];
static pyr_request_counter others = {.state = KNOWN, .text = "(other)"};
static atomic_size_t used;

static pyr_request_counter *fill(pyr_request_counter *place, uint64_t hash, const char *endpoint,
                                 size_t length)
{
    int expected = EMPTY;
    /* One counter of the facts is that of the others. */
    if (atomic_load(&used) >= PYR_LIMIT_ENDPOINTS - 1 ||
        !atomic_compare_exchange_strong(&place->state, &expected, FILLING)) {
        return &others;
    }
    atomic_fetch_add(&used, 1);
    place->hash = hash;
    place->length = length;
    memcpy(place->text, endpoint, length);
    atomic_store_explicit(&place->state, KNOWN, memory_order_release);
    return place;
}

pyr_request_counter *pyr_requests_counter(const char *endpoint, size_t length)
{
    length = length < PYR_LIMIT_ENDPOINT_TEXT ? length : PYR_LIMIT_ENDPOINT_TEXT - 1;
    uint64_t hash = pyr_hash_bytes(endpoint, length, 0);
    for (size_t step = 0; step < PLACES; step++) {
        pyr_request_counter *place = &places[(hash + step) % PLACES];
        int state = atomic_load_explicit(&place->state, memory_order_acquire);
        if (state == EMPTY) {
            return fill(place, hash, endpoint, length);
        }
        if (state == FILLING) {
            break;
        }
        if (place->hash == hash && place->length == length &&
            memcmp(place->text, endpoint, length) == 0) {
            return place;
        }
    }
    return &others;
}

void pyr_requests_add(pyr_request_counter *counter)
{
    atomic_fetch_add_explicit(&counter->count, 1, memory_order_relaxed);
}

static void take(pyr_request_counter *counter, pyr_facts *facts)
{
    if (atomic_load_explicit(&counter->state, memory_order_acquire) != KNOWN ||
        facts->request_count == PYR_LIMIT_ENDPOINTS) {
        return;
    }
    int64_t count = atomic_exchange_explicit(&counter->count, 0, memory_order_relaxed);
    if (count > 0) {
        facts->requests[facts->request_count++] = (pyr_request_count){counter->text, count};
    }
}

void pyr_requests_take(pyr_facts *facts)
{
    facts->request_count = 0;
    for (size_t at = 0; at < PLACES; at++) {
        take(&places[at], facts);
    }
    take(&others, facts);
}

void pyr_requests_drop(void)
{
    for (size_t at = 0; at < PLACES; at++) {
        atomic_store_explicit(&places[at].count, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&others.count, 0, memory_order_relaxed);
}
