/* What a profile is about, as sorted pairs of name and value: service, env, version, host, pid, and
 * any other tag. Plain bytes that travel: name NUL value NUL, again and again. */
#ifndef PYR_STORE_LABELS_H
#define PYR_STORE_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum {
    PYR_LABELS_COUNT = 64,         /* of one profile */
    PYR_LABELS_NAME_BYTES = 256,   /* longer names are refused, */
    PYR_LABELS_VALUE_BYTES = 1024, /* longer values cut */
};

typedef struct pyr_labels {
    struct pyr_label {
        const char *name, *value;
    } list[PYR_LABELS_COUNT];
    size_t count;
    pyr_buffer text; /* of names and values */
} pyr_labels;

/* No label. */
PYR_MUST_USE pyr_status pyr_labels_init(pyr_labels *labels);
void pyr_labels_fini(pyr_labels *labels);

/* Adds a label unless one of this name is there (the first counts) or its name or value is empty.
 * Invalid UTF-8 is repaired, control characters become blanks. PYR_ETOOBIG: too many, or the name
 * is too long. */
PYR_MUST_USE pyr_status pyr_labels_add(pyr_labels *labels, const char *name, size_t name_length,
                                       const char *value, size_t value_length);

/* The value of a label, or NULL. */
const char *pyr_labels_get(const pyr_labels *labels, const char *name);

/* Appends the labels as bytes, sorted by name: equal labels give equal bytes. */
PYR_MUST_USE pyr_status pyr_labels_write(const pyr_labels *labels, pyr_buffer *out);

/* Steps through such bytes; false at the end, or where they are damaged. */
bool pyr_labels_next(const char **at, const char *end, const char **name, const char **value);

#endif
