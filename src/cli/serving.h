/* Options and life of a server that a command starts: `serve`, and `run --serve`. */
#ifndef PYR_CLI_SERVING_H
#define PYR_CLI_SERVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "server/server.h"

enum { PYR_SERVING_PATH_BYTES = 4096 };

typedef struct pyr_serving_arguments {
    pyr_option_list listen, hosts;
    const char *data, *keep, *keep_bytes, *profile_bytes;
    const char *read_token_file, *ingest_token_file, *certificate, *key;
} pyr_serving_arguments;

typedef struct pyr_serving {
    pyr_server_options options;
    char folder[PYR_SERVING_PATH_BYTES];
    char read_token[256], ingest_token[256];
    pyr_server *server;
} pyr_serving;

/* The folder of the store: what was given, else XDG_DATA_HOME/pyrometer, else
 * ~/.local/share/pyrometer. Returns PYR_EXIT_GOOD, or PYR_EXIT_WRONG after one line. */
int pyr_serving_folder(const char *given, char folder[PYR_SERVING_PATH_BYTES]);

/* Starts the server, its threads with all signals blocked. Results as above. */
int pyr_serving_start(pyr_serving *serving, const pyr_serving_arguments *arguments);

/* Serves until SIGINT or SIGTERM, which must be blocked, or until process `pid` ends (0: none). */
void pyr_serving_wait(int64_t pid);

/* Reads a size like 20GiB or 512MiB; false when it is none. */
bool pyr_serving_bytes(const char *text, int64_t *bytes);

/* Starts a server in a process of its own, detached, which ends with this one (or what it becomes
 * by exec), and waits until it listens. `url` gets where. Results as above. */
int pyr_serving_beside(char *url, size_t size);

#endif
