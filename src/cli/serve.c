/* pyrometer serve: takes profiles in, keeps them, answers questions about them.
 *
 * The main thread only waits for a signal; the work is the server's threads'. See
 * docs/internals/server.md.
 */
#include <signal.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/serving.h"

static int serve(const pyr_serving_arguments *arguments)
{
    static pyr_serving serving; /* too large for a stack */
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL); /* before any thread starts */
    (void)signal(SIGPIPE, SIG_IGN);
    int code = pyr_serving_start(&serving, arguments);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    for (size_t at = 0; at == 0 || at < arguments->listen.count; at++) {
        printf("pyrometer serves at %s\n", pyr_server_address(serving.server, at));
    }
    printf("profiles are kept in %s\n", serving.folder);
    (void)fflush(stdout);
    pyr_serving_wait(0);
    pyr_server_stop(serving.server);
    return PYR_EXIT_GOOD;
}

int pyr_command_serve(int argc, char **argv)
{
    pyr_serving_arguments arguments = {0};
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Where", NULL},
        {PYR_OPTION_TEXTS, 'l', "listen", "ADDRESS",
         "HOST:PORT, PORT or unix:PATH (default: 127.0.0.1:4077)", &arguments.listen},
        {PYR_OPTION_TEXT, 'd', "data", "DIR",
         "where profiles are kept (default: ~/.local/share/pyrometer)", &arguments.data},
        {PYR_OPTION_HEADING, 0, NULL, NULL, "How much", NULL},
        {PYR_OPTION_TEXT, 0, "keep", "SPAN", "how long: 24h, 30d (default: for ever)",
         &arguments.keep},
        {PYR_OPTION_TEXT, 0, "keep-bytes", "SIZE",
         "how large the store may be, such as 20GiB; the oldest profiles go",
         &arguments.keep_bytes},
        {PYR_OPTION_TEXT, 0, "profile-bytes", "SIZE",
         "most of one profile, uncompressed (default: 16MiB)", &arguments.profile_bytes},
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Who may use it", NULL},
        {PYR_OPTION_TEXT, 0, "read-token-file", "FILE", "a token that questions must bring",
         &arguments.read_token_file},
        {PYR_OPTION_TEXT, 0, "ingest-token-file", "FILE", "a token that profiles must bring",
         &arguments.ingest_token_file},
        {PYR_OPTION_TEXTS, 0, "host", "NAME",
         "a name that browsers may call it by, beside localhost", &arguments.hosts},
        {PYR_OPTION_TEXT, 0, "tls-certificate", "FILE", "certificates (PEM): https only",
         &arguments.certificate},
        {PYR_OPTION_TEXT, 0, "tls-key", "FILE", "their key, where it is not in the same file",
         &arguments.key},
    };
    const pyr_usage usage = {
        .command = "serve",
        .operands = "",
        .about = "Takes profiles from agents (Datadog's and Pyroscope's formats, and plain pprof), "
                 "keeps them\nin one SQLite file, and shows them in a browser. An address that "
                 "others can reach needs tokens.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    return serve(&arguments);
}
