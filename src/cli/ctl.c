/* pyrometer ctl: asks and steers the profiler of a running process through its socket.
 *
 * Owns one connection while it runs. It talks only to a process that the kernel says is the one
 * meant; that process answers only its owner and root. See session/control.h.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "cli/commands.h"
#include "cli/display.h"
#include "cli/message.h"
#include "cli/options.h"
#include "os/local_socket.h"
#include "session/control.h"

enum { ANSWER_BYTES = 1 << 20, NAME_COLUMNS = 24 };

static const int64_t ANSWER_NS = 20000000000; /* a flush may take ten seconds */

/* 0: it is no pid. */
static int64_t read_pid(const char *text)
{
    char *end;
    errno = 0;
    long long pid = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && pid > 0 ? pid : 0;
}

static int open_connection(int64_t pid, int *connection)
{
    pyr_local_process process;
    pyr_local_peer peer;
    char name[PYR_LIMIT_SOCKET_NAME];
    if (pyr_local_process_find(pid, &process) != PYR_OK) {
        return pyr_message_wrong("there is no process %lld", (long long)pid);
    }
    if (pyr_local_enter_network(pid) != PYR_OK) {
        return pyr_message_wrong("process %lld lives in another network namespace: call pyrometer "
                                 "inside its container, or as root",
                                 (long long)pid);
    }
    pyr_control_name(&process, name);
    pyr_status status = pyr_local_connect(name, connection, &peer);
    if (status == PYR_ENOENT) {
        return pyr_message_wrong("no profiler listens in process %lld: it runs none, or "
                                 "PYROMETER_CONTROL_ENABLED is false; see pyrometer doctor %lld",
                                 (long long)pid, (long long)pid);
    }
    if (status != PYR_OK) {
        return pyr_message_wrong("process %lld cannot be reached: %s", (long long)pid,
                                 pyr_status_text(status));
    }
    if (peer.pid != pid) { /* somebody else has taken its name */
        pyr_local_close(*connection);
        return pyr_message_wrong("another process answers for process %lld", (long long)pid);
    }
    pyr_local_set_timeout(*connection, ANSWER_NS);
    return PYR_EXIT_GOOD;
}

/* The words of a request, parted by zero bytes. */
static pyr_status write_request(pyr_buffer *request, size_t count, char *const *words)
{
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < count && status == PYR_OK; index++) {
        bool is_last = index + 1 == count;
        status = pyr_buffer_append(request, words[index], strlen(words[index]) + !is_last);
    }
    return status;
}

/* Sends the request and reads the answer, a JSON object that the caller owns. */
static int ask(int64_t pid, size_t count, char *const *words, pyr_buffer *text, json_t **answer)
{
    pyr_buffer request;
    int connection = -1;
    int code = open_connection(pid, &connection);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    pyr_buffer_init(&request, PYR_CONTROL_REQUEST_BYTES);
    pyr_status status = write_request(&request, count, words);
    if (status == PYR_OK) {
        status = pyr_local_send(connection, request.data, request.length);
    }
    if (status == PYR_OK) {
        status = pyr_local_receive(connection, text);
    }
    pyr_buffer_fini(&request);
    pyr_local_close(connection);
    if (status == PYR_ETOOBIG) {
        return pyr_message_wrong("that is too much for one request");
    }
    if (status == PYR_EBUSY) {
        return pyr_message_wrong("process %lld does not answer in time", (long long)pid);
    }
    if (status != PYR_OK || text->length == 0) {
        return pyr_message_wrong(
            "process %lld turned the request away: only its owner and root may "
            "ask",
            (long long)pid);
    }
    *answer = json_loadb((const char *)text->data, text->length, 0, NULL);
    if (json_object_get(*answer, "answer") == NULL) {
        json_decref(*answer);
        *answer = NULL;
        return pyr_message_wrong("process %lld gave an answer that is none", (long long)pid);
    }
    return PYR_EXIT_GOOD;
}

/* "section.name    value", safe for a terminal. */
static void print_fact(const char *section, const char *name, const json_t *value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", section, name);
    printf("%-*s ", NAME_COLUMNS, key);
    if (json_is_string(value)) {
        pyr_buffer clean;
        const char *text = json_string_value(value);
        pyr_buffer_init(&clean, 4096);
        pyr_display_clean(&clean, text, strlen(text));
        pyr_display_write(&clean, stdout);
        pyr_buffer_fini(&clean);
    } else if (json_is_integer(value)) {
        printf("%lld", (long long)json_integer_value(value));
    } else {
        printf("%g", json_number_value(value));
    }
    fputc('\n', stdout);
}

static void print_status(json_t *answer)
{
    const char *section, *name;
    json_t *rows, *value;
    bool running =
        json_integer_value(json_object_get(json_object_get(answer, "answer"), "running")) != 0;
    puts(running ? "running" : "stopped");
    json_object_foreach(answer, section, rows)
    {
        if (strcmp(section, "answer") != 0) {
            json_object_foreach(rows, name, value)
            {
                print_fact(section, name, value);
            }
        }
    }
}

int pyr_command_ctl(int argc, char **argv)
{
    bool as_json = false;
    const pyr_option options[] = {
        {PYR_OPTION_FLAG, 0, "json", NULL, "prints the whole answer as JSON", &as_json},
    };
    const pyr_usage usage = {
        .command = "ctl",
        .operands = "PID status|flush|start|stop|set [NAME=VALUE]...",
        .about =
            "Asks and steers the profiler of a running process of yours.\n\n"
            "  status   what it does, what it costs, what it lost\n"
            "  flush    delivers the current window now\n"
            "  stop     delivers the last window, and ends everything but what listens for\n"
            "  start    which begins again, with the settings it had and those given\n"
            "  set      changes settings: a new window begins with them; see docs/settings.md\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 2,
        .most_operands = PYR_CONTROL_WORDS,
    };
    size_t count = 0;
    pyr_parse_result parsed = pyr_options_parse(&usage, argc, argv, &count);
    if (parsed != PYR_PARSE_GOOD) {
        return parsed == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    int64_t pid = read_pid(argv[0]);
    if (pid == 0) {
        return pyr_message_wrong("\"%s\" is no process id", argv[0]);
    }
    pyr_buffer text;
    json_t *answer = NULL;
    pyr_buffer_init(&text, ANSWER_BYTES);
    int code = ask(pid, count - 1, argv + 1, &text, &answer);
    const json_t *head = json_object_get(answer, "answer");
    if (code == PYR_EXIT_GOOD) {
        const char *error = json_string_value(json_object_get(head, "error"));
        if (as_json) {
            fwrite(text.data, 1, text.length, stdout);
        }
        if (error != NULL) {
            (void)pyr_message_wrong("process %lld: %s", (long long)pid, error);
            code = PYR_EXIT_FINDING;
        } else if (!as_json && strcmp(argv[1], "status") == 0) {
            print_status(answer);
        }
    }
    json_decref(answer);
    pyr_buffer_fini(&text);
    return code;
}
