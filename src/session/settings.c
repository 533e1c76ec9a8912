/* Settings: the table, the parser of its kinds, and what was set.
 *
 * Owns no state but what the caller holds. Called at start, on the thread that starts the profiler.
 * It must never fail a program: whatever is wrong becomes one warning.
 */
#include "session/settings.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "session/settings_sources.h"
#include "session/settings_tags.h"

enum { QUOTED_BYTES = 80, LINE_BYTES = 512 };

static const pyr_setting TABLE[] = {
#define ROW(name, kind, fallback, least, most, aliases, help)                                      \
    {#name, PYR_SETTING_##kind, fallback, least, most, aliases, help},
    PYR_SETTING_MAP(ROW)
#undef ROW
};

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit DURATIONS[] = {{"ns", 1},      {"us", 1e3}, {"ms", 1e6},
                                 {"s", 1e9},     {"m", 60e9}, {"h", 3600e9},
                                 {"d", 86400e9}, {"", 1e9},   {NULL, 0}};
static const unit SIZES[] = {{"", 1},         {"b", 1},        {"kb", 1e3},     {"mb", 1e6},
                             {"gb", 1e9},     {"tb", 1e12},    {"k", 0x1p10},   {"m", 0x1p20},
                             {"g", 0x1p30},   {"t", 0x1p40},   {"kib", 0x1p10}, {"mib", 0x1p20},
                             {"gib", 0x1p30}, {"tib", 0x1p40}, {NULL, 0}};
static const unit PERCENTS[] = {{"", 1}, {"%", 1}, {NULL, 0}};
static const unit NUMBERS[] = {{"", 1}, {NULL, 0}};
static const unit WORDS[] = {{"1", 1}, {"true", 1},  {"yes", 1}, {"on", 1},  {"auto", 1},
                             {"0", 0}, {"false", 0}, {"no", 0},  {"off", 0}, {NULL, 0}};

/* What each kind's text looks like: its units (or words), and how a warning describes it. */
static const struct kind {
    const unit *units;
    const char *expected;
} KINDS[] = {
    [PYR_SETTING_BOOL] = {WORDS, "true or false"},
    [PYR_SETTING_DURATION] = {DURATIONS, "a time such as 10ms, 60s or 2h"},
    [PYR_SETTING_BYTES] = {SIZES, "a size such as 512KiB or 100MB"},
    [PYR_SETTING_PERCENT] = {PERCENTS, "a percentage"},
    [PYR_SETTING_INTEGER] = {NUMBERS, "a whole number"},
    [PYR_SETTING_TEXT] = {NULL, "a text"},
    [PYR_SETTING_LIST] = {NULL, "texts parted by commas"},
    [PYR_SETTING_SECRET] = {NULL, "a text"},
};

const pyr_setting *pyr_setting_get(pyr_setting_id id)
{
    return &TABLE[id];
}

int pyr_setting_find(const char *name)
{
    for (int id = 0; id < PYR_SETTINGS; id++) {
        if (strcasecmp(TABLE[id].name, name) == 0) {
            return id;
        }
    }
    return -1;
}

/* ---------------------------------------------------------------------------------- values */

static bool find_unit(const unit *units, const char *text, size_t length, double *factor)
{
    for (; units->name != NULL; units++) {
        if (strlen(units->name) == length && strncasecmp(units->name, text, length) == 0) {
            *factor = units->factor;
            return true;
        }
    }
    return false;
}

/* Digits with an optional point. Not strtod: its point depends on the program's locale. */
static bool read_decimal(const char **text, const char *end, double *value)
{
    double scale = 0;
    int digits = 0;
    *value = 0;
    for (; *text < end; (*text)++) {
        if (**text == '.' && scale == 0) {
            scale = 1;
        } else if (isdigit((unsigned char)**text) && digits < 18) {
            *value = *value * 10 + (**text - '0');
            scale *= 10;
            digits++;
        } else {
            break;
        }
    }
    if (scale > 1) {
        *value /= scale;
    }
    return digits > 0;
}

/* The text without the blanks around it, such as the end of a line of a file of variables, which
 * no header of HTTP and no path may have. */
static const char *trim(const char *text, size_t *length)
{
    static const char BLANKS[] = " \t\r\n";
    text += strspn(text, BLANKS);
    *length = strlen(text);
    while (*length > 0 && strchr(BLANKS, text[*length - 1]) != NULL) {
        (*length)--;
    }
    return text;
}

static bool read_number(pyr_setting_kind kind, const char *text, double *value)
{
    size_t length = 0;
    text = trim(text, &length);
    const char *end = text + length;
    const unit *units = KINDS[kind].units;
    if (kind == PYR_SETTING_BOOL) {
        return find_unit(units, text, (size_t)(end - text), value);
    }
    double factor = 1;
    if (!read_decimal(&text, end, value)) {
        return false;
    }
    while (text < end && isspace((unsigned char)*text)) {
        text++;
    }
    if (!find_unit(units, text, (size_t)(end - text), &factor)) {
        return false;
    }
    *value *= factor;
    return kind != PYR_SETTING_INTEGER || *value == (double)(int64_t)*value;
}

pyr_status pyr_setting_parse(const pyr_setting *setting, const char *text, pyr_setting_value *value,
                             char *why, size_t why_size)
{
    *value = (pyr_setting_value){0};
    if (strlen(text) > PYR_LIMIT_SETTING_BYTES) {
        snprintf(why, why_size, "at most %d bytes are taken", PYR_LIMIT_SETTING_BYTES);
        return PYR_ETOOBIG;
    }
    if (KINDS[setting->kind].units == NULL) {
        return PYR_OK;
    }
    double number = 0;
    double least = 0;
    double most = 0;
    if (!read_number(setting->kind, text, &number)) {
        snprintf(why, why_size, "%s is expected", KINDS[setting->kind].expected);
        return PYR_EBAD;
    }
    if (setting->kind != PYR_SETTING_BOOL && read_number(setting->kind, setting->least, &least) &&
        read_number(setting->kind, setting->most, &most) && !(number >= least && number <= most)) {
        snprintf(why, why_size, "it must be from %s to %s", setting->least, setting->most);
        return PYR_ETOOBIG;
    }
    value->real = number;
    value->integer = (int64_t)number;
    return PYR_OK;
}

/* --------------------------------------------------------------------------------- sources */

void pyr_settings_say(pyr_settings_warn warn, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (warn.line != NULL) {
        warn.line(warn.context, line);
    }
}

void pyr_settings_init(pyr_settings *settings)
{
    *settings = (pyr_settings){0};
    for (int id = 0; id < PYR_SETTINGS; id++) {
        char why[LINE_BYTES];
        /* A wrong default is found by the unit tests; here it would read as zero. */
        (void)!pyr_setting_parse(&TABLE[id], TABLE[id].fallback, &settings->states[id].value, why,
                                 sizeof why);
    }
}

void pyr_settings_fini(pyr_settings *settings)
{
    for (int id = 0; id < PYR_SETTINGS; id++) {
        pyr_memory_free(settings->states[id].text);
    }
    *settings = (pyr_settings){0};
}

static char *copy_trimmed(const char *text)
{
    size_t length = 0;
    text = trim(text, &length);
    char *copy = pyr_memory_new(length + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

pyr_status pyr_settings_copy(pyr_settings *copy, const pyr_settings *settings)
{
    *copy = *settings;
    bool complete = true;
    for (int id = 0; id < PYR_SETTINGS; id++) {
        if (copy->states[id].text != NULL) {
            copy->states[id].text = complete ? copy_trimmed(settings->states[id].text) : NULL;
            complete = copy->states[id].text != NULL;
        }
    }
    if (!complete) {
        pyr_settings_fini(copy);
        return PYR_ENOMEM;
    }
    return PYR_OK;
}

/* Copies a text without what stands before the last `@` of a host: user and password. A host begins
 * after `://`; among addresses, where some write none, also at the beginning and after a comma. */
static void copy_without_passwords(const char *text, bool is_address, char *out, size_t size)
{
    size_t used = 0;
    while (*text != '\0' && used + sizeof "***" < size) {
        bool is_host = (used >= 3 && memcmp(out + used - 3, "://", 3) == 0) ||
                       (is_address && (used == 0 || strchr(", ", out[used - 1]) != NULL));
        const char *at = is_host ? memrchr(text, '@', strcspn(text, "/, ")) : NULL;
        if (at != NULL && at > text) {
            memcpy(out + used, "***", 3);
            used += 3;
            text = at;
        }
        out[used++] = *text++;
    }
    out[used] = '\0';
}

/* A value as others may see it. */
static void show(pyr_setting_id id, const char *text, char *out, size_t size)
{
    if (TABLE[id].kind == PYR_SETTING_SECRET && text[0] != '\0') {
        snprintf(out, size, "***");
    } else {
        bool is_address = id == PYR_SETTING_URL || id == PYR_SETTING_INTAKE_URL ||
                          id == PYR_SETTING_HTTPS_PROXY || id == PYR_SETTING_AGENT_HOST ||
                          id == PYR_SETTING_SITE;
        copy_without_passwords(text, is_address, out, size);
    }
}

void pyr_settings_show(const pyr_settings *settings, pyr_setting_id id,
                       char shown[PYR_LIMIT_SHOWN_BYTES])
{
    show(id, pyr_settings_text(settings, id), shown, PYR_LIMIT_SHOWN_BYTES);
}

static void warn_wrong(const pyr_settings *settings, pyr_setting_id id, const char *text,
                       const char *source, const char *why, pyr_settings_warn warn)
{
    char given[QUOTED_BYTES + 8];
    char kept[QUOTED_BYTES + 8];
    show(id, text, given, sizeof given);
    show(id, pyr_settings_text(settings, id), kept, sizeof kept);
    pyr_settings_say(warn, "%s: \"%.*s\" is ignored, %s; %s stays %s", source, QUOTED_BYTES, given,
                     why, TABLE[id].name, kept[0] != '\0' ? kept : "unset");
}

/* The text to keep, owned by the caller; NULL: no memory. */
static char *text_to_keep(const struct pyr_setting_state *state, pyr_setting_id id,
                          const char *text)
{
    char *copy = copy_trimmed(text);
    if (copy == NULL || id != PYR_SETTING_TAGS) {
        return copy;
    }
    char *tags = pyr_tags_join(copy, state->text);
    pyr_memory_free(copy);
    return tags;
}

void pyr_settings_set(pyr_settings *settings, pyr_setting_id id, const char *text,
                      const char *source, pyr_settings_warn warn)
{
    struct pyr_setting_state *state = &settings->states[id];
    pyr_setting_value value;
    char why[LINE_BYTES];
    if (pyr_setting_parse(&TABLE[id], text, &value, why, sizeof why) != PYR_OK) {
        warn_wrong(settings, id, text, source, why, warn);
        return;
    }
    if (id == PYR_SETTING_ENABLED && state->value.integer == 0) {
        return; /* one switch is enough to be sure */
    }
    char *kept = text_to_keep(state, id, text);
    if (kept == NULL) {
        pyr_settings_say(warn, "%s is ignored: out of memory", source);
        return;
    }
    pyr_memory_free(state->text);
    state->text = kept;
    state->value = value;
    snprintf(state->source, sizeof state->source, "%s", source);
}

const char *pyr_setting_name_at(const void *names, size_t index)
{
    return ((const pyr_setting *)names)[index].name;
}

void pyr_settings_say_unknown(const char *prefix, const char *name,
                              const char *(*known_at)(const void *names, size_t index),
                              pyr_settings_warn warn)
{
    char upper[PYR_LIMIT_SETTING_SOURCE];
    size_t length = strnlen(name, sizeof upper - 1);
    for (size_t index = 0; index < length; index++) {
        upper[index] = (char)toupper((unsigned char)name[index]);
    }
    upper[length] = '\0';
    const char *nearest = pyr_nearest(upper, PYR_SETTINGS, known_at, TABLE);
    if (nearest != NULL) {
        pyr_settings_say(warn, "there is no setting %s%.*s; did you mean %s%s?", prefix,
                         QUOTED_BYTES, name, prefix, nearest);
    } else {
        pyr_settings_say(warn, "there is no setting %s%.*s; it is ignored", prefix, QUOTED_BYTES,
                         name);
    }
}

void pyr_settings_set_named(pyr_settings *settings, const char *name, const char *text,
                            const char *source, pyr_settings_warn warn)
{
    int id = pyr_setting_find(name);
    if (id < 0) {
        pyr_settings_say_unknown("", name, pyr_setting_name_at, warn);
        return;
    }
    pyr_settings_set(settings, (pyr_setting_id)id, text, source, warn);
}

void pyr_settings_warn_of_effects(const pyr_settings *settings, pyr_settings_warn warn)
{
    for (int id = 0; id < PYR_SETTINGS; id++) {
        const struct pyr_setting_state *state = &settings->states[id];
        const char *why = pyr_setting_without_effect((pyr_setting_id)id);
        bool is_off = TABLE[id].kind == PYR_SETTING_BOOL && state->value.integer == 0;
        if (state->text != NULL && why != NULL && !is_off) {
            pyr_settings_say(warn, "%s (%s)" PYR_SETTINGS_NO_EFFECT "%s", TABLE[id].name,
                             state->source, why);
        }
    }
}

/* --------------------------------------------------------------------------------- results */

bool pyr_settings_bool(const pyr_settings *settings, pyr_setting_id id)
{
    return settings->states[id].value.integer != 0;
}

int64_t pyr_settings_integer(const pyr_settings *settings, pyr_setting_id id)
{
    return settings->states[id].value.integer;
}

double pyr_settings_real(const pyr_settings *settings, pyr_setting_id id)
{
    return settings->states[id].value.real;
}

const char *pyr_settings_text(const pyr_settings *settings, pyr_setting_id id)
{
    const char *text = settings->states[id].text;
    return text != NULL ? text : TABLE[id].fallback;
}

void pyr_settings_facts(const pyr_settings *settings, pyr_facts *facts, bool sources)
{
    for (int id = 0; id < PYR_SETTINGS; id++) {
        const struct pyr_setting_state *state = &settings->states[id];
        if (state->text == NULL) {
            continue;
        }
        char shown[PYR_LIMIT_FACT_TEXT];
        show((pyr_setting_id)id, state->text, shown, sizeof shown);
        pyr_facts_add_text(facts, "settings", TABLE[id].name, shown);
        if (sources) {
            pyr_facts_add_text(facts, "settings from", TABLE[id].name, state->source);
        }
    }
}
