/* Variables of Datadog's profiler that are accepted and change nothing, and why. */
#ifndef PYR_SESSION_SETTINGS_LEGACY_H
#define PYR_SESSION_SETTINGS_LEGACY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pyr_legacy_variable {
    const char *name;
    const char *why;
    bool false_is_fulfilled; /* set to false it gets what it asks for: nothing to be told */
} pyr_legacy_variable;

/* Ended by a name that is NULL. */
extern const pyr_legacy_variable pyr_legacy_variables[];

/* The row called by the `length` bytes of `name`, or NULL. */
const pyr_legacy_variable *pyr_legacy_find(const char *name, size_t length);

#endif
