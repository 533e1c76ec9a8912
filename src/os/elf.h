/* ELF files of 64 bits, little endian: segments, sections, symbols by name, the build id.
 *
 * Bytes come from a source, by their place in the file: the file itself, or what a process has
 * loaded of it, which lacks the sections but has all that the loader needs, so that a file that is
 * deleted, replaced or out of reach is read all the same. Nothing is allocated; every count and
 * loop is bounded, every number hostile. Any thread, as far as the source allows.
 *
 * Sources: System V ABI (generic and processor supplements), elf.h, and for the hash table the
 * format of DT_GNU_HASH as GNU ld writes it.
 */
#ifndef PYR_OS_ELF_H
#define PYR_OS_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PYR_ELF_HEADER_BYTES = 64,
    PYR_ELF_NAME_BYTES = 64, /* of a name to look for, with its NUL */
    PYR_ELF_BUILD_ID_BYTES = 64,
};

typedef struct pyr_elf_source {
    /* Copies exactly `length` bytes at `offset` of the file; any other status than PYR_OK: they
     * are not there. Offsets may be anything. */
    pyr_status (*read)(void *context, uint64_t offset, void *destination, size_t length);
    void *context;
} pyr_elf_source;

typedef struct pyr_elf {
    pyr_elf_source source;
    uint64_t bias;               /* what loading added to the file's addresses; see pyr_elf_place */
    uint64_t segments, sections; /* offsets of the two tables */
    uint16_t segment_count, section_count, names; /* names: section with the sections' names */
    uint8_t header[PYR_ELF_HEADER_BYTES];
} pyr_elf;

typedef struct pyr_elf_segment {
    uint32_t type, flags; /* PT_*, PF_* of the system's elf.h */
    uint64_t offset, address, file_size, memory_size, alignment;
} pyr_elf_segment;

typedef struct pyr_elf_section {
    uint32_t name, type, link; /* name: offset among the names; type: SHT_* */
    uint64_t address, offset, size;
} pyr_elf_section;

/* Reads the header. PYR_EBAD: no executable or shared library of 64 bits, little endian. */
PYR_MUST_USE pyr_status pyr_elf_open(pyr_elf *elf, pyr_elf_source source);

/* Segment `index`, as it stands in the file. PYR_ENOENT past the last one, PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_elf_segment_get(const pyr_elf *elf, size_t index,
                                            pyr_elf_segment *segment);

/* Section `index`, as it stands in the file. PYR_ENOENT past the last one, PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_elf_section_get(const pyr_elf *elf, size_t index,
                                            pyr_elf_section *section);

/* The first section of that name. PYR_ENOENT, PYR_EINVAL: the name is too long. */
PYR_MUST_USE pyr_status pyr_elf_section_find(const pyr_elf *elf, const char *name,
                                             pyr_elf_section *section);

/* Learns where the file is loaded from one mapping of it: from then on `bias` is right, and
 * addresses are those of the process. PYR_ENOENT: no loaded segment begins at that offset. */
PYR_MUST_USE pyr_status pyr_elf_place(pyr_elf *elf, uint64_t mapping_offset,
                                      uint64_t mapping_start);

/* The address of a symbol that this file defines, with the bias: from the dynamic symbols by their
 * hash table, else from .dynsym and .symtab by search. PYR_ENOENT, PYR_EINVAL: the name is empty or
 * too long. */
PYR_MUST_USE pyr_status pyr_elf_symbol_find(const pyr_elf *elf, const char *name,
                                            uint64_t *address);

/* The build id. PYR_ENOENT: it has none. */
PYR_MUST_USE pyr_status pyr_elf_build_id(const pyr_elf *elf, uint8_t id[PYR_ELF_BUILD_ID_BYTES],
                                         size_t *length);

/* True when both are the same file as far as headers and build id can tell. */
bool pyr_elf_is_same(const pyr_elf *one, const pyr_elf *other);

#endif
