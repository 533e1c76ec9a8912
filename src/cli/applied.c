/* The settings that apply; see the header. Owns nothing but what the caller holds; one thread. */
#include "cli/applied.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note_problem(void *context, const char *text)
{
    pyr_applied *applied = context;
    if (applied->problem_count < PYR_LIMIT_PROBLEMS) {
        snprintf(applied->problems[applied->problem_count++], PYR_LIMIT_PROBLEM_BYTES, "%s", text);
    }
}

static void take_text(const json_t *entry, const char *key, char *text, size_t size)
{
    const char *value = json_string_value(json_object_get(entry, key));
    snprintf(text, size, "%s", value != NULL ? value : "");
}

static void take_file(pyr_applied *applied, json_t *entry, pyr_settings_warn warn)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(entry, "file"), name, value)
    {
        if (json_is_string(value)) {
            pyr_settings_set_named(&applied->settings, name, json_string_value(value),
                                   PYR_SETTINGS_FILE, warn);
        }
    }
    const char *problem = json_string_value(json_object_get(entry, "file_problem"));
    if (problem != NULL && problem[0] != '\0') {
        note_problem(applied, problem);
    }
}

void pyr_applied_read(pyr_applied *applied, char *const *environment)
{
    const pyr_settings_warn warn = {note_problem, applied};
    const char *text = getenv("PYROMETER_ENTRY");
    json_t *entry = text != NULL ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    *applied = (pyr_applied){.has_entry = entry != NULL};
    pyr_settings_init(&applied->settings);
    take_text(entry, "python", applied->python, sizeof applied->python);
    take_text(entry, "core", applied->core, sizeof applied->core);
    take_text(entry, "others", applied->others, sizeof applied->others);
    take_file(applied, entry, warn);
    pyr_settings_read(&applied->settings, environment, warn);
    if (!applied->has_entry &&
        pyr_settings_text(&applied->settings, PYR_SETTING_CONFIG_FILE)[0] != '\0') {
        note_problem(applied, "CONFIG_FILE: it is read by Python, and this program was started "
                              "without; call it as `python -m pyrometer`");
    }
    pyr_settings_warn_of_effects(&applied->settings, warn);
    json_decref(entry);
}

void pyr_applied_fini(pyr_applied *applied)
{
    pyr_settings_fini(&applied->settings);
}

const char *pyr_applied_source(const pyr_applied *applied, pyr_setting_id id)
{
    const char *source = applied->settings.states[id].source;
    return source[0] != '\0' ? source : "default";
}
