/* Static stack depths by following every way through a code object once.
 *
 * The mental model: `depths` has one cell a unit, SEEN_NEVER until an instruction starts there.
 * Facts spread from the entry (depth 0) and from the exception table (which states the depth of
 * each handler) along the flow of control; two ways that disagree make the cell UNKNOWN, and that
 * spreads too. A cell changes at most twice, so the work is bounded by the code's length, whatever
 * the bytes are. In the end the cells of calls become the sorted list of sites.
 *
 * Owns: the scratch memory of one analysis, and the result. Any thread; not hook safe (allocates).
 * It never reads beyond the lengths it is given, never recurses, and never guesses a depth.
 */
#include "cpython/bytecode.h"

#include <string.h>

#include "base/limits.h"
#include "base/memory.h"
#include "cpython/bytecode_table.h"

enum { SEEN_NEVER = -2, UNKNOWN = -1, DEPTH_MAXIMUM = UINT16_MAX, PREFIXES_MAXIMUM = 3 };

struct packed_site {
    uint32_t unit;
    uint16_t depth;
    uint16_t oparg_kind; /* oparg in the upper 13 bits */
};

enum { KIND_BITS = 3, OPARG_MAXIMUM = UINT16_MAX >> KIND_BITS };
_Static_assert(PYR_SITE_HIDDEN < 1 << KIND_BITS, "a kind fits its bits");

struct pyr_bytecode {
    size_t count;
    struct packed_site sites[];
};

/* One analysis. `work` holds units whose cell changed and from which facts must spread: each cell
 * changes at most twice, so two places a unit are enough. */
typedef struct analysis {
    const pyr_opcode *table;
    const uint8_t *units;
    uint32_t count;
    int32_t depth_maximum;
    int32_t *depths;
    uint32_t *work;
    size_t work_count;
} analysis;

static const pyr_opcode *table_of(unsigned minor)
{
    static const pyr_opcode *const tables[] = {pyr_bytecode_table_311, pyr_bytecode_table_312,
                                               pyr_bytecode_table_313, pyr_bytecode_table_314,
                                               pyr_bytecode_table_315};
    enum { FIRST = 11, TABLES = sizeof(tables) / sizeof(tables[0]) };
    return minor >= FIRST && minor < FIRST + TABLES ? tables[minor - FIRST] : NULL;
}

static const pyr_opcode *row_at(const analysis *self, uint32_t unit)
{
    return &self->table[self->units[2 * (size_t)unit]];
}

/* The effect on the depth, or INT32_MAX where the argument is beyond anything a compiler makes. */
static int32_t effect_of(const pyr_opcode *row, uint32_t oparg)
{
    if (oparg > DEPTH_MAXIMUM && row->effect != PYR_EFFECT_LINEAR) {
        return INT32_MAX;
    }
    switch ((pyr_effect)row->effect) {
    case PYR_EFFECT_UNPACK:
        return (int32_t)((oparg & 0xff) + (oparg >> 8));
    case PYR_EFFECT_POPCOUNT:
        return -__builtin_popcount(oparg & 15);
    case PYR_EFFECT_SLICE:
        return oparg == 3 ? -2 : -1;
    case PYR_EFFECT_FORMAT:
        return (oparg & 4) != 0 ? -1 : 0;
    case PYR_EFFECT_LINEAR:
        break;
    }
    if (row->per_arg != 0 && oparg > DEPTH_MAXIMUM) {
        return INT32_MAX;
    }
    int32_t argument = row->per_arg == 0 ? 0 : (int32_t)oparg;
    return row->constant + row->per_arg * argument + row->per_bit * (int32_t)(oparg & 1);
}

/* `depth` changed by `effect`, or UNKNOWN. */
static int32_t depth_after(const analysis *self, int32_t depth, int32_t effect)
{
    if (depth == UNKNOWN || effect == INT32_MAX) {
        return UNKNOWN;
    }
    int32_t after = depth + effect;
    return after < 0 || after > self->depth_maximum ? UNKNOWN : after;
}

/* Notes that `unit` is reached with `depth`: true when that is news. */
static bool depth_merge(analysis *self, uint32_t unit, int32_t depth)
{
    int32_t *cell = &self->depths[unit];
    if (*cell == UNKNOWN || *cell == depth) {
        return false;
    }
    *cell = *cell == SEEN_NEVER ? depth : UNKNOWN;
    return true;
}

static void spread_to(analysis *self, int64_t unit, int32_t depth)
{
    if (unit >= 0 && unit < self->count && depth_merge(self, (uint32_t)unit, depth)) {
        self->work[self->work_count++] = (uint32_t)unit;
    }
}

/* Follows straight code from `unit`, whose cell is set, until it ends or brings no news. */
static void follow(analysis *self, uint32_t unit)
{
    uint32_t prefix = 0;
    for (;;) {
        int32_t depth = self->depths[unit];
        const pyr_opcode *row = row_at(self, unit);
        uint32_t oparg = prefix << 8 | self->units[2 * (size_t)unit + 1];
        prefix = row->flow == PYR_FLOW_PREFIX ? oparg : 0;
        int32_t effect = effect_of(row, oparg);
        int64_t next = (int64_t)unit + 1 + row->caches;
        int32_t jumped =
            effect == INT32_MAX ? UNKNOWN : depth_after(self, depth, effect + row->jump_difference);
        switch ((pyr_flow)row->flow) {
        case PYR_FLOW_UNKNOWN:
        case PYR_FLOW_STOP:
            return;
        case PYR_FLOW_AHEAD_ALWAYS:
            spread_to(self, next + oparg, jumped);
            return;
        case PYR_FLOW_BACK_ALWAYS:
            spread_to(self, next - oparg, jumped);
            return;
        case PYR_FLOW_AHEAD:
            spread_to(self, next + oparg, jumped);
            break;
        case PYR_FLOW_BACK:
            spread_to(self, next - oparg, jumped);
            break;
        case PYR_FLOW_NEXT:
        case PYR_FLOW_PREFIX:
            break;
        }
        if (next >= self->count ||
            !depth_merge(self, (uint32_t)next, depth_after(self, depth, effect))) {
            return;
        }
        unit = (uint32_t)next;
    }
}

/* Reads one number of the exception table: 6 bits a byte, most significant first, 0x40 says that
 * more follow. False where the table ends or the number is too large. (Objects/exception_handling
 * _notes.txt of CPython) */
static bool varint_read(const uint8_t **at, const uint8_t *end, uint32_t *value)
{
    *value = 0;
    for (const uint8_t *byte = *at; byte < end && *value < 1U << 24; byte++) {
        *value = *value << 6 | (*byte & 0x3f);
        if ((*byte & 0x40) == 0) {
            *at = byte + 1;
            return true;
        }
    }
    return false;
}

/* Each entry states where its handler starts and how deep the stack is then: the depth, perhaps
 * the instruction that failed, and the exception. */
static void handlers_add(analysis *self, const uint8_t *table, size_t length)
{
    const uint8_t *end = table + length;
    uint32_t start;
    uint32_t size;
    uint32_t target;
    uint32_t depth_lasti;
    for (const uint8_t *at = table; varint_read(&at, end, &start) && varint_read(&at, end, &size) &&
                                    varint_read(&at, end, &target) &&
                                    varint_read(&at, end, &depth_lasti);) {
        int32_t pushed = (int32_t)(depth_lasti & 1) + 1;
        spread_to(self, target, depth_after(self, (int32_t)(depth_lasti >> 1), pushed));
    }
}

/* The call at `unit`, if there is one whose depth is known and fits the packed form. */
static bool site_pack(const analysis *self, uint32_t unit, struct packed_site *site)
{
    const pyr_opcode *row = row_at(self, unit);
    int32_t depth = self->depths[unit];
    if (depth < 0 || row->kind < PYR_SITE_CALL || row->kind > PYR_SITE_EXIT) {
        return false;
    }
    uint32_t oparg = self->units[2 * (size_t)unit + 1];
    for (uint32_t back = 1; back <= PREFIXES_MAXIMUM && back <= unit; back++) {
        if (self->depths[unit - back] == SEEN_NEVER ||
            row_at(self, unit - back)->flow != PYR_FLOW_PREFIX) {
            break;
        }
        oparg |= (uint32_t)self->units[2 * (size_t)(unit - back) + 1] << 8 * back;
    }
    if (oparg > OPARG_MAXIMUM) {
        return false;
    }
    site->unit = unit;
    site->depth = (uint16_t)depth;
    site->oparg_kind = (uint16_t)(oparg << KIND_BITS | row->kind);
    return true;
}

static pyr_bytecode *sites_collect(const analysis *self)
{
    struct packed_site site;
    size_t count = 0;
    for (uint32_t unit = 0; unit < self->count; unit++) {
        count += site_pack(self, unit, &site);
    }
    pyr_bytecode *bytecode =
        pyr_memory_new(1, sizeof(*bytecode) + count * sizeof(bytecode->sites[0]));
    if (bytecode == NULL) {
        return NULL;
    }
    for (uint32_t unit = 0; bytecode->count < count; unit++) {
        bytecode->count += site_pack(self, unit, &bytecode->sites[bytecode->count]);
    }
    return bytecode;
}

pyr_bytecode *pyr_bytecode_new(unsigned minor, const uint8_t *units, size_t count,
                               const uint8_t *exceptions, size_t exceptions_length,
                               uint32_t stacksize)
{
    analysis self = {.table = table_of(minor), .units = units};
    if (self.table == NULL || count == 0 || count > PYR_LIMIT_BYTECODE_BYTES / 2) {
        return NULL;
    }
    self.count = (uint32_t)count;
    self.depth_maximum = (int32_t)(stacksize < DEPTH_MAXIMUM ? stacksize : DEPTH_MAXIMUM);
    self.depths = pyr_memory_new(count, sizeof(*self.depths) + 2 * sizeof(*self.work));
    if (self.depths == NULL) {
        return NULL;
    }
    self.work = (uint32_t *)self.depths + count;
    for (size_t unit = 0; unit < count; unit++) {
        self.depths[unit] = SEEN_NEVER;
    }
    spread_to(&self, 0, 0);
    if (exceptions_length > 0) {
        handlers_add(&self, exceptions, exceptions_length);
    }
    while (self.work_count > 0) {
        follow(&self, self.work[--self.work_count]);
    }
    pyr_bytecode *bytecode = sites_collect(&self);
    pyr_memory_free(self.depths);
    return bytecode;
}

void pyr_bytecode_free(pyr_bytecode *bytecode)
{
    pyr_memory_free(bytecode);
}

bool pyr_bytecode_site_at(const pyr_bytecode *bytecode, size_t index, size_t *unit, pyr_site *site)
{
    if (index >= bytecode->count) {
        return false;
    }
    const struct packed_site *packed = &bytecode->sites[index];
    *unit = packed->unit;
    site->kind = (pyr_site_kind)(packed->oparg_kind & ((1U << KIND_BITS) - 1));
    site->oparg = (uint32_t)packed->oparg_kind >> KIND_BITS;
    site->depth = packed->depth;
    return true;
}

bool pyr_bytecode_site(const pyr_bytecode *bytecode, size_t unit, pyr_site *site)
{
    size_t low = 0;
    size_t high = bytecode->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytecode->sites[middle].unit < unit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t found;
    return pyr_bytecode_site_at(bytecode, low, &found, site) && found == unit;
}

size_t pyr_bytecode_size(const pyr_bytecode *bytecode)
{
    return sizeof(*bytecode) + bytecode->count * sizeof(bytecode->sites[0]);
}

pyr_site_kind pyr_bytecode_class(unsigned minor, uint8_t opcode)
{
    const pyr_opcode *table = table_of(minor);
    if (table == NULL || table[opcode].flow == PYR_FLOW_UNKNOWN) {
        return PYR_SITE_HIDDEN;
    }
    return (pyr_site_kind)table[opcode].kind;
}

pyr_site_form pyr_bytecode_form(unsigned minor, uint8_t opcode)
{
    const pyr_opcode *table = table_of(minor);
    return table == NULL ? PYR_FORM_ANY : (pyr_site_form)table[opcode].form;
}
