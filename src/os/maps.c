/* A parser of /proc/PID/maps; see the header. Owns nothing, any thread; never reads beyond the
 * text, and takes nothing from a line that is not exactly as the kernel writes it. */
#include "os/maps.h"

#include <string.h>

typedef struct cursor {
    const char *at, *end;
    bool is_bad;
} cursor;

/* The next character, which must be one of `choices`. */
static char take(cursor *line, const char *choices)
{
    char found = line->at < line->end ? *line->at : '\0';
    if (found == '\0' || !strchr(choices, found)) {
        line->is_bad = true;
        return '\0';
    }
    line->at++;
    return found;
}

static int digit(char character)
{
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : 255;
}

/* A number of at least one digit that fits `maximum`, and the character that must follow it. */
static uint64_t take_number(cursor *line, unsigned base, uint64_t maximum, const char *follow)
{
    uint64_t number = 0;
    const char *start = line->at;
    for (; line->at < line->end && (unsigned)digit(*line->at) < base; line->at++) {
        unsigned next = (unsigned)digit(*line->at);
        if (number > (maximum - next) / base) {
            line->is_bad = true;
            return 0;
        }
        number = number * base + next;
    }
    line->is_bad |= line->at == start;
    (void)take(line, follow);
    return number;
}

pyr_status pyr_maps_next(const char *text, size_t length, size_t *position, pyr_mapping *mapping)
{
    if (*position >= length) {
        return PYR_ENOENT;
    }
    const char *start = text + *position;
    const char *end = memchr(start, '\n', length - *position);
    if (!end) {
        return PYR_EPARTIAL;
    }
    /* The newline is part of the line: it ends the inode of a mapping without a path. */
    cursor line = {start, end + 1, false};
    mapping->start = take_number(&line, 16, UINT64_MAX, "-");
    mapping->end = take_number(&line, 16, UINT64_MAX, " ");
    mapping->is_readable = take(&line, "r-") == 'r';
    mapping->is_writable = take(&line, "w-") == 'w';
    mapping->is_executable = take(&line, "x-") == 'x';
    mapping->is_shared = take(&line, "sp") == 's';
    (void)take(&line, " ");
    mapping->offset = take_number(&line, 16, UINT64_MAX, " ");
    mapping->device_major = (uint32_t)take_number(&line, 16, UINT32_MAX, ":");
    mapping->device_minor = (uint32_t)take_number(&line, 16, UINT32_MAX, " ");
    mapping->inode = take_number(&line, 10, UINT64_MAX, " \n");
    if (line.is_bad || mapping->start >= mapping->end) {
        return PYR_EBAD;
    }
    while (line.at < end && *line.at == ' ') { /* padding: no path begins with a space */
        line.at++;
    }
    mapping->path = line.at < end ? line.at : end;
    mapping->path_length = (size_t)(end - mapping->path);
    *position = (size_t)(end + 1 - text);
    return PYR_OK;
}

bool pyr_mapping_is_same_file(const pyr_mapping *one, const pyr_mapping *other)
{
    return one->inode != 0 && one->inode == other->inode &&
           one->device_major == other->device_major && one->device_minor == other->device_minor;
}
