/* Fuzzes the parsers of os/task: what /proc says of a task, and of control groups. The first byte
 * chooses the parser. What is found must be well-formed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "os/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_group(const char *text, size_t length)
{
    static const char *const controllers[] = {"", "cpu", "memory"};
    for (size_t i = 0; i < sizeof controllers / sizeof controllers[0]; i++) {
        char path[32];
        memset(path, 'x', sizeof path);
        if (pyr_task_parse_group(text, length, controllers[i], path, sizeof path) != PYR_OK) {
            continue;
        }
        size_t found = strnlen(path, sizeof path);
        if (found == sizeof path || memchr(path, '\n', found)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    /* A block of its own: reading beyond its end is seen. */
    size_t length = size - 1;
    char *text = pyr_memory_new(length, 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data + 1, length);
    uintptr_t futex;
    double cores;
    switch (data[0] % 3) {
    case 0:
        if (pyr_task_parse_wait(text, length, &futex) != PYR_TASK_FUTEX && futex != 0) {
            abort();
        }
        break;
    case 1:
        cores = pyr_task_parse_quota(text, length);
        if (!(cores >= 0 && cores < 1e19)) {
            abort();
        }
        break;
    default:
        parse_group(text, length);
    }
    pyr_memory_free(text);
    return 0;
}
