/* A hash map from u64 to u64 with a maximum given at creation, and the hash functions under it.
 *
 * One owner, one thread at a time. Keys may come from hostile input: each map has its own random
 * seed, so nobody outside can choose keys that meet in one place. Any key and any value is
 * allowed. Memory grows by doubling, from nothing; at most 64 bytes an entry.
 */
#ifndef PYR_BASE_MAP_H
#define PYR_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pyr_map pyr_map;

/* An empty map of at most `maximum` entries. NULL: no memory. */
pyr_map *pyr_map_new(size_t maximum);

/* Frees the map; NULL is fine. */
void pyr_map_free(pyr_map *map);

/* Looks `key` up: true and its value, or false and *value untouched. Allocates nothing. */
PYR_HOOK_SAFE bool pyr_map_get(const pyr_map *map, uint64_t key, uint64_t *value);

/* Sets the value of `key`. PYR_ETOOBIG: a new key would pass the maximum; PYR_ENOMEM. After an
 * error the map is as it was. */
PYR_MUST_USE pyr_status pyr_map_put(pyr_map *map, uint64_t key, uint64_t value);

/* Makes room for `more` entries (up to the maximum), so that pyr_map_put_reserved finds it.
 * PYR_ENOMEM, PYR_ETOOBIG: the map is as it was, or has some of the room. */
PYR_MUST_USE pyr_status pyr_map_reserve(pyr_map *map, size_t more);

/* Whether it has room for `more` entries without an allocation. */
PYR_HOOK_SAFE bool pyr_map_has_room(const pyr_map *map, size_t more);

/* As pyr_map_put, within the room there is. PYR_ENOMEM: there is none left. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_map_put_reserved(pyr_map *map, uint64_t key,
                                                           uint64_t value);

/* Forgets all entries, keeps the memory. */
void pyr_map_clear(pyr_map *map);

/* Entries now. */
PYR_HOOK_SAFE size_t pyr_map_count(const pyr_map *map);

/* A seed that outsiders cannot guess: from the kernel, else from the clock and addresses. */
PYR_HOOK_SAFE uint64_t pyr_hash_seed(void);

/* Hash of one number. Pure. */
PYR_HOOK_SAFE uint64_t pyr_hash_u64(uint64_t value, uint64_t seed);

/* Hash of bytes; equal on every machine for equal bytes and seed. Pure. */
PYR_HOOK_SAFE uint64_t pyr_hash_bytes(const void *data, size_t length, uint64_t seed);

#endif
