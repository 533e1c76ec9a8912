/* A program for test_outside.py: prints the stacks of another process's Python, as image_probe.c
 * does for its own process. The two differ in which reader is opened, and in that nobody outside
 * knows where the interpreter is. Built by the test.
 *
 *     outside_probe PID
 *
 * prints "runtime ADDRESS VERSION CODE_TYPE" and what image_stacks.h describes, or one line about
 * what is wrong, "STATUS: SENTENCE". Threads may come and go meanwhile: it tries again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpython/layout.h"
#include "cpython/runtime.h"
#include "support/image_stacks.h"

enum { TRIES = 20, TEXT_BYTES = 1 << 20 };

static int fail(pyr_status status, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", pyr_status_name(status), why);
    return 1;
}

int main(int count, char **arguments)
{
    char why[200] = "";
    pyr_reader *reader;
    pyr_runtime runtime;
    const pyr_layout *layout;
    pyr_buffer text;
    int64_t pid = count == 2 ? strtoll(arguments[1], NULL, 10) : 0;
    pyr_status status = pyr_reader_open_pid(pid, &reader);
    if (status != PYR_OK) {
        (void)pyr_runtime_explain(status, pid, why, sizeof why);
        return fail(status, why);
    }
    status = pyr_runtime_find(reader, pid, &runtime, why, sizeof why);
    if (status != PYR_OK) {
        return fail(status, why);
    }
    (void)printf("runtime %#" PRIxPTR " %#" PRIx32 " %#" PRIxPTR "\n", runtime.address,
                 runtime.version, runtime.code_type);
    (void)fflush(stdout);
    status =
        pyr_layout_discover(reader, runtime.address, runtime.version, &layout, why, sizeof why);
    if (status != PYR_OK) {
        return fail(status, why);
    }
    pyr_layout_free(layout);
    pyr_buffer_init(&text, TEXT_BYTES);
    for (int i = 0; i < TRIES; i++) {
        pyr_buffer_clear(&text);
        status = image_stacks_write(reader, runtime.address, runtime.version, &text);
        if (status != PYR_ETORN) {
            break;
        }
    }
    if (status != PYR_OK) {
        return fail(status, pyr_status_text(status));
    }
    (void)fwrite(text.data, 1, text.length, stdout);
    pyr_buffer_fini(&text);
    pyr_reader_close(reader);
    return 0;
}
