/* UTF-8: whether bytes are valid, and making them so. Pure; hook safe. */
#ifndef PYR_BASE_UTF8_H
#define PYR_BASE_UTF8_H

#include <stddef.h>

#include "base/status.h"

/* Length of the longest prefix that is valid UTF-8 (Unicode 15, table 3-7: no surrogates, no
 * overlong forms). Equal to `length` when all is valid. */
PYR_HOOK_SAFE size_t pyr_utf8_valid(const char *text, size_t length);

/* Copies `text` into `out` as valid UTF-8 and terminates it by a NUL: each byte that is no part of
 * a valid character becomes U+FFFD. What does not fit `size` is cut, never inside a character.
 * Returns the length without the NUL. `size` is at least 1. */
PYR_HOOK_SAFE size_t pyr_utf8_repair(const char *text, size_t length, char *out, size_t size);

#endif
