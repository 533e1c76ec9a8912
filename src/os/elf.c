/* Reads ELF files through a source; see the header.
 *
 * Owns nothing; any thread. Nothing is trusted: a number out of the file is only ever an offset for
 * the source, which knows what it has, a count that a loop compares with a bound of ours, or a
 * result. Sums of such numbers may wrap; that makes them wrong, not dangerous.
 */
#include "os/elf.h"

#include <elf.h>
#include <string.h>

enum {
    PAGE = 4096,
    CHUNK_BYTES = 512 * sizeof(Elf64_Sym),
    MOST_SEGMENTS = 128,
    MOST_DYNAMIC = 512,         /* entries of the dynamic section */
    MOST_CHAIN = 4096,          /* symbols of one hash bucket */
    MOST_NOTES = 64,            /* of one segment */
    MOST_TABLES = 4,            /* symbol tables searched */
    MOST_TABLE_BYTES = 1 << 26, /* of a symbol or string table */
    MATCHES = 16,               /* places of a name in a string table */
};

static pyr_status read_at(const pyr_elf *elf, uint64_t offset, void *destination, size_t length)
{
    return elf->source.read(elf->source.context, offset, destination, length);
}

pyr_status pyr_elf_open(pyr_elf *elf, pyr_elf_source source)
{
    Elf64_Ehdr header;
    *elf = (pyr_elf){.source = source};
    if (read_at(elf, 0, elf->header, sizeof elf->header) != PYR_OK) {
        return PYR_EBAD;
    }
    memcpy(&header, elf->header, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB ||
        (header.e_type != ET_EXEC && header.e_type != ET_DYN) ||
        header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > MOST_SEGMENTS) {
        return PYR_EBAD;
    }
    elf->segments = header.e_phoff;
    elf->segment_count = header.e_phnum;
    if (header.e_shentsize == sizeof(Elf64_Shdr)) {
        elf->sections = header.e_shoff;
        elf->section_count = header.e_shnum;
        elf->names = header.e_shstrndx;
    }
    return PYR_OK;
}

pyr_status pyr_elf_segment_get(const pyr_elf *elf, size_t index, pyr_elf_segment *segment)
{
    Elf64_Phdr raw;
    if (index >= elf->segment_count) {
        return PYR_ENOENT;
    }
    if (read_at(elf, elf->segments + index * sizeof raw, &raw, sizeof raw) != PYR_OK) {
        return PYR_EBAD;
    }
    *segment = (pyr_elf_segment){.type = raw.p_type,
                                 .flags = raw.p_flags,
                                 .offset = raw.p_offset,
                                 .address = raw.p_vaddr,
                                 .file_size = raw.p_filesz,
                                 .memory_size = raw.p_memsz,
                                 .alignment = raw.p_align};
    return PYR_OK;
}

pyr_status pyr_elf_section_get(const pyr_elf *elf, size_t index, pyr_elf_section *section)
{
    Elf64_Shdr raw;
    if (index >= elf->section_count) {
        return PYR_ENOENT;
    }
    if (read_at(elf, elf->sections + index * sizeof raw, &raw, sizeof raw) != PYR_OK) {
        return PYR_EBAD;
    }
    *section = (pyr_elf_section){.name = raw.sh_name,
                                 .type = raw.sh_type,
                                 .link = raw.sh_link,
                                 .address = raw.sh_addr,
                                 .offset = raw.sh_offset,
                                 .size = raw.sh_size};
    return PYR_OK;
}

/* Bytes of a name with its NUL, 0 when it is none that we look for. */
static size_t name_bytes(const char *name)
{
    size_t length = strnlen(name, PYR_ELF_NAME_BYTES);
    return length == 0 || length == PYR_ELF_NAME_BYTES ? 0 : length + 1;
}

static bool is_name_at(const pyr_elf *elf, uint64_t offset, const char *name, size_t length)
{
    char found[PYR_ELF_NAME_BYTES];
    return read_at(elf, offset, found, length) == PYR_OK && memcmp(found, name, length) == 0;
}

pyr_status pyr_elf_section_find(const pyr_elf *elf, const char *name, pyr_elf_section *section)
{
    pyr_elf_section names;
    size_t length = name_bytes(name);
    if (length == 0) {
        return PYR_EINVAL;
    }
    if (pyr_elf_section_get(elf, elf->names, &names) != PYR_OK) {
        return PYR_ENOENT;
    }
    for (size_t i = 0; pyr_elf_section_get(elf, i, section) == PYR_OK; i++) {
        if (is_name_at(elf, names.offset + section->name, name, length)) {
            return PYR_OK;
        }
    }
    return PYR_ENOENT;
}

pyr_status pyr_elf_place(pyr_elf *elf, uint64_t mapping_offset, uint64_t mapping_start)
{
    pyr_elf_segment segment;
    for (size_t i = 0; pyr_elf_segment_get(elf, i, &segment) == PYR_OK; i++) {
        if (segment.type == PT_LOAD && (segment.offset & ~(uint64_t)(PAGE - 1)) == mapping_offset) {
            elf->bias = mapping_start - mapping_offset - (segment.address - segment.offset);
            return PYR_OK;
        }
    }
    return PYR_ENOENT;
}

/* ------------------------------------------------------------- symbols by their hash table ---- */

static bool find_offset(const pyr_elf *elf, uint64_t address, uint64_t *offset)
{
    pyr_elf_segment segment;
    for (size_t i = 0; pyr_elf_segment_get(elf, i, &segment) == PYR_OK; i++) {
        if (segment.type == PT_LOAD && address >= segment.address &&
            address - segment.address < segment.file_size) {
            *offset = segment.offset + (address - segment.address);
            return true;
        }
    }
    return false;
}

typedef struct dynamic {
    uint64_t symbols, strings, hashes; /* offsets in the file */
} dynamic;

/* Finds the three tables. In a process their addresses may have been relocated by the loader (glibc
 * does that, musl does not); only the loaded ones lie as high as the bias. */
static bool find_dynamic(const pyr_elf *elf, dynamic *found)
{
    pyr_elf_segment segment = {0};
    for (size_t i = 0; segment.type != PT_DYNAMIC; i++) {
        if (pyr_elf_segment_get(elf, i, &segment) != PYR_OK) {
            return false;
        }
    }
    enum { SYMBOLS = 1, STRINGS = 2, HASHES = 4, ALL = 7 };
    unsigned seen = 0;
    for (size_t i = 0; seen != ALL && i < MOST_DYNAMIC; i++) {
        Elf64_Dyn entry;
        if (i >= segment.file_size / sizeof entry ||
            read_at(elf, segment.offset + i * sizeof entry, &entry, sizeof entry) != PYR_OK ||
            entry.d_tag == DT_NULL) {
            return false;
        }
        unsigned table = entry.d_tag == DT_SYMTAB     ? SYMBOLS
                         : entry.d_tag == DT_STRTAB   ? STRINGS
                         : entry.d_tag == DT_GNU_HASH ? HASHES
                                                      : 0;
        uint64_t *offset = table == SYMBOLS   ? &found->symbols
                           : table == STRINGS ? &found->strings
                                              : &found->hashes;
        if (table != 0 &&
            ((seen & table) != 0 || (!find_offset(elf, entry.d_un.d_ptr, offset) &&
                                     !find_offset(elf, entry.d_un.d_ptr - elf->bias, offset)))) {
            return false;
        }
        seen |= table;
    }
    return seen == ALL;
}

static bool read_u32(const pyr_elf *elf, uint64_t offset, uint32_t *value)
{
    return read_at(elf, offset, value, sizeof *value) == PYR_OK;
}

/* The table: four words (buckets, first symbol, words of the filter, a shift), the filter, the
 * buckets, and a hash for each symbol from the first on, whose low bit ends a bucket. */
static bool find_hashed(const pyr_elf *elf, const char *name, size_t length, uint64_t *address)
{
    uint32_t head[4], index, hash = 5381;
    dynamic tables = {0};
    for (size_t i = 0; i + 1 < length; i++) {
        hash = hash * 33 + (uint8_t)name[i];
    }
    if (!find_dynamic(elf, &tables) || read_at(elf, tables.hashes, head, sizeof head) != PYR_OK ||
        head[0] == 0) {
        return false;
    }
    uint64_t buckets = tables.hashes + sizeof head + (uint64_t)head[2] * 8;
    uint64_t chains = buckets + (uint64_t)head[0] * 4;
    if (!read_u32(elf, buckets + (uint64_t)(hash % head[0]) * 4, &index) || index < head[1]) {
        return false;
    }
    for (size_t i = 0; i < MOST_CHAIN; i++, index++) {
        uint32_t found;
        if (!read_u32(elf, chains + (uint64_t)(index - head[1]) * 4, &found)) {
            return false;
        }
        if ((found | 1) == (hash | 1)) {
            Elf64_Sym symbol;
            uint64_t offset = tables.symbols + (uint64_t)index * sizeof symbol;
            if (read_at(elf, offset, &symbol, sizeof symbol) == PYR_OK &&
                symbol.st_shndx != SHN_UNDEF &&
                is_name_at(elf, tables.strings + symbol.st_name, name, length)) {
                *address = symbol.st_value + elf->bias;
                return true;
            }
        }
        if (found & 1) {
            break;
        }
    }
    return false;
}

/* ----------------------------------------------------------------------- symbols by search ---- */

/* All places where the name stands in a string table, be it as the end of a longer one. */
static size_t find_names(const pyr_elf *elf, const pyr_elf_section *strings, const char *name,
                         size_t length, uint64_t matches[MATCHES])
{
    uint8_t chunk[CHUNK_BYTES];
    size_t count = 0;
    /* Chunks overlap by less than a name, so that one on their border is whole in exactly one. */
    for (uint64_t base = 0; base + length <= strings->size; base += sizeof chunk - length + 1) {
        uint64_t rest = strings->size - base;
        size_t filled = rest < sizeof chunk ? (size_t)rest : sizeof chunk;
        if (read_at(elf, strings->offset + base, chunk, filled) != PYR_OK) {
            break;
        }
        const uint8_t *from = chunk, *found;
        while (count < MATCHES &&
               (found = memmem(from, filled - (size_t)(from - chunk), name, length)) != NULL) {
            matches[count++] = base + (uint64_t)(found - chunk);
            from = found + 1;
        }
    }
    return count;
}

static bool find_in_table(const pyr_elf *elf, const pyr_elf_section *table, const char *name,
                          size_t length, uint64_t *address)
{
    uint8_t chunk[CHUNK_BYTES];
    uint64_t matches[MATCHES];
    pyr_elf_section strings;
    if (pyr_elf_section_get(elf, table->link, &strings) != PYR_OK ||
        strings.size > MOST_TABLE_BYTES || table->size > MOST_TABLE_BYTES) {
        return false;
    }
    size_t count = find_names(elf, &strings, name, length, matches);
    for (uint64_t base = 0; count > 0 && base < table->size; base += sizeof chunk) {
        uint64_t rest = table->size - base;
        size_t filled = rest < sizeof chunk ? (size_t)rest : sizeof chunk;
        if (read_at(elf, table->offset + base, chunk, filled) != PYR_OK) {
            break;
        }
        Elf64_Sym symbol;
        for (size_t at = 0; at + sizeof symbol <= filled; at += sizeof symbol) {
            memcpy(&symbol, chunk + at, sizeof symbol);
            for (size_t i = 0; i < count; i++) {
                if (symbol.st_name == matches[i] && symbol.st_shndx != SHN_UNDEF) {
                    *address = symbol.st_value + elf->bias;
                    return true;
                }
            }
        }
    }
    return false;
}

pyr_status pyr_elf_symbol_find(const pyr_elf *elf, const char *name, uint64_t *address)
{
    pyr_elf_section section;
    size_t length = name_bytes(name);
    if (length == 0) {
        return PYR_EINVAL;
    }
    if (find_hashed(elf, name, length, address)) {
        return PYR_OK;
    }
    int tables = 0;
    for (size_t i = 0; pyr_elf_section_get(elf, i, &section) == PYR_OK && tables < MOST_TABLES;
         i++) {
        if (section.type == SHT_DYNSYM || section.type == SHT_SYMTAB) {
            tables++;
            if (find_in_table(elf, &section, name, length, address)) {
                return PYR_OK;
            }
        }
    }
    return PYR_ENOENT;
}

/* -------------------------------------------------------------------------------- identity ---- */

/* The build id within one segment of notes: each has three words (bytes of its name, bytes of its
 * content, type), then name and content, both padded. */
static bool find_build_id(const pyr_elf *elf, const pyr_elf_segment *notes,
                          uint8_t id[PYR_ELF_BUILD_ID_BYTES], size_t *length)
{
    static const char owner[4] = "GNU";
    const uint64_t padding = notes->alignment == 8 ? 7 : 3;
    uint64_t at = 0;
    for (int i = 0; i < MOST_NOTES && at < notes->file_size; i++) {
        struct {
            uint32_t sizes[3];
            char name[sizeof owner];
        } note;
        if (read_at(elf, notes->offset + at, &note, sizeof note) != PYR_OK) {
            return false;
        }
        uint64_t content = at + sizeof note.sizes + ((note.sizes[0] + padding) & ~padding);
        if (note.sizes[2] == NT_GNU_BUILD_ID && note.sizes[0] == sizeof owner &&
            memcmp(note.name, owner, sizeof owner) == 0 && note.sizes[1] > 0 &&
            note.sizes[1] <= PYR_ELF_BUILD_ID_BYTES) {
            *length = note.sizes[1];
            return read_at(elf, notes->offset + content, id, *length) == PYR_OK;
        }
        at = content + ((note.sizes[1] + padding) & ~padding);
    }
    return false;
}

pyr_status pyr_elf_build_id(const pyr_elf *elf, uint8_t id[PYR_ELF_BUILD_ID_BYTES], size_t *length)
{
    pyr_elf_segment segment;
    for (size_t i = 0; pyr_elf_segment_get(elf, i, &segment) == PYR_OK; i++) {
        if (segment.type == PT_NOTE && find_build_id(elf, &segment, id, length)) {
            return PYR_OK;
        }
    }
    return PYR_ENOENT;
}

bool pyr_elf_is_same(const pyr_elf *one, const pyr_elf *other)
{
    if (memcmp(one->header, other->header, sizeof one->header) != 0) {
        return false;
    }
    for (size_t i = 0; i < one->segment_count; i++) {
        Elf64_Phdr first, second;
        uint64_t offset = one->segments + i * sizeof first;
        if (read_at(one, offset, &first, sizeof first) != PYR_OK ||
            read_at(other, offset, &second, sizeof second) != PYR_OK ||
            memcmp(&first, &second, sizeof first) != 0) {
            return false;
        }
    }
    uint8_t ids[2][PYR_ELF_BUILD_ID_BYTES];
    size_t lengths[2];
    pyr_status has = pyr_elf_build_id(one, ids[0], &lengths[0]);
    return pyr_elf_build_id(other, ids[1], &lengths[1]) == has &&
           (has != PYR_OK || (lengths[0] == lengths[1] && memcmp(ids[0], ids[1], lengths[0]) == 0));
}
