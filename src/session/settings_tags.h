/* Tags of a process as texts: "key:value,key:value". Pure but for memory; any thread. */
#ifndef PYR_SESSION_SETTINGS_TAGS_H
#define PYR_SESSION_SETTINGS_TAGS_H

#include <stdbool.h>
#include <stddef.h>

enum { PYR_LIMIT_TAG_BYTES = 512 };

/* The tags of `first`, then those of `second` (NULL = none) whose keys `first` does not have. Both
 * are parted by commas, or by spaces where every word is a pair, as Datadog takes DD_TAGS. What is
 * no pair stays, for who sends it to judge. Cut, at a tag, where it is too long for a setting. The
 * caller frees it with pyr_memory_free. NULL: no memory. */
char *pyr_tags_join(const char *first, const char *second);

/* The value of a key, cut where it is too long; false: no such tag. */
bool pyr_tags_find(const char *tags, const char *key, char *value, size_t size);

/* OpenTelemetry's "key=value,key=value", percent-encoded, as tags; commas in values become "_". Cut
 * as above. The caller frees it. NULL: no memory. */
char *pyr_tags_from_attributes(const char *attributes);

#endif
