/* Decoder of co_linetable; see the header.
 *
 * The table is a row of entries. The first byte of an entry has its high bit set and holds a form
 * (4 bits) and a length in units minus one (3 bits); its other bytes have the high bit clear. Each
 * form moves the line on by some delta; what it says of columns and end lines is skipped. Pure.
 */
#include "cpython/linetable.h"

#include <stdbool.h>

enum {
    FORM_ONE_LINE_0 = 10, /* ... 12: line delta 0 to 2 */
    FORM_NO_COLUMNS = 13, /* line delta as a signed number */
    FORM_LONG = 14,       /* the same, then more */
    FORM_NONE = 15,       /* no location */
    ENTRY_BIT = 0x80,
    MORE_BIT = 0x40,
    DIGIT_BITS = 6,
    MAXIMUM_SHIFT = 30, /* the digit at this place holds the last bits of 32 */
};

typedef struct cursor {
    const uint8_t *next;
    const uint8_t *end;
    int64_t line;   /* running line, even across entries that have none */
    uint64_t unit;  /* first unit of the entry that was read last */
    uint32_t units; /* its length */
    int entry_line; /* its line, 0 for none */
} cursor;

/* A signed number: 6 bits a byte, least first; the lowest bit of all is the sign. */
static pyr_status read_signed(cursor *at, int64_t *value)
{
    uint64_t number = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        if (at->next == at->end) {
            return PYR_EPARTIAL;
        }
        byte = *at->next++;
        if ((byte & ENTRY_BIT) || shift > MAXIMUM_SHIFT) {
            return PYR_EBAD;
        }
        number |= (uint64_t)(byte & (MORE_BIT - 1)) << shift;
        shift += DIGIT_BITS;
    } while (byte & MORE_BIT);
    int64_t magnitude = (int64_t)(number >> 1);
    *value = number & 1 ? -magnitude : magnitude;
    return PYR_OK;
}

/* Reads the next entry. PYR_ENOENT at the end of the table. */
static pyr_status read_entry(cursor *at)
{
    at->unit += at->units;
    at->units = 0;
    if (at->next == at->end) {
        return PYR_ENOENT;
    }
    uint8_t head = *at->next++;
    if (!(head & ENTRY_BIT)) {
        return PYR_EBAD;
    }
    unsigned form = head >> 3 & 0xf;
    int64_t delta = 0;
    if (form == FORM_NO_COLUMNS || form == FORM_LONG) {
        pyr_status status = read_signed(at, &delta);
        if (status != PYR_OK) {
            return status;
        }
    } else if (form >= FORM_ONE_LINE_0 && form < FORM_NO_COLUMNS) {
        delta = form - FORM_ONE_LINE_0;
    }
    while (at->next < at->end && !(*at->next & ENTRY_BIT)) {
        at->next++;
    }
    at->line += delta;
    if (at->line < INT32_MIN || at->line > INT32_MAX) {
        return PYR_EBAD;
    }
    at->units = (head & 7u) + 1;
    /* A line below 1 is no line that anybody wrote. */
    at->entry_line = form == FORM_NONE || at->line < 1 ? 0 : (int)at->line;
    return PYR_OK;
}

static cursor start(const uint8_t *table, size_t length, int first_line)
{
    return (cursor){.next = table, .end = table + length, .line = first_line};
}

pyr_status pyr_linetable_line(const uint8_t *table, size_t length, int first_line,
                              size_t unit_index, int *line)
{
    *line = 0;
    if (length == 0) {
        return PYR_ENOENT;
    }
    cursor at = start(table, length, first_line);
    pyr_status status;
    while ((status = read_entry(&at)) == PYR_OK) {
        if (unit_index < at.unit + at.units) {
            *line = at.entry_line;
            break;
        }
    }
    return status;
}

pyr_status pyr_linetable_expand(const uint8_t *table, size_t length, int first_line,
                                pyr_line_run *runs, size_t capacity, size_t *count)
{
    *count = 0;
    if (length > UINT32_MAX / 8) {
        return PYR_ETOOBIG; /* units would not fit */
    }
    cursor at = start(table, length, first_line);
    bool ended = length == 0;
    int last_line = -1; /* no run yet */
    for (;;) {
        pyr_status status = ended ? PYR_ENOENT : read_entry(&at);
        if (status != PYR_OK && status != PYR_ENOENT) {
            return status;
        }
        ended = status == PYR_ENOENT;
        int line = ended ? 0 : at.entry_line;
        if (line != last_line) {
            if (*count < capacity) {
                runs[*count] = (pyr_line_run){(uint32_t)at.unit, line};
            }
            ++*count;
            last_line = line;
        }
        if (ended) {
            return *count > capacity ? PYR_ETOOBIG : PYR_OK;
        }
    }
}

int pyr_linetable_find(const pyr_line_run *runs, size_t count, size_t unit_index)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].start <= unit_index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? 0 : runs[low - 1].line;
}
