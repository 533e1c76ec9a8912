/* The proof of the discovered layout: true offsets from the real headers of the interpreter that
 * the extension was compiled for, compared at import, so that a wrong offset refuses to start
 * instead of reading garbage. Sizes are not compared: they may be wrong in the headers (a
 * distribution can build its interpreter with options that its headers do not show).
 *
 * The one file outside cpython/ that knows CPython's structs. Owns nothing, any thread.
 */
#include "selfcheck.h"

#include "layout_truth.h"

#include <string.h>

static const struct truth {
    const char *name;
    uint32_t offset;
} truths[] = {
#define TRUTH(field, offset) {#field, (uint32_t)(offset)},
    PYR_LAYOUT_TRUTH(TRUTH)
#undef TRUTH
};

const char *pyr_selfcheck(const pyr_layout *layout)
{
    uint32_t offset;
    const char *name;
    size_t next = 0;
    /* Both lists are in the order of PYR_LAYOUT_FIELDS; the discovered one has two sizes more. */
    for (size_t i = 0; (name = pyr_layout_field(layout, i, &offset)); i++) {
        if (strcmp(name, "gil_size") == 0 || strcmp(name, "thread_size") == 0) {
            continue;
        }
        if (next == sizeof truths / sizeof truths[0] || strcmp(name, truths[next].name) != 0 ||
            offset != truths[next].offset) {
            return name;
        }
        next++;
    }
    return next == sizeof truths / sizeof truths[0] ? NULL : truths[next].name;
}
