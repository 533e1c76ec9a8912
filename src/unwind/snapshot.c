/* Consistent copies of stacks; see the header for the idea and the order of spans.
 *
 * Stateless: plans and batches belong to the caller, who serialises. Nothing read is trusted:
 * every walk is bounded, every address is looked up in what was copied, never followed.
 */
#include "unwind/snapshot.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "cpython/layout_fields.h"
#include "os/task.h"

_Static_assert(2 * (PYR_STACK_OUTSIDE + PYR_LIMIT_CHUNKS + 3) + 3 * PYR_STACK_LINKS +
                       PYR_CONTEXT_STEPS + 1 <=
                   PYR_LIMIT_SPANS,
               "any plan fits into one batch");

/* Offset of the first of the GIL's holder, locked and switch number, which lie side by side, and
 * bytes up to the end of the last. */
static uint32_t gil_start(const pyr_layout *layout)
{
    return layout->gil_holder < layout->gil_locked ? layout->gil_holder : layout->gil_locked;
}

static uint32_t gil_bytes(const pyr_layout *layout)
{
    uint32_t number = layout->gil_locked + 8; /* how often the holder changed */
    uint32_t last = layout->gil_holder > number ? layout->gil_holder : number;
    return last + 8 - gil_start(layout);
}

/* The links to the current frame, on versions that have them. Spans added: link_count. */
static int link_count(const pyr_layout *layout)
{
    return pyr_layout_has_frame_link(layout) ? PYR_STACK_LINKS : 0;
}

static bool add_links(pyr_batch *batch, const pyr_layout *layout, const pyr_stack_plan *plan)
{
    bool fits = true;
    for (int i = 0; i < link_count(layout); i++) {
        fits &= pyr_batch_add(batch, plan->links[i] + pyr_layout_link_frame(layout), 8) >= 0;
    }
    return fits;
}

/* Between the two copies: the current frame once more, and what leads to the labels. */
static bool add_middle(pyr_batch *batch, const pyr_layout *layout, const pyr_thread_ref *ref,
                       const pyr_stack_plan *plan)
{
    bool fits = pyr_layout_has_frame_link(layout)
                    ? add_links(batch, layout, plan)
                    : pyr_batch_add(batch, ref->state + layout->thread_frame, 8) >= 0;
    for (int i = 0; i < plan->labels.count; i++) {
        fits &= pyr_batch_add(batch, plan->labels.steps[i].addr, plan->labels.steps[i].length) >= 0;
    }
    return fits;
}

/* Where the kernel writes which CPU a thread is on; 0 = not known. */
static pyr_addr cpu_address(const pyr_thread_ref *ref)
{
    int64_t offset = pyr_os_task_cpu_offset();
    return offset != 0 && ref->ident != 0 ? (pyr_addr)((int64_t)ref->ident + offset) : 0;
}

pyr_status pyr_snapshot_add(pyr_batch *batch, const pyr_layout *layout, const pyr_thread_ref *ref,
                            const pyr_stack_plan *plan, pyr_snapshot_spans *spans)
{
    enum { GROUPS = 6 };
    size_t used = batch->used, count = batch->count;
    bool fits = true;
    spans->first = (int)count;
    for (int step = 0; step < 2 * GROUPS; step++) {
        if (step == GROUPS) {
            fits &= add_middle(batch, layout, ref, plan);
        }
        /* The second copy runs backwards through the groups, so that the pairs nest. */
        switch (step < GROUPS ? step : 2 * GROUPS - 1 - step) {
        case 0:
            fits &= pyr_batch_add(batch, ref->gil + gil_start(layout), gil_bytes(layout)) >= 0;
            break;
        case 1:
            fits &= pyr_batch_add(batch, ref->state, layout->thread_size) >= 0;
            break;
        case 2:
            fits &= add_links(batch, layout, plan);
            break;
        case 3:
            fits &= pyr_batch_add(batch, plan->exception, layout->err_previous + 8) >= 0;
            break;
        case 4:
            for (unsigned i = 0; i < plan->outside_count; i++) {
                fits &= pyr_batch_add(batch, plan->outside[i], layout->frame_locals) >= 0;
            }
            break;
        default:
            for (unsigned i = 0; i < plan->piece_count; i++) {
                fits &= pyr_batch_add(batch, plan->pieces[i].addr, plan->pieces[i].length) >= 0;
            }
            break;
        }
    }
    if (cpu_address(ref) != 0) {
        fits &= pyr_batch_add(batch, cpu_address(ref), sizeof(int32_t)) >= 0;
    }
    if (!fits) {
        batch->used = used;
        batch->count = count;
        return PYR_ETOOBIG;
    }
    return PYR_OK;
}

typedef struct walker {
    const pyr_batch *batch;
    const pyr_layout *layout;
    const pyr_stack_plan *plan;
    pyr_snapshot_proof proof;
    struct copy { /* first span of each group */
        int gil, state, links, exception, outside, pieces;
    } first, second;
    int cpu;          /* the last span, if it is there */
    int middle;       /* first span of those between the copies */
    int labels;       /* behind it: the path to the labels */
    unsigned cursor;  /* frames outside come in the order of the plan, mostly */
    unsigned reached; /* frames outside that the walk has come past */
} walker;

static void find_spans(walker *walk, const pyr_thread_ref *ref, int at)
{
    const pyr_stack_plan *plan = walk->plan;
    walk->first.gil = at++;
    walk->first.state = at++;
    walk->first.links = at;
    at += link_count(walk->layout);
    walk->first.exception = at++;
    walk->first.outside = at;
    at += plan->outside_count;
    walk->first.pieces = at;
    at += plan->piece_count;
    walk->middle = at;
    at += pyr_layout_has_frame_link(walk->layout) ? link_count(walk->layout) : 1;
    walk->labels = at;
    at += plan->labels.count;
    walk->second.pieces = at;
    at += plan->piece_count;
    walk->second.outside = at;
    at += plan->outside_count;
    walk->second.exception = at++;
    walk->second.links = at;
    at += link_count(walk->layout);
    walk->second.state = at++;
    walk->second.gil = at++;
    walk->cpu = cpu_address(ref) != 0 ? at : -1;
}

/* Bytes of a span that arrived, even if not all of them did. */
static const uint8_t *arrived(const pyr_batch *batch, int span, size_t *length)
{
    *length = batch->spans[span].done;
    return batch->buffer + batch->spans[span].offset;
}

/* Finds the two copies of the frame at `addr`; *length is what the second one has from there on.
 * False: not copied. */
static bool find_frame(walker *walk, pyr_addr addr, const uint8_t **one, const uint8_t **two,
                       size_t *length)
{
    const pyr_stack_plan *plan = walk->plan;
    for (unsigned i = 0; i < plan->piece_count; i++) {
        if (addr < plan->pieces[i].addr || addr - plan->pieces[i].addr >= plan->pieces[i].length) {
            continue;
        }
        size_t offset = addr - plan->pieces[i].addr, has_one, has_two;
        *one = arrived(walk->batch, walk->first.pieces + (int)i, &has_one) + offset;
        *two = arrived(walk->batch, walk->second.pieces + (int)i, &has_two) + offset;
        size_t has = has_one < has_two ? has_one : has_two;
        if (has < offset + walk->layout->frame_locals) {
            return false;
        }
        *length = has - offset;
        return true;
    }
    for (unsigned tried = 0; tried < plan->outside_count; tried++) {
        unsigned i = walk->cursor;
        walk->cursor = walk->cursor + 1 < plan->outside_count ? walk->cursor + 1 : 0;
        if (plan->outside[i] == addr) {
            size_t has_one, has_two;
            *one = arrived(walk->batch, walk->first.outside + (int)i, &has_one);
            *two = arrived(walk->batch, walk->second.outside + (int)i, &has_two);
            *length = has_one < has_two ? has_one : has_two;
            walk->reached = i + 1 > walk->reached ? i + 1 : walk->reached;
            return *length >= walk->layout->frame_locals;
        }
    }
    return false;
}

static bool is_boundary(const pyr_layout *layout, const uint8_t *frame)
{
    return layout->boundary == PYR_BOUNDARY_OWNER &&
           frame[layout->frame_owner] >= layout->boundary_owner;
}

static bool is_of_generator(const pyr_layout *layout, const uint8_t *frame)
{
    return frame[layout->frame_owner] == 1; /* FRAME_OWNED_BY_GENERATOR, the same on all versions */
}

/* A stack ends at an entry from C. A generator has no caller for an instant, when it is about to
 * run or has just yielded, and must not look like a root. */
static bool is_root(const pyr_layout *layout, const uint8_t *frame)
{
    return layout->boundary == PYR_BOUNDARY_OWNER
               ? is_boundary(layout, frame)
               : frame[layout->frame_is_entry] != 0 && !is_of_generator(layout, frame);
}

/* Whether a frame looks as it must: running when it is the leaf, in a call when it called the frame
 * above it without C between them (`called`). Else its memory is what an ended frame left. */
static bool looks_alive(const pyr_layout *layout, const uint8_t *frame, pyr_addr addr, bool leaf,
                        bool called)
{
    uint32_t depth = pyr_layout_frame_depth(layout);
    if (depth != PYR_FIELD_ABSENT) {
        bool runs = pyr_load_i32(frame, depth) < 0;
        return leaf ? runs : !called || !runs;
    }
    /* Later versions keep a pointer, which stands at the first local of a frame that ended. */
    return !leaf || pyr_load_addr(frame, layout->frame_stackpointer) != addr + layout->frame_locals;
}

/* A frame that C called: on versions without boundary frames it carries a flag. */
static bool is_entry(const pyr_layout *layout, const uint8_t *frame)
{
    return is_boundary(layout, frame) ||
           (layout->boundary != PYR_BOUNDARY_OWNER && frame[layout->frame_is_entry] != 0);
}

static void take_frame(const walker *walk, const uint8_t *frame, pyr_snapshot *out)
{
    const pyr_layout *layout = walk->layout;
    if (out->count < out->capacity) {
        out->frames[out->count++] = (pyr_raw_frame){
            .code = pyr_load_addr(frame, layout->frame_code) & ~(pyr_addr)layout->code_tag_mask,
            .instr = pyr_load_addr(frame, layout->frame_instr),
            .of_generator = is_of_generator(layout, frame)};
    } else {
        out->omitted++;
    }
}

/* Whether the copies agree on which function a frame runs, and who called it. */
static bool is_same_frame(const pyr_layout *layout, const uint8_t *one, const uint8_t *two)
{
    return pyr_load_addr(one, layout->frame_previous) ==
               pyr_load_addr(two, layout->frame_previous) &&
           pyr_load_addr(one, layout->frame_code) == pyr_load_addr(two, layout->frame_code) &&
           one[layout->frame_owner] == two[layout->frame_owner];
}

/* From the current frame to the root. Where the copies differ (`moved`: above the current frame
 * already), what was found so far is no proof of anything, and the callers below it are left. */
static pyr_status walk_frames(walker *walk, pyr_addr current, bool moved, pyr_snapshot *out)
{
    const pyr_layout *layout = walk->layout;
    size_t most = pyr_stack_plan_most_frames(layout, walk->plan);
    pyr_addr addr = current;
    bool rooted = true, called = false;
    for (unsigned steps = 0; addr != 0; steps++) {
        const uint8_t *one, *two;
        size_t length;
        if (!find_frame(walk, addr, &one, &two, &length)) {
            /* Below what is copied of a deep stack: the cut shows as an omitted frame. */
            if ((walk->plan->deep && out->count == out->capacity) ||
                walk->reached == PYR_STACK_OUTSIDE) {
                out->rooted = false;
                out->omitted += out->omitted == 0;
                return moved ? PYR_ETORN : PYR_OK;
            }
            out->count = 0;
            return moved ? PYR_ETORN : PYR_EPARTIAL;
        }
        if (steps >= most) {
            out->count = 0;
            return PYR_ETORN; /* a cycle */
        }
        bool same = is_same_frame(layout, one, two);
        bool same_instr =
            pyr_load_addr(one, layout->frame_instr) == pyr_load_addr(two, layout->frame_instr);
        bool alive = walk->proof == PYR_PROOF_STILL || is_boundary(layout, two) ||
                     (looks_alive(layout, one, addr, steps == 0, called) &&
                      looks_alive(layout, two, addr, steps == 0, called));
        bool stayed =
            same && alive && (same_instr || (steps == 0 && walk->proof != PYR_PROOF_STILL));
        if (!stayed) {
            moved = true;
            out->count = out->omitted = 0;
        }
        called = !is_entry(layout, two);
        if (same && alive && !is_boundary(layout, two)) {
            if (steps == 0) {
                out->leaf = two;
                out->leaf_length = length;
                out->leaf_addr = addr;
                out->leaf_stable = same_instr;
            }
            take_frame(walk, two, out);
        }
        rooted = is_root(layout, two);
        addr = pyr_load_addr(two, layout->frame_previous);
    }
    if (!rooted) {
        out->count = 0;
    }
    return rooted && !moved ? PYR_OK : PYR_ETORN;
}

static void judge_gil(const walker *walk, const pyr_thread_ref *ref, pyr_snapshot *out)
{
    const pyr_layout *layout = walk->layout;
    out->holds_gil = out->gil_free = false;
    const uint8_t *one = pyr_batch_get(walk->batch, walk->first.gil);
    const uint8_t *two = pyr_batch_get(walk->batch, walk->second.gil);
    if (!one || !two || ref->gil == 0) {
        return;
    }
    size_t base = gil_start(layout);
    size_t holder = layout->gil_holder - base, locked = layout->gil_locked - base;
    bool locked_one = pyr_load_i32(one, locked) > 0, locked_two = pyr_load_i32(two, locked) > 0;
    /* The switch number stands behind `locked` and counts how often the holder changed. */
    out->holds_gil = locked_one && locked_two && pyr_load_addr(one, holder) == ref->state &&
                     pyr_load_addr(two, holder) == ref->state &&
                     pyr_load_u64(one, locked + 8) == pyr_load_u64(two, locked + 8);
    out->gil_free = !locked_one && !locked_two;
}

/* Whether the plan's pieces still are the chunks of this stack, and cover it. */
static bool covers_stack(const walker *walk, const uint8_t *state)
{
    const pyr_layout *layout = walk->layout;
    pyr_addr expected = pyr_load_addr(state, layout->thread_chunk);
    for (unsigned i = 0; i < walk->plan->piece_count; i++) {
        const struct pyr_stack_piece *piece = &walk->plan->pieces[i];
        size_t has;
        const uint8_t *bytes = arrived(walk->batch, walk->second.pieces + (int)i, &has);
        if (piece->addr != expected || has < PYR_STACK_CHUNK_HEADER) {
            return false;
        }
        if (i == 0) {
            pyr_addr top = pyr_load_addr(state, layout->thread_chunk_top);
            if (top > piece->addr + piece->length && top <= piece->addr + PYR_LIMIT_STACK_BYTES) {
                return false;
            }
        }
        expected = pyr_load_addr(bytes, layout->chunk_previous);
    }
    return expected == 0 || walk->plan->deep;
}

/* A word of the batch; 0 when it could not be read. */
static pyr_addr word(const walker *walk, int span)
{
    const uint8_t *bytes = pyr_batch_get(walk->batch, span);
    return bytes ? pyr_load_addr(bytes, 0) : 0;
}

/* The current frame, read between the two copies of the stack, and by the proof asked for also the
 * same before and after. Before and after alone would not do: the thread may have been elsewhere in
 * between, and have come back. PYR_ETORN, with *current 0 when its entry from C changed;
 * PYR_EPARTIAL: the plan has no such link. */
static pyr_status find_current(const walker *walk, const uint8_t *one, const uint8_t *two,
                               pyr_addr *current)
{
    const pyr_layout *layout = walk->layout;
    pyr_addr before, after;
    if (!pyr_layout_has_frame_link(layout)) {
        before = pyr_load_addr(one, layout->thread_frame);
        after = pyr_load_addr(two, layout->thread_frame);
        *current = word(walk, walk->middle);
    } else {
        pyr_addr link = pyr_load_addr(two, pyr_layout_frame_link(layout));
        int at = 0;
        while (at < link_count(layout) &&
               (walk->plan->links[at] != link || !pyr_batch_get(walk->batch, walk->middle + at))) {
            at++;
        }
        if (at == link_count(layout)) {
            return PYR_EPARTIAL;
        }
        if (pyr_load_addr(one, pyr_layout_frame_link(layout)) != link) {
            *current = 0;
            return PYR_ETORN;
        }
        before = word(walk, walk->first.links + at);
        after = word(walk, walk->second.links + at);
        *current = word(walk, walk->middle + at);
    }
    bool still = before == *current && after == *current;
    return still || walk->proof == PYR_PROOF_ALIVE ? PYR_OK : PYR_ETORN;
}

pyr_status pyr_snapshot_check(const pyr_batch *batch, const pyr_layout *layout,
                              const pyr_thread_ref *ref, const pyr_stack_plan *plan,
                              pyr_snapshot_spans spans, pyr_snapshot_proof proof, pyr_snapshot *out)
{
    walker walk = {.batch = batch, .layout = layout, .plan = plan, .proof = proof};
    find_spans(&walk, ref, spans.first);
    const uint8_t *one = pyr_batch_get(batch, walk.first.state);
    const uint8_t *two = pyr_batch_get(batch, walk.second.state);
    if (!one || !two || pyr_load_addr(two, layout->thread_interp) != ref->interpreter ||
        pyr_load_u64(two, layout->thread_native_id) != ref->native_id ||
        pyr_load_u64(two, layout->thread_unique_id) != ref->unique_id) {
        return PYR_ENOENT;
    }
    pyr_addr current;
    pyr_status status = find_current(&walk, one, two, &current);
    if (status == PYR_EPARTIAL) {
        return status;
    }
    out->count = out->omitted = 0;
    out->leaf = NULL;
    out->leaf_length = 0;
    out->leaf_addr = 0;
    out->leaf_stable = false;
    out->rooted = true;
    if (!covers_stack(&walk, two)) {
        return PYR_EPARTIAL;
    }
    status = walk_frames(&walk, current, status == PYR_ETORN, out);
    if (status != PYR_OK && status != PYR_ETORN) {
        return status;
    }
    const uint8_t *item = pyr_batch_get(batch, walk.second.exception);
    out->exception_info = pyr_load_addr(two, layout->thread_exc_info);
    out->exception_copied = item && out->exception_info == plan->exception;
    out->exception = out->exception_copied ? pyr_load_addr(item, layout->err_value) : 0;
    out->exception_below = out->exception_copied ? pyr_load_addr(item, layout->err_previous) : 0;
    out->context = pyr_load_addr(two, layout->thread_context);
    out->context_moved = pyr_load_addr(one, layout->thread_context) != out->context;
    out->label_spans = walk.labels;
    judge_gil(&walk, ref, out);
    const uint8_t *cpu = pyr_batch_get(batch, walk.cpu);
    out->cpu = cpu ? pyr_load_i32(cpu, 0) : -1;
    out->gil_requested = layout->thread_gil_requested != PYR_FIELD_ABSENT &&
                         pyr_load_i32(two, layout->thread_gil_requested) != 0;
    return status;
}
