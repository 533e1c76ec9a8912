/* From a pid to the address and version of its interpreter; see the header.
 *
 * The interpreter is the file that defines _PyRuntime: the program, a libpython, or whatever embeds
 * one. Each file that is loaded is asked, in the order of addresses, so that a program comes before
 * its libraries, as for the loader. What is loaded of a file is asked first: the symbols that the
 * loader uses are in memory, whatever became of the file. Only when no file answers, the files
 * themselves are opened, for those that export nothing but still have their symbols, or the section
 * .PyRuntime; a file is believed only when it is the one that is loaded.
 *
 * Owns nothing but the text of the maps while it runs; any thread. Bytes of the target and its
 * files are hostile: an address counts only when it lies in writable memory.
 */
#include "cpython/runtime.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "cpython/layout_published.h"
#include "cpython/layout_tables.h"
#include "os/claim.h"
#include "os/elf.h"
#include "os/mapped_file.h"
#include "os/maps.h"

enum { MAPS_BYTES = 1 << 25, MAPPINGS = 64, IMAGES = 1 << 16, HEAD_BYTES = 16 };

typedef struct search {
    pyr_reader *reader;
    int64_t pid;
    const char *maps; /* the text of all mappings */
    size_t maps_length;
    /* The image at hand: one file, where it is loaded. More mappings than fit are left out. */
    pyr_mapping mappings[MAPPINGS];
    size_t count;
    pyr_runtime *runtime;
} search;

static pyr_status refuse(pyr_status status, char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static pyr_status refuse(pyr_status status, char *why, size_t why_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, why_size, format, arguments);
    va_end(arguments);
    return status;
}

/* Takes the next run of mappings of one file as the image. Memory without a file may lie in between
 * (it is the end of its data), other files may not: a file that is loaded twice is two images. */
static bool next_image(search *self, size_t *position)
{
    pyr_mapping mapping;
    size_t next = *position;
    self->count = 0;
    while (pyr_maps_next(self->maps, self->maps_length, &next, &mapping) == PYR_OK) {
        if (mapping.inode != 0) {
            if (self->count > 0 && !pyr_mapping_is_same_file(&mapping, &self->mappings[0])) {
                break;
            }
            if (self->count < MAPPINGS) {
                self->mappings[self->count++] = mapping;
            }
        }
        *position = next;
    }
    return self->count > 0;
}

static bool is_writable(const search *self, pyr_addr address)
{
    pyr_mapping mapping;
    size_t position = 0;
    while (pyr_maps_next(self->maps, self->maps_length, &position, &mapping) == PYR_OK) {
        if (address >= mapping.start && address < mapping.end) {
            return mapping.is_writable;
        }
    }
    return false;
}

/* A source of pyr_elf: the file as far as it is loaded. */
static pyr_status read_loaded(void *context, uint64_t offset, void *destination, size_t length)
{
    const search *self = context;
    for (size_t i = 0; i < self->count; i++) {
        const pyr_mapping *mapping = &self->mappings[i];
        uint64_t size = mapping->end - mapping->start;
        uint64_t into = offset - mapping->offset;
        if (offset >= mapping->offset && into < size && length <= size - into) {
            return pyr_reader_read(self->reader, mapping->start + into, destination, length);
        }
    }
    return PYR_EFAULT;
}

/* Another one: the file itself. */
static pyr_status read_file(void *context, uint64_t offset, void *destination, size_t length)
{
    return pyr_mapped_file_read(*(const int *)context, offset, destination, length);
}

/* The address of _PyRuntime according to one view of the image, by any mapping that can be the
 * begin of a segment: usually the first, but a program may have mapped its library as data, too. */
static bool find_address(search *self, pyr_elf *elf)
{
    pyr_elf_section section;
    uint64_t address, tried = 0;
    for (size_t i = 0; i < self->count; i++) {
        const pyr_mapping *mapping = &self->mappings[i];
        if (pyr_elf_place(elf, mapping->offset, mapping->start) != PYR_OK ||
            (i > 0 && elf->bias == tried)) {
            continue;
        }
        tried = elf->bias;
        if (pyr_elf_symbol_find(elf, "_PyRuntime", &address) != PYR_OK) {
            if (pyr_elf_section_find(elf, ".PyRuntime", &section) != PYR_OK) {
                continue;
            }
            address = section.address + elf->bias;
        }
        if (is_writable(self, address)) {
            self->runtime->address = address;
            return true;
        }
    }
    return false;
}

/* Asks one view for all there is to know; the version stays 0 when it cannot be had. */
static bool examine(search *self, pyr_elf *elf)
{
    uint64_t address, word = 0;
    uint8_t head[HEAD_BYTES];
    pyr_runtime *runtime = self->runtime;
    if (!find_address(self, elf)) {
        return false;
    }
    if (pyr_elf_symbol_find(elf, "PyCode_Type", &address) == PYR_OK) {
        runtime->code_type = address;
    }
    /* An unsigned long, of 8 bytes on every 64-bit Linux. */
    if (pyr_elf_symbol_find(elf, "Py_Version", &address) == PYR_OK &&
        pyr_reader_read(self->reader, address, &word, sizeof word) == PYR_OK &&
        word <= UINT32_MAX) {
        runtime->version = (uint32_t)word;
    } else if (pyr_reader_read(self->reader, runtime->address, head, sizeof head) == PYR_OK) {
        runtime->version = pyr_published_version(head, sizeof head);
    }
    return true;
}

static bool examine_loaded(search *self)
{
    pyr_elf elf;
    return pyr_elf_open(&elf, (pyr_elf_source){read_loaded, self}) == PYR_OK && examine(self, &elf);
}

static bool examine_file(search *self)
{
    pyr_elf loaded, elf;
    bool is_it = false, found = false;
    if (pyr_elf_open(&loaded, (pyr_elf_source){read_loaded, self}) != PYR_OK) {
        return false;
    }
    for (int way = 0; way < PYR_MAPPED_FILE_WAYS && !is_it; way++) {
        int file;
        if (pyr_mapped_file_open(self->pid, &self->mappings[0], way, &file) == PYR_OK) {
            is_it = pyr_elf_open(&elf, (pyr_elf_source){read_file, &file}) == PYR_OK &&
                    pyr_elf_is_same(&elf, &loaded);
            found = is_it && examine(self, &elf);
            pyr_mapped_file_close(file);
        }
    }
    return found;
}

/* Asks one image after the other, up to the number of mappings that Linux allows by default. */
static bool find(search *self, bool (*examine_image)(search *self))
{
    size_t position = 0;
    for (int i = 0; i < IMAGES && next_image(self, &position); i++) {
        if (examine_image(self)) {
            return true;
        }
    }
    return false;
}

pyr_status pyr_runtime_explain(pyr_status status, int64_t pid, char *why, size_t why_size)
{
    if (status == PYR_ENOENT) {
        return refuse(status, why, why_size, "there is no process %" PRId64, pid);
    }
    if (status == PYR_EPERM) {
        return refuse(status, why, why_size,
                      "the memory of process %" PRId64 " may not be read: that takes root, or the "
                      "capability CAP_SYS_PTRACE",
                      pid);
    }
    return refuse(status, why, why_size, "process %" PRId64 " could not be read: %s", pid,
                  pyr_status_text(status));
}

pyr_status pyr_runtime_find(pyr_reader *reader, int64_t pid, pyr_runtime *runtime, char *why,
                            size_t why_size)
{
    char path[64];
    pyr_buffer text;
    *runtime = (pyr_runtime){0};
    pyr_buffer_init(&text, MAPS_BYTES);
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/maps", pid);
    pyr_status status = pyr_os_file_read(path, &text);
    if (status == PYR_OK && text.length == 0) {
        status = PYR_ENOENT; /* it has ended */
    }
    search self = {.reader = reader,
                   .pid = pid,
                   .maps = (const char *)text.data,
                   .maps_length = text.length,
                   .runtime = runtime};
    if (status != PYR_OK) {
        status = pyr_runtime_explain(status, pid, why, why_size);
    } else if (!find(&self, examine_loaded) && !find(&self, examine_file)) {
        status = refuse(PYR_ENOENT, why, why_size,
                        "no Python interpreter was found in process %" PRId64, pid);
    } else if (runtime->version == 0) {
        status = refuse(PYR_EVERSION, why, why_size,
                        "the Python in process %" PRId64 " does not tell its version, so it is "
                        "older than 3.%d",
                        pid, PYR_LAYOUT_FIRST_MINOR);
    }
    pyr_buffer_fini(&text);
    return status;
}
