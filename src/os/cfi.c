/* Call frame information; see the header.
 *
 * Interprets the program of one function up to one address, for two registers only. Bytes are
 * hostile: every read is within what was copied, and what ends too early gives no rule.
 */
#include "os/cfi.h"

#include <stdbool.h>

#include "base/load.h"

#if defined(__x86_64__)
enum { FRAME_POINTER = 6, STACK_POINTER = 7, RETURN_ADDRESS = 16 };
#elif defined(__aarch64__)
enum { FRAME_POINTER = 29, STACK_POINTER = 31, RETURN_ADDRESS = 30 };
#endif

/* Encodings of pointers: others than these are hardly used, and not understood here. */
enum { PCREL_SDATA4 = 0x1b, UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b };

enum { OP_BREG0 = 0x70, OP_DEREF = 0x06, DEPTH = 8, MOST_STEPS = 30 };

typedef struct bytes {
    const uint8_t *at, *end;
    bool is_bad; /* something was not there, or not understood */
} bytes;

static uint64_t take(bytes *from, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(from->end - from->at) < size) {
        from->is_bad = true;
        from->at = from->end;
        return 0;
    }
    memcpy(&value, from->at, size);
    from->at += size;
    return value;
}

static uint64_t take_unsigned(bytes *from)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = take(from, 1);
        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    from->is_bad = true;
    return 0;
}

static int64_t take_signed(bytes *from)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint64_t byte = take(from, 1);
        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            uint64_t sign = (byte & 0x40) != 0 ? ~UINT64_C(0) << (shift + 7) : 0;
            return (int64_t)(value | sign);
        }
    }
    from->is_bad = true;
    return 0;
}

static bytes take_block(bytes *from)
{
    uint64_t length = take_unsigned(from);
    bytes block = {.at = from->at, .end = from->at};
    if (length > (size_t)(from->end - from->at)) {
        from->is_bad = true;
        from->at = from->end;
    } else {
        from->at += length;
        block.end = from->at;
    }
    return block;
}

/* ------------------------------------------------------------------------ common information ----
 */

typedef struct common {
    uint64_t code_unit;
    int64_t data_unit;
    bytes program;
} common;

static bool read_common(bytes from, common *found)
{
    uint64_t length = take(&from, 4);
    if (length >= 0xfffffff0 || length > (size_t)(from.end - from.at)) {
        return false;
    }
    from.end = from.at + length;
    uint64_t id = take(&from, 4), version = take(&from, 1);
    /* "zR" and more: 'z' says that what follows has a length, 'R' how addresses are written. */
    const uint8_t *letters = from.at;
    while (take(&from, 1) != 0) {
    }
    if (from.is_bad || id != 0 || (version != 1 && version != 3) || letters[0] != 'z') {
        return false;
    }
    found->code_unit = take_unsigned(&from);
    found->data_unit = take_signed(&from);
    uint64_t return_register = version == 1 ? take(&from, 1) : take_unsigned(&from);
    bytes more = take_block(&from);
    uint64_t encoding = 0;
    for (const uint8_t *letter = letters + 1; *letter != 0 && encoding == 0; letter++) {
        if (*letter == 'R') {
            encoding = take(&more, 1);
        } else if (*letter == 'L') {
            (void)take(&more, 1);
        } else if (*letter == 'P') {
            (void)take(&more, (take(&more, 1) & 0x0f) % 8 == 3 ? 4 : 8); /* data4, or a word */
        } else if (*letter != 'B') { /* signal frames and what is new are not understood */
            return false;
        }
    }
    found->program = from;
    return !from.is_bad && !more.is_bad && encoding == PCREL_SDATA4 &&
           return_register == RETURN_ADDRESS;
}

/* ---------------------------------------------------------------------------------- programs ----
 */

typedef struct machine {
    const common *unit;
    uint64_t pc, wanted;
    bool is_done; /* the next row is beyond the wanted address */
    pyr_cfi_rule now, first, kept[DEPTH];
    size_t depth;
} machine;

static pyr_cfi_place place(pyr_cfi_base base, int64_t offset)
{
    bool fits = offset == (int32_t)offset;
    return (pyr_cfi_place){.base = fits ? (int32_t)base : PYR_CFI_UNKNOWN,
                           .offset = fits ? (int32_t)offset : 0};
}

/* `register + offset`, and for the frame address also the word there. */
static pyr_cfi_place evaluate(bytes block, bool is_address)
{
    uint64_t first = take(&block, 1);
    int64_t offset = take_signed(&block);
    bool is_read = block.at < block.end && take(&block, 1) == OP_DEREF;
    if (block.is_bad || block.at != block.end || first != OP_BREG0 + FRAME_POINTER) {
        return place(PYR_CFI_UNKNOWN, 0);
    }
    if (is_address) {
        return place(is_read ? PYR_CFI_AT_FP : PYR_CFI_FP, offset);
    }
    return is_read ? place(PYR_CFI_UNKNOWN, 0) : place(PYR_CFI_FP, offset);
}

static pyr_cfi_base base_of(uint64_t number)
{
    return number == STACK_POINTER   ? PYR_CFI_SP
           : number == FRAME_POINTER ? PYR_CFI_FP
                                     : PYR_CFI_UNKNOWN;
}

static void set(machine *self, uint64_t number, pyr_cfi_place where)
{
    if (number == FRAME_POINTER) {
        self->now.frame_pointer = where;
    } else if (number == RETURN_ADDRESS) {
        self->now.return_address = where;
    }
}

static void restore(machine *self, uint64_t number)
{
    set(self, number,
        number == FRAME_POINTER ? self->first.frame_pointer : self->first.return_address);
}

static void advance(machine *self, uint64_t delta)
{
    self->pc += delta * self->unit->code_unit;
    self->is_done = self->pc > self->wanted;
}

static void step_unusual(machine *self, bytes *from, uint8_t operation)
{
    uint64_t number;
    switch (operation) {
    case 0x0a: /* remember state */
        from->is_bad |= self->depth == DEPTH;
        if (self->depth < DEPTH) {
            self->kept[self->depth++] = self->now;
        }
        break;
    case 0x0b: /* restore state */
        from->is_bad |= self->depth == 0;
        if (self->depth > 0) {
            self->now = self->kept[--self->depth];
        }
        break;
    case 0x0f: /* frame address by expression */
        self->now.cfa = evaluate(take_block(from), true);
        break;
    case 0x10: /* register by expression */
        number = take_unsigned(from);
        set(self, number, evaluate(take_block(from), false));
        break;
    case 0x14: /* value, not place: of neither register */
    case 0x15:
        number = take_unsigned(from);
        (void)take_unsigned(from);
        set(self, number, place(PYR_CFI_UNKNOWN, 0));
        break;
    case 0x16:
        number = take_unsigned(from);
        (void)take_block(from);
        set(self, number, place(PYR_CFI_UNKNOWN, 0));
        break;
    case 0x2d: /* GNU window save; on AArch64 return addresses are signed: not understood */
        set(self, RETURN_ADDRESS, place(PYR_CFI_UNKNOWN, 0));
        break;
    case 0x2e: /* GNU size of arguments */
        (void)take_unsigned(from);
        break;
    default:
        from->is_bad = true;
    }
}

static void step(machine *self, bytes *from)
{
    uint8_t operation = (uint8_t)take(from, 1);
    uint64_t low = operation & 0x3f, number;
    int64_t unit = self->unit->data_unit;
    switch (operation & 0xc0) {
    case 0x40:
        advance(self, low);
        return;
    case 0x80:
        set(self, low, place(PYR_CFI_CFA, (int64_t)take_unsigned(from) * unit));
        return;
    case 0xc0:
        restore(self, low);
        return;
    default:
        break;
    }
    switch (operation) {
    case 0x00: /* nothing */
        break;
    case 0x02: /* advance */
        advance(self, take(from, 1));
        break;
    case 0x03:
        advance(self, take(from, 2));
        break;
    case 0x04:
        advance(self, take(from, 4));
        break;
    case 0x05: /* register at an offset */
        number = take_unsigned(from);
        set(self, number, place(PYR_CFI_CFA, (int64_t)take_unsigned(from) * unit));
        break;
    case 0x06: /* register as in the common information */
        restore(self, take_unsigned(from));
        break;
    case 0x07: /* undefined: there is no caller, where it is the return address */
        number = take_unsigned(from);
        set(self, number, place(number == RETURN_ADDRESS ? PYR_CFI_END : PYR_CFI_UNKNOWN, 0));
        break;
    case 0x08: /* same value */
        number = take_unsigned(from);
        set(self, number, place(number == FRAME_POINTER ? PYR_CFI_SAME : PYR_CFI_UNKNOWN, 0));
        break;
    case 0x09: /* in another register */
        number = take_unsigned(from);
        (void)take_unsigned(from);
        set(self, number, place(PYR_CFI_UNKNOWN, 0));
        break;
    case 0x0c: /* frame address: register and offset */
        number = take_unsigned(from);
        self->now.cfa = place(base_of(number), (int64_t)take_unsigned(from));
        break;
    case 0x0d:
        self->now.cfa.base = (int32_t)base_of(take_unsigned(from));
        break;
    case 0x0e:
        self->now.cfa = place((pyr_cfi_base)self->now.cfa.base, (int64_t)take_unsigned(from));
        break;
    case 0x11: /* the same, signed */
        number = take_unsigned(from);
        set(self, number, place(PYR_CFI_CFA, take_signed(from) * unit));
        break;
    case 0x12:
        number = take_unsigned(from);
        self->now.cfa = place(base_of(number), take_signed(from) * unit);
        break;
    case 0x13:
        self->now.cfa = place((pyr_cfi_base)self->now.cfa.base, take_signed(from) * unit);
        break;
    default:
        step_unusual(self, from, operation);
    }
}

/* False: something in it is not understood. */
static bool run(machine *self, bytes program)
{
    while (!program.is_bad && !self->is_done && program.at < program.end) {
        step(self, &program);
    }
    return !program.is_bad;
}

/* --------------------------------------------------------------------------------- functions ----
 */

/* The description of the function that may cover `pc`; 0: none. */
static uintptr_t find_function(const pyr_cfi_memory *memory, uintptr_t header, uintptr_t pc)
{
    uint8_t head[12], entry[8];
    if (memory->read(memory->context, header, head, sizeof head) != sizeof head || head[0] != 1 ||
        head[1] != PCREL_SDATA4 || head[2] != UDATA4 || head[3] != DATAREL_SDATA4) {
        return 0;
    }
    int64_t wanted = (int64_t)(pc - header);
    size_t low = 0, high = pyr_load_u32(head, 8);
    uintptr_t found = 0;
    for (int turn = 0; low < high && turn < MOST_STEPS; turn++) {
        size_t middle = low + (high - low) / 2;
        if (memory->read(memory->context, header + sizeof head + middle * sizeof entry, entry,
                         sizeof entry) != sizeof entry) {
            return 0;
        }
        if (pyr_load_i32(entry, 0) <= wanted) {
            found = header + (uintptr_t)(intptr_t)pyr_load_i32(entry, 4);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < high ? 0 : found;
}

pyr_status pyr_cfi_find(const pyr_cfi_memory *memory, uintptr_t header, uintptr_t pc,
                        pyr_cfi_scratch *scratch, pyr_cfi_rule *rule)
{
    *rule = (pyr_cfi_rule){0};
    uintptr_t function = find_function(memory, header, pc);
    size_t arrived = function != 0 ? memory->read(memory->context, function, scratch->function,
                                                  sizeof scratch->function)
                                   : 0;
    bytes from = {.at = scratch->function, .end = scratch->function + arrived};
    uint64_t length = take(&from, 4);
    uintptr_t before = (uintptr_t)take(&from, 4);
    uintptr_t start = function + 8 + (uintptr_t)(intptr_t)(int32_t)take(&from, 4);
    uintptr_t size = (uintptr_t)take(&from, 4);
    if (from.is_bad || length < 12 || length >= 0xfffffff0 || before == 0 || pc - start >= size) {
        return PYR_ENOTSUP;
    }
    bool is_cut = length > arrived - 4;
    from.end = is_cut ? from.end : scratch->function + 4 + length;
    arrived = memory->read(memory->context, function + 4 - before, scratch->common,
                           sizeof scratch->common);
    common unit;
    bytes all = {.at = scratch->common, .end = scratch->common + arrived};
    if (!read_common(all, &unit)) {
        return PYR_ENOTSUP;
    }
    (void)take_block(&from); /* what handles exceptions */
    machine self = {.unit = &unit, .pc = start, .wanted = UINT64_MAX};
    self.now.frame_pointer = place(PYR_CFI_SAME, 0);
    if (from.is_bad || !run(&self, unit.program)) {
        return PYR_ENOTSUP;
    }
    self.first = self.now;
    self.pc = start;
    self.wanted = pc;
    self.is_done = false;
    if (!run(&self, from) || (is_cut && !self.is_done)) {
        return PYR_ENOTSUP;
    }
    *rule = self.now;
    if (rule->return_address.base == PYR_CFI_END) {
        rule->cfa.base = PYR_CFI_END;
    } else if (rule->return_address.base == PYR_CFI_UNKNOWN) {
        rule->cfa.base = PYR_CFI_UNKNOWN;
    }
    return rule->cfa.base != PYR_CFI_UNKNOWN ? PYR_OK : PYR_ENOTSUP;
}
