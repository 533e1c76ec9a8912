/* Fuzz target: every text that sending reads from files and settings. The first byte chooses which.
 * Checked beside memory errors: results are terminated, bounded, and as their headers promise. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "export/address.h"
#include "export/datadog_event.h"
#include "export/provenance.h"
#include "export/surroundings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_path(void *context, const char *path, size_t length)
{
    size_t *count = context;
    require(length > 0 && memchr(path, '\n', length) == NULL && path[0] != '/');
    require(++*count <= 64);
}

static void read_tags(const char *text)
{
    static const pyr_kubernetes no_kubernetes;
    static const pyr_git no_git;
    const pyr_datadog_source source = {
        .identity = {.tags = text, .program = text, .service = text, .pid = 1},
        .container = "",
        .kubernetes = &no_kubernetes,
        .git = &no_git,
        .main_package = "",
        .working_folder = text,
    };
    char bad[100];
    pyr_buffer out;
    pyr_buffer_init(&out, 1 << 16);
    if (pyr_datadog_tags(&source, &out, bad, sizeof bad) == PYR_OK) {
        require(out.data[out.length - 1] != ',');
        require(pyr_utf8_valid((const char *)out.data, out.length) == out.length);
    }
    pyr_buffer_clear(&out);
    if (pyr_datadog_process_tags(&source, &out) == PYR_OK && out.length > 0) {
        require(pyr_utf8_valid((const char *)out.data, out.length) == out.length);
    }
    pyr_buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char *text = calloc(size, 1); /* a NUL at its end, and nothing behind it */
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    char id[PYR_LIMIT_CONTAINER_ID], folder[200];
    pyr_address address;
    size_t count = 0;
    switch (data[0] % 5) {
    case 0:
        pyr_container_id(text, id);
        require(strlen(id) < sizeof id);
        if (pyr_cgroup_folder(text, folder, sizeof folder) == PYR_OK) {
            require(strncmp(folder, "/sys/fs/cgroup", 14) == 0);
        }
        break;
    case 1:
        pyr_git_clean_url(text, folder, sizeof folder);
        require(strlen(folder) <= strlen(text));
        break;
    case 2:
        pyr_provenance_paths(text, check_path, &count);
        break;
    case 3:
        if (pyr_address_parse(text, &address) == PYR_OK) {
            require(address.base[0] != '\0' && strlen(address.base) < sizeof address.base);
        }
        break;
    default:
        read_tags(text);
        break;
    }
    free(text);
    return 0;
}
