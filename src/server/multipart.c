/* Parts of a body; see the header. Stateless. */
#include "server/multipart.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const uint8_t *find(const uint8_t *at, const uint8_t *end, const char *what, size_t length)
{
    return memmem(at, (size_t)(end - at), what, length);
}

/* The value of a parameter like boundary=x or name="x"; false when there is none. */
static bool parameter(const char *text, size_t length, const char *name, char *out, size_t size)
{
    size_t name_length = strlen(name);
    const char *end = text + length;
    for (const char *at = text; at + name_length + 1 < end; at++) {
        bool starts = at == text || at[-1] == ';' || isspace((unsigned char)at[-1]);
        if (!starts || strncasecmp(at, name, name_length) != 0 || at[name_length] != '=') {
            continue;
        }
        at += name_length + 1;
        bool quoted = *at == '"';
        at += quoted;
        size_t used = 0;
        while (at < end && (quoted ? *at != '"' : *at != ';' && !isspace((unsigned char)*at))) {
            if (used + 1 >= size) {
                return false;
            }
            out[used++] = *at++;
        }
        out[used] = '\0';
        return used > 0 && (!quoted || at < end);
    }
    return false;
}

pyr_status pyr_multipart_start(pyr_multipart *multipart, const char *content_type, const void *body,
                               size_t length)
{
    char boundary[72];
    static const char TYPE[] = "multipart/form-data";
    if (strncasecmp(content_type, TYPE, sizeof TYPE - 1) != 0 ||
        !parameter(content_type, strlen(content_type), "boundary", boundary, sizeof boundary)) {
        return PYR_EINVAL;
    }
    *multipart = (pyr_multipart){.at = body, .end = (const uint8_t *)body + length};
    multipart->boundary_length =
        (size_t)snprintf(multipart->boundary, sizeof multipart->boundary, "--%s", boundary);
    if (length == 0) {
        return PYR_EBAD;
    }
    const uint8_t *first =
        find(multipart->at, multipart->end, multipart->boundary, multipart->boundary_length);
    if (first == NULL) {
        return PYR_EBAD;
    }
    multipart->at = first + multipart->boundary_length;
    return PYR_OK;
}

static void read_header(const char *line, size_t length, pyr_part *part)
{
    static const char NAME[] = "content-disposition:";
    if (length > sizeof NAME && strncasecmp(line, NAME, sizeof NAME - 1) == 0) {
        if (!parameter(line, length, "name", part->name, sizeof part->name)) {
            part->name[0] = '\0';
        }
        if (!parameter(line, length, "filename", part->file_name, sizeof part->file_name)) {
            part->file_name[0] = '\0';
        }
    }
}

pyr_status pyr_multipart_next(pyr_multipart *multipart, pyr_part *part)
{
    memset(part, 0, sizeof *part);
    const uint8_t *at = multipart->at;
    const uint8_t *end = multipart->end;
    if (end - at >= 2 && memcmp(at, "--", 2) == 0) {
        return PYR_ENOENT;
    }
    if (multipart->parts++ == PYR_MULTIPART_PARTS) {
        return PYR_ETOOBIG;
    }
    const uint8_t *line = end - at >= 2 ? find(at, end, "\r\n", 2) : NULL;
    if (line == NULL) {
        return PYR_EPARTIAL;
    }
    for (line += 2;;) { /* the headers, until an empty line */
        const uint8_t *next = line < end ? find(line, end, "\r\n", 2) : NULL;
        if (next == NULL) {
            return PYR_EPARTIAL;
        }
        if (next == line) {
            line = next + 2;
            break;
        }
        read_header((const char *)line, (size_t)(next - line), part);
        line = next + 2;
    }
    char closing[sizeof multipart->boundary + 2];
    memcpy(closing, "\r\n", 2);
    memcpy(closing + 2, multipart->boundary, multipart->boundary_length);
    /* An empty part's boundary may follow its headers' last line at once. */
    const uint8_t *found =
        line - 2 < end ? find(line - 2, end, closing, multipart->boundary_length + 2) : NULL;
    if (found == NULL) {
        return PYR_EPARTIAL;
    }
    part->bytes = line;
    part->length = found > line ? (size_t)(found - line) : 0;
    multipart->at = found + 2 + multipart->boundary_length;
    return PYR_OK;
}
