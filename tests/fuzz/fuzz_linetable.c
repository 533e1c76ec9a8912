/* Fuzzes cpython/linetable. Input: 4 bytes of first line, then a table. The whole expansion and
 * single lines must agree, and runs must be ascending. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/linetable.h"

enum { RUNS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pyr_line_run runs[RUNS];
    int32_t first_line;
    if (size < sizeof first_line) {
        return 0;
    }
    memcpy(&first_line, data, sizeof first_line);
    data += sizeof first_line;
    size -= sizeof first_line;
    size_t count, again;
    int line;
    pyr_status status = pyr_linetable_expand(data, size, first_line, runs, RUNS, &count);
    if (pyr_linetable_expand(data, size, first_line, NULL, 0, &again) == PYR_OK ||
        (status == PYR_OK && again != count)) {
        abort(); /* there is always at least the run that ends the table */
    }
    for (size_t i = 0; status == PYR_OK && i < count; i++) {
        pyr_status single = pyr_linetable_line(data, size, first_line, runs[i].start, &line);
        bool past = single == PYR_ENOENT && i + 1 == count;
        if ((single != PYR_OK && !past) || line != runs[i].line || line < 0 ||
            (i > 0 && runs[i].start <= runs[i - 1].start) ||
            pyr_linetable_find(runs, count, runs[i].start) != line) {
            abort();
        }
    }
    (void)!pyr_linetable_line(data, size, first_line, SIZE_MAX, &line);
    return 0;
}
