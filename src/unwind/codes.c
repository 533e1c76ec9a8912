/* The table of code objects; see the header.
 *
 * Owns copies of what it read: names (as symbols), line runs, call sites. Entries sit in an array
 * found by address; an entry that does not hold any more is resolved again in its place. Runs on
 * the thread of the unwinder. Every length read is capped.
 */
#include "unwind/codes.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"
#include "cpython/linetable.h"
#include "cpython/objects.h"

enum {
    CODE_BYTES = 512, /* of a code object in front of its bytecode, at most */
    LINE_RUNS = 1 << 16,
    SCRATCH_BYTES = 1 << 12,
};

struct pyr_code {
    pyr_addr addr;
    uint64_t sequence; /* of deaths, when it was resolved */
    uint64_t tick;     /* in which it was resolved */
    uint32_t function;
    int32_t first_line;
    uint32_t units, nlocalsplus, stacksize, first_traceable;
    uint32_t bytecode_offset;
    pyr_addr exceptions;
    pyr_line_run *runs;
    uint32_t run_count;
    bool analysed;
    pyr_bytecode *sites;
    uint8_t *kinds; /* pyr_site_kind of each unit, when analysed */
};

struct pyr_codes {
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_addr code_type;
    const pyr_code_deaths *deaths;
    pyr_symbols *symbols;
    pyr_map *by_addr;
    pyr_code *entries;
    size_t count, capacity;
    uint64_t sequence; /* of deaths at the start of the tick */
    uint64_t tick;
    uint64_t epoch; /* grows when the table is emptied; never 0 */
    uint8_t *bytes; /* scratch: line and exception tables */
    size_t bytes_capacity;
};

pyr_codes *pyr_codes_new(pyr_reader *reader, const pyr_layout *layout, pyr_addr code_type,
                         const pyr_code_deaths *deaths, pyr_symbols *symbols)
{
    pyr_codes *codes = pyr_memory_new(1, sizeof *codes);
    if (!codes) {
        return NULL;
    }
    codes->reader = reader;
    codes->layout = layout;
    codes->code_type = code_type;
    codes->deaths = deaths;
    codes->symbols = symbols;
    codes->epoch = 1;
    codes->bytes_capacity = SCRATCH_BYTES;
    codes->bytes = pyr_memory_new(SCRATCH_BYTES, 1);
    codes->by_addr = pyr_map_new(PYR_LIMIT_CODES);
    if (!codes->bytes || !codes->by_addr) {
        pyr_codes_free(codes);
        return NULL;
    }
    return codes;
}

static void clear_entry(pyr_code *code)
{
    pyr_memory_free(code->runs);
    pyr_bytecode_free(code->sites);
    pyr_memory_free(code->kinds);
    *code = (pyr_code){.addr = code->addr};
}

static void clear(pyr_codes *codes)
{
    for (size_t i = 0; i < codes->count; i++) {
        clear_entry(&codes->entries[i]);
    }
    codes->count = 0;
    codes->epoch++;
    pyr_map_clear(codes->by_addr);
}

void pyr_codes_free(pyr_codes *codes)
{
    if (codes) {
        if (codes->by_addr) {
            clear(codes);
        }
        pyr_map_free(codes->by_addr);
        pyr_memory_free(codes->entries);
        pyr_memory_free(codes->bytes);
        pyr_memory_free(codes);
    }
}

void pyr_codes_renew(pyr_codes *codes, pyr_symbols *symbols)
{
    clear(codes);
    codes->symbols = symbols;
}

void pyr_codes_new_tick(pyr_codes *codes)
{
    codes->tick++;
    codes->sequence = codes->deaths ? pyr_code_deaths_now(codes->deaths) : 0;
}

/* Nothing died in the slot of `addr` since `sequence`. */
static bool holds_since(const pyr_codes *codes, pyr_addr addr, uint64_t sequence)
{
    return !codes->deaths || pyr_code_deaths_last(codes->deaths, addr) <= sequence;
}

/* Reads a bytes object into the scratch bytes; NULL when unreadable, too long or no memory. */
static const uint8_t *read_bytes(pyr_codes *codes, pyr_addr object, size_t *length)
{
    pyr_status status = pyr_object_bytes(codes->reader, codes->layout, object, codes->bytes,
                                         codes->bytes_capacity, length);
    if (status == PYR_ETOOBIG && *length <= PYR_LIMIT_LINE_TABLE_BYTES) {
        uint8_t *bytes = pyr_memory_resize(codes->bytes, *length, 1);
        if (!bytes) {
            return NULL;
        }
        codes->bytes = bytes;
        codes->bytes_capacity = *length;
        status = pyr_object_bytes(codes->reader, codes->layout, object, codes->bytes,
                                  codes->bytes_capacity, length);
    }
    return status == PYR_OK ? codes->bytes : NULL;
}

static pyr_status read_lines(pyr_codes *codes, pyr_code *code, pyr_addr linetable)
{
    size_t length;
    const uint8_t *table = read_bytes(codes, linetable, &length);
    size_t count = 0;
    pyr_status status =
        table ? pyr_linetable_expand(table, length, code->first_line, NULL, 0, &count) : PYR_EBAD;
    if (status != PYR_ETOOBIG || count == 0 || count > LINE_RUNS) {
        return PYR_OK; /* no lines: the first line stands for all */
    }
    code->runs = pyr_memory_new(count, sizeof *code->runs);
    if (!code->runs) {
        return PYR_ENOMEM;
    }
    if (pyr_linetable_expand(table, length, code->first_line, code->runs, count, &count) ==
        PYR_OK) {
        code->run_count = (uint32_t)count;
    }
    return PYR_OK;
}

static pyr_status resolve(pyr_codes *codes, pyr_code *code)
{
    const pyr_layout *layout = codes->layout;
    uint8_t bytes[CODE_BYTES] = {0}; /* a published offset may lie behind the bytecode's */
    if (layout->code_bytecode > sizeof bytes ||
        pyr_reader_read(codes->reader, code->addr, bytes, layout->code_bytecode) != PYR_OK) {
        return PYR_EFAULT;
    }
    if (codes->code_type != 0 && pyr_load_addr(bytes, layout->object_type) != codes->code_type) {
        return PYR_EBAD;
    }
    char name[PYR_LIMIT_NAME_BYTES], file[PYR_LIMIT_PATH_BYTES];
    size_t name_length, file_length;
    if (pyr_object_text(codes->reader, layout, pyr_load_addr(bytes, layout->code_qualname), name,
                        sizeof name, &name_length) != PYR_OK ||
        pyr_object_text(codes->reader, layout, pyr_load_addr(bytes, layout->code_filename), file,
                        sizeof file, &file_length) != PYR_OK) {
        return PYR_EFAULT;
    }
    code->first_line = pyr_load_i32(bytes, layout->code_firstlineno);
    code->units = pyr_load_u32(bytes, layout->code_units);
    code->nlocalsplus = pyr_load_u32(bytes, layout->code_nlocalsplus);
    code->stacksize = pyr_load_u32(bytes, layout->code_stacksize);
    code->first_traceable = pyr_load_u32(bytes, layout->code_firsttraceable);
    code->bytecode_offset = layout->code_bytecode;
    code->exceptions = pyr_load_addr(bytes, layout->code_exceptiontable);
    if (code->units > PYR_LIMIT_BYTECODE_BYTES / 2 || code->nlocalsplus > UINT16_MAX * 16U) {
        return PYR_EBAD;
    }
    pyr_status status = read_lines(codes, code, pyr_load_addr(bytes, layout->code_linetable));
    if (status == PYR_OK && !holds_since(codes, code->addr, codes->sequence)) {
        status = PYR_ETORN;
    }
    if (status == PYR_OK) {
        code->function = pyr_symbols_function(codes->symbols, name, name_length, file, file_length,
                                              code->first_line);
        code->sequence = codes->sequence;
        code->tick = codes->tick;
    }
    return status;
}

static pyr_status add_entry(pyr_codes *codes, pyr_addr addr, uint64_t *index)
{
    if (codes->count >= PYR_LIMIT_CODES) {
        clear(codes);
    }
    if (codes->count == codes->capacity) {
        size_t capacity = codes->capacity ? codes->capacity * 2 : 256;
        pyr_code *entries = pyr_memory_resize(codes->entries, capacity, sizeof *entries);
        if (!entries) {
            return PYR_ENOMEM;
        }
        codes->entries = entries;
        codes->capacity = capacity;
    }
    pyr_status status = pyr_map_put(codes->by_addr, addr, codes->count);
    if (status == PYR_OK) {
        *index = codes->count++;
        codes->entries[*index] = (pyr_code){.addr = addr};
    }
    return status;
}

pyr_status pyr_codes_resolve(pyr_codes *codes, pyr_addr addr, const pyr_code **code)
{
    uint64_t index;
    if (!pyr_map_get(codes->by_addr, addr, &index)) {
        pyr_status status = add_entry(codes, addr, &index);
        if (status != PYR_OK) {
            return status;
        }
    }
    pyr_code *entry = &codes->entries[index];
    bool fresh = codes->deaths ? true : entry->tick == codes->tick;
    if (entry->tick != 0 && fresh && holds_since(codes, addr, entry->sequence)) {
        *code = entry;
        return PYR_OK;
    }
    clear_entry(entry);
    pyr_status status = resolve(codes, entry);
    if (status != PYR_OK) {
        clear_entry(entry); /* its tick is 0: resolved again when next asked for */
        return holds_since(codes, addr, codes->sequence) ? status : PYR_ETORN;
    }
    *code = entry;
    return PYR_OK;
}

int64_t pyr_code_unit(const pyr_code *code, pyr_addr instr)
{
    pyr_addr start = code->addr + code->bytecode_offset;
    return instr < start ? -1 : (int64_t)((instr - start) / 2);
}

pyr_frame pyr_code_frame(const pyr_code *code, pyr_addr instr)
{
    int64_t unit = pyr_code_unit(code, instr);
    int line = 0;
    if (unit >= 0 && unit < (int64_t)code->units && code->run_count > 0) {
        line = pyr_linetable_find(code->runs, code->run_count, (size_t)unit);
    }
    if (line <= 0) {
        line = code->first_line > 0 ? code->first_line : 0;
    }
    return (pyr_frame){.function = code->function, .line = (uint32_t)line};
}

/* Reads the bytecode and finds its calls, once an entry. What fails leaves no sites. */
static void analyse(pyr_codes *codes, pyr_code *entry)
{
    size_t length = 2UL * entry->units, exceptions_length = 0;
    entry->analysed = true;
    uint8_t *units = pyr_memory_new(length, 1);
    const uint8_t *exceptions =
        units ? read_bytes(codes, entry->exceptions, &exceptions_length) : NULL;
    if (exceptions && pyr_reader_read(codes->reader, entry->addr + entry->bytecode_offset, units,
                                      length) == PYR_OK) {
        entry->sites = pyr_bytecode_new(codes->layout->minor, units, entry->units, exceptions,
                                        exceptions_length, entry->stacksize);
        entry->kinds = units; /* in place: kind n is written after opcode n was read */
        for (size_t unit = 0; unit < entry->units; unit++) {
            entry->kinds[unit] = (uint8_t)pyr_bytecode_class(codes->layout->minor, units[2 * unit]);
        }
        units = NULL;
    }
    pyr_memory_free(units);
}

static pyr_code *analysed(pyr_codes *codes, const pyr_code *code)
{
    pyr_code *entry = &codes->entries[code - codes->entries];
    if (!entry->analysed) {
        analyse(codes, entry);
    }
    return entry;
}

const pyr_bytecode *pyr_codes_sites(pyr_codes *codes, const pyr_code *code)
{
    return analysed(codes, code)->sites;
}

pyr_site_kind pyr_codes_site_kind(pyr_codes *codes, const pyr_code *code, size_t unit)
{
    const pyr_code *entry = analysed(codes, code);
    return entry->kinds && unit < entry->units ? (pyr_site_kind)entry->kinds[unit]
                                               : PYR_SITE_HIDDEN;
}

uint32_t pyr_code_nlocalsplus(const pyr_code *code)
{
    return code->nlocalsplus;
}

bool pyr_code_is_incomplete(const pyr_code *code, pyr_addr instr)
{
    return pyr_code_unit(code, instr) < (int64_t)code->first_traceable;
}

pyr_codes_stamp pyr_codes_now(const pyr_codes *codes)
{
    return codes->deaths ? (pyr_codes_stamp){.deaths = codes->sequence, .epoch = codes->epoch}
                         : (pyr_codes_stamp){0};
}

bool pyr_codes_hold(const pyr_codes *codes, pyr_codes_stamp since)
{
    return since.epoch == codes->epoch && pyr_code_deaths_now(codes->deaths) == since.deaths;
}
