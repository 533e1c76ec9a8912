/* Hash map and hash functions; see the header.
 *
 * Open addressing with linear probing, at most half full, capacity a power of two. A slot whose
 * key is 0 is empty; the entry with key 0 itself lives beside the slots. There is no removal, so
 * there are no tombstones. Owns its slots; one thread at a time; never shrinks.
 *
 * The hashes are made of one step: multiply two 64-bit words and fold the 128-bit product (the idea
 * of wyhash). Both factors depend on the secret seed, so no input makes one of them zero on
 * purpose, which is the known weakness of that step.
 */
#include "base/map.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/memory.h"

#define PYR_HASH_A UINT64_C(0x9E3779B97F4A7C15) /* fraction of the golden ratio */
#define PYR_HASH_B UINT64_C(0xB7E151628AED2A6B) /* fraction of e */

enum { FIRST_CAPACITY = 16 };

typedef struct slot {
    uint64_t key; /* 0 = empty */
    uint64_t value;
} slot;

struct pyr_map {
    slot *slots;
    size_t capacity; /* power of two, 0 while empty */
    size_t count;    /* entries, the one with key 0 included */
    size_t maximum;
    uint64_t seed;
    uint64_t zero_value;
    bool has_zero;
};

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Up to eight bytes as a little-endian number. */
static uint64_t load(const uint8_t *bytes, size_t length)
{
    uint64_t word = 0;
    memcpy(&word, bytes, length);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

uint64_t pyr_hash_u64(uint64_t value, uint64_t seed)
{
    return fold(fold(value ^ seed, seed ^ PYR_HASH_A) ^ value, PYR_HASH_B);
}

uint64_t pyr_hash_bytes(const void *data, size_t length, uint64_t seed)
{
    const uint8_t *bytes = data;
    uint64_t key = pyr_hash_u64(seed, PYR_HASH_B);
    uint64_t hash = pyr_hash_u64(length, seed); /* mixed, so that a small seed is no weak one */
    size_t rest = length;
    for (; rest > 16; rest -= 16, bytes += 16) {
        hash = fold(load(bytes, 8) ^ key, load(bytes + 8, 8) ^ hash);
    }
    if (rest > 8) {
        /* The last bytes by a load of eight that ends with them: one of any length is a call. */
        uint64_t last = load(bytes + rest - 8, 8) >> (8 * (16 - rest));
        hash = fold(load(bytes, 8) ^ key, last ^ hash);
    } else if (rest > 0) {
        uint64_t last =
            length > 8 ? load(bytes + rest - 8, 8) >> (8 * (8 - rest)) : load(bytes, rest);
        hash = fold(last ^ key, hash);
    }
    return pyr_hash_u64(hash, key);
}

uint64_t pyr_hash_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        uint64_t place = (uint64_t)(uintptr_t)&seed;
        seed = pyr_hash_u64((uint64_t)pyr_clock_monotonic_ns(), place);
    }
    return seed;
}

pyr_map *pyr_map_new(size_t maximum)
{
    pyr_map *map = pyr_memory_new(1, sizeof *map);
    if (map) {
        map->maximum = maximum;
        map->seed = pyr_hash_seed();
    }
    return map;
}

void pyr_map_free(pyr_map *map)
{
    if (map) {
        pyr_memory_free(map->slots);
        pyr_memory_free(map);
    }
}

/* The slot that holds `key`, or the empty one where it belongs. Capacity is not 0, key neither. */
static slot *find(slot *slots, size_t capacity, uint64_t key, uint64_t seed)
{
    size_t mask = capacity - 1;
    size_t at = (size_t)pyr_hash_u64(key, seed) & mask;
    while (slots[at].key != 0 && slots[at].key != key) {
        at = (at + 1) & mask;
    }
    return &slots[at];
}

bool pyr_map_get(const pyr_map *map, uint64_t key, uint64_t *value)
{
    if (key == 0) {
        if (map->has_zero) {
            *value = map->zero_value;
        }
        return map->has_zero;
    }
    if (map->capacity == 0) {
        return false;
    }
    const slot *found = find(map->slots, map->capacity, key, map->seed);
    if (found->key == 0) {
        return false;
    }
    *value = found->value;
    return true;
}

static pyr_status grow(pyr_map *map)
{
    if (map->capacity > SIZE_MAX / 2) {
        return PYR_ETOOBIG;
    }
    size_t capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY;
    slot *slots = pyr_memory_new(capacity, sizeof *slots);
    if (!slots) {
        return PYR_ENOMEM;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != 0) {
            *find(slots, capacity, map->slots[i].key, map->seed) = map->slots[i];
        }
    }
    pyr_memory_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return PYR_OK;
}

pyr_status pyr_map_put_reserved(pyr_map *map, uint64_t key, uint64_t value)
{
    slot *place = NULL;
    if (key == 0 && map->has_zero) {
        map->zero_value = value;
        return PYR_OK;
    }
    if (key != 0 && map->capacity > 0) {
        place = find(map->slots, map->capacity, key, map->seed);
        if (place->key == key) {
            place->value = value;
            return PYR_OK;
        }
    }
    if (map->count >= map->maximum) {
        return PYR_ETOOBIG;
    }
    if (key == 0) {
        map->has_zero = true;
        map->zero_value = value;
    } else if (map->count + 1 > map->capacity / 2) {
        return PYR_ENOMEM;
    } else {
        *place = (slot){key, value};
    }
    map->count++;
    return PYR_OK;
}

pyr_status pyr_map_put(pyr_map *map, uint64_t key, uint64_t value)
{
    pyr_status status = pyr_map_put_reserved(map, key, value);
    if (status == PYR_ENOMEM) {
        status = grow(map);
        if (status == PYR_OK) {
            status = pyr_map_put_reserved(map, key, value);
        }
    }
    return status;
}

bool pyr_map_has_room(const pyr_map *map, size_t more)
{
    return more <= map->maximum - map->count && map->count + more <= map->capacity / 2;
}

pyr_status pyr_map_reserve(pyr_map *map, size_t more)
{
    pyr_status status = PYR_OK;
    size_t wanted = more < map->maximum - map->count ? map->count + more : map->maximum;
    while (status == PYR_OK && wanted > map->capacity / 2) {
        status = grow(map);
    }
    return status;
}

void pyr_map_clear(pyr_map *map)
{
    if (map->capacity > 0) {
        memset(map->slots, 0, map->capacity * sizeof *map->slots);
    }
    map->count = 0;
    map->has_zero = false;
}

size_t pyr_map_count(const pyr_map *map)
{
    return map->count;
}
