/* Names of code objects where they lie; see the header. */
#include "unwind/own_names.h"

#include <stdatomic.h>
#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"
#include "cpython/linetable.h"
#include "cpython/objects.h"

enum {
#ifdef PYR_HOSTILE
    SETS = 4,
#else
    SETS = 1 << 11, /* times 4 places of 32 bytes: 256 KiB */
#endif
    WAYS = 4,
};

static const uint32_t NO_UNIT = UINT32_MAX - 1; /* the place of the code object itself: no line */

typedef struct place {
    pyr_addr code; /* 0 = empty */
    uint64_t sequence;
    uint32_t unit;
    uint32_t function;
    uint32_t line;
} place;

struct pyr_own_names {
    const pyr_layout *layout;
    const pyr_code_deaths *deaths;
    pyr_symbols *symbols; /* borrowed */
    uint32_t unknown;     /* function "<name not known>" */
    uint32_t turn;        /* which place of a full set goes next */
    uint64_t seed;
    _Atomic uint64_t misses;
    char name[PYR_LIMIT_NAME_BYTES];
    char file[PYR_LIMIT_PATH_BYTES];
    place places[SETS * WAYS];
};

pyr_own_names *pyr_own_names_new(const pyr_layout *layout, const pyr_code_deaths *deaths)
{
    pyr_own_names *names = pyr_memory_new(1, sizeof *names);
    if (names) {
        names->layout = layout;
        names->deaths = deaths;
        names->seed = pyr_hash_seed();
    }
    return names;
}

void pyr_own_names_free(pyr_own_names *names)
{
    pyr_memory_free(names);
}

void pyr_own_names_renew(pyr_own_names *names, pyr_symbols *symbols)
{
    static const char unknown[] = "<name not known>";
    memset(names->places, 0, sizeof names->places);
    names->symbols = symbols;
    names->unknown = pyr_symbols_function(symbols, unknown, sizeof unknown - 1, "", 0, 0);
}

/* The text of the str at `addr`; its bytes. 0: none that can be read. */
static size_t read_text(const pyr_layout *layout, pyr_addr addr, char *out, size_t size)
{
    pyr_text text;
    out[0] = '\0';
    if (addr == 0 || pyr_text_describe(layout, (const uint8_t *)addr, &text) != PYR_OK) {
        return 0;
    }
    pyr_addr characters = text.offset != 0
                              ? addr + text.offset
                              : pyr_load_addr((const uint8_t *)addr, layout->unicode_compact);
    if (characters == 0) {
        return 0;
    }
    return pyr_text_decode((const uint8_t *)characters, text.length, text.kind, out, size);
}

static uint32_t line_of(const pyr_layout *layout, pyr_addr code, uint32_t unit)
{
    int line = 0;
    const uint8_t *bytes = (const uint8_t *)code;
    int32_t first_line = pyr_load_i32(bytes, layout->code_firstlineno);
    pyr_addr table = pyr_load_addr(bytes, layout->code_linetable);
    size_t length = table != 0 ? pyr_load_u64((const uint8_t *)table, layout->var_size) : 0;
    if (unit >= pyr_load_u32(bytes, layout->code_units) || length > PYR_LIMIT_LINE_TABLE_BYTES ||
        pyr_linetable_line((const uint8_t *)table + layout->bytes_data, length, first_line, unit,
                           &line) != PYR_OK ||
        line <= 0) {
        line = first_line > 0 ? first_line : 0;
    }
    return (uint32_t)line;
}

/* The set of a place. */
static place *set_of(pyr_own_names *names, pyr_addr code, uint32_t unit)
{
    uint64_t hash = pyr_hash_u64((uint64_t)code + ((uint64_t)unit << 48 ^ unit), names->seed);
    return &names->places[hash % SETS * WAYS];
}

static const place *find(pyr_own_names *names, pyr_addr code, uint32_t unit)
{
    const place *set = set_of(names, code, unit);
    for (int i = 0; i < WAYS; i++) {
        if (set[i].code == code && set[i].unit == unit &&
            pyr_code_deaths_last(names->deaths, code) <= set[i].sequence) {
            return &set[i];
        }
    }
    return NULL;
}

static void keep(pyr_own_names *names, const place *fresh)
{
    place *set = set_of(names, fresh->code, fresh->unit);
    int at = -1;
    for (int i = 0; i < WAYS && at < 0; i++) {
        if (set[i].code == 0 || (set[i].code == fresh->code && set[i].unit == fresh->unit)) {
            at = i;
        }
    }
    set[at >= 0 ? at : (int)(names->turn++ % WAYS)] = *fresh;
}

/* The code object itself: its function. False: no room for the name. */
static bool name_code(pyr_own_names *names, pyr_addr code, place *named)
{
    const pyr_layout *layout = names->layout;
    const place *known = names->deaths ? find(names, code, NO_UNIT) : NULL;
    if (known) {
        *named = *known;
        return true;
    }
    /* Alive now, so what dies here later dies after this sequence. */
    *named = (place){.code = code,
                     .unit = NO_UNIT,
                     .sequence = names->deaths ? pyr_code_deaths_now(names->deaths) : 0};
    size_t name_length =
        read_text(layout, pyr_load_addr((const uint8_t *)code, layout->code_qualname), names->name,
                  sizeof names->name);
    size_t file_length =
        read_text(layout, pyr_load_addr((const uint8_t *)code, layout->code_filename), names->file,
                  sizeof names->file);
    if (pyr_symbols_function_reserved(names->symbols, names->name, name_length, names->file,
                                      file_length,
                                      pyr_load_i32((const uint8_t *)code, layout->code_firstlineno),
                                      &named->function) != PYR_OK) {
        return false;
    }
    if (names->deaths) {
        keep(names, named);
    }
    return true;
}

pyr_frame pyr_own_names_frame(pyr_own_names *names, pyr_addr code, uint32_t unit)
{
    const place *known = names->deaths ? find(names, code, unit) : NULL;
    if (known) {
        return (pyr_frame){.function = known->function, .line = known->line};
    }
    place named;
    atomic_fetch_add_explicit(&names->misses, 1, memory_order_relaxed);
    if (!name_code(names, code, &named)) {
        return (pyr_frame){.function = names->unknown};
    }
    named.unit = unit;
    named.line = line_of(names->layout, code, unit);
    if (names->deaths) {
        keep(names, &named);
    }
    return (pyr_frame){.function = named.function, .line = named.line};
}

bool pyr_own_names_knows(const pyr_own_names *names, pyr_frame frame)
{
    return frame.function != names->unknown;
}

uint64_t pyr_own_names_misses(const pyr_own_names *names)
{
    return atomic_load_explicit(&((pyr_own_names *)(uintptr_t)names)->misses, memory_order_relaxed);
}
