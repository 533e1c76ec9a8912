/* A shared library for check_native_leaf.py: samples threads of its own process and names the C
 * function that each is calling, by the production code. Built by hand, loaded through ctypes,
 * which releases the GIL around each call, so that a sampler can look at a thread that holds it.
 *
 * It knows as much of stacks as it needs for the topmost frame; the unwinder does the real work.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "cpython/bytecode.h"
#include "cpython/callee.h"
#include "cpython/layout.h"

#define PROBE_EXPORT __attribute__((visibility("default")))

enum { FRAME_BYTES = 8192, CODES = 4096 };

/* What became of one sample; the same numbers stand in check_native_leaf.py. */
enum outcome {
    OUTCOME_TORN,    /* no thread, no frame, or it moved while it was read */
    OUTCOME_NO_SITE, /* not at a call, or its depth is unknown */
    OUTCOME_NO_CALL, /* at a call that is not in progress */
    OUTCOME_UNKNOWN, /* the callee gives no name */
    OUTCOME_PYTHON,
    OUTCOME_NATIVE,
};

typedef struct sample {
    uint64_t code;
    uint32_t unit;
    uint8_t outcome;
    uint8_t kind; /* pyr_site_kind of the opcode */
    uint8_t opcode;
    uint8_t is_stable;
    uint32_t depth;
    char name[PYR_CALLEE_NAME_BYTES];
} sample;

typedef struct probe {
    pyr_reader *reader;
    pyr_batch *batch;
    const pyr_layout *layout;
    pyr_addr runtime;
    struct known_code {
        pyr_addr addr;
        pyr_bytecode *bytecode;
    } codes[CODES];
    uint8_t frame[FRAME_BYTES];
    uint8_t again[FRAME_BYTES];
} probe;

PROBE_EXPORT probe *probe_open(uint64_t runtime, uint32_t version, char *why, size_t why_size);
PROBE_EXPORT void probe_close(probe *self);
PROBE_EXPORT void probe_run(probe *self, uint64_t native_id, size_t count, uint32_t pause_us,
                            sample *samples);
PROBE_EXPORT size_t probe_sites(unsigned minor, const uint8_t *units, size_t count,
                                const uint8_t *exceptions, size_t exceptions_length,
                                uint32_t stacksize, uint32_t *sites, size_t maximum);
PROBE_EXPORT double probe_analysis_us(unsigned minor, const uint8_t *units, size_t count,
                                      const uint8_t *exceptions, size_t exceptions_length,
                                      uint32_t stacksize, size_t repeat);
PROBE_EXPORT unsigned probe_class(unsigned minor, unsigned opcode);

probe *probe_open(uint64_t runtime, uint32_t version, char *why, size_t why_size)
{
    probe *self = calloc(1, sizeof(*self));
    why[0] = '\0';
    if (self == NULL) {
        return NULL;
    }
    self->runtime = runtime;
    self->batch = pyr_batch_new(1 << 16);
    if (self->batch == NULL || pyr_reader_open_self(&self->reader) != PYR_OK ||
        pyr_layout_discover(self->reader, runtime, version, &self->layout, why, why_size) !=
            PYR_OK) {
        probe_close(self);
        return NULL;
    }
    return self;
}

void probe_close(probe *self)
{
    for (size_t i = 0; i < CODES; i++) {
        pyr_bytecode_free(self->codes[i].bytecode);
    }
    pyr_layout_free(self->layout);
    pyr_reader_close(self->reader);
    pyr_batch_free(self->batch);
    free(self);
}

static pyr_addr word_read(probe *self, pyr_addr addr)
{
    pyr_addr word = 0;
    return pyr_reader_read_addr(self->reader, addr, &word) == PYR_OK ? word : 0;
}

static uint32_t int_read(probe *self, pyr_addr addr)
{
    uint32_t value = 0;
    return pyr_reader_read(self->reader, addr, &value, sizeof(value)) == PYR_OK ? value : 0;
}

static pyr_addr thread_find(probe *self, uint64_t native_id)
{
    const pyr_layout *layout = self->layout;
    pyr_addr interp = word_read(self, self->runtime + layout->runtime_interpreters_head);
    pyr_addr thread = word_read(self, interp + layout->interp_threads_head);
    for (int i = 0; i < 1000 && thread != 0; i++) {
        if (word_read(self, thread + layout->thread_native_id) == native_id) {
            return thread;
        }
        thread = word_read(self, thread + layout->thread_next);
    }
    return 0;
}

static pyr_addr frame_current(probe *self, pyr_addr thread)
{
    const pyr_layout *layout = self->layout;
    pyr_addr holder = layout->thread_cframe != PYR_FIELD_ABSENT
                          ? word_read(self, thread + layout->thread_cframe) + layout->cframe_frame
                          : thread + layout->thread_frame;
    return word_read(self, holder);
}

static pyr_bytecode *bytecode_of(probe *self, pyr_addr code)
{
    const pyr_layout *layout = self->layout;
    struct known_code *known = &self->codes[(code >> 4) % CODES];
    if (known->addr == code) {
        return known->bytecode;
    }
    pyr_bytecode_free(known->bytecode);
    known->addr = code;
    known->bytecode = NULL;
    size_t count = word_read(self, code + layout->code_units);
    pyr_addr table = word_read(self, code + layout->code_exceptiontable);
    size_t table_length = word_read(self, table + layout->var_size);
    uint8_t *bytes =
        count < 1 << 20 && table_length < 1 << 20 ? malloc(2 * count + table_length + 1) : NULL;
    if (bytes != NULL &&
        pyr_reader_read(self->reader, code + layout->code_bytecode, bytes, 2 * count) == PYR_OK &&
        pyr_reader_read(self->reader, table + layout->bytes_data, bytes + 2 * count,
                        table_length) == PYR_OK) {
        known->bytecode =
            pyr_bytecode_new(layout->minor, bytes, count, bytes + 2 * count, table_length,
                             int_read(self, code + layout->code_stacksize));
    }
    free(bytes);
    return known->bytecode;
}

static pyr_addr frame_code(const probe *self, const uint8_t *frame)
{
    pyr_addr code;
    memcpy(&code, frame + self->layout->frame_code, sizeof(code));
    return code & ~(pyr_addr)self->layout->code_tag_mask;
}

static enum outcome sample_take(probe *self, pyr_addr thread, sample *out)
{
    const pyr_layout *layout = self->layout;
    pyr_addr frame = frame_current(self, thread);
    if (frame == 0 ||
        pyr_reader_read(self->reader, frame, self->frame, layout->frame_locals) != PYR_OK) {
        return OUTCOME_TORN;
    }
    pyr_addr code = frame_code(self, self->frame);
    uint8_t owner = self->frame[layout->frame_owner];
    if (layout->boundary == PYR_BOUNDARY_OWNER && owner >= layout->boundary_owner) {
        return OUTCOME_TORN;
    }
    size_t slots = int_read(self, code + layout->code_nlocalsplus);
    uint32_t nlocalsplus = (uint32_t)slots;
    slots += int_read(self, code + layout->code_stacksize);
    size_t length = layout->frame_locals + 8 * slots;
    if (length > FRAME_BYTES ||
        pyr_reader_read(self->reader, frame, self->frame, length) != PYR_OK ||
        frame_code(self, self->frame) != code) {
        return OUTCOME_TORN;
    }
    pyr_addr instr;
    memcpy(&instr, self->frame + layout->frame_instr, sizeof(instr));
    pyr_addr start = code + layout->code_bytecode;
    out->code = code;
    out->unit = (uint32_t)((instr - start) / 2);
    uint8_t unit[2];
    if (instr < start || pyr_reader_read(self->reader, instr, unit, 2) != PYR_OK) {
        return OUTCOME_TORN;
    }
    out->opcode = unit[0];
    out->kind = (uint8_t)pyr_bytecode_class(layout->minor, unit[0]);
    pyr_bytecode *bytecode = bytecode_of(self, code);
    pyr_site site = {0};
    enum outcome outcome = OUTCOME_NO_SITE;
    if (bytecode != NULL && pyr_bytecode_site(bytecode, out->unit, &site)) {
        out->depth = site.depth;
        pyr_addr callee = 0;
        pyr_callee named = {0};
        pyr_status status =
            pyr_callee_find(layout, self->frame, length, &site, nlocalsplus, frame, &callee);
        outcome = status == PYR_ENOENT ? OUTCOME_NO_CALL : OUTCOME_UNKNOWN;
        if (status == PYR_OK) {
            status = site.kind == PYR_SITE_ENTER
                         ? pyr_callee_name_enter(self->reader, self->batch, layout, callee, &named)
                         : pyr_callee_name(self->reader, self->batch, layout, callee, &named);
            if (site.kind != PYR_SITE_ENTER && !pyr_callee_fits(layout->minor, unit[0], &named)) {
                named.kind = PYR_CALLEE_UNKNOWN;
            }
            outcome = status != PYR_OK                  ? OUTCOME_UNKNOWN
                      : named.kind == PYR_CALLEE_NATIVE ? OUTCOME_NATIVE
                      : named.kind == PYR_CALLEE_PYTHON ? OUTCOME_PYTHON
                                                        : OUTCOME_UNKNOWN;
            memcpy(out->name, named.name, sizeof(out->name));
            out->is_stable = named.is_stable;
        }
    }
    /* The name holds only if the frame has not moved since. */
    if (frame_current(self, thread) != frame ||
        pyr_reader_read(self->reader, frame, self->again, length) != PYR_OK ||
        memcmp(self->frame, self->again, length) != 0) {
        return OUTCOME_TORN;
    }
    return outcome;
}

void probe_run(probe *self, uint64_t native_id, size_t count, uint32_t pause_us, sample *samples)
{
    pyr_addr thread = thread_find(self, native_id);
    unsigned seed = 1;
    for (size_t i = 0; i < count; i++) {
        struct timespec pause = {
            0, (long)(1000U * (pause_us / 2 + (unsigned)rand_r(&seed) % (pause_us + 1)))};
        nanosleep(&pause, NULL);
        memset(&samples[i], 0, sizeof(samples[i]));
        samples[i].outcome = OUTCOME_TORN;
        for (int tries = 0; tries < 16 && samples[i].outcome == OUTCOME_TORN && thread != 0;
             tries++) {
            samples[i].name[0] = '\0';
            samples[i].outcome = (uint8_t)sample_take(self, thread, &samples[i]);
        }
    }
}

/* Four numbers a site: unit, kind, depth, oparg. Returns the number of sites, or -1. */
size_t probe_sites(unsigned minor, const uint8_t *units, size_t count, const uint8_t *exceptions,
                   size_t exceptions_length, uint32_t stacksize, uint32_t *sites, size_t maximum)
{
    pyr_bytecode *bytecode =
        pyr_bytecode_new(minor, units, count, exceptions, exceptions_length, stacksize);
    if (bytecode == NULL) {
        return SIZE_MAX;
    }
    size_t index = 0;
    size_t unit;
    pyr_site site;
    for (; index < maximum && pyr_bytecode_site_at(bytecode, index, &unit, &site); index++) {
        sites[4 * index] = (uint32_t)unit;
        sites[4 * index + 1] = site.kind;
        sites[4 * index + 2] = site.depth;
        sites[4 * index + 3] = site.oparg;
    }
    pyr_bytecode_free(bytecode);
    return index;
}

double probe_analysis_us(unsigned minor, const uint8_t *units, size_t count,
                         const uint8_t *exceptions, size_t exceptions_length, uint32_t stacksize,
                         size_t repeat)
{
    struct timespec start;
    struct timespec end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (size_t i = 0; i < repeat; i++) {
        pyr_bytecode_free(
            pyr_bytecode_new(minor, units, count, exceptions, exceptions_length, stacksize));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return ((double)(end.tv_sec - start.tv_sec) * 1e6 +
            (double)(end.tv_nsec - start.tv_nsec) / 1e3) /
           (double)repeat;
}

unsigned probe_class(unsigned minor, unsigned opcode)
{
    return pyr_bytecode_class(minor, (uint8_t)opcode);
}
