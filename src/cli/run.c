/* pyrometer run: starts a command with the profiler on.
 *
 * Owns nothing: it changes the environment and becomes the command by exec, so that pid, signals,
 * standard streams and exit code are the command's own. It never waits, and forks only for --serve.
 *
 * Python finds the profiler through PYTHONPATH: the package's _bootstrap folder holds a
 * sitecustomize module, which every interpreter imports at its start. A PYTHONPATH that is there
 * stays behind ours, and a sitecustomize found there still runs.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/serving.h"
#include "os/claim.h"

enum {
    EXIT_NOT_EXECUTABLE = 126, /* as shells do */
    EXIT_NOT_FOUND = 127,
    PATHS_BYTES = 65536,
};

/* The Python package: as its entry point says, else the folder above this program's own. */
static bool find_package(char package[PATH_MAX])
{
    const char *given = getenv("PYROMETER_PACKAGE");
    if (given != NULL && given[0] != '\0') {
        return snprintf(package, PATH_MAX, "%s", given) < PATH_MAX;
    }
    ssize_t length = readlink("/proc/self/exe", package, PATH_MAX - 1);
    if (length <= 0) {
        return false;
    }
    package[length] = '\0';
    for (int level = 0; level < 2; level++) { /* <package>/_bin/pyrometer */
        char *slash = strrchr(package, '/');
        if (slash == NULL || slash == package) {
            return false;
        }
        *slash = '\0';
    }
    return true;
}

static int set_environment(bool subprocesses)
{
    char package[PATH_MAX];
    char bootstrap[PATH_MAX + 64];
    static char paths[PATHS_BYTES];
    if (!find_package(package)) {
        return pyr_message_wrong("the Python package was not found; start pyrometer from the "
                                 "environment that it is installed in");
    }
    snprintf(bootstrap, sizeof bootstrap, "%s/_bootstrap", package);
    char module[sizeof bootstrap + 32];
    snprintf(module, sizeof module, "%s/sitecustomize.py", bootstrap);
    if (access(module, R_OK) != 0) {
        return pyr_message_wrong("%s is not readable: %m; start pyrometer from the environment "
                                 "that it is installed in, or set PYROMETER_PACKAGE",
                                 module);
    }
    const char *before = getenv("PYTHONPATH");
    bool kept = before != NULL && before[0] != '\0';
    int length =
        snprintf(paths, sizeof paths, "%s%s%s", bootstrap, kept ? ":" : "", kept ? before : "");
    if (length < 0 || length >= PATHS_BYTES) {
        return pyr_message_wrong("PYTHONPATH is longer than 64 KiB; shorten it");
    }
    /* Without the option the variable stays as it is: it is a setting like others. So is
     * PYROMETER_ENABLED, by which a service whose command is this one is switched off. */
    if (setenv("PYTHONPATH", paths, 1) != 0 ||
        (subprocesses && setenv("PYROMETER_SUBPROCESSES", "true", 1) != 0)) {
        return pyr_message_no_memory();
    }
    return PYR_EXIT_GOOD;
}

/* Starts a server beside the command, unless one is there, and has profiles sent to it. What the
 * environment says already stays. */
static int serve(void)
{
    char url[256] = "http://127.0.0.1:4077";
    if (pyr_os_listens_loopback(PYR_SERVER_PORT)) {
        pyr_message_note("profiles are sent to what listens at %s already", url);
    } else {
        int code = pyr_serving_beside(url, sizeof url);
        if (code != PYR_EXIT_GOOD) {
            return code;
        }
        pyr_message_note("profiles are shown at %s while the command runs; later by: pyrometer "
                         "serve",
                         url);
    }
    /* Without these, the first profile would be there after a minute. */
    if (setenv("PYROMETER_URL", url, 0) != 0 || setenv("PYROMETER_UPLOAD_INTERVAL", "3s", 0) != 0) {
        return pyr_message_no_memory();
    }
    return PYR_EXIT_GOOD;
}

int pyr_command_run(int argc, char **argv)
{
    bool subprocesses = false;
    bool serves = false;
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Where profiles go", NULL},
        {PYR_OPTION_FLAG, 0, "serve", NULL,
         "to a server started beside CMD, to look at in a browser", &serves},
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to profile", NULL},
        {PYR_OPTION_FLAG, 0, "subprocesses", NULL, "the Python processes that CMD starts, too",
         &subprocesses},
    };
    const pyr_usage usage = {
        .command = "run",
        .operands = "[--] CMD [ARG]...",
        .about = "Starts CMD with the profiler on. CMD is any command that ends in a Python "
                 "program: python,\ngunicorn, celery, pytest. Settings come from PYROMETER_* "
                 "variables.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = SIZE_MAX,
        .stop_at_operand = true,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    int code = set_environment(subprocesses);
    if (code == PYR_EXIT_GOOD && serves) {
        code = serve();
    }
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    argv[count] = NULL; /* the words moved to the front; argv ends with a NULL of its own */
    execvp(argv[0], argv);
    code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    pyr_message_wrong("cannot start %s: %m%s", argv[0],
                      code == EXIT_NOT_FOUND ? "; check its name and PATH" : "");
    return code;
}
