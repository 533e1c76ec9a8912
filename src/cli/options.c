/* Command line options from tables.
 *
 * Owns nothing: texts are borrowed from argv. Called once by each subcommand from the program's
 * only thread. A wrong option ends the run before any input is read, with a near match where the
 * word looks like a slip of the keyboard.
 */
#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/message.h"

enum { HELP_COLUMN = 26 };

static const char *option_name(const void *names, size_t index)
{
    return ((const pyr_option *)names)[index].name;
}

static void print_help(const pyr_usage *usage)
{
    printf("Usage: pyrometer %s [OPTION]... %s\n\n%s", usage->command, usage->operands,
           usage->about);
    for (size_t index = 0; index < usage->option_count; index++) {
        const pyr_option *option = &usage->options[index];
        if (option->kind == PYR_OPTION_HEADING) {
            printf("\n%s:\n", option->help);
            continue;
        }
        char letter[] = {option->letter == '\0' ? ' ' : '-',
                         option->letter == '\0' ? ' ' : option->letter,
                         option->letter == '\0' ? ' ' : ',', '\0'};
        int width =
            printf("  %s --%s%s%s", letter, option->name, option->argument != NULL ? " " : "",
                   option->argument != NULL ? option->argument : "");
        if (width >= HELP_COLUMN) {
            printf("\n");
            width = 0;
        }
        printf("%*s%s\n", HELP_COLUMN - width, "", option->help);
    }
    printf("\nOther:\n  -h, --help%*sshow this text\n", HELP_COLUMN - 12, "");
}

static pyr_parse_result wrong_option(const pyr_usage *usage, const char *word)
{
    const char *nearest = pyr_nearest(word, usage->option_count, option_name, usage->options);
    if (nearest != NULL) {
        pyr_message_wrong("%s has no option --%s; did you mean --%s?", usage->command, word,
                          nearest);
    } else {
        pyr_message_wrong("%s has no option %s%s; see pyrometer %s --help", usage->command,
                          word[1] == '\0' ? "-" : "--", word, usage->command);
    }
    return PYR_PARSE_WRONG;
}

static bool set_count(const char *text, size_t *target)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return false;
    }
    *target = value;
    return true;
}

bool pyr_options_percent(const char *text, double *percent)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || (*end != '\0' && strcmp(end, "%") != 0) || !(value >= 0) || value > 100) {
        return false;
    }
    *percent = value;
    return true;
}

static bool set_target(const pyr_usage *usage, const pyr_option *option, const char *text)
{
    bool good = true;
    const char *wanted = "";
    switch (option->kind) {
    case PYR_OPTION_HEADING:
    case PYR_OPTION_FLAG:
        break;
    case PYR_OPTION_TEXT:
        *(const char **)option->target = text;
        break;
    case PYR_OPTION_TEXTS: {
        pyr_option_list *list = option->target;
        good = list->count < PYR_OPTION_LIST_MAXIMUM;
        wanted = "at most 32 times";
        if (good) {
            list->items[list->count++] = text;
        }
        break;
    }
    case PYR_OPTION_COUNT:
        good = set_count(text, option->target);
        wanted = "with a whole number";
        break;
    case PYR_OPTION_PERCENT:
        good = pyr_options_percent(text, option->target);
        wanted = "with a percentage between 0 and 100";
        break;
    }
    if (!good) {
        pyr_message_wrong("--%s cannot be \"%s\"; give it %s, see pyrometer %s --help",
                          option->name, text, wanted, usage->command);
    }
    return good;
}

static const pyr_option *find_option(const pyr_usage *usage, const char *name, size_t length)
{
    for (size_t index = 0; index < usage->option_count; index++) {
        const pyr_option *option = &usage->options[index];
        if (option->kind != PYR_OPTION_HEADING && strlen(option->name) == length &&
            memcmp(option->name, name, length) == 0) {
            return option;
        }
    }
    return NULL;
}

static const pyr_option *find_letter(const pyr_usage *usage, char letter)
{
    for (size_t index = 0; index < usage->option_count; index++) {
        if (letter != '\0' && usage->options[index].letter == letter) {
            return &usage->options[index];
        }
    }
    return NULL;
}

/* One word that starts with a dash, and the word after it where the option takes a value.
 * Short flags are not bundled: none of the subcommands has enough of them. */
static pyr_parse_result parse_option(const pyr_usage *usage, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    const char *value = NULL;
    const pyr_option *option = NULL;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help(usage);
        return PYR_PARSE_HELP;
    }
    if (word[1] == '-') {
        const char *name = word + 2;
        const char *equals = strchr(name, '=');
        size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
        option = find_option(usage, name, length);
        value = equals != NULL ? equals + 1 : NULL;
        if (option == NULL) {
            char quoted[256];
            snprintf(quoted, sizeof quoted, "%.*s", (int)(length < 200 ? length : 200), name);
            return wrong_option(usage, quoted);
        }
    } else {
        option = find_letter(usage, word[1]);
        value = word[2] != '\0' ? word + 2 : NULL;
        if (option == NULL) {
            return wrong_option(usage, (const char[]){word[1], '\0'});
        }
    }
    if (option->kind == PYR_OPTION_FLAG) {
        if (value != NULL) {
            pyr_message_wrong("--%s takes no value; leave out \"%s\"", option->name, value);
            return PYR_PARSE_WRONG;
        }
        *(bool *)option->target = true;
        return PYR_PARSE_GOOD;
    }
    if (value == NULL) {
        if (*at + 1 >= argc) {
            pyr_message_wrong("--%s needs a value: --%s %s", option->name, option->name,
                              option->argument);
            return PYR_PARSE_WRONG;
        }
        *at += 1;
        value = argv[*at];
    }
    return set_target(usage, option, value) ? PYR_PARSE_GOOD : PYR_PARSE_WRONG;
}

pyr_parse_result pyr_options_parse(const pyr_usage *usage, int argc, char **argv,
                                   size_t *operand_count)
{
    size_t operands = 0;
    bool only_operands = false;
    for (int at = 0; at < argc; at++) {
        if (!only_operands && strcmp(argv[at], "--") == 0) {
            only_operands = true;
        } else if (only_operands || argv[at][0] != '-' || argv[at][1] == '\0') {
            argv[operands++] = argv[at];
            only_operands = only_operands || usage->stop_at_operand;
        } else {
            pyr_parse_result result = parse_option(usage, argc, argv, &at);
            if (result != PYR_PARSE_GOOD) {
                return result;
            }
        }
    }
    *operand_count = operands;
    if (operands < usage->least_operands || operands > usage->most_operands) {
        pyr_message_wrong("%s is used as: pyrometer %s %s; see pyrometer %s --help", usage->command,
                          usage->command, usage->operands, usage->command);
        return PYR_PARSE_WRONG;
    }
    return PYR_PARSE_GOOD;
}
