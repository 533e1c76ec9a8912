/* Fuzzes cpython/layout: the input is a published table (its version is made to fit a minor that
 * publishes one). What is accepted must pass the check and be describable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/layout.h"
#include "cpython/layout_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[100] = "";
    pyr_layout layout;
    uint64_t published;
    if (size < 24) {
        return 0;
    }
    memcpy(&published, data + 8, sizeof published);
    uint32_t version = (uint32_t)published;
    pyr_status status = pyr_layout_from_bytes(data, size, version, &layout, why, sizeof why);
    if (status != PYR_OK) {
        if (why[0] == 0) {
            abort();
        }
        return 0;
    }
    pyr_buffer text;
    pyr_buffer_init(&text, 1 << 16);
    if (pyr_layout_check(&layout, why, sizeof why) != PYR_OK ||
        pyr_layout_describe(&layout, &text) != PYR_OK || layout.thread_size > 4096 + 8 ||
        layout.gil_size > 1024) {
        abort();
    }
    pyr_buffer_fini(&text);
    return 0;
}
