/* Names of exceptions being handled; see the header.
 *
 * Owns the names of types seen so far. Runs on the sampler's thread. An exception may be freed and
 * another one lie at its address at the next visit, and so may a type: nothing is remembered by an
 * address alone but None, which is never freed.
 */
#include "unwind/handled.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"
#include "cpython/objects.h"

enum {
    NAMES = 1024,
    TEXT_BYTES = 48, /* of a type's name */
    GUESSES = 3,     /* of where type and name are: neither, the type, both */
};

struct pyr_handled {
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_symbols *symbols;
    pyr_map *names; /* hash of a type's address and bytes -> string */
    uint64_t seed;
    pyr_addr none;       /* address of None, 0 = not seen so far */
    pyr_addr type, text; /* of the last one: most likely that of the next */
};

pyr_handled *pyr_handled_new(pyr_reader *reader, const pyr_layout *layout, pyr_symbols *symbols)
{
    pyr_handled *handled = pyr_memory_new(1, sizeof *handled);
    if (!handled) {
        return NULL;
    }
    *handled = (pyr_handled){
        .reader = reader, .layout = layout, .symbols = symbols, .seed = pyr_hash_seed()};
    handled->names = pyr_map_new(NAMES);
    if (!handled->names) {
        pyr_handled_free(handled);
        return NULL;
    }
    return handled;
}

void pyr_handled_free(pyr_handled *handled)
{
    if (handled) {
        pyr_map_free(handled->names);
        pyr_memory_free(handled);
    }
}

void pyr_handled_renew(pyr_handled *handled, pyr_symbols *symbols)
{
    handled->symbols = symbols;
    pyr_map_clear(handled->names);
}

/* Reads the type of `value` and what tells it from another one at its address, in one call where
 * the last guess fits again. False: not readable as a whole. */
static bool look(pyr_handled *handled, pyr_batch *scratch, pyr_addr value, uint64_t *key)
{
    const pyr_layout *layout = handled->layout;
    size_t from = layout->object_type; /* behind the reference count, which moves */
    size_t to = layout->type_name + sizeof(pyr_addr);
    for (int guess = 0; guess < GUESSES && from < to; guess++) {
        pyr_batch_clear(scratch);
        int in_value = pyr_batch_add(scratch, value + from, sizeof(pyr_addr));
        int in_type = pyr_batch_add(scratch, handled->type, to);
        int in_text = pyr_batch_add(scratch, handled->text, TEXT_BYTES);
        pyr_reader_read_batch(handled->reader, scratch);
        const uint8_t *field = pyr_batch_get(scratch, in_value);
        const uint8_t *head = pyr_batch_get(scratch, in_type);
        const uint8_t *text = pyr_batch_get(scratch, in_text);
        if (!field) {
            return false;
        }
        if (pyr_load_addr(field, 0) != handled->type) {
            handled->type = pyr_load_addr(field, 0);
        } else if (head && pyr_load_addr(head, layout->type_name) != handled->text) {
            handled->text = pyr_load_addr(head, layout->type_name);
        } else if (!head || !text) {
            return false;
        } else {
            *key = pyr_hash_bytes(head + from, to - from, handled->seed ^ handled->type);
            *key = pyr_hash_bytes(text, strnlen((const char *)text, TEXT_BYTES), *key);
            return true;
        }
    }
    return false;
}

/* The name of the type of `value`, which is not the None that we know. */
static uint32_t name_type(pyr_handled *handled, pyr_batch *scratch, pyr_addr value, bool *is_none)
{
    *is_none = false;
    uint64_t before, after, known;
    bool can_remember = look(handled, scratch, value, &before);
    if (can_remember && pyr_map_get(handled->names, before, &known)) {
        return (uint32_t)known;
    }
    char name[PYR_LIMIT_NAME_BYTES];
    size_t length = 0;
    pyr_addr type;
    if (pyr_object_type(handled->reader, handled->layout, value, &type) != PYR_OK ||
        pyr_object_type_name(handled->reader, scratch, handled->layout, type, name, sizeof name,
                             &length) != PYR_OK) {
        return 0;
    }
    if (strcmp(name, "NoneType") == 0) {
        *is_none = true;
        return 0;
    }
    uint32_t string = pyr_symbols_string(handled->symbols, name, length);
    if (can_remember && look(handled, scratch, value, &after) && before == after && string != 0) {
        if (pyr_map_count(handled->names) >= NAMES) {
            pyr_map_clear(handled->names);
        }
        (void)!pyr_map_put(handled->names, before, string);
    }
    return string;
}

uint32_t pyr_handled_find(pyr_handled *handled, pyr_batch *scratch, const pyr_snapshot *snapshot)
{
    pyr_addr rest = snapshot->exception_info;
    if (snapshot->exception_copied) {
        if (snapshot->exception != 0 && snapshot->exception != handled->none) {
            bool is_none;
            uint32_t name = name_type(handled, scratch, snapshot->exception, &is_none);
            if (!is_none) {
                return name;
            }
            handled->none = snapshot->exception;
        }
        rest = snapshot->exception_below; /* what the innermost entry does not handle */
    }
    char name[PYR_LIMIT_NAME_BYTES];
    size_t length = 0;
    if (rest == 0 || pyr_object_exception_type(handled->reader, scratch, handled->layout, rest,
                                               name, sizeof name, &length) != PYR_OK) {
        return 0;
    }
    return pyr_symbols_string(handled->symbols, name, length);
}
