/* JSON into a buffer; see the header. Stateless. */
#include "query/answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void start(pyr_answer *answer, const char *key)
{
    if (answer->needs_comma) {
        (void)pyr_buffer_append(answer->out, ",", 1);
    }
    if (key != NULL) {
        (void)pyr_buffer_append(answer->out, "\"", 1);
        (void)pyr_buffer_text(answer->out, key);
        (void)pyr_buffer_append(answer->out, "\":", 2);
    }
    answer->needs_comma = true;
}

void pyr_answer_begin(pyr_answer *answer, const char *key, char bracket)
{
    start(answer, key);
    (void)pyr_buffer_append(answer->out, &bracket, 1);
    answer->needs_comma = false;
}

void pyr_answer_end(pyr_answer *answer, char bracket)
{
    (void)pyr_buffer_append(answer->out, &bracket, 1);
    answer->needs_comma = true;
}

static void escape(pyr_buffer *out, const char *text, size_t length)
{
    size_t plain = 0;
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)text[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            continue;
        }
        (void)pyr_buffer_append(out, text + plain, at - plain);
        if (byte == '"' || byte == '\\') {
            const char pair[2] = {'\\', (char)byte};
            (void)pyr_buffer_append(out, pair, sizeof pair);
        } else {
            (void)pyr_buffer_format(out, "\\u%04x", byte);
        }
        plain = at + 1;
    }
    (void)pyr_buffer_append(out, text + plain, length - plain);
}

void pyr_answer_text(pyr_answer *answer, const char *key, const char *text, size_t length)
{
    start(answer, key);
    (void)pyr_buffer_append(answer->out, "\"", 1);
    while (length > 0) { /* valid parts as they are, each bad byte as U+FFFD */
        size_t valid = pyr_utf8_valid(text, length);
        escape(answer->out, text, valid);
        if (valid < length) {
            (void)pyr_buffer_append(answer->out, "\xEF\xBF\xBD", 3);
            valid++;
        }
        text += valid;
        length -= valid;
    }
    (void)pyr_buffer_append(answer->out, "\"", 1);
}

void pyr_answer_string(pyr_answer *answer, const char *key, const char *text)
{
    pyr_answer_text(answer, key, text, strlen(text));
}

void pyr_answer_integer(pyr_answer *answer, const char *key, int64_t value)
{
    start(answer, key);
    (void)pyr_buffer_format(answer->out, "%" PRId64, value);
}

void pyr_answer_real(pyr_answer *answer, const char *key, double value)
{
    start(answer, key);
    if (isfinite(value)) {
        (void)pyr_buffer_format(answer->out, "%.9g", value);
    } else {
        (void)pyr_buffer_append(answer->out, "null", 4);
    }
}

void pyr_answer_boolean(pyr_answer *answer, const char *key, bool value)
{
    start(answer, key);
    (void)pyr_buffer_text(answer->out, value ? "true" : "false");
}

void pyr_answer_big(pyr_answer *answer, const char *key, int64_t value)
{
    start(answer, key);
    (void)pyr_buffer_format(answer->out, "\"%" PRId64 "\"", value);
}
