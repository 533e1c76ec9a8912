/* What the readers of settings share: how they warn. */
#ifndef PYR_SESSION_SETTINGS_SOURCES_H
#define PYR_SESSION_SETTINGS_SOURCES_H

#include "session/settings.h"

/* One warning. */
void pyr_settings_say(pyr_settings_warn warn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* There is no `prefix` + `name`; with the nearest of the table's names that `known_at` gives. */
void pyr_settings_say_unknown(const char *prefix, const char *name,
                              const char *(*known_at)(const void *names, size_t index),
                              pyr_settings_warn warn);

/* The name of the row `index` of the table `names`. */
const char *pyr_setting_name_at(const void *names, size_t index);

#endif
