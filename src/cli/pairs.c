/* Numbers for pairs of numbers.
 *
 * Owns a map from pair to number and the list of pairs. One thread.
 */
#include "cli/pairs.h"

#include "base/map.h"
#include "base/memory.h"

enum { PAIRS_MAXIMUM = 1 << 27, PAIRS_FIRST_CAPACITY = 256 };

struct pyr_pairs {
    pyr_map *numbers;
    pyr_pair *list;
    size_t count, capacity;
};

pyr_pairs *pyr_pairs_new(void)
{
    pyr_pairs *pairs = pyr_memory_new(1, sizeof *pairs);
    if (pairs != NULL) {
        pairs->numbers = pyr_map_new(PAIRS_MAXIMUM);
        if (pairs->numbers == NULL) {
            pyr_memory_free(pairs);
            return NULL;
        }
    }
    return pairs;
}

void pyr_pairs_free(pyr_pairs *pairs)
{
    if (pairs != NULL) {
        pyr_map_free(pairs->numbers);
        pyr_memory_free(pairs->list);
        pyr_memory_free(pairs);
    }
}

pyr_status pyr_pairs_add(pyr_pairs *pairs, uint32_t first, uint32_t second, uint32_t *number)
{
    uint64_t key = (uint64_t)first << 32 | second;
    uint64_t known = 0;
    if (pyr_map_get(pairs->numbers, key, &known)) {
        *number = (uint32_t)known;
        return PYR_OK;
    }
    if (pairs->count == pairs->capacity) {
        size_t capacity = pairs->capacity == 0 ? PAIRS_FIRST_CAPACITY : pairs->capacity * 2;
        pyr_pair *list = pyr_memory_resize(pairs->list, capacity, sizeof *list);
        if (list == NULL) {
            return PYR_ENOMEM;
        }
        pairs->list = list;
        pairs->capacity = capacity;
    }
    pyr_status status = pyr_map_put(pairs->numbers, key, pairs->count);
    if (status != PYR_OK) {
        return status;
    }
    pairs->list[pairs->count] = (pyr_pair){first, second};
    *number = (uint32_t)pairs->count++;
    return PYR_OK;
}

size_t pyr_pairs_count(const pyr_pairs *pairs)
{
    return pairs->count;
}

pyr_pair pyr_pairs_at(const pyr_pairs *pairs, size_t number)
{
    return pairs->list[number];
}
