/* JSON written as a stream (RFC 8259).
 *
 * Owns nothing; borrows the FILE. One thread.
 */
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"

static void start_value(pyr_json *json, const char *key)
{
    if (json->needs_comma) {
        fputc(',', json->out);
    }
    if (key != NULL) {
        fprintf(json->out, "\"%s\":", key);
    }
    json->needs_comma = true;
}

void pyr_json_begin(pyr_json *json, const char *key, char bracket)
{
    start_value(json, key);
    fputc(bracket, json->out);
    json->needs_comma = false;
}

void pyr_json_end(pyr_json *json, char bracket)
{
    fputc(bracket, json->out);
    json->needs_comma = true;
}

/* Bytes from here on that are valid UTF-8 and need no escape. */
static size_t plain_length(const pyr_json *json, const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        unsigned char byte = (unsigned char)text[at];
        if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f ||
            (json->in_page && byte == '<')) {
            break;
        }
        at++;
    }
    return pyr_utf8_valid(text, at);
}

void pyr_json_text(pyr_json *json, const char *key, const char *text, size_t length)
{
    start_value(json, key);
    fputc('"', json->out);
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)text[at];
        size_t valid = plain_length(json, text + at, length - at);
        if (valid > 0) {
            fwrite(text + at, 1, valid, json->out);
            at += valid - 1;
        } else if (byte == '"' || byte == '\\') {
            fprintf(json->out, "\\%c", byte);
        } else {
            fprintf(json->out, "\\u%04x", byte < 0x80 ? byte : 0xfffd);
        }
    }
    fputc('"', json->out);
}

void pyr_json_string(pyr_json *json, const char *key, const char *text)
{
    pyr_json_text(json, key, text, strlen(text));
}

void pyr_json_integer(pyr_json *json, const char *key, int64_t value)
{
    start_value(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void pyr_json_real(pyr_json *json, const char *key, double value)
{
    if (!isfinite(value)) {
        pyr_json_null(json, key);
        return;
    }
    start_value(json, key);
    fprintf(json->out, "%.15g", value);
}

void pyr_json_boolean(pyr_json *json, const char *key, bool value)
{
    start_value(json, key);
    fputs(value ? "true" : "false", json->out);
}

void pyr_json_null(pyr_json *json, const char *key)
{
    start_value(json, key);
    fputs("null", json->out);
}
