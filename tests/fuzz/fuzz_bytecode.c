/* Fuzzes cpython/bytecode: any bytes as bytecode and exception table of any version. Every site
 * that comes out must be a call whose depth fits the stack, in order, and found by its unit.
 *
 * Input: minor (low 3 bits), stack size, length of the exception table, the table, the bytecode. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/bytecode.h"

enum { HEADER = 3, FIRST_MINOR = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER) {
        return 0;
    }
    unsigned minor = FIRST_MINOR + (data[0] & 7);
    uint32_t stacksize = data[1];
    size_t table = data[2] < size - HEADER ? data[2] : size - HEADER;
    size_t count = (size - HEADER - table) / 2;
    /* Copies of the exact size, so that the sanitizer sees each byte too many. */
    uint8_t *exceptions = malloc(table > 0 ? table : 1);
    uint8_t *units = malloc(count > 0 ? 2 * count : 1);
    if (exceptions != NULL && units != NULL) {
        memcpy(exceptions, data + HEADER, table);
        memcpy(units, data + HEADER + table, 2 * count);
        pyr_bytecode *bytecode =
            pyr_bytecode_new(minor, units, count, exceptions, table, stacksize);
        size_t unit;
        size_t last = 0;
        pyr_site site;
        for (size_t i = 0; bytecode != NULL && pyr_bytecode_site_at(bytecode, i, &unit, &site);
             i++) {
            require(unit < count && (i == 0 || unit > last));
            require(site.depth <= stacksize && pyr_bytecode_site(bytecode, unit, &site));
            require(site.kind == pyr_bytecode_class(minor, units[2 * unit]));
            require(site.kind >= PYR_SITE_CALL && site.kind <= PYR_SITE_EXIT);
            last = unit;
        }
        pyr_bytecode_free(bytecode);
    }
    free(exceptions);
    free(units);
    return 0;
}
