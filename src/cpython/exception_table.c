/* Exception tables; see the header. Pure.
 *
 * An entry is start, size, target (units) and depth * 2 + lasti, four numbers of 6 bits a byte. */
#include "cpython/exception_table.h"

enum { ENTRIES = 1 << 16 }; /* of one table, at most */

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

bool pyr_exception_table_covers(const uint8_t *table, size_t length, uint32_t unit)
{
    const uint8_t *end = table + length;
    uint32_t start, size, target, depth_lasti;
    for (int i = 0;
         i < ENTRIES && read_number(&table, end, &start) && read_number(&table, end, &size) &&
         read_number(&table, end, &target) && read_number(&table, end, &depth_lasti);
         i++) {
        if (unit >= start && unit - start < size) {
            return true;
        }
    }
    return false;
}
