/* pyrometer config: what each setting is, where that comes from, and what it means.
 *
 * Owns nothing beyond its run. It reads the environment, changes nothing, and shows no secret.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "cli/applied.h"
#include "cli/commands.h"
#include "cli/display.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/options.h"

enum { NAME_COLUMNS = 28 };

/* The value, safe for a terminal; "-" where there is none. */
static void print_value(const pyr_applied *applied, pyr_setting_id id)
{
    char shown[PYR_LIMIT_SHOWN_BYTES];
    pyr_buffer clean;
    pyr_settings_show(&applied->settings, id, shown);
    pyr_buffer_init(&clean, sizeof shown * 4);
    pyr_display_clean(&clean, shown[0] != '\0' ? shown : "-", strlen(shown) + (shown[0] == '\0'));
    pyr_display_write(&clean, stdout);
    pyr_buffer_fini(&clean);
}

static void print_meaning(pyr_setting_id id)
{
    const pyr_setting *setting = pyr_setting_get(id);
    const char *why = pyr_setting_without_effect(id);
    printf("    %s\n", setting->help);
    if (why != NULL) {
        printf("    No effect: %s.\n", why);
    }
    printf("    Default %s", setting->fallback[0] != '\0' ? setting->fallback : "none");
    if (setting->most[0] != '\0') {
        printf(", from %s to %s", setting->least, setting->most);
    }
    printf(". " PYR_SETTING_PREFIX "%s", setting->name);
    for (const char *rest = setting->aliases; *rest != '\0';) {
        size_t length = strcspn(rest, " ");
        printf(", %.*s", (int)length, rest);
        rest += length + (rest[length] == ' ' ? 1 : 0);
    }
    fputs(".\n\n", stdout);
}

static void print_text(const pyr_applied *applied, bool explain)
{
    for (int at = 0; at < PYR_SETTINGS; at++) {
        pyr_setting_id id = (pyr_setting_id)at;
        printf("%-*s ", NAME_COLUMNS, pyr_setting_get(id)->name);
        print_value(applied, id);
        printf("  (%s)\n", pyr_applied_source(applied, id));
        if (explain) {
            print_meaning(id);
        }
    }
    for (size_t index = 0; index < applied->problem_count; index++) {
        pyr_message_note("%s", applied->problems[index]);
    }
}

static void write_setting(pyr_json *json, const pyr_applied *applied, pyr_setting_id id)
{
    const pyr_setting *setting = pyr_setting_get(id);
    const char *why = pyr_setting_without_effect(id);
    char shown[PYR_LIMIT_SHOWN_BYTES];
    pyr_settings_show(&applied->settings, id, shown);
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "name", setting->name);
    pyr_json_string(json, "value", shown);
    pyr_json_string(json, "from", pyr_applied_source(applied, id));
    pyr_json_string(json, "default", setting->fallback);
    pyr_json_string(json, "least", setting->least);
    pyr_json_string(json, "most", setting->most);
    pyr_json_begin(json, "aliases", '[');
    for (const char *rest = setting->aliases; *rest != '\0';) {
        size_t length = strcspn(rest, " ");
        pyr_json_text(json, NULL, rest, length);
        rest += length + (rest[length] == ' ' ? 1 : 0);
    }
    pyr_json_end(json, ']');
    pyr_json_string(json, "meaning", setting->help);
    if (why != NULL) {
        pyr_json_string(json, "no_effect", why);
    } else {
        pyr_json_null(json, "no_effect");
    }
    pyr_json_end(json, '}');
}

static void print_json(const pyr_applied *applied)
{
    pyr_json json = {.out = stdout};
    pyr_json_begin(&json, NULL, '{');
    pyr_json_begin(&json, "settings", '[');
    for (int id = 0; id < PYR_SETTINGS; id++) {
        write_setting(&json, applied, (pyr_setting_id)id);
    }
    pyr_json_end(&json, ']');
    pyr_json_begin(&json, "problems", '[');
    for (size_t index = 0; index < applied->problem_count; index++) {
        pyr_json_string(&json, NULL, applied->problems[index]);
    }
    pyr_json_end(&json, ']');
    pyr_json_end(&json, '}');
    putchar('\n');
}

int pyr_command_config(int argc, char **argv)
{
    static pyr_applied applied; /* too large for a stack */
    bool explain = false;
    bool as_json = false;
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "How much", NULL},
        {PYR_OPTION_FLAG, 0, "explain", NULL, "what each means, its bounds and other names",
         &explain},
        {PYR_OPTION_FLAG, 0, "json", NULL, "all of it, as JSON", &as_json},
    };
    const pyr_usage usage = {
        .command = "config",
        .operands = "",
        .about = "Shows the settings that a program started from here would have: value, and "
                 "where it comes\nfrom. Secrets are masked. What is wrong is a line on standard "
                 "error.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    pyr_applied_read(&applied, environ);
    if (as_json) {
        print_json(&applied);
    } else {
        print_text(&applied, explain);
    }
    pyr_applied_fini(&applied);
    return PYR_EXIT_GOOD;
}
