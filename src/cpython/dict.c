/* Dictionaries of the target; see the header.
 *
 * A dict object has a key table: an index (which needs hashes, so it is skipped) and behind it the
 * entries in order of insertion. The entries of a table that only ever had strings as keys have no
 * hash. A split table belongs to a class: its instances share the keys and have an array of values
 * each.
 *
 * Owns nothing. Any thread, one at a time per batch. Bounded by PYR_DICT_LIMIT_ENTRIES.
 */
#include "cpython/dict.h"

#include <string.h>

#include "base/load.h"
#include "cpython/layout_fields.h"
#include "cpython/objects.h"

enum {
    WORD = sizeof(pyr_addr),
    HEADER_BYTES = 64, /* of a dict object, of a key table: all fields are within */
    PIECE = 256,       /* entries looked at in one call */
    KIND_GENERAL = 0,
    KIND_SPLIT = 2,
    LARGEST_LOG2_INDEX = 32,
    GENERAL_ENTRY_BYTES = 3 * WORD,
    STRING_ENTRY_BYTES = 2 * WORD,
    LARGEST_NAME = 128,
};

pyr_status pyr_dict_open_keys(pyr_reader *reader, const pyr_layout *layout, pyr_addr keys,
                              pyr_addr values, pyr_dict *dict)
{
    uint8_t header[HEADER_BYTES];
    /* Up to the index, which has at least 8 bytes, so nothing beyond the table is asked for. */
    size_t length = layout->keys_indices;
    if (length > sizeof header || pyr_reader_read(reader, keys, header, length) != PYR_OK) {
        return PYR_EFAULT;
    }
    uint8_t kind = header[layout->keys_kind];
    uint8_t log2_index_bytes = header[layout->keys_log2_index_bytes];
    uint64_t count = pyr_load_u64(header, layout->keys_nentries);
    if (kind > KIND_SPLIT || log2_index_bytes > LARGEST_LOG2_INDEX ||
        count > PYR_DICT_LIMIT_ENTRIES || (values != 0 && kind == KIND_GENERAL) ||
        count > UINT64_C(1) << log2_index_bytes) {
        return PYR_EBAD;
    }
    *dict = (pyr_dict){
        .entries = keys + layout->keys_indices + ((pyr_addr)1 << log2_index_bytes),
        .values = values,
        .count = (uint32_t)count,
        .entry_bytes = kind == KIND_GENERAL ? GENERAL_ENTRY_BYTES : STRING_ENTRY_BYTES,
    };
    return PYR_OK;
}

pyr_status pyr_dict_open(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr,
                         pyr_dict *dict)
{
    uint8_t header[HEADER_BYTES];
    size_t length = layout->dict_values + WORD; /* the last field of a dict object */
    if (length > sizeof header || pyr_reader_read(reader, addr, header, length) != PYR_OK) {
        return PYR_EFAULT;
    }
    pyr_addr values = pyr_load_addr(header, layout->dict_values);
    if (values != 0) {
        values += layout->values_items;
    }
    return pyr_dict_open_keys(reader, layout, pyr_load_addr(header, layout->dict_keys), values,
                              dict);
}

pyr_status pyr_dict_read(pyr_reader *reader, const pyr_dict *dict, uint32_t first, uint32_t count,
                         pyr_dict_entry *entries)
{
    uint8_t bytes[PIECE * GENERAL_ENTRY_BYTES];
    for (uint32_t done = 0, piece; done < count; done += piece) {
        piece = count - done < PIECE ? count - done : PIECE;
        size_t at = (size_t)(first + done) * dict->entry_bytes;
        if (pyr_reader_read(reader, dict->entries + at, bytes, (size_t)piece * dict->entry_bytes) !=
            PYR_OK) {
            return PYR_EFAULT;
        }
        for (uint32_t i = 0; i < piece; i++) {
            /* Key and value are the last two words of an entry of either kind. */
            size_t end = (size_t)(i + 1) * dict->entry_bytes;
            entries[done + i].key = pyr_load_addr(bytes, end - 2 * WORD);
            entries[done + i].value = pyr_load_addr(bytes, end - WORD);
        }
        if (dict->values == 0) {
            continue;
        }
        if (pyr_reader_read(reader, dict->values + (size_t)(first + done) * WORD, bytes,
                            (size_t)piece * WORD) != PYR_OK) {
            return PYR_EFAULT;
        }
        for (uint32_t i = 0; i < piece; i++) {
            entries[done + i].value = pyr_load_addr(bytes, (size_t)i * WORD);
        }
    }
    return PYR_OK;
}

/* The span with header and characters of a possible key; -1 for a NULL key. A shorter string ends
 * before the span does, and may end with its mapping: then it is not the one we look for. */
static int add_key(pyr_batch *batch, const pyr_layout *layout, pyr_addr key, size_t name_length)
{
    return key == 0 ? -1 : pyr_batch_add(batch, key, layout->unicode_ascii + name_length);
}

static bool is_name(const pyr_layout *layout, const uint8_t *key, const char *name,
                    size_t name_length)
{
    pyr_text text;
    return key && pyr_text_describe(layout, key, &text) == PYR_OK && text.is_ascii &&
           text.offset == layout->unicode_ascii && text.length == name_length &&
           memcmp(key + layout->unicode_ascii, name, name_length) == 0;
}

pyr_status pyr_dict_find(pyr_reader *reader, pyr_batch *batch, const pyr_layout *layout,
                         const pyr_dict *dict, const char *name, pyr_addr *value, uint32_t *index)
{
    size_t name_length = strlen(name);
    pyr_dict_entry entries[PIECE];
    int spans[PIECE];
    if (name_length > LARGEST_NAME) {
        return PYR_EINVAL;
    }
    for (uint32_t first = 0, piece; first < dict->count; first += piece) {
        piece = dict->count - first < PIECE ? dict->count - first : PIECE;
        pyr_status status = pyr_dict_read(reader, dict, first, piece, entries);
        if (status != PYR_OK) {
            return status;
        }
        pyr_batch_clear(batch);
        for (uint32_t i = 0; i < piece; i++) {
            spans[i] = add_key(batch, layout, entries[i].key, name_length);
        }
        pyr_reader_read_batch(reader, batch);
        for (uint32_t i = 0; i < piece; i++) {
            if (is_name(layout, pyr_batch_get(batch, spans[i]), name, name_length)) {
                *value = entries[i].value;
                if (index) {
                    *index = first + i;
                }
                return PYR_OK;
            }
        }
    }
    return PYR_ENOENT;
}
