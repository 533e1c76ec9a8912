/* Text of unknown origin made fit for a terminal.
 *
 * Owns nothing. Pure but for pyr_display_colour. Widths come from wcwidth, so main sets a UTF-8
 * locale; wchar_t is a code point (as in glibc and musl).
 */
#include "cli/display.h"

#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#include "base/utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

/* The code point at the start of `text` and its bytes; 0 bytes when it is no valid UTF-8. */
static size_t decode(const char *text, size_t length, uint32_t *point)
{
    unsigned char lead = (unsigned char)text[0];
    size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (bytes > length || pyr_utf8_valid(text, bytes) != bytes) {
        return 0;
    }
    uint32_t value = bytes == 1 ? lead : lead & (0x7fU >> bytes);
    for (size_t at = 1; at < bytes; at++) {
        value = value << 6 | ((unsigned char)text[at] & 0x3fU);
    }
    *point = value;
    return bytes;
}

static size_t columns_of(uint32_t point)
{
    int columns = wcwidth((wchar_t)point);
    return columns < 0 ? 1 : (size_t)columns;
}

size_t pyr_display_clean(pyr_buffer *out, const char *text, size_t length)
{
    size_t width = 0;
    for (size_t at = 0; at < length;) {
        uint32_t point = 0;
        size_t count = decode(text + at, length - at, &point);
        if (count == 0) {
            pyr_buffer_text(out, REPLACEMENT);
            width += 1;
            at += 1;
        } else if (point < 0x20 || (point >= 0x7f && point < 0xa0)) {
            size_t before = out->length;
            if (point == '\n' || point == '\t') {
                pyr_buffer_text(out, point == '\n' ? "\\n" : "\\t");
            } else {
                pyr_buffer_format(out, "\\x%02x", (unsigned)point);
            }
            width += out->length - before;
            at += count;
        } else {
            pyr_buffer_append(out, text + at, count);
            width += columns_of(point);
            at += count;
        }
    }
    return width;
}

void pyr_display_write(const pyr_buffer *text, FILE *out)
{
    if (text->length > 0) { /* an empty buffer has no data to point at */
        fwrite(text->data, 1, text->length, out);
    }
    if (text->status != PYR_OK) {
        fputs("(out of memory)", out); /* what is missing here is not passed over in silence */
    }
}

size_t pyr_display_width(const char *text, size_t length)
{
    size_t width = 0;
    for (size_t at = 0; at < length;) {
        uint32_t point = 0;
        size_t count = decode(text + at, length - at, &point);
        width += count == 0 ? 1 : columns_of(point);
        at += count == 0 ? 1 : count;
    }
    return width;
}

bool pyr_display_colour(int out)
{
    const char *forbidden = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(out) == 1 && (forbidden == NULL || forbidden[0] == '\0') &&
           (terminal == NULL || terminal[0] != 'd'); /* TERM=dumb */
}
