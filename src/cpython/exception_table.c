/* Exception tables; see the header. Pure.
 *
 * An entry is start, size, target (units) and depth * 2 + lasti, four numbers of 6 bits a byte. It
 * names the innermost handler. Handlers that keep the failed instruction (lasti) belong to `with`,
 * to the end of other handlers, and to generators as a whole: they raise on, into the handler that
 * stands around their own first instruction. */
#include "cpython/exception_table.h"

enum {
    NESTING = 64,     /* handlers around handlers, at most */
    ENTRIES = 1 << 16 /* of one table, at most */
};

static bool read_number(const uint8_t **at, const uint8_t *end, uint32_t *value)
{
    *value = 0;
    for (const uint8_t *byte = *at; byte < end && *value < 1U << 24; byte++) {
        *value = *value << 6 | (*byte & 0x3f);
        if ((*byte & 0x40) == 0) {
            *at = byte + 1;
            return true;
        }
    }
    return false;
}

/* The handler around `unit`. False: none. */
static bool find_handler(const uint8_t *table, size_t length, uint32_t unit, uint32_t *target,
                         bool *raises_on)
{
    const uint8_t *end = table + length;
    uint32_t start, size, depth_lasti;
    for (int i = 0;
         i < ENTRIES && read_number(&table, end, &start) && read_number(&table, end, &size) &&
         read_number(&table, end, target) && read_number(&table, end, &depth_lasti);
         i++) {
        if (unit >= start && unit - start < size) {
            *raises_on = (depth_lasti & 1) != 0;
            return true;
        }
    }
    return false;
}

bool pyr_exception_table_catches(const uint8_t *table, size_t length, uint32_t unit)
{
    bool raises_on = true;
    for (int i = 0; i < NESTING; i++) {
        uint32_t target;
        if (!find_handler(table, length, unit, &target, &raises_on)) {
            return false;
        }
        if (!raises_on) {
            return true;
        }
        unit = target;
    }
    return false;
}
