/* Dictionaries of the target: every kind of key table, read piece by piece, never trusted.
 *
 * A dictionary may change while it is read. Nothing here notices that; what is read is bounded and
 * can at worst be wrong. Who needs to be sure reads twice. One thread at a time per batch.
 * Source: CPython's pycore_dict.h.
 */
#ifndef PYR_CPYTHON_DICT_H
#define PYR_CPYTHON_DICT_H

#include "cpython/layout.h"
#include "reader/reader.h"

enum { PYR_DICT_LIMIT_ENTRIES = 1 << 20 }; /* a larger one is refused */

/* Where the entries of a dictionary are. Plain data; valid as long as the dictionary stays. */
typedef struct pyr_dict {
    pyr_addr entries;
    pyr_addr values;     /* split tables: the first value lies here; else 0 */
    uint32_t count;      /* entries, deleted ones included */
    uint8_t entry_bytes; /* 24 (hash, key, value) or 16 (key, value) */
} pyr_dict;

typedef struct pyr_dict_entry {
    pyr_addr key;
    pyr_addr value; /* 0: deleted, or not set in a split table */
} pyr_dict_entry;

/* The dict object at `addr`. PYR_EFAULT; PYR_EBAD: no plausible dictionary. */
PYR_MUST_USE pyr_status pyr_dict_open(pyr_reader *reader, const pyr_layout *layout, pyr_addr addr,
                                      pyr_dict *dict);

/* A key table, with the values at `values` (0: those in the table). Instances keep theirs so. */
PYR_MUST_USE pyr_status pyr_dict_open_keys(pyr_reader *reader, const pyr_layout *layout,
                                           pyr_addr keys, pyr_addr values, pyr_dict *dict);

/* Reads entries `first` ... `first` + `count` - 1, which must exist. PYR_EFAULT. */
PYR_MUST_USE pyr_status pyr_dict_read(pyr_reader *reader, const pyr_dict *dict, uint32_t first,
                                      uint32_t count, pyr_dict_entry *entries);

/* Finds the entry whose key is the ASCII string `name`, by looking at all keys (their hashes are
 * secret), a few hundred a call. The batch is cleared and used; it needs 64 KiB. `index` may be
 * NULL. PYR_ENOENT: no such key; the value may be 0. PYR_EFAULT. */
PYR_MUST_USE pyr_status pyr_dict_find(pyr_reader *reader, pyr_batch *batch,
                                      const pyr_layout *layout, const pyr_dict *dict,
                                      const char *name, pyr_addr *value, uint32_t *index);

#endif
