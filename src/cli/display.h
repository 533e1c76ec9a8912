/* Text of unknown origin made fit for a terminal, and its width there. */
#ifndef PYR_CLI_DISPLAY_H
#define PYR_CLI_DISPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buffer.h"

/* Appends `text` to `out` as valid UTF-8 without control characters: broken bytes become U+FFFD,
 * control characters become \n, \t or \x1b in letters (names in a profile are hostile, and escape
 * sequences do things to terminals). Returns the columns that it takes on a terminal. */
size_t pyr_display_clean(pyr_buffer *out, const char *text, size_t length);

/* Writes the bytes of `text`, which may be none; says so where its memory ran out. */
void pyr_display_write(const pyr_buffer *text, FILE *out);

/* Columns of a clean text on a terminal (wide characters take two, combining ones none). */
size_t pyr_display_width(const char *text, size_t length);

/* True when `out` (a file descriptor) is a terminal that may be coloured: NO_COLOR is not set. */
bool pyr_display_colour(int out);

#endif
