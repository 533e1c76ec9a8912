/* Numbers for byte strings; see the header.
 *
 * All strings stand one after another in one buffer; `ends` says where each ends; a map leads from
 * hash to number. Two strings with one hash are told apart by hashing the hash again, as often as
 * needed: with a secret seed that is never in practice, and nobody can provoke it.
 */
#include "pprof/intern.h"

#include <string.h>

#include "base/buffer.h"
#include "base/map.h"
#include "base/memory.h"

struct pyr_intern {
    pyr_map *numbers; /* hash -> number */
    pyr_buffer bytes;
    pyr_buffer ends; /* size_t each */
    uint64_t seed;
};

pyr_intern *pyr_intern_new(size_t max_count, size_t max_bytes)
{
    pyr_intern *intern = pyr_memory_new(1, sizeof *intern);
    if (!intern) {
        return NULL;
    }
    intern->seed = pyr_hash_seed();
    pyr_buffer_init(&intern->bytes, max_bytes);
    pyr_buffer_init(&intern->ends, SIZE_MAX);
    intern->numbers = pyr_map_new(max_count);
    /* Room from the start, so that the address of an empty string is one. */
    if (!intern->numbers || pyr_buffer_reserve(&intern->bytes, 1) != PYR_OK) {
        pyr_intern_free(intern);
        return NULL;
    }
    return intern;
}

void pyr_intern_free(pyr_intern *intern)
{
    if (intern) {
        pyr_map_free(intern->numbers);
        pyr_buffer_fini(&intern->bytes);
        pyr_buffer_fini(&intern->ends);
        pyr_memory_free(intern);
    }
}

size_t pyr_intern_count(const pyr_intern *intern)
{
    return intern->ends.length / sizeof(size_t);
}

const void *pyr_intern_get(const pyr_intern *intern, uint64_t index, size_t *length)
{
    size_t span[2] = {0}; /* end of the one before, own end */
    if (index == 0) {
        memcpy(&span[1], intern->ends.data, sizeof span[1]);
    } else {
        memcpy(span, intern->ends.data + (index - 1) * sizeof span[0], sizeof span);
    }
    *length = span[1] - span[0];
    return intern->bytes.data + span[0];
}

pyr_status pyr_intern_add(pyr_intern *intern, const void *bytes, size_t length, uint64_t *index)
{
    uint64_t hash = pyr_hash_bytes(bytes, length, intern->seed);
    uint64_t number;
    for (; pyr_map_get(intern->numbers, hash, &number); hash = pyr_hash_u64(hash, intern->seed)) {
        size_t known_length;
        const void *known = pyr_intern_get(intern, number, &known_length);
        if (known_length == length && (length == 0 || memcmp(known, bytes, length) == 0)) {
            *index = number;
            return PYR_OK;
        }
    }
    number = pyr_intern_count(intern);
    size_t old_end = intern->bytes.length, end = old_end + length;
    pyr_status status = pyr_buffer_append(&intern->bytes, bytes, length);
    if (status != PYR_OK) {
        return status;
    }
    status = pyr_buffer_append(&intern->ends, &end, sizeof end);
    if (status == PYR_OK) {
        status = pyr_map_put(intern->numbers, hash, number);
        intern->ends.length -= status == PYR_OK ? 0 : sizeof end;
    }
    if (status != PYR_OK) {
        intern->bytes.length = old_end;
        return status;
    }
    *index = number;
    return PYR_OK;
}
