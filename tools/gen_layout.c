/* Prints the true offsets of one interpreter's headers, one "field offset" a line.
 * tools/gen_layout.py compiles and runs it; absent fields are printed as "-". */
#include "layout_truth.h"

#include <stdio.h>

int main(void)
{
    printf("version %s\n", PY_VERSION);
#define PRINT(field, offset)                                                                       \
    if ((uint32_t)(offset) == UINT32_MAX) {                                                        \
        puts(#field " -");                                                                         \
    } else {                                                                                       \
        printf(#field " %u\n", (unsigned)(offset));                                                \
    }
    PYR_LAYOUT_TRUTH(PRINT)
    return 0;
}
