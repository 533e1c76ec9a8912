/* Nearest name by edit distance; see the header. Owns nothing. */
#include "base/nearest.h"

#include <stdbool.h>
#include <string.h>

enum {
    LONGEST = 64, /* longer words are no misspelled names */
    STEPS = 3,    /* more changes than these, and something else was meant */
};

/* Letters to insert, remove or replace to make `right` of `left` (Levenshtein), row by row. */
static size_t distance(const char *left, const char *right)
{
    size_t row[LONGEST + 1];
    size_t width = strlen(right);
    for (size_t column = 0; column <= width; column++) {
        row[column] = column;
    }
    for (size_t line = 0; left[line] != '\0'; line++) {
        size_t diagonal = row[0];
        row[0] = line + 1;
        for (size_t column = 0; column < width; column++) {
            size_t replaced = diagonal + (left[line] == right[column] ? 0 : 1);
            size_t removed = row[column + 1] + 1;
            size_t inserted = row[column] + 1;
            diagonal = row[column + 1];
            size_t least = removed < inserted ? removed : inserted;
            row[column + 1] = replaced < least ? replaced : least;
        }
    }
    return row[width];
}

const char *pyr_nearest(const char *word, size_t count,
                        const char *(*name_at)(const void *names, size_t index), const void *names)
{
    const char *nearest = NULL;
    size_t length = strlen(word);
    size_t best = STEPS + 1;
    for (size_t index = 0; length <= LONGEST && index < count; index++) {
        const char *name = name_at(names, index);
        if (name == NULL || strlen(name) > LONGEST) {
            continue;
        }
        bool abbreviated = length >= 3 && strncmp(word, name, length) == 0;
        size_t steps = abbreviated ? 1 : distance(word, name);
        if (steps < best && steps < length) {
            best = steps;
            nearest = name;
        }
    }
    return nearest;
}
