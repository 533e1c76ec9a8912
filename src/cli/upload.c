/* pyrometer upload: sends profile files to a server.
 *
 * One thread; one request a file, through the exporters' HTTP. A file that was sent before is not
 * counted twice: the server knows it by its bytes, labels and time.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"
#include "export/http.h"
#include "os/claim.h"

enum { FILE_BYTES = 32 << 20, URL_BYTES = 16 << 10, PATH_BYTES = 4200, TIMEOUT_S = 60 };

static const int64_t SECOND_NS = 1000000000;

typedef struct sending {
    const char *url, *token;
    pyr_option_list labels;
    pyr_buffer target, file;
} sending;

static void append_escaped(pyr_buffer *out, const char *text, size_t length)
{
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)text[at];
        if (isalnum(byte) || byte == '-' || byte == '.' || byte == '_' || byte == '~') {
            (void)pyr_buffer_append(out, &byte, 1);
        } else {
            (void)pyr_buffer_format(out, "%%%02X", byte);
        }
    }
}

static void append_label(pyr_buffer *out, const char *name, size_t name_length, const char *value)
{
    const char *question = out->length > 0 ? memchr(out->data, '?', out->length) : NULL;
    (void)pyr_buffer_append(out, question == NULL ? "?" : "&", 1);
    append_escaped(out, name, name_length);
    (void)pyr_buffer_append(out, "=", 1);
    append_escaped(out, value, strlen(value));
}

static bool is_given(const pyr_option_list *labels, const char *name)
{
    size_t length = strlen(name);
    for (size_t at = 0; at < labels->count; at++) {
        if (strncmp(labels->items[at], name, length) == 0 && labels->items[at][length] == '=') {
            return true;
        }
    }
    return false;
}

/* What the document beside the file says of the process. */
static void append_identity(sending *s, const char *path)
{
    static const char *const NAMES[][2] = {{"service", "service"}, {"env", "env"},
                                           {"version", "version"}, {"host", "host"},
                                           {"pid", "pid"},         {"runtime_id", "runtime_id"}};
    char beside[PATH_BYTES];
    (void)snprintf(beside, sizeof beside, "%s.json", path);
    json_t *document = json_load_file(beside, JSON_REJECT_DUPLICATES, NULL);
    json_t *identity = json_object_get(document, "identity");
    for (size_t at = 0; at < sizeof NAMES / sizeof NAMES[0]; at++) {
        json_t *value = json_object_get(identity, NAMES[at][0]);
        char number[32] = "";
        if (json_is_integer(value)) {
            (void)snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT,
                           json_integer_value(value));
        }
        const char *text = json_is_string(value) ? json_string_value(value) : number;
        if (text[0] != '\0' && !is_given(&s->labels, NAMES[at][1])) {
            append_label(&s->target, NAMES[at][1], strlen(NAMES[at][1]), text);
        }
    }
    json_decref(document);
}

static int make_target(sending *s, const char *path)
{
    size_t length = strlen(s->url);
    pyr_buffer_clear(&s->target);
    while (length > 0 && s->url[length - 1] == '/') {
        length--;
    }
    (void)pyr_buffer_append(&s->target, s->url, length);
    (void)pyr_buffer_text(&s->target, "/api/upload");
    for (size_t at = 0; at < s->labels.count; at++) {
        const char *equal = strchr(s->labels.items[at], '=');
        if (equal == NULL || equal == s->labels.items[at]) {
            return pyr_message_wrong("--label cannot be \"%s\"; give it NAME=VALUE",
                                     s->labels.items[at]);
        }
        append_label(&s->target, s->labels.items[at], (size_t)(equal - s->labels.items[at]),
                     equal + 1);
    }
    append_identity(s, path);
    (void)pyr_buffer_append(&s->target, "", 1);
    return s->target.status == PYR_OK ? PYR_EXIT_GOOD
                                      : pyr_message_wrong("the labels of %s are too long", path);
}

static int send_file(sending *s, const char *path)
{
    char headers[512] = "";
    pyr_http_answer answer = {0};
    int code = make_target(s, path);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    pyr_buffer_clear(&s->file);
    pyr_status status = pyr_os_file_read(path, &s->file);
    if (status != PYR_OK || s->file.length == 0) {
        return pyr_message_wrong("%s cannot be read: %s", path,
                                 status == PYR_OK ? "it is empty" : pyr_status_text(status));
    }
    if (s->token != NULL) {
        (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\n", s->token);
    }
    const pyr_http_request request = {
        .url = (const char *)s->target.data,
        .headers = headers,
        .more_headers = "Content-Type: application/octet-stream\n",
        .body = s->file.data,
        .body_length = s->file.length,
        .deadline_ns = pyr_clock_monotonic_ns() + TIMEOUT_S * SECOND_NS,
    };
    status = pyr_http_send(&request, &answer);
    if (status != PYR_OK) {
        return pyr_message_wrong("%s was not sent to %s: %s", path, s->url,
                                 answer.text[0] != '\0' ? answer.text : pyr_status_text(status));
    }
    if (answer.code < 200 || answer.code > 299) {
        return pyr_message_wrong("%s was refused by %s with %d: %s", path, s->url, answer.code,
                                 answer.text);
    }
    return PYR_EXIT_GOOD;
}

static int send_all(sending *s, char **paths, size_t count)
{
    char why[512];
    size_t sent = 0;
    int worst = PYR_EXIT_GOOD;
    if (pyr_http_load(why, sizeof why) != PYR_OK) {
        return pyr_message_wrong("%s", why);
    }
    for (size_t at = 0; at < count; at++) {
        int code = send_file(s, paths[at]);
        sent += code == PYR_EXIT_GOOD;
        worst = code != PYR_EXIT_GOOD ? code : worst;
    }
    pyr_message_note("sent %zu of %zu files to %s", sent, count, s->url);
    return worst;
}

static int read_token(const char *path, pyr_buffer *token)
{
    pyr_buffer_init(token, 256);
    if (path == NULL) {
        return PYR_EXIT_GOOD;
    }
    pyr_status status = pyr_os_file_read(path, token);
    while (status == PYR_OK && token->length > 0 && token->data[token->length - 1] <= ' ') {
        token->length--;
    }
    if (status == PYR_OK) {
        status = pyr_buffer_append(token, "", 1);
    }
    return status == PYR_OK
               ? PYR_EXIT_GOOD
               : pyr_message_wrong("%s cannot be read: %s", path, pyr_status_text(status));
}

int pyr_command_upload(int argc, char **argv)
{
    sending s = {.url = "http://127.0.0.1:4077"};
    const char *token_file = NULL;
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Where to, and as what", NULL},
        {PYR_OPTION_TEXT, 'u', "url", "URL", "the server (default: http://127.0.0.1:4077)", &s.url},
        {PYR_OPTION_TEXTS, 0, "label", "NAME=VALUE",
         "a label, such as service=shop; else the document beside the file tells", &s.labels},
        {PYR_OPTION_TEXT, 0, "token-file", "FILE", "the server's token for profiles", &token_file},
    };
    const pyr_usage usage = {
        .command = "upload",
        .operands = "FILE...",
        .about = "Sends profiles (pprof: raw, gzip or zstd) to pyrometer serve. What it has "
                 "already is not\ncounted twice.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = SIZE_MAX,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    pyr_buffer token;
    pyr_buffer_init(&s.target, URL_BYTES);
    pyr_buffer_init(&s.file, FILE_BYTES);
    int code = read_token(token_file, &token);
    s.token = token.length > 0 ? (const char *)token.data : NULL;
    if (code == PYR_EXIT_GOOD) {
        code = send_all(&s, argv, count);
    }
    pyr_buffer_fini(&s.target);
    pyr_buffer_fini(&s.file);
    pyr_buffer_fini(&token);
    return code;
}
