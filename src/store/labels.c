/* Names and values of a profile; see the header. Owns the copies. One thread. */
#include "store/labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { TEXT_BYTES = PYR_LABELS_COUNT * (PYR_LABELS_NAME_BYTES + PYR_LABELS_VALUE_BYTES + 2) };

pyr_status pyr_labels_init(pyr_labels *labels)
{
    labels->count = 0;
    pyr_buffer_init(&labels->text, TEXT_BYTES);
    /* All at once, so that nothing that was handed out moves. */
    return pyr_buffer_reserve(&labels->text, TEXT_BYTES);
}

void pyr_labels_fini(pyr_labels *labels)
{
    labels->count = 0;
    pyr_buffer_fini(&labels->text);
}

const char *pyr_labels_get(const pyr_labels *labels, const char *name)
{
    for (size_t at = 0; at < labels->count; at++) {
        if (strcmp(labels->list[at].name, name) == 0) {
            return labels->list[at].value;
        }
    }
    return NULL;
}

static const char *keep(pyr_labels *labels, const char *bytes, size_t length, size_t limit)
{
    char *kept = (char *)labels->text.data + labels->text.length;
    size_t used = pyr_utf8_repair(bytes, length, kept, limit + 1);
    for (size_t at = 0; at < used; at++) {
        if ((unsigned char)kept[at] < 0x20 || kept[at] == 0x7f) {
            kept[at] = ' ';
        }
    }
    kept[used] = '\0';
    labels->text.length += used + 1;
    return kept;
}

pyr_status pyr_labels_add(pyr_labels *labels, const char *name, size_t name_length,
                          const char *value, size_t value_length)
{
    if (name_length == 0 || value_length == 0) {
        return PYR_OK;
    }
    if (name_length > PYR_LABELS_NAME_BYTES || labels->count == PYR_LABELS_COUNT) {
        return PYR_ETOOBIG;
    }
    size_t before = labels->text.length;
    const char *kept = keep(labels, name, name_length, PYR_LABELS_NAME_BYTES);
    if (kept[0] == '\0' || pyr_labels_get(labels, kept) != NULL) {
        labels->text.length = before;
        return PYR_OK;
    }
    labels->list[labels->count].name = kept;
    labels->list[labels->count++].value = keep(labels, value, value_length, PYR_LABELS_VALUE_BYTES);
    return PYR_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct pyr_label *)a)->name, ((const struct pyr_label *)b)->name);
}

pyr_status pyr_labels_write(const pyr_labels *labels, pyr_buffer *out)
{
    struct pyr_label sorted[PYR_LABELS_COUNT];
    memcpy(sorted, labels->list, sizeof sorted);
    qsort(sorted, labels->count, sizeof *sorted, compare);
    for (size_t at = 0; at < labels->count; at++) {
        (void)pyr_buffer_append(out, sorted[at].name, strlen(sorted[at].name) + 1);
        (void)pyr_buffer_append(out, sorted[at].value, strlen(sorted[at].value) + 1);
    }
    return out->status;
}

bool pyr_labels_next(const char **at, const char *end, const char **name, const char **value)
{
    const char *name_end = *at < end ? memchr(*at, '\0', (size_t)(end - *at)) : NULL;
    const char *value_end = name_end != NULL && name_end + 1 < end
                                ? memchr(name_end + 1, '\0', (size_t)(end - name_end - 1))
                                : NULL;
    if (value_end == NULL) {
        return false;
    }
    *name = *at;
    *value = name_end + 1;
    *at = value_end + 1;
    return true;
}
