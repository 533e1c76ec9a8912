/* Tags as texts; see the header. Owns nothing; works on copies. */
#include "session/settings_tags.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "session/settings.h"

enum { TAGS_BYTES = PYR_LIMIT_SETTING_BYTES + 1 };

/* "a:b c:d" is two tags, "team:blue sky" is one. */
static bool is_parted_by_spaces(const char *text)
{
    if (strchr(text, ',') != NULL) {
        return false;
    }
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (length > 0 && memchr(text, ':', length) == NULL) {
            return false;
        }
        text += length;
        text += strspn(text, " ");
    }
    return true;
}

static size_t key_length(const char *tag, size_t length)
{
    const char *colon = memchr(tag, ':', length);
    return colon != NULL ? (size_t)(colon - tag) : length;
}

/* The tag with the key, and its length; NULL = none. */
static const char *find(const char *tags, const char *key, size_t length, size_t *tag_length)
{
    while (*tags != '\0') {
        size_t size = strcspn(tags, ",");
        if (key_length(tags, size) == length && memcmp(tags, key, length) == 0) {
            *tag_length = size;
            return tags;
        }
        tags += size + (tags[size] == ',' ? 1 : 0);
    }
    return NULL;
}

static void append(char *tags, const char *tag, size_t length)
{
    size_t used = strlen(tags);
    if (length > 0 && used + 1 + length < TAGS_BYTES) {
        snprintf(tags + used, TAGS_BYTES - used, "%s%.*s", used > 0 ? "," : "", (int)length, tag);
    }
}

/* Adds the tags of `text`; with `skip_known` only those with new keys. */
static void add(char *tags, const char *text, bool skip_known)
{
    const char *separator = is_parted_by_spaces(text) ? " " : ",";
    while (*text != '\0') {
        text += strspn(text, " ");
        size_t length = strcspn(text, separator);
        size_t trimmed = length;
        while (trimmed > 0 && text[trimmed - 1] == ' ') {
            trimmed--;
        }
        size_t unused = 0;
        if (!skip_known || find(tags, text, key_length(text, trimmed), &unused) == NULL) {
            append(tags, text, trimmed);
        }
        text += length + (text[length] != '\0' ? 1 : 0);
    }
}

char *pyr_tags_join(const char *first, const char *second)
{
    char *tags = pyr_memory_new(TAGS_BYTES, 1);
    if (tags != NULL) {
        add(tags, first, false);
        add(tags, second != NULL ? second : "", true);
    }
    return tags;
}

bool pyr_tags_find(const char *tags, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    size_t tag_length = 0;
    const char *tag = find(tags, key, length, &tag_length);
    if (tag == NULL || tag_length < length + 2) {
        return false;
    }
    snprintf(value, size, "%.*s", (int)(tag_length - length - 1), tag + length + 1);
    return true;
}

static int hex_digit(char digit)
{
    return isdigit((unsigned char)digit)    ? digit - '0'
           : isxdigit((unsigned char)digit) ? tolower((unsigned char)digit) - 'a' + 10
                                            : -1;
}

char *pyr_tags_from_attributes(const char *attributes)
{
    char *tags = pyr_memory_new(TAGS_BYTES, 1);
    size_t used = 0;
    bool in_value = false;
    for (; tags != NULL && *attributes != '\0' && used + 1 < TAGS_BYTES; attributes++) {
        char byte = *attributes;
        int high = byte == '%' ? hex_digit(attributes[1]) : -1;
        int low = high >= 0 ? hex_digit(attributes[2]) : -1;
        if (low >= 0) {
            byte = (char)(high * 16 + low);
            byte = byte == '\0' || byte == ',' ? '_' : byte;
            attributes += 2;
        } else if (byte == ',') {
            in_value = false;
        } else if (byte == '=' && !in_value) {
            byte = ':';
            in_value = true;
        } else if (byte == ' ') {
            continue; /* allowed around the signs, and encoded elsewhere */
        }
        tags[used++] = byte;
    }
    if (tags != NULL && *attributes != '\0') { /* too long: whole tags only */
        char *comma = strrchr(tags, ',');
        *(comma != NULL ? comma : tags) = '\0';
    }
    return tags;
}
