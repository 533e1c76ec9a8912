/* Settings from the environment: which variable counts, what OpenTelemetry and Datadog mean by
 * theirs, and warnings of names that are nothing.
 *
 * Owns nothing. Called at start, on the thread that starts the profiler; it reads the environment
 * that it is given, once.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "session/settings.h"
#include "session/settings_legacy.h"
#include "session/settings_sources.h"
#include "session/settings_tags.h"

enum { UNKNOWN_WARNINGS = 8, NAMES_OF_ONE = 6 };

#define DATADOG_PREFIX "DD_PROFILING_"

/* Variables with our prefix that are no settings: they belong to the launcher and to tools. */
static const char *const RESERVED[] = {"PACKAGE", "PROGRAM", "ENTRY",
                                       "BUILD",   "CACHE",   "FUZZ_SECONDS"};

/* The value of the variable prefix + name (of `length` bytes), or NULL. An empty one counts as not
 * set: that is how shells and compose files leave one out. */
static const char *get_variable(char *const *environment, const char *prefix, const char *name,
                                size_t length)
{
    size_t prefix_length = strlen(prefix);
    for (; *environment != NULL; environment++) {
        const char *entry = *environment;
        if (strncmp(entry, prefix, prefix_length) == 0 &&
            strncmp(entry + prefix_length, name, length) == 0 &&
            entry[prefix_length + length] == '=') {
            const char *value = entry + prefix_length + length + 1;
            return value[0] != '\0' ? value : NULL;
        }
    }
    return NULL;
}

/* Sets it from the first of its variables that is set; TAGS from all, the first one last. */
static void read_setting(pyr_settings *settings, pyr_setting_id id, char *const *environment,
                         pyr_settings_warn warn)
{
    struct {
        const char *prefix, *name, *value;
        int length;
    } found[NAMES_OF_ONE];
    size_t count = 0;
    const char *name = pyr_setting_get((pyr_setting_id)id)->name;
    const char *prefix = PYR_SETTING_PREFIX;
    const char *rest = pyr_setting_get((pyr_setting_id)id)->aliases;
    for (size_t length = strlen(name); length > 0 && count < NAMES_OF_ONE;) {
        const char *value = get_variable(environment, prefix, name, length);
        if (value != NULL && (count == 0 || id == PYR_SETTING_TAGS)) {
            found[count].prefix = prefix;
            found[count].name = name;
            found[count].value = value;
            found[count++].length = (int)length;
        }
        prefix = "";
        name = rest;
        length = strcspn(rest, " ");
        rest += length + (rest[length] == ' ' ? 1 : 0);
    }
    while (count-- > 0) {
        char source[PYR_LIMIT_SETTING_SOURCE];
        snprintf(source, sizeof source, "%s%.*s", found[count].prefix, found[count].length,
                 found[count].name);
        pyr_settings_set(settings, id, found[count].value, source, warn);
    }
}

/* What OpenTelemetry knows of the process: weaker than any variable of the table. */
static void read_attributes(pyr_settings *settings, char *const *environment,
                            pyr_settings_warn warn)
{
    static const struct {
        const char *attribute;
        pyr_setting_id id;
    } OWN[] = {
        {"service.name", PYR_SETTING_SERVICE},
        {"service.version", PYR_SETTING_VERSION},
        {"deployment.environment", PYR_SETTING_ENV},
        {"deployment.environment.name", PYR_SETTING_ENV},
    };
    static const char VARIABLE[] = "OTEL_RESOURCE_ATTRIBUTES";
    const char *text = get_variable(environment, "", VARIABLE, sizeof VARIABLE - 1);
    char *tags = text != NULL ? pyr_tags_from_attributes(text) : NULL;
    if (tags == NULL) {
        return;
    }
    char value[PYR_LIMIT_TAG_BYTES];
    for (size_t row = 0; row < sizeof OWN / sizeof OWN[0]; row++) {
        if (pyr_tags_find(tags, OWN[row].attribute, value, sizeof value)) {
            pyr_settings_set(settings, OWN[row].id, value, VARIABLE, warn);
        }
    }
    if (tags[0] != '\0') {
        pyr_settings_set(settings, PYR_SETTING_TAGS, tags, VARIABLE, warn);
    }
    pyr_memory_free(tags);
}

/* DD_TAGS may name what has variables of its own, which are stronger, as with ddtrace. */
static void read_datadog_tags(pyr_settings *settings, char *const *environment,
                              pyr_settings_warn warn)
{
    static const struct {
        const char *key;
        pyr_setting_id id;
    } OWN[] = {
        {"service", PYR_SETTING_SERVICE},
        {"env", PYR_SETTING_ENV},
        {"version", PYR_SETTING_VERSION},
    };
    const char *text = get_variable(environment, "", "DD_TAGS", strlen("DD_TAGS"));
    char *tags = text != NULL ? pyr_tags_join(text, NULL) : NULL;
    for (size_t row = 0; tags != NULL && row < sizeof OWN / sizeof OWN[0]; row++) {
        const char *source = settings->states[OWN[row].id].source;
        bool is_weaker = source[0] == '\0' || strcmp(source, PYR_SETTINGS_FILE) == 0 ||
                         strncmp(source, "OTEL_", 5) == 0;
        char value[PYR_LIMIT_TAG_BYTES];
        if (is_weaker && pyr_tags_find(tags, OWN[row].key, value, sizeof value)) {
            pyr_settings_set(settings, OWN[row].id, value, "DD_TAGS", warn);
        }
    }
    pyr_memory_free(tags);
}

static bool is_false(const char *text)
{
    const pyr_setting *any_switch = pyr_setting_get(PYR_SETTING_ENABLED);
    pyr_setting_value value;
    char why[PYR_LIMIT_SETTING_SOURCE];
    return pyr_setting_parse(any_switch, text, &value, why, sizeof why) == PYR_OK &&
           value.integer == 0;
}

static bool is_known(const char *name)
{
    for (size_t index = 0; index < sizeof RESERVED / sizeof RESERVED[0]; index++) {
        if (strcmp(name, RESERVED[index]) == 0) {
            return true;
        }
    }
    int id = pyr_setting_find(name);
    return id >= 0 && strcmp(pyr_setting_get((pyr_setting_id)id)->name, name) ==
                          0; /* variables have one case */
}

/* True when the row has the alias. */
static bool has_alias(const pyr_setting *setting, const char *alias, size_t length)
{
    for (const char *at = setting->aliases; *at != '\0';) {
        size_t one = strcspn(at, " ");
        if (one == length && memcmp(at, alias, length) == 0) {
            return true;
        }
        at += one + (at[one] == ' ' ? 1 : 0);
    }
    return false;
}

static bool is_alias(const char *name, size_t length)
{
    for (int id = 0; id < PYR_SETTINGS; id++) {
        if (has_alias(pyr_setting_get((pyr_setting_id)id), name, length)) {
            return true;
        }
    }
    return false;
}

/* For the hint: the name, where Datadog's variable differs by the prefix only. */
static const char *datadog_name_at(const void *names, size_t index)
{
    const pyr_setting *setting = (const pyr_setting *)names + index;
    char alias[PYR_LIMIT_SETTING_SOURCE];
    int length = snprintf(alias, sizeof alias, DATADOG_PREFIX "%s", setting->name);
    return has_alias(setting, alias, (size_t)length) ? setting->name : NULL;
}

/* A variable of Datadog's profiler that is not in the table. False: it is nothing to speak of. */
static bool warn_datadog(const char *name, size_t length, const char *value, pyr_settings_warn warn)
{
    const pyr_legacy_variable *legacy = pyr_legacy_find(name, length);
    if (legacy != NULL) {
        bool is_off = is_false(value);
        if (value[0] == '\0' || (is_off && legacy->false_is_fulfilled)) {
            return false;
        }
        pyr_settings_say(warn, "%s" PYR_SETTINGS_NO_EFFECT "%s", legacy->name, legacy->why);
        return true;
    }
    const size_t prefix = strlen(DATADOG_PREFIX);
    if (strncmp(name, DATADOG_PREFIX, prefix) != 0 || is_alias(name, length)) {
        return false;
    }
    char rest[PYR_LIMIT_SETTING_SOURCE];
    snprintf(rest, sizeof rest, "%.*s", (int)(length - prefix), name + prefix);
    pyr_settings_say_unknown(DATADOG_PREFIX, rest, datadog_name_at, warn);
    return true;
}

/* False: nothing was said. */
static bool warn_of_variable(const char *entry, pyr_settings_warn warn)
{
    const size_t prefix = strlen(PYR_SETTING_PREFIX);
    size_t length = strcspn(entry, "=");
    if (strncmp(entry, PYR_SETTING_PREFIX, prefix) != 0) {
        return warn_datadog(entry, length, entry + length + (entry[length] == '=' ? 1 : 0), warn);
    }
    char name[PYR_LIMIT_SETTING_SOURCE];
    snprintf(name, sizeof name, "%.*s",
             (int)(length - prefix < sizeof name ? length - prefix : sizeof name - 1),
             entry + prefix);
    if (is_known(name)) {
        return false;
    }
    pyr_settings_say_unknown(PYR_SETTING_PREFIX, name, pyr_setting_name_at, warn);
    return true;
}

void pyr_settings_read(pyr_settings *settings, char *const *environment, pyr_settings_warn warn)
{
    read_attributes(settings, environment, warn);
    for (int id = 0; id < PYR_SETTINGS; id++) {
        read_setting(settings, (pyr_setting_id)id, environment, warn);
    }
    read_datadog_tags(settings, environment, warn);
    for (int warned = 0; *environment != NULL && warned < UNKNOWN_WARNINGS; environment++) {
        warned += warn_of_variable(*environment, warn);
    }
}
