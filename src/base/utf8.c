/* UTF-8 validity; see the header. Pure, no state. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the valid character at the start of `text`, or 0. `length` is at least 1. */
static size_t measure_character(const uint8_t *text, size_t length)
{
    uint8_t lead = text[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || size > length) {
        return 0;
    }
    /* The second byte has a narrower range where else the form would be overlong, a surrogate, or
     * beyond U+10FFFF. */
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < size; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return size;
}

size_t pyr_utf8_valid(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t size = measure_character((const uint8_t *)text + at, length - at);
        if (size == 0) {
            break;
        }
        at += size;
    }
    return at;
}

size_t pyr_utf8_repair(const char *text, size_t length, char *out, size_t size)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        size_t character = measure_character((const uint8_t *)text + at, length - at);
        const char *source = character ? text + at : replacement;
        size_t bytes = character ? character : sizeof replacement - 1;
        if (bytes >= size - written) {
            break;
        }
        memcpy(out + written, source, bytes);
        written += bytes;
        at += character ? character : 1;
    }
    out[written] = '\0';
    return written;
}
