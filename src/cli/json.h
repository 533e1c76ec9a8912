/* JSON written as a stream.
 *
 * Pages and viewer files hold millions of numbers, so no tree of values is built; one that is read
 * goes through jansson. Keys are ours and need no escaping; texts are escaped and made valid UTF-8.
 * A key is NULL inside an array. Write errors are left to the caller's ferror.
 */
#ifndef PYR_CLI_JSON_H
#define PYR_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct pyr_json {
    FILE *out;
    bool in_page;     /* '<' is written \u003c, for a script element of a page */
    bool needs_comma; /* before the next value */
} pyr_json;

void pyr_json_begin(pyr_json *json, const char *key, char bracket); /* '{' or '[' */
void pyr_json_end(pyr_json *json, char bracket);                    /* '}' or ']' */
void pyr_json_text(pyr_json *json, const char *key, const char *text, size_t length);
void pyr_json_string(pyr_json *json, const char *key, const char *text); /* ends with a NUL */
void pyr_json_integer(pyr_json *json, const char *key, int64_t value);
void pyr_json_real(pyr_json *json, const char *key, double value); /* null when not finite */
void pyr_json_boolean(pyr_json *json, const char *key, bool value);
void pyr_json_null(pyr_json *json, const char *key);

#endif
