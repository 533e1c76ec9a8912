/* The `pyrometer` program: finds the subcommand and leaves the rest to it.
 *
 * Owns the table of subcommands. One thread. It reads profiles and starts programs; of a process
 * that it did not start it only asks what that offers (ctl).
 */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"

typedef struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv);
} command;

static const command COMMANDS[] = {
    {"run", "start a command with the profiler on", pyr_command_run},
    {"report", "show where time goes, as text: functions, lines, call tree, groups",
     pyr_command_report},
    {"list", "show the source of a function with the cost of each line", pyr_command_list},
    {"leaks", "show which lines allocate what stays and grows", pyr_command_leaks},
    {"locks", "show who waited for locks, and because of whom", pyr_command_locks},
    {"exceptions", "show what is raised where, how often, and who catches it",
     pyr_command_exceptions},
    {"flamegraph", "make a flame graph page, one file for the browser", pyr_command_flamegraph},
    {"convert", "write profiles for other viewers", pyr_command_convert},
    {"diff", "compare two profiles, noise told apart from change", pyr_command_diff},
    {"recover", "make a profile of what a process left that was killed", pyr_command_recover},
    {"ctl", "ask and steer the profiler of a running process", pyr_command_ctl},
    {"config", "show the settings: value, where it comes from, meaning", pyr_command_config},
    {"doctor", "look for what might leave a profile empty", pyr_command_doctor},
    {"serve", "take profiles in, keep them, show them in a browser", pyr_command_serve},
    {"upload", "send profile files to a server", pyr_command_upload},
    {"store", "check, compact, export from or delete from a server's store", pyr_command_store},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

static int print_version(void)
{
    printf("pyrometer %s\n", PYR_VERSION);
    return PYR_EXIT_GOOD;
}

static void print_help(FILE *out)
{
    fputs("Usage: pyrometer COMMAND [OPTION]... [FILE]...\n\n"
          "Pyrometer shows where the time of a Python service goes.\n\nCommands:\n",
          out);
    for (size_t index = 0; index < COMMAND_COUNT; index++) {
        fprintf(out, "  %-12s %s\n", COMMANDS[index].name, COMMANDS[index].help);
    }
    fputs("  version      show the version\n\n"
          "pyrometer COMMAND --help explains a command. FILE is a profile (*.pprof), or a folder "
          "of them.\n",
          out);
}

static const char *command_name(const void *names, size_t index)
{
    return ((const command *)names)[index].name;
}

static int unknown_command(const char *word)
{
    const char *nearest = pyr_nearest(word, COMMAND_COUNT, command_name, COMMANDS);
    if (nearest != NULL) {
        return pyr_message_wrong("there is no command \"%s\"; did you mean \"%s\"?", word, nearest);
    }
    return pyr_message_wrong("there is no command \"%s\"; see pyrometer --help", word);
}

/* Results are written to standard output by many; a full disk or a closed pipe is noticed once. */
static int finish(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return pyr_message_wrong("the output could not be written whole: %m");
    }
    return code;
}

int main(int argc, char **argv)
{
    /* Widths of characters need a UTF-8 locale; numbers stay as in C. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        setlocale(LC_CTYPE, "");
    }
    if (argc < 2) {
        print_help(stderr);
        return PYR_EXIT_WRONG;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        return finish(print_version());
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(stdout);
        return finish(PYR_EXIT_GOOD);
    }
    for (size_t index = 0; index < COMMAND_COUNT; index++) {
        if (strcmp(word, COMMANDS[index].name) == 0) {
            return finish(COMMANDS[index].run(argc - 2, argv + 2));
        }
    }
    return unknown_command(word);
}
