/* The native leaf; see the header.
 *
 * Owns a small batch and the cache of names. The callee is kept alive by the value stack only
 * while its call runs, so its bytes are read together with the frame, the frame last: when the
 * frame still stands at the same call with the same callee, the bytes are those of the callee.
 */
#include "unwind/native_leaf.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/callee.h"
#include "cpython/layout_fields.h"

enum {
    BATCH_BYTES = 1 << 16,
    OBJECT_BYTES = 56, /* a PyCFunction or a descriptor, as far as its name depends on it */
    NAMES = 4096,      /* cached callees */
    BLANK_REUSES = 32, /* then what was no call is looked at again, whatever it seems */
};

struct pyr_native_leaf {
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_symbols *symbols;
    pyr_batch *batch, *names_batch;
    pyr_map
        *functions; /* hash of a callee's address and bytes -> function, form in the high half */
    uint64_t seed;
};

pyr_native_leaf *pyr_native_leaf_new(pyr_reader *reader, const pyr_layout *layout,
                                     pyr_symbols *symbols)
{
    pyr_native_leaf *leaf = pyr_memory_new(1, sizeof *leaf);
    if (!leaf) {
        return NULL;
    }
    leaf->reader = reader;
    leaf->layout = layout;
    leaf->symbols = symbols;
    leaf->seed = pyr_hash_seed();
    leaf->batch = pyr_batch_new(BATCH_BYTES);
    leaf->names_batch = pyr_batch_new(BATCH_BYTES);
    leaf->functions = pyr_map_new(NAMES);
    if (!leaf->batch || !leaf->names_batch || !leaf->functions) {
        pyr_native_leaf_free(leaf);
        return NULL;
    }
    return leaf;
}

void pyr_native_leaf_free(pyr_native_leaf *leaf)
{
    if (leaf) {
        pyr_batch_free(leaf->batch);
        pyr_batch_free(leaf->names_batch);
        pyr_map_free(leaf->functions);
        pyr_memory_free(leaf);
    }
}

void pyr_native_leaf_renew(pyr_native_leaf *leaf, pyr_symbols *symbols)
{
    leaf->symbols = symbols;
    pyr_map_clear(leaf->functions);
}

/* A call that the leaf frame seems to be in. */
typedef struct pending_call {
    const pyr_snapshot *snapshot;
    pyr_site site;
    uint32_t nlocalsplus;
    size_t frame_bytes; /* of the frame, up to the top of its stack */
    pyr_addr instr, callee;
    uint8_t opcode; /* as it stood when the call was last proved */
} pending_call;

/* The callee according to a copy of the leaf frame; 0 when it is not in that call (any more). */
static pyr_addr callee_of(const pyr_native_leaf *leaf, const pending_call *call,
                          const uint8_t *frame)
{
    const pyr_layout *layout = leaf->layout;
    pyr_addr callee;
    if (!frame ||
        memcmp(frame + layout->frame_instr, call->snapshot->leaf + layout->frame_instr, 8) != 0 ||
        pyr_callee_find(layout, frame, call->frame_bytes, &call->site, call->nlocalsplus,
                        call->snapshot->leaf_addr, &callee) != PYR_OK) {
        return 0;
    }
    return callee;
}

/* Finds the callee in the snapshot's copy, or in a new one where that has only the frame's head, as
 * for frames outside the data stack. */
static pyr_addr find_callee(pyr_native_leaf *leaf, const pending_call *call)
{
    if (call->snapshot->leaf_length >= call->frame_bytes) {
        return callee_of(leaf, call, call->snapshot->leaf);
    }
    pyr_batch_clear(leaf->batch);
    int frame = pyr_batch_add(leaf->batch, call->snapshot->leaf_addr, call->frame_bytes);
    pyr_reader_read_batch(leaf->reader, leaf->batch);
    return callee_of(leaf, call, pyr_batch_get(leaf->batch, frame));
}

/* Reads the callee and then the frame again. The callee's bytes, or NULL when the call has gone. */
static const uint8_t *read_proved(pyr_native_leaf *leaf, pending_call *call)
{
    pyr_batch_clear(leaf->batch);
    int object = pyr_batch_add(leaf->batch, call->callee, OBJECT_BYTES);
    int opcode = pyr_batch_add(leaf->batch, call->instr, 2);
    int frame = pyr_batch_add(leaf->batch, call->snapshot->leaf_addr, call->frame_bytes);
    pyr_reader_read_batch(leaf->reader, leaf->batch);
    const uint8_t *unit = pyr_batch_get(leaf->batch, opcode);
    if (!unit || callee_of(leaf, call, pyr_batch_get(leaf->batch, frame)) != call->callee) {
        return NULL;
    }
    call->opcode = unit[0];
    return pyr_batch_get(leaf->batch, object);
}

/* The instruction can be calling this: else the call has ended, and its result lies there. */
static bool fits(const pyr_native_leaf *leaf, const pending_call *call, const pyr_callee *callee)
{
    return call->site.kind == PYR_SITE_ENTER ||
           pyr_callee_fits(leaf->layout->minor, call->opcode, callee);
}

static void remember(pyr_native_leaf *leaf, uint64_t key, uint32_t function, pyr_site_form form)
{
    if (pyr_map_count(leaf->functions) >= NAMES) {
        pyr_map_clear(leaf->functions);
    }
    (void)!pyr_map_put(leaf->functions, key, function | (uint64_t)form << 32);
}

/* The leaf stands where it stood in no call before: looking again would find the same. */
static bool is_still_blank(const pending_call *call)
{
    const pyr_snapshot *snapshot = call->snapshot;
    pyr_blank_call *blank = snapshot->blank;
    return blank && snapshot->barely_ran && blank->leaf == snapshot->leaf_addr &&
           blank->instr == call->instr && blank->callee == call->callee &&
           blank->reused++ < BLANK_REUSES;
}

static void remember_blank(const pending_call *call)
{
    if (call->snapshot->blank) {
        *call->snapshot->blank = (pyr_blank_call){
            .leaf = call->snapshot->leaf_addr, .instr = call->instr, .callee = call->callee};
    }
}

/* The callee as a function of the symbol table, 0 when it is not a C function or not sure. */
static uint32_t name_callee(pyr_native_leaf *leaf, pending_call *call)
{
    const uint8_t *object = read_proved(leaf, call);
    if (!object) {
        return 0;
    }
    bool enters = call->site.kind == PYR_SITE_ENTER;
    uint32_t type = leaf->layout->object_type; /* behind the reference count, which moves */
    uint64_t key = pyr_hash_bytes(object + type, OBJECT_BYTES - type,
                                  leaf->seed ^ (uint64_t)enters ^ call->callee);
    pyr_callee callee = {.kind = PYR_CALLEE_NATIVE};
    uint64_t known;
    if (pyr_map_get(leaf->functions, key, &known)) {
        callee.form = (pyr_site_form)(known >> 32);
        if (!fits(leaf, call, &callee)) {
            remember_blank(call);
            return 0;
        }
        return (uint32_t)known;
    }
    pyr_status status = enters ? pyr_callee_name_enter(leaf->reader, leaf->names_batch,
                                                       leaf->layout, call->callee, &callee)
                               : pyr_callee_name(leaf->reader, leaf->names_batch, leaf->layout,
                                                 call->callee, &callee);
    if (status != PYR_OK || !read_proved(leaf, call)) {
        return 0;
    }
    if (callee.kind != PYR_CALLEE_NATIVE || !fits(leaf, call, &callee)) {
        remember_blank(call);
        return 0;
    }
    uint32_t function = pyr_symbols_function(leaf->symbols, callee.name, callee.length, "<native>",
                                             sizeof "<native>" - 1, 0);
    if (callee.is_stable) {
        remember(leaf, key, function, callee.form);
    }
    return function;
}

void pyr_native_leaf_find(pyr_native_leaf *leaf, pyr_codes *codes, const pyr_code *code,
                          const pyr_snapshot *snapshot, pyr_native_callee *callee)
{
    *callee = (pyr_native_callee){.site = PYR_SITE_HIDDEN};
    pyr_addr instr = pyr_load_addr(snapshot->leaf, leaf->layout->frame_instr);
    int64_t index = pyr_code_unit(code, instr);
    if (index < 0) {
        callee->site = PYR_SITE_NONE; /* about to begin */
        return;
    }
    callee->site = pyr_codes_site_kind(codes, code, (size_t)index);
    if (callee->site < PYR_SITE_CALL || callee->site > PYR_SITE_EXIT) {
        return;
    }
    const pyr_bytecode *sites = pyr_codes_sites(codes, code);
    pending_call call = {
        .snapshot = snapshot, .instr = instr, .nlocalsplus = pyr_code_nlocalsplus(code)};
    if (!sites || !pyr_bytecode_site(sites, (size_t)index, &call.site)) {
        return;
    }
    call.frame_bytes = leaf->layout->frame_locals + 8UL * (call.nlocalsplus + call.site.depth + 1);
    call.callee = find_callee(leaf, &call);
    if (is_still_blank(&call)) {
        callee->site = call.callee ? call.site.kind : callee->site;
        callee->still_blank = true;
        return;
    }
    if (call.callee == 0) {
        remember_blank(&call);
        return;
    }
    callee->site = call.site.kind;
    uint32_t function = name_callee(leaf, &call);
    if (function != 0) {
        pyr_function named = pyr_symbols_get(leaf->symbols, function);
        callee->name = pyr_symbols_text(leaf->symbols, named.name, NULL);
        callee->frame = (pyr_frame){.function = function};
    }
}
