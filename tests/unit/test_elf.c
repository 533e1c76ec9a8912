/* Unit tests of os/elf: a small file made here, whole, cut at every byte and with wrong numbers, at
 * the edge of a page that must not be passed; then real files, and libc as it is loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "os/elf.h"
#include "os/maps.h"
#include "support/image_stacks.h"

enum { PAGE = 4096, BASE = 0x400000, FAR = 0x20000, LOADED = 0x7f0000000000 - BASE };

/* A file whose first segment is everything and whose second begins at the same page of the file. */
typedef struct picture {
    Elf64_Ehdr header;
    Elf64_Phdr segments[4];
    struct {
        uint32_t sizes[3];
        char owner[4];
        uint8_t id[8];
    } notes[2];
    Elf64_Dyn dynamic[5];
    struct {
        uint32_t head[4];
        uint64_t filter;
        uint32_t buckets[1], chains[3];
    } hashes;
    Elf64_Sym symbols[4];
    char strings[48];
    Elf64_Sym more[3];
    char names[64];
    Elf64_Shdr sections[5];
} picture;

#define OFFSET(member) offsetof(picture, member)

static uint8_t *guard; /* first byte of the page that must not be read */

typedef struct span {
    const uint8_t *bytes;
    size_t length;
} span;

static pyr_status read_span(void *context, uint64_t offset, void *destination, size_t length)
{
    const span *file = context;
    if (offset > file->length || length > file->length - offset) {
        return PYR_EPARTIAL;
    }
    memcpy(destination, file->bytes + offset, length);
    return PYR_OK;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++) {
        hash = hash * 33 + (uint8_t)*name;
    }
    return hash;
}

static picture make(void)
{
    picture file;
    memset(&file, 0, sizeof file);
    file.header =
        (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                     .e_type = ET_DYN,
                     .e_phoff = OFFSET(segments),
                     .e_phnum = 4,
                     .e_phentsize = sizeof(Elf64_Phdr),
                     .e_shoff = OFFSET(sections),
                     .e_shnum = 5,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shstrndx = 4};
    file.segments[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof file, .p_memsz = sizeof file};
    file.segments[1] = (Elf64_Phdr){
        .p_type = PT_NOTE, .p_offset = OFFSET(notes), .p_filesz = sizeof file.notes, .p_align = 4};
    file.segments[2] = (Elf64_Phdr){
        .p_type = PT_DYNAMIC, .p_offset = OFFSET(dynamic), .p_filesz = sizeof file.dynamic};
    file.segments[3] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_offset = 2 * PAGE + 0x800,
                                    .p_vaddr = BASE + FAR + 2 * PAGE + 0x800,
                                    .p_filesz = 0x100,
                                    .p_memsz = 0x900};
    memcpy(file.notes[0].owner, "XYZ", 4);
    memcpy(file.notes[1].owner, "GNU", 4);
    for (int i = 0; i < 2; i++) {
        file.notes[i].sizes[0] = 4;
        file.notes[i].sizes[1] = 7; /* padded to 8 */
        file.notes[i].sizes[2] = NT_GNU_BUILD_ID;
        memcpy(file.notes[i].id, i == 0 ? "foreign" : "buildid", 7);
    }
    file.dynamic[0] = (Elf64_Dyn){DT_SONAME, {1}};
    file.dynamic[1] = (Elf64_Dyn){DT_GNU_HASH, {BASE + OFFSET(hashes)}};
    file.dynamic[2] = (Elf64_Dyn){DT_STRTAB, {BASE + OFFSET(strings)}};
    file.dynamic[3] = (Elf64_Dyn){DT_SYMTAB, {BASE + OFFSET(symbols)}};
    memcpy(file.strings, "\0wanted\0exported\0un_wanted\0hidden", 33);
    file.hashes.head[0] = 1; /* bucket */
    file.hashes.head[1] = 1; /* the first symbol that is hashed */
    file.hashes.head[2] = 1; /* word of the filter */
    file.hashes.buckets[0] = 1;
    file.hashes.chains[0] = gnu_hash("wanted") & ~1U; /* the same name, but not defined here */
    file.hashes.chains[1] = gnu_hash("wanted") & ~1U;
    file.hashes.chains[2] = gnu_hash("exported") | 1;
    file.symbols[1] = (Elf64_Sym){.st_name = 1, .st_value = 0x111};
    file.symbols[2] = (Elf64_Sym){.st_name = 1, .st_shndx = 1, .st_value = BASE + 0x222};
    file.symbols[3] = (Elf64_Sym){.st_name = 8, .st_shndx = 1, .st_value = BASE + 0x333};
    /* "wanted" is the end of "un_wanted", too: at 20. "hidden" is at 27. */
    file.more[1] = (Elf64_Sym){.st_name = 27, .st_value = 0x444};
    file.more[2] = (Elf64_Sym){.st_name = 27, .st_shndx = 1, .st_value = BASE + 0x555};
    memcpy(file.names, "\0.dynsym\0.strtab\0.symtab\0.PyRuntime", 36);
    file.sections[1] = (Elf64_Shdr){.sh_name = 1,
                                    .sh_type = SHT_DYNSYM,
                                    .sh_link = 2,
                                    .sh_offset = OFFSET(symbols),
                                    .sh_size = sizeof file.symbols};
    file.sections[2] = (Elf64_Shdr){.sh_name = 9,
                                    .sh_type = SHT_STRTAB,
                                    .sh_offset = OFFSET(strings),
                                    .sh_size = sizeof file.strings};
    file.sections[3] = (Elf64_Shdr){.sh_name = 17,
                                    .sh_type = SHT_SYMTAB,
                                    .sh_link = 2,
                                    .sh_offset = OFFSET(more),
                                    .sh_size = sizeof file.more};
    file.sections[4] = (Elf64_Shdr){.sh_name = 25,
                                    .sh_type = SHT_STRTAB,
                                    .sh_addr = 0x666,
                                    .sh_offset = OFFSET(names),
                                    .sh_size = sizeof file.names};
    return file;
}

static int set_up(void **state)
{
    (void)state;
    uint8_t *pages =
        mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + 2 * PAGE, PAGE, PROT_NONE) != 0) {
        return -1;
    }
    guard = pages + 2 * PAGE;
    return 0;
}

/* The first `length` bytes of a file, ending where reading ends. */
static span at_edge(const picture *file, size_t length)
{
    memcpy(guard - length, file, length);
    return (span){guard - length, length};
}

static pyr_elf open_whole(const picture *file, span *bytes)
{
    pyr_elf elf;
    *bytes = at_edge(file, sizeof *file);
    assert_int_equal(pyr_elf_open(&elf, (pyr_elf_source){read_span, bytes}), PYR_OK);
    return elf;
}

static void check_symbol(const pyr_elf *elf, const char *name, uint64_t expected)
{
    uint64_t address = 0;
    assert_int_equal(pyr_elf_symbol_find(elf, name, &address), PYR_OK);
    assert_int_equal(address, expected);
}

static void test_whole_file(void **state)
{
    (void)state;
    picture file = make();
    span bytes;
    pyr_elf elf = open_whole(&file, &bytes);
    pyr_elf_segment segment;
    pyr_elf_section section;
    assert_int_equal(pyr_elf_segment_get(&elf, 3, &segment), PYR_OK);
    assert_int_equal(segment.memory_size, 0x900);
    assert_int_equal(pyr_elf_segment_get(&elf, 4, &segment), PYR_ENOENT);
    assert_int_equal(pyr_elf_section_find(&elf, ".PyRuntime", &section), PYR_OK);
    assert_int_equal(section.address, 0x666);
    assert_int_equal(pyr_elf_section_find(&elf, ".text", &section), PYR_ENOENT);
    assert_int_equal(pyr_elf_section_get(&elf, 5, &section), PYR_ENOENT);
    check_symbol(&elf, "wanted", BASE + 0x222);
    check_symbol(&elf, "exported", BASE + 0x333);
    check_symbol(&elf, "hidden", BASE + 0x555);
    uint64_t address;
    static const char *const missing[] = {"want", "wante", "wantedd", "idden", "un_wanted", "xyz"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        assert_int_equal(pyr_elf_symbol_find(&elf, missing[i], &address), PYR_ENOENT);
    }
    char longest[PYR_ELF_NAME_BYTES + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[PYR_ELF_NAME_BYTES] = 0;
    assert_int_equal(pyr_elf_symbol_find(&elf, longest, &address), PYR_EINVAL);
    assert_int_equal(pyr_elf_symbol_find(&elf, "", &address), PYR_EINVAL);
    assert_int_equal(pyr_elf_section_find(&elf, longest, &section), PYR_EINVAL);
    uint8_t id[PYR_ELF_BUILD_ID_BYTES];
    size_t length;
    assert_int_equal(pyr_elf_build_id(&elf, id, &length), PYR_OK);
    assert_int_equal(length, 7);
    assert_memory_equal(id, "buildid", 7);
}

/* Each table must serve alone: a process has the first only, a program that exports nothing the
 * last only, and a library without a hash table of this kind the one in between. */
static void test_each_table_alone(void **state)
{
    (void)state;
    span bytes;
    uint64_t address;
    picture file = make();
    file.header.e_shnum = 0;
    pyr_elf elf = open_whole(&file, &bytes);
    check_symbol(&elf, "wanted", BASE + 0x222);
    assert_int_equal(pyr_elf_symbol_find(&elf, "hidden", &address), PYR_ENOENT);

    file = make();
    file.dynamic[1].d_tag = DT_HASH;
    elf = open_whole(&file, &bytes);
    check_symbol(&elf, "wanted", BASE + 0x222);
    check_symbol(&elf, "exported", BASE + 0x333);

    file.sections[1].sh_type = SHT_NOBITS;
    file.more[2].st_name = 20; /* the end of a longer name is a name */
    elf = open_whole(&file, &bytes);
    check_symbol(&elf, "wanted", BASE + 0x555);
    assert_int_equal(pyr_elf_symbol_find(&elf, "exported", &address), PYR_ENOENT);
}

/* A name may stand anywhere in a string table, also across the pieces in which it is read. */
static void test_search_across_chunks(void **state)
{
    (void)state;
    enum { STRINGS = 40000, SYMBOLS = 1200 };
    static uint8_t whole[sizeof(picture) + STRINGS + SYMBOLS * sizeof(Elf64_Sym)];
    picture file = make();
    file.header.e_phnum = 0;
    file.sections[2].sh_offset = sizeof file;
    file.sections[2].sh_size = STRINGS;
    file.sections[3].sh_offset = sizeof file + STRINGS;
    file.sections[3].sh_size = SYMBOLS * sizeof(Elf64_Sym);
    span bytes = {whole, sizeof whole};
    for (uint32_t place = 12200; place < 12320; place++) {
        memset(whole, 0, sizeof whole);
        memcpy(whole, &file, sizeof file);
        memcpy(whole + sizeof file + place, "sought", 7);
        Elf64_Sym symbol = {.st_name = place, .st_shndx = 1, .st_value = place};
        size_t index = (place * 10) % SYMBOLS;
        memcpy(whole + sizeof file + STRINGS + index * sizeof symbol, &symbol, sizeof symbol);
        pyr_elf elf;
        assert_int_equal(pyr_elf_open(&elf, (pyr_elf_source){read_span, &bytes}), PYR_OK);
        check_symbol(&elf, "sought", place);
    }
}

static void test_place(void **state)
{
    (void)state;
    picture file = make();
    span bytes;
    pyr_elf elf = open_whole(&file, &bytes);
    const uint64_t start = LOADED + BASE;
    assert_int_equal(pyr_elf_place(&elf, 0, start), PYR_OK);
    assert_int_equal(elf.bias, LOADED);
    check_symbol(&elf, "wanted", LOADED + BASE + 0x222);
    check_symbol(&elf, "hidden", LOADED + BASE + 0x555);
    elf.bias = 0;
    assert_int_equal(pyr_elf_place(&elf, 2 * PAGE, start + FAR + 2 * PAGE), PYR_OK);
    assert_int_equal(elf.bias, LOADED);
    assert_int_equal(pyr_elf_place(&elf, PAGE, start), PYR_ENOENT);
    /* As glibc leaves it: addresses of the dynamic section are those of the process. */
    for (int i = 1; i < 4; i++) {
        file.dynamic[i].d_un.d_ptr += LOADED;
    }
    file.header.e_shnum = 0;
    elf = open_whole(&file, &bytes);
    uint64_t address;
    assert_int_equal(pyr_elf_symbol_find(&elf, "wanted", &address), PYR_ENOENT);
    assert_int_equal(pyr_elf_place(&elf, 0, start), PYR_OK);
    check_symbol(&elf, "wanted", LOADED + BASE + 0x222);
}

static void test_is_same(void **state)
{
    (void)state;
    static picture files[2];
    span bytes[2];
    pyr_elf elf[2];
    for (int change = 0; change < 5; change++) {
        files[0] = make();
        files[1] = make();
        switch (change) {
        case 1:
            files[1].header.e_entry = 1;
            break;
        case 2:
            files[1].segments[3].p_memsz++;
            break;
        case 3:
            files[1].notes[1].id[3]++;
            break;
        case 4:
            files[1].notes[1].owner[0] = 'H'; /* no build id */
            break;
        default:
            files[1].symbols[1].st_value++; /* not looked at */
        }
        for (int i = 0; i < 2; i++) {
            bytes[i] = (span){(const uint8_t *)&files[i], sizeof files[i]};
            assert_int_equal(pyr_elf_open(&elf[i], (pyr_elf_source){read_span, &bytes[i]}), PYR_OK);
        }
        assert_int_equal(pyr_elf_is_same(&elf[0], &elf[1]), change == 0);
        assert_int_equal(pyr_elf_is_same(&elf[1], &elf[0]), change == 0);
    }
}

static void test_not_our_kind(void **state)
{
    (void)state;
    picture file;
    pyr_elf elf;
    for (int change = 0; change < 6; change++) {
        file = make();
        switch (change) {
        case 0:
            file.header.e_ident[1] = 'e';
            break;
        case 1:
            file.header.e_ident[EI_CLASS] = ELFCLASS32;
            break;
        case 2:
            file.header.e_ident[EI_DATA] = ELFDATA2MSB;
            break;
        case 3:
            file.header.e_type = ET_REL;
            break;
        case 4:
            file.header.e_phentsize = 32;
            break;
        default:
            file.header.e_phnum = 1000;
        }
        span bytes = at_edge(&file, sizeof file);
        assert_int_equal(pyr_elf_open(&elf, (pyr_elf_source){read_span, &bytes}), PYR_EBAD);
    }
}

/* Calls everything; what is found, if anything, must be right. */
static void look(span *bytes)
{
    pyr_elf elf;
    uint64_t address;
    pyr_elf_section section;
    uint8_t id[PYR_ELF_BUILD_ID_BYTES];
    size_t length;
    if (pyr_elf_open(&elf, (pyr_elf_source){read_span, bytes}) != PYR_OK) {
        assert_true(bytes->length < sizeof(Elf64_Ehdr));
        return;
    }
    if (pyr_elf_symbol_find(&elf, "wanted", &address) == PYR_OK) {
        assert_int_equal(address, BASE + 0x222);
    }
    if (pyr_elf_symbol_find(&elf, "hidden", &address) == PYR_OK) {
        assert_int_equal(address, BASE + 0x555);
    }
    if (pyr_elf_section_find(&elf, ".PyRuntime", &section) == PYR_OK) {
        assert_int_equal(section.address, 0x666);
    }
    if (pyr_elf_build_id(&elf, id, &length) == PYR_OK) {
        assert_memory_equal(id, "buildid", 7);
    }
    assert_true(pyr_elf_is_same(&elf, &elf) || bytes->length < sizeof(picture));
}

static void test_cut_files(void **state)
{
    (void)state;
    picture file = make();
    for (size_t length = 0; length <= sizeof file; length++) {
        span bytes = at_edge(&file, length);
        look(&bytes);
    }
}

/* Wrong numbers, where they could lead a loop or a copy astray. */
static void test_wrong_numbers(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0,         1,          0x7fffffff,    UINT32_MAX,
                                       INT64_MAX, UINT64_MAX, UINT64_MAX - 8};
    static const struct {
        size_t offset, bytes;
    } places[] = {
        {OFFSET(header.e_phoff), 8},        {OFFSET(header.e_shoff), 8},
        {OFFSET(header.e_shnum), 2},        {OFFSET(header.e_shstrndx), 2},
        {OFFSET(segments[0].p_filesz), 8},  {OFFSET(segments[1].p_filesz), 8},
        {OFFSET(segments[1].p_offset), 8},  {OFFSET(segments[2].p_filesz), 8},
        {OFFSET(segments[2].p_offset), 8},  {OFFSET(notes[0].sizes[0]), 4},
        {OFFSET(notes[0].sizes[1]), 4},     {OFFSET(dynamic[1].d_un), 8},
        {OFFSET(dynamic[2].d_un), 8},       {OFFSET(dynamic[3].d_un), 8},
        {OFFSET(hashes.head[0]), 4},        {OFFSET(hashes.head[2]), 4},
        {OFFSET(hashes.buckets[0]), 4},     {OFFSET(symbols[2].st_name), 4},
        {OFFSET(sections[1].sh_link), 4},   {OFFSET(sections[1].sh_size), 8},
        {OFFSET(sections[2].sh_offset), 8}, {OFFSET(sections[2].sh_size), 8},
        {OFFSET(sections[3].sh_offset), 8}, {OFFSET(sections[3].sh_size), 8},
        {OFFSET(sections[4].sh_offset), 8},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (size_t j = 0; j < sizeof numbers / sizeof numbers[0]; j++) {
            picture file = make();
            memcpy((uint8_t *)&file + places[i].offset, &numbers[j], places[i].bytes);
            span bytes = at_edge(&file, sizeof file);
            pyr_elf elf;
            uint64_t address;
            pyr_elf_section section;
            uint8_t id[PYR_ELF_BUILD_ID_BYTES];
            size_t length;
            assert_int_equal(pyr_elf_open(&elf, (pyr_elf_source){read_span, &bytes}), PYR_OK);
            (void)!pyr_elf_symbol_find(&elf, "wanted", &address);
            (void)!pyr_elf_symbol_find(&elf, "hidden", &address);
            (void)!pyr_elf_section_find(&elf, ".PyRuntime", &section);
            assert_true(pyr_elf_build_id(&elf, id, &length) != PYR_OK || length <= sizeof id);
        }
    }
}

/* ------------------------------------------------------------------------------ real files ---- */

int main(void);

static int local_symbol = 7;

static size_t maps_read(char *text, size_t size)
{
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    size_t length = fread(text, 1, size, file);
    (void)fclose(file);
    return length;
}

/* The first mapping of the file that `address` is mapped from. */
static pyr_mapping file_of(const void *address)
{
    static char text[1 << 20];
    size_t length = maps_read(text, sizeof text), position = 0;
    pyr_mapping first = {0}, mapping;
    while (pyr_maps_next(text, length, &position, &mapping) == PYR_OK) {
        if (!pyr_mapping_is_same_file(&mapping, &first)) {
            first = mapping;
        }
        if ((uintptr_t)address >= mapping.start && (uintptr_t)address < mapping.end) {
            return first;
        }
    }
    fail_msg("not mapped");
    return first;
}

static void test_own_program(void **state)
{
    (void)state;
    size_t length;
    uint8_t *program = image_file_read("/proc/self/exe", &length);
    assert_non_null(program);
    span bytes = {program, length};
    pyr_elf elf;
    assert_int_equal(pyr_elf_open(&elf, (pyr_elf_source){read_span, &bytes}), PYR_OK);
    pyr_mapping mapping = file_of(&local_symbol);
    assert_int_equal(pyr_elf_place(&elf, mapping.offset, mapping.start), PYR_OK);
    check_symbol(&elf, "local_symbol", (uintptr_t)&local_symbol);
    int (*function)(void) = main;
    check_symbol(&elf, "main", (uintptr_t)function);
    pyr_elf_section section;
    assert_int_equal(pyr_elf_section_find(&elf, ".data", &section), PYR_OK);
    assert_true((uintptr_t)&local_symbol - elf.bias - section.address < section.size);
    pyr_memory_free(program);
}

/* Memory of this process, by the place in libc's file. */
static pyr_status read_libc(void *context, uint64_t offset, void *destination, size_t length)
{
    const pyr_mapping *first = context;
    static char text[1 << 20];
    size_t size = maps_read(text, sizeof text), position = 0;
    pyr_mapping mapping;
    while (pyr_maps_next(text, size, &position, &mapping) == PYR_OK) {
        if (pyr_mapping_is_same_file(&mapping, first) && mapping.is_readable &&
            offset >= mapping.offset &&
            offset + length <= mapping.offset + mapping.end - mapping.start) {
            memcpy(destination, (const char *)(uintptr_t)mapping.start + (offset - mapping.offset),
                   length);
            return PYR_OK;
        }
    }
    return PYR_EFAULT;
}

static void test_loaded_libc(void **state)
{
    (void)state;
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    assert_non_null(libc); /* asked by name, for sanitizers stand in front of some functions */
    const void *expected = dlsym(libc, "environ"), *function = dlsym(libc, "opendir");
    static char path[PAGE];
    pyr_mapping mapping = file_of(function);
    assert_true(mapping.path_length < sizeof path);
    memcpy(path, mapping.path, mapping.path_length);
    pyr_elf loaded, elf;
    assert_int_equal(pyr_elf_open(&loaded, (pyr_elf_source){read_libc, &mapping}), PYR_OK);
    assert_int_equal(pyr_elf_place(&loaded, mapping.offset, mapping.start), PYR_OK);
    check_symbol(&loaded, "environ", (uintptr_t)expected);
    check_symbol(&loaded, "opendir", (uintptr_t)function);
    span bytes;
    uint8_t *file = image_file_read(path, &bytes.length);
    assert_non_null(file);
    bytes.bytes = file;
    assert_int_equal(pyr_elf_open(&elf, (pyr_elf_source){read_span, &bytes}), PYR_OK);
    assert_true(pyr_elf_is_same(&elf, &loaded));
    check_symbol(&elf, "environ", (uintptr_t)expected - loaded.bias);
    pyr_memory_free(file);
    (void)dlclose(libc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_file),
        cmocka_unit_test(test_each_table_alone),
        cmocka_unit_test(test_search_across_chunks),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_is_same),
        cmocka_unit_test(test_not_our_kind),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_wrong_numbers),
        cmocka_unit_test(test_own_program),
        cmocka_unit_test(test_loaded_libc),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
