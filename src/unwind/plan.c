/* Plans of what to copy of a stack; see the header.
 *
 * Stateless: a plan belongs to its caller, who serialises. What is read here moves meanwhile and is
 * not trusted: every walk is bounded, and a plan that came out wrong only fails the next check.
 */
#include "unwind/plan.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"

enum {
    SLACK = 512,       /* bytes copied beyond the top, for a stack that grew meanwhile */
    OUTSIDE_KEPT = 16, /* frames outside that a new plan keeps though it does not need them now */
};

void pyr_stack_plan_fini(pyr_stack_plan *plan)
{
    pyr_memory_free(plan->pieces);
    pyr_memory_free(plan->outside);
    pyr_memory_free(plan->named);
    *plan = (pyr_stack_plan){0};
}

size_t pyr_stack_plan_most_frames(const pyr_layout *layout, const pyr_stack_plan *plan)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < plan->piece_count; i++) {
        bytes += plan->pieces[i].length;
    }
    return bytes / layout->frame_locals + plan->outside_count;
}

/* A new link in front, the others kept. */
static void remember_link(pyr_stack_plan *plan, pyr_addr link)
{
    int last = 0;
    while (last < PYR_STACK_LINKS - 1 && plan->links[last] != link) {
        last++;
    }
    memmove(&plan->links[1], &plan->links[0], (size_t)last * sizeof plan->links[0]);
    plan->links[0] = link;
    for (int i = 1; i < PYR_STACK_LINKS; i++) {
        /* Unused ones repeat it: a span that cannot be read would cost a call of its own. */
        plan->links[i] = plan->links[i] ? plan->links[i] : link;
    }
}

static pyr_status add_piece(pyr_stack_plan *plan, pyr_addr addr, size_t length)
{
    if (plan->piece_count == plan->piece_capacity) {
        unsigned capacity = plan->piece_capacity ? plan->piece_capacity * 2U : 1;
        void *pieces = pyr_memory_resize(plan->pieces, capacity, sizeof *plan->pieces);
        if (!pieces) {
            return PYR_ENOMEM;
        }
        plan->pieces = pieces;
        plan->piece_capacity = (uint16_t)capacity;
    }
    plan->pieces[plan->piece_count++] =
        (struct pyr_stack_piece){.addr = addr, .length = (uint32_t)length};
    return PYR_OK;
}

static pyr_status add_outside(pyr_stack_plan *plan, pyr_addr addr)
{
    if (plan->outside_count >= PYR_STACK_OUTSIDE) {
        return PYR_ETOOBIG;
    }
    if (plan->outside_count == plan->outside_capacity) {
        unsigned capacity = plan->outside_capacity ? plan->outside_capacity * 2U : 4;
        void *outside = pyr_memory_resize(plan->outside, capacity, sizeof *plan->outside);
        if (!outside) {
            return PYR_ENOMEM;
        }
        plan->outside = outside;
        plan->outside_capacity = (uint16_t)capacity;
    }
    plan->outside[plan->outside_count++] = addr;
    return PYR_OK;
}

/* Learns the chunks, newest first, and how much of each is in use. */
static pyr_status learn_pieces(pyr_reader *reader, const pyr_layout *layout, const uint8_t *state,
                               pyr_stack_plan *plan)
{
    plan->piece_count = 0;
    plan->deep = false;
    pyr_addr chunk = pyr_load_addr(state, layout->thread_chunk);
    pyr_addr top = pyr_load_addr(state, layout->thread_chunk_top);
    size_t budget = PYR_LIMIT_STACK_BYTES;
    while (chunk != 0) {
        uint8_t header[PYR_STACK_CHUNK_HEADER];
        if (pyr_reader_read(reader, chunk, header, sizeof header) != PYR_OK) {
            return PYR_EFAULT;
        }
        size_t size = pyr_load_u64(header, layout->chunk_size);
        size_t used = plan->piece_count == 0
                          ? top - chunk + SLACK
                          : layout->chunk_data + 8 * pyr_load_u64(header, layout->chunk_top);
        used = used < PYR_STACK_CHUNK_HEADER ? PYR_STACK_CHUNK_HEADER : used;
        used = used > size ? size : used;
        if (used < PYR_STACK_CHUNK_HEADER) {
            return PYR_EFAULT;
        }
        if (plan->piece_count >= PYR_LIMIT_CHUNKS || used > budget) {
            plan->deep = true;
            return PYR_OK;
        }
        budget -= used;
        pyr_status status = add_piece(plan, chunk, used);
        if (status != PYR_OK) {
            return status;
        }
        chunk = pyr_load_addr(header, layout->chunk_previous);
    }
    return PYR_OK;
}

/* The bytes of `addr` in the copies of the pieces, or NULL. */
static const uint8_t *in_pieces(const pyr_batch *batch, const pyr_stack_plan *plan, pyr_addr addr,
                                size_t length)
{
    for (unsigned i = 0; i < plan->piece_count; i++) {
        size_t offset = addr - plan->pieces[i].addr;
        if (addr >= plan->pieces[i].addr && offset < plan->pieces[i].length &&
            length <= plan->pieces[i].length - offset) {
            const uint8_t *piece = pyr_batch_get(batch, (int)i);
            return piece ? piece + offset : NULL;
        }
    }
    return NULL;
}

static bool is_listed(const pyr_addr *list, size_t count, pyr_addr addr)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == addr) {
            return true;
        }
    }
    return false;
}

/* Learns which frames lie outside the chunks, by a chase through a copy of the chunks. */
static pyr_status learn_outside(pyr_reader *reader, pyr_batch *scratch, const pyr_layout *layout,
                                pyr_addr frame, pyr_stack_plan *plan)
{
    pyr_addr kept[OUTSIDE_KEPT];
    size_t kept_count = plan->outside_count < OUTSIDE_KEPT ? plan->outside_count : OUTSIDE_KEPT;
    if (kept_count > 0) {
        memcpy(kept, plan->outside, kept_count * sizeof kept[0]);
    }
    pyr_batch_clear(scratch);
    for (unsigned i = 0; i < plan->piece_count; i++) {
        (void)pyr_batch_add(scratch, plan->pieces[i].addr, plan->pieces[i].length);
    }
    pyr_reader_read_batch(reader, scratch);
    plan->outside_count = 0;
    size_t most = pyr_stack_plan_most_frames(layout, plan) + PYR_STACK_OUTSIDE;
    for (size_t steps = 0; frame != 0; steps++) {
        const uint8_t *copied = in_pieces(scratch, plan, frame, layout->frame_locals);
        if (copied) {
            frame = pyr_load_addr(copied, layout->frame_previous);
        } else {
            pyr_status status = add_outside(plan, frame);
            if (status == PYR_ETOOBIG) {
                return PYR_OK; /* what follows is not copied, and the walk says so */
            }
            if (status != PYR_OK) {
                return status;
            }
            if (pyr_reader_read_addr(reader, frame + layout->frame_previous, &frame) != PYR_OK) {
                return PYR_EFAULT;
            }
        }
        if (steps > most) {
            return PYR_EFAULT; /* a cycle */
        }
    }
    size_t needed = plan->outside_count;
    for (size_t i = 0; i < kept_count && plan->outside_count < needed + OUTSIDE_KEPT; i++) {
        if (!is_listed(plan->outside, needed, kept[i]) && plan->outside_count < PYR_STACK_OUTSIDE) {
            pyr_status status = add_outside(plan, kept[i]);
            if (status != PYR_OK) {
                return status;
            }
        }
    }
    return PYR_OK;
}

pyr_status pyr_stack_plan_learn(pyr_reader *reader, pyr_batch *scratch, const pyr_layout *layout,
                                const pyr_thread_ref *ref, pyr_stack_plan *plan)
{
    uint8_t state[PYR_LIMIT_THREAD_STATE_BYTES];
    if (layout->thread_size > sizeof state ||
        pyr_reader_read(reader, ref->state, state, layout->thread_size) != PYR_OK) {
        return PYR_EFAULT;
    }
    plan->exception = pyr_load_addr(state, layout->thread_exc_info);
    pyr_addr frame;
    if (pyr_layout_has_frame_link(layout)) {
        pyr_addr link = pyr_load_addr(state, pyr_layout_frame_link(layout));
        remember_link(plan, link);
        if (pyr_reader_read_addr(reader, link + pyr_layout_link_frame(layout), &frame) != PYR_OK) {
            return PYR_EFAULT;
        }
    } else {
        frame = pyr_load_addr(state, layout->thread_frame);
    }
    pyr_status status = learn_pieces(reader, layout, state, plan);
    if (status == PYR_OK) {
        status = learn_outside(reader, scratch, layout, frame, plan);
    }
    if (status != PYR_OK) {
        plan->outside_count = 0; /* it went astray while the thread moved on: nothing to keep */
    }
    return status;
}
