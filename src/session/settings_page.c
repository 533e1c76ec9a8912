/* The settings page of the user guide, made from the tables. Owns nothing; one thread. */
#include <string.h>

#include "session/settings.h"
#include "session/settings_legacy.h"

pyr_status pyr_settings_document(pyr_buffer *out)
{
    pyr_buffer_text(out,
                    "# Settings\n\n"
                    "Each setting is a variable, a keyword argument of `Profiler` (its name in "
                    "lower case\nwithout the prefix), and a line of the TOML file that "
                    "`PYROMETER_CONFIG_FILE` names. Keyword\narguments win over the environment, "
                    "and that wins over the file. Of several variables the first\none of the row "
                    "that is set counts: ours, Datadog's, OpenTelemetry's. Only "
                    "`ENABLED` differs, where\n`false` wins over `true` of any other source, and "
                    "`TAGS`, which add up.\n\n"
                    "An empty variable counts as not set; blanks and ends of lines around a value "
                    "do not count. A wrong\nvalue is one warning, and the default stays; so is a "
                    "name that does not exist, with the nearest one\nthat does. `pyrometer config "
                    "--explain` shows what applies, where it comes from and what it means;\n"
                    "`pyrometer doctor` looks for what is wrong.\n"
                    "Secrets, and user and password in URLs, are shown nowhere.\n\n"
                    "`OTEL_RESOURCE_ATTRIBUTES` gives service, version, environment and tags, "
                    "`DD_TAGS` the same by the\nkeys `service`, `version` and `env`, where "
                    "nothing stronger does.\n\n"
                    "Times take `ns us ms s m h d` (seconds without a unit), sizes `KiB MiB GiB "
                    "TiB` or `KB MB GB TB`.\n\n"
                    "| variable, aliases | default | from, to | what it does |\n"
                    "|---|---|---|---|\n");
    for (int id = 0; id < PYR_SETTINGS; id++) {
        const pyr_setting *setting = pyr_setting_get((pyr_setting_id)id);
        pyr_buffer_format(out, "| `" PYR_SETTING_PREFIX "%s`", setting->name);
        for (const char *alias = setting->aliases; *alias != '\0';) {
            size_t length = strcspn(alias, " ");
            pyr_buffer_format(out, " `%.*s`", (int)length, alias);
            alias += length + (alias[length] == ' ' ? 1 : 0);
        }
        pyr_buffer_format(out, setting->fallback[0] != '\0' ? " | `%s` |" : " | %s |",
                          setting->fallback);
        if (setting->most[0] != '\0') {
            pyr_buffer_format(out, " `%s`, `%s`", setting->least, setting->most);
        }
        const char *why = pyr_setting_without_effect((pyr_setting_id)id);
        pyr_buffer_format(out, " | %s%s%s%s |\n", setting->help, why != NULL ? " No effect: " : "",
                          why != NULL ? why : "", why != NULL ? "." : "");
    }
    pyr_buffer_text(out, "\n## Variables of Datadog's profiler that have no effect\n\n"
                         "They are accepted; each that is set is one line in the log.\n\n"
                         "| variable | why |\n|---|---|\n");
    for (const pyr_legacy_variable *legacy = pyr_legacy_variables; legacy->name != NULL; legacy++) {
        pyr_buffer_format(out, "| `%s` | %s |\n", legacy->name, legacy->why);
    }
    return out->status;
}
