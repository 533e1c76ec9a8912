/* JSON of answers, written as a stream into a buffer: they hold many numbers, so no tree of values
 * is built. Keys are ours and need no escaping; a key is NULL inside an array. Errors stick in the
 * buffer. */
#ifndef PYR_QUERY_ANSWER_H
#define PYR_QUERY_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

typedef struct pyr_answer {
    pyr_buffer *out;
    bool needs_comma;
} pyr_answer;

void pyr_answer_begin(pyr_answer *answer, const char *key, char bracket); /* '{' or '[' */
void pyr_answer_end(pyr_answer *answer, char bracket);                    /* '}' or ']' */
void pyr_answer_text(pyr_answer *answer, const char *key, const char *text, size_t length);
void pyr_answer_string(pyr_answer *answer, const char *key, const char *text);
void pyr_answer_integer(pyr_answer *answer, const char *key, int64_t value);
void pyr_answer_real(pyr_answer *answer, const char *key, double value); /* null if not finite */
void pyr_answer_boolean(pyr_answer *answer, const char *key, bool value);
/* As decimal text: nanoseconds since 1970 are more than a double of JavaScript holds. */
void pyr_answer_big(pyr_answer *answer, const char *key, int64_t value);

#endif
