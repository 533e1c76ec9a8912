/* Fuzzes os/elf. Input: a file. All functions are called on it, as a file and as loaded; a file is
 * the same as itself, and each result keeps its bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "os/elf.h"

enum { MOST_READS = 1 << 21 }; /* whatever the numbers say: for the tables of sections, mostly */

typedef struct span {
    const uint8_t *bytes;
    size_t length;
    uint64_t reads;
} span;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pyr_status read_span(void *context, uint64_t offset, void *destination, size_t length)
{
    span *file = context;
    file->reads++;
    if (offset > file->length || length > file->length - offset) {
        return PYR_EPARTIAL;
    }
    memcpy(destination, file->bytes + offset, length);
    return PYR_OK;
}

static void look(const pyr_elf *elf)
{
    static const char *const names[] = {"_PyRuntime", "Py_Version", "a"};
    uint8_t id[PYR_ELF_BUILD_ID_BYTES];
    size_t length;
    uint64_t address;
    pyr_elf_section section;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)!pyr_elf_symbol_find(elf, names[i], &address);
    }
    (void)!pyr_elf_section_find(elf, ".PyRuntime", &section);
    if (pyr_elf_build_id(elf, id, &length) == PYR_OK && (length == 0 || length > sizeof id)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span file = {data, size, 0};
    pyr_elf elf;
    pyr_elf_segment segment;
    pyr_elf_section section;
    if (pyr_elf_open(&elf, (pyr_elf_source){read_span, &file}) != PYR_OK) {
        return 0;
    }
    look(&elf);
    size_t segments = 0, sections = 0;
    while (pyr_elf_segment_get(&elf, segments, &segment) == PYR_OK) {
        segments++;
    }
    while (pyr_elf_section_get(&elf, sections, &section) == PYR_OK) {
        sections++;
    }
    if (segments > elf.segment_count || sections > elf.section_count ||
        (segments == elf.segment_count && !pyr_elf_is_same(&elf, &elf))) {
        abort();
    }
    if (pyr_elf_place(&elf, 0, 0x7f0000000000) == PYR_OK) {
        look(&elf);
    }
    if (file.reads > MOST_READS) {
        abort();
    }
    return 0;
}
