/* Fuzzes session/settings: the input is an environment, one entry a line. Whatever it holds, every
 * value stays within the bounds of its row, false stays false, and no password is shown. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "session/settings.h"

enum { ENTRIES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *context, const char *text)
{
    (void)context;
    if (strchr(text, '\0') == NULL) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    char *entries[ENTRIES + 1] = {0};
    size_t count = 0;
    char *rest = text;
    while (count < ENTRIES && rest != NULL) {
        entries[count++] = strsep(&rest, "\n");
    }
    pyr_settings settings;
    pyr_settings_init(&settings);
    const pyr_settings_warn warn = {ignore, NULL};
    pyr_settings_read(&settings, entries, warn);
    bool enabled = pyr_settings_bool(&settings, PYR_SETTING_ENABLED);
    pyr_settings_set_named(&settings, "enabled", "true", "argument", warn);
    pyr_settings_set_named(&settings, "tags", "fuzz:1", "argument", warn);
    pyr_settings_warn_of_effects(&settings, warn);
    if (pyr_settings_bool(&settings, PYR_SETTING_ENABLED) != enabled ||
        strncmp(pyr_settings_text(&settings, PYR_SETTING_TAGS), "fuzz:1", 6) != 0) {
        abort();
    }
    for (int id = 0; id < PYR_SETTINGS; id++) {
        char shown[PYR_LIMIT_SHOWN_BYTES];
        pyr_settings_show(&settings, (pyr_setting_id)id, shown);
        bool is_secret = pyr_setting_get((pyr_setting_id)id)->kind == PYR_SETTING_SECRET;
        if (strlen(pyr_settings_text(&settings, (pyr_setting_id)id)) > PYR_LIMIT_SETTING_BYTES ||
            (is_secret && shown[0] != '\0' && strcmp(shown, "***") != 0) ||
            strstr(shown, "://me:secret@") != NULL) {
            abort();
        }
    }
    int64_t interval = pyr_settings_integer(&settings, PYR_SETTING_SAMPLING_INTERVAL);
    int64_t frames = pyr_settings_integer(&settings, PYR_SETTING_MAX_FRAMES);
    double overhead = pyr_settings_real(&settings, PYR_SETTING_OVERHEAD_PCT);
    if (interval < 1000000 || interval > 1000000000 || frames < 1 || frames > 599 ||
        !(overhead >= 0.01 && overhead <= 100) ||
        pyr_settings_integer(&settings, PYR_SETTING_OUTPUT_MAX_BYTES) < 0) {
        abort();
    }
    pyr_settings_fini(&settings);
    free(text);
    return 0;
}
