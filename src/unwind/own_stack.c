/* Walking the own thread's frames; see the header.
 *
 * Owns the names of code objects (own_names.h) and the stack of the walk before; all guarded by
 * `lock`, which a hook tries for a moment only. Any thread of the program calls, in allocator hooks
 * too: no function here but new, free, renew and tend may allocate or wait. Memory is read
 * directly: only of the calling thread's own live frames and the code objects in them.
 */
#include "unwind/own_stack.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/load.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"
#include "unwind/own_names.h"

enum {
#ifdef PYR_HOSTILE
    TRAIL = 4,
#else
    TRAIL = 256, /* frames of the walk before that are remembered */
#endif
    THREADS = 1024, /* names of threads remembered */
    THREAD_PROBES = 8,
    LOCK_TRIES = 64,
    MOST_STEPS = 1 << 16, /* frames followed, hidden and omitted ones included */
    OWNER_GENERATOR = 1,  /* FRAME_OWNED_BY_GENERATOR, the same on all versions */
};

/* A frame as it lies in memory. */
typedef struct step {
    pyr_addr code; /* maybe tagged */
    pyr_addr instr;
    uint8_t owner;
} step;

/* The whole stack that was walked last, root at the end, so that what is unchanged from stack to
 * stack stays in its place. */
typedef struct trail {
    uint32_t count;    /* steps; 0 = nothing is known */
    uint64_t sequence; /* of deaths, when they were walked */
    step steps[TRAIL];
    uint32_t shown[TRAIL];   /* of a step and those nearer the root: how many have a frame */
    pyr_frame frames[TRAIL]; /* without gaps, root at the end */
} trail;

typedef struct thread_name {
    uint64_t native_id; /* 0 = empty */
    uint32_t name;
} thread_name;

struct pyr_own_stacks {
    const pyr_layout *layout;
    pyr_addr code_type;
    const pyr_code_deaths *deaths;
    unsigned max_frames;
    pyr_lock lock;
    pyr_symbols *symbols; /* a share; by lock, as all below but the counters */
    pyr_symbols *before;  /* a share of the table before: a hook may be about to read from it */
    const pyr_label_source *label_source; /* NULL = the program has no labels */
    pyr_context_kinds kinds;
    pyr_own_names *names;
    uint32_t nothing; /* function "<no Python frame>" */
    uint64_t seed;
    _Atomic uint64_t epoch; /* written under the lock */
    _Atomic int wants_room;
    _Atomic uint64_t walks, busy, frames, unnamed;
    trail trail;
    step steps[TRAIL]; /* of the walk that goes on, leaf first */
    thread_name threads[THREADS];
};

static void count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* ----------------------------------------------------------------------------------- life ---- */

static void take_symbols(pyr_own_stacks *stacks, pyr_symbols *symbols)
{
    static _Atomic uint64_t epochs;
    atomic_store(&stacks->epoch, atomic_fetch_add(&epochs, 1) + 1);
    pyr_symbols_release(stacks->before);
    stacks->before = stacks->symbols;
    static const char nothing[] = "<no Python frame>";
    stacks->symbols = pyr_symbols_share(symbols);
    pyr_own_names_renew(stacks->names, symbols);
    stacks->nothing = pyr_symbols_function(symbols, nothing, sizeof nothing - 1, "", 0, 0);
    pyr_symbols_reserve(symbols);
}

pyr_own_stacks *pyr_own_stacks_new(const pyr_layout *layout, pyr_addr code_type,
                                   const pyr_code_deaths *deaths, pyr_symbols *symbols,
                                   unsigned max_frames)
{
    pyr_own_stacks *stacks = pyr_memory_new(1, sizeof *stacks);
    pyr_own_names *names = pyr_own_names_new(layout, deaths);
    if (!stacks || !names) {
        pyr_memory_free(stacks);
        pyr_own_names_free(names);
        return NULL;
    }
    stacks->names = names;
    stacks->layout = layout;
    stacks->code_type = code_type;
    stacks->deaths = deaths;
    stacks->max_frames = max_frames < 1                  ? 1
                         : max_frames > PYR_LIMIT_FRAMES ? PYR_LIMIT_FRAMES
                                                         : max_frames;
    stacks->seed = pyr_hash_seed();
    pyr_lock_init(&stacks->lock, PYR_LOCK_OWN_STACK);
    take_symbols(stacks, symbols);
    return stacks;
}

void pyr_own_stacks_free(pyr_own_stacks *stacks)
{
    if (stacks) {
        pyr_symbols_release(stacks->symbols);
        pyr_symbols_release(stacks->before);
        pyr_lock_fini(&stacks->lock);
        pyr_own_names_free(stacks->names);
        pyr_memory_free(stacks);
    }
}

void pyr_own_stacks_renew(pyr_own_stacks *stacks, pyr_symbols *symbols)
{
    pyr_lock_acquire(&stacks->lock);
    memset(stacks->threads, 0, sizeof stacks->threads);
    stacks->trail.count = 0;
    take_symbols(stacks, symbols);
    pyr_lock_release(&stacks->lock);
}

void pyr_own_stacks_tend(pyr_own_stacks *stacks)
{
    pyr_lock_acquire(&stacks->lock);
    atomic_store(&stacks->wants_room, 0);
    pyr_symbols_reserve(stacks->symbols);
    pyr_lock_release(&stacks->lock);
}

uint64_t pyr_own_stacks_epoch(const pyr_own_stacks *stacks)
{
    return atomic_load(&((pyr_own_stacks *)(uintptr_t)stacks)->epoch);
}

int pyr_own_stacks_want_room(const pyr_own_stacks *stacks)
{
    return atomic_load_explicit(&((pyr_own_stacks *)(uintptr_t)stacks)->wants_room,
                                memory_order_relaxed);
}

/* ---------------------------------------------------------------------------- short stacks ---- */

void pyr_short_stack_keep(pyr_short_stack *to, const pyr_own_stack *stack)
{
    to->symbols = stack->symbols;
    to->epoch = stack->epoch;
    to->thread_id = stack->thread_id;
    to->thread_native_id = stack->thread_native_id;
    to->thread_name = stack->thread_name;
    to->labels = stack->labels;
    to->count = stack->count < PYR_SHORT_STACK_FRAMES ? stack->count : PYR_SHORT_STACK_FRAMES;
    to->omitted = stack->omitted + (stack->count - to->count);
    memcpy(to->frames, stack->frames, to->count * sizeof to->frames[0]);
}

void pyr_short_stack_give(const pyr_short_stack *from, pyr_own_stack *stack)
{
    stack->symbols = from->symbols;
    stack->epoch = from->epoch;
    stack->thread_id = from->thread_id;
    stack->thread_native_id = from->thread_native_id;
    stack->thread_name = from->thread_name;
    stack->labels = from->labels;
    stack->count = from->count;
    stack->omitted = from->omitted;
    memcpy(stack->frames, from->frames, from->count * sizeof from->frames[0]);
}

/* -------------------------------------------------------------------------------- threads ---- */

/* The entry of a thread; an empty one, or any, where it has none. */
static thread_name *find_thread(pyr_own_stacks *stacks, uint64_t native_id)
{
    uint64_t hash = pyr_hash_u64(native_id, stacks->seed);
    for (uint64_t i = 0; i < THREAD_PROBES; i++) {
        thread_name *entry = &stacks->threads[(hash + i) % THREADS];
        if (entry->native_id == native_id || entry->native_id == 0) {
            return entry;
        }
    }
    return &stacks->threads[hash % THREADS];
}

void pyr_own_stacks_name_thread(pyr_own_stacks *stacks, uint64_t native_id,
                                const pyr_symbols *symbols, uint32_t name)
{
    pyr_lock_acquire(&stacks->lock);
    if (symbols == stacks->symbols && native_id != 0) {
        *find_thread(stacks, native_id) = (thread_name){native_id, name};
    }
    pyr_lock_release(&stacks->lock);
}

static uint32_t name_of_thread(pyr_own_stacks *stacks, uint64_t native_id)
{
    const thread_name *entry = find_thread(stacks, native_id);
    return entry->native_id == native_id ? entry->name : 0;
}

uint32_t pyr_own_stacks_thread_name(pyr_own_stacks *stacks, uint64_t native_id)
{
    pyr_lock_acquire(&stacks->lock);
    uint32_t name = name_of_thread(stacks, native_id);
    pyr_lock_release(&stacks->lock);
    return name;
}

uint32_t pyr_own_stack_labels(const pyr_own_stack *stack, pyr_label *labels)
{
    labels[0] = (pyr_label){.key = PYR_LABEL_THREAD_ID, .number = (int64_t)stack->thread_id};
    labels[1] =
        (pyr_label){.key = PYR_LABEL_THREAD_NATIVE_ID, .number = (int64_t)stack->thread_native_id};
    labels[2] = (pyr_label){.key = PYR_LABEL_THREAD_NAME, .text = stack->thread_name};
    if (stack->labels == 0) {
        return PYR_OWN_STACK_LABELS - 1;
    }
    labels[3] = (pyr_label){.key = PYR_LABEL_PROGRAM, .text = stack->labels};
    return PYR_OWN_STACK_LABELS;
}

/* The labels of the program that are in force in the calling thread. What leads to them is the
 * thread's own, and cannot change while it is here. */
static uint32_t find_labels(pyr_own_stacks *stacks, const uint8_t *state)
{
    pyr_context_path path;
    pyr_label_set set;
    uint32_t string = 0;
    if (!pyr_label_source_is_used(stacks->label_source) ||
        pyr_context_walk(stacks->layout, stacks->label_source, &stacks->kinds,
                         pyr_load_addr(state, stacks->layout->thread_context),
                         &pyr_context_own_memory, &path, &set) != PYR_OK ||
        set.addr == 0) {
        return 0;
    }
    const char *text = (const char *)(set.addr + PYR_LABEL_SET_TEXT_AT);
    if (pyr_symbols_string_reserved(stacks->symbols, text, set.length, &string) == PYR_ENOMEM) {
        atomic_store_explicit(&stacks->wants_room, 1, memory_order_relaxed);
    }
    return string;
}

void pyr_own_stacks_read_labels(pyr_own_stacks *stacks, const pyr_label_source *source)
{
    stacks->label_source = source;
}

/* ----------------------------------------------------------------------------------- walk ---- */

static pyr_addr addr_at(pyr_addr object, uint32_t offset)
{
    return pyr_load_addr((const uint8_t *)object, offset);
}

/* The unit that a frame stands on; PYR_UNIT_BEFORE: it has not begun. */
static uint32_t unit_of(const pyr_own_stacks *stacks, pyr_addr code, pyr_addr instr)
{
    pyr_addr start = code + stacks->layout->code_bytecode;
    return instr < start ? PYR_UNIT_BEFORE : (uint32_t)((instr - start) / 2);
}

static pyr_addr current_frame(const pyr_layout *layout, pyr_addr thread_state)
{
    if (!pyr_layout_has_frame_link(layout)) {
        return addr_at(thread_state, layout->thread_frame);
    }
    pyr_addr link = addr_at(thread_state, pyr_layout_frame_link(layout));
    return link != 0 ? addr_at(link, pyr_layout_link_frame(layout)) : 0;
}

/* Whether a frame is still being set up, or is one that never runs code of the program: CPython
 * hides these too (_PyFrame_IsIncomplete). */
static bool is_incomplete(const pyr_layout *layout, uint8_t owner, pyr_addr code, uint32_t unit)
{
    return owner != OWNER_GENERATOR &&
           (unit == PYR_UNIT_BEFORE ||
            unit < pyr_load_u32((const uint8_t *)code, layout->code_firsttraceable));
}

/* The code object that a frame shows, given what lies in it, and the unit that it stands on. 0: the
 * frame is hidden: one of the interpreter's own, or incomplete. */
static pyr_addr shown_code(const pyr_own_stacks *stacks, pyr_addr tagged, pyr_addr instr,
                           uint8_t owner, uint32_t *unit)
{
    const pyr_layout *layout = stacks->layout;
    pyr_addr code = tagged & ~(pyr_addr)layout->code_tag_mask;
    if ((layout->boundary == PYR_BOUNDARY_OWNER && owner >= layout->boundary_owner) || code == 0 ||
        addr_at(code, layout->object_type) != stacks->code_type) {
        return 0;
    }
    *unit = unit_of(stacks, code, instr);
    return is_incomplete(layout, owner, code, *unit) ? 0 : code;
}

static pyr_addr code_of(const pyr_own_stacks *stacks, const uint8_t *frame, uint32_t *unit)
{
    const pyr_layout *layout = stacks->layout;
    return shown_code(stacks, pyr_load_addr(frame, layout->frame_code),
                      pyr_load_addr(frame, layout->frame_instr), frame[layout->frame_owner], unit);
}

static pyr_frame name_frame(pyr_own_stacks *stacks, pyr_addr code, uint32_t unit)
{
    pyr_frame frame = pyr_own_names_frame(stacks->names, code, unit);
    if (!pyr_own_names_knows(stacks->names, frame)) {
        atomic_store_explicit(&stacks->wants_room, 1, memory_order_relaxed);
        count(&stacks->unnamed, 1);
    }
    return frame;
}

/* Fills in up to `most` frames and counts up to `most_omitted` more. */
static void follow_frames(pyr_own_stacks *stacks, pyr_addr addr, pyr_own_stack *stack,
                          uint32_t most, uint32_t most_omitted)
{
    const pyr_layout *layout = stacks->layout;
    for (unsigned steps = 0; addr != 0 && steps < MOST_STEPS && stack->omitted < most_omitted;
         steps++) {
        const uint8_t *frame = (const uint8_t *)addr;
        uint32_t unit;
        pyr_addr code = code_of(stacks, frame, &unit);
        if (code != 0 && stack->count == most) {
            stack->omitted++;
        } else if (code != 0) {
            stack->frames[stack->count++] = name_frame(stacks, code, unit);
        }
        addr = pyr_load_addr(frame, layout->frame_previous);
    }
}

/* Takes down the whole stack from `addr`, leaf first, without a look at its code objects; how many
 * steps. TRAIL + 1: it is longer. */
static uint32_t trace(const pyr_layout *layout, pyr_addr addr, step *steps)
{
    const uint32_t code = layout->frame_code, instr = layout->frame_instr,
                   owner = layout->frame_owner, previous = layout->frame_previous;
    const unsigned hidden =
        layout->boundary == PYR_BOUNDARY_OWNER ? layout->boundary_owner : UINT8_MAX + 1;
    uint32_t count = 0;
    for (unsigned i = 0; addr != 0 && i < MOST_STEPS; i++) {
        const uint8_t *frame = (const uint8_t *)addr;
        addr = pyr_load_addr(frame, previous);
        if (frame[owner] >= hidden) {
            continue;
        }
        if (count == TRAIL) {
            return TRAIL + 1;
        }
        steps[count++] = (step){.code = pyr_load_addr(frame, code),
                                .instr = pyr_load_addr(frame, instr),
                                .owner = frame[owner]};
    }
    return count;
}

/* How many steps, from the root on, stand as in the walk before. If no code object has died since,
 * theirs have been there all the time, and all that was found of them holds. */
static uint32_t count_unchanged(const trail *before, uint64_t sequence, const step *steps,
                                uint32_t count)
{
    uint32_t most = before->count < count ? before->count : count;
    const step *known = before->steps + TRAIL, *fresh = steps + count;
    const step *end = before->sequence == sequence ? fresh - most : fresh;
    while (fresh > end && known[-1].instr == fresh[-1].instr && known[-1].code == fresh[-1].code &&
           known[-1].owner == fresh[-1].owner) {
        known--;
        fresh--;
    }
    return (uint32_t)(steps + count - fresh);
}

/* The frame of a step; function 0: it is hidden. */
static pyr_frame frame_of(pyr_own_stacks *stacks, const step *at)
{
    uint32_t unit;
    pyr_addr code = shown_code(stacks, at->code, at->instr, at->owner, &unit);
    return code != 0 ? name_frame(stacks, code, unit) : (pyr_frame){0};
}

/* Brings the trail up to date with a walk, of which `unchanged` steps are known. Returns how many
 * frames there are. */
static uint32_t follow_steps(pyr_own_stacks *stacks, const step *steps, uint32_t count,
                             uint32_t unchanged)
{
    trail *now = &stacks->trail;
    uint32_t shown = unchanged > 0 ? now->shown[TRAIL - unchanged] : 0;
    now->count = count;
    for (uint32_t i = unchanged; i < count; i++) {
        const step *at = &steps[count - 1 - i];
        pyr_frame frame = frame_of(stacks, at);
        now->steps[TRAIL - 1 - i] = *at;
        if (frame.function != 0) {
            now->frames[TRAIL - ++shown] = frame;
        }
        now->shown[TRAIL - 1 - i] = shown;
        if (!pyr_own_names_knows(stacks->names, frame) && now->count == count) {
            now->count = i; /* from here on it is to be asked again */
        }
    }
    return shown;
}

/* Fills in the whole stack from `addr`. Only what has changed since the walk before is looked into:
 * from sample to sample that is a few frames at the leaf. */
static void follow_all(pyr_own_stacks *stacks, pyr_addr addr, pyr_own_stack *stack)
{
    uint64_t sequence = stacks->deaths ? pyr_code_deaths_now(stacks->deaths) : 0;
    uint32_t count = trace(stacks->layout, addr, stacks->steps);
    if (count > TRAIL) {
        follow_frames(stacks, addr, stack, stacks->max_frames, UINT32_MAX);
        return;
    }
    uint32_t unchanged =
        stacks->deaths ? count_unchanged(&stacks->trail, sequence, stacks->steps, count) : 0;
    uint32_t shown = follow_steps(stacks, stacks->steps, count, unchanged);
    stacks->trail.sequence = sequence;
    stack->count = shown < stacks->max_frames ? shown : stacks->max_frames;
    stack->omitted = shown - stack->count;
    memcpy(stack->frames, &stacks->trail.frames[TRAIL - shown], stack->count * sizeof(pyr_frame));
}

/* Takes the lock, waiting no longer than a walk takes. */
static bool try_for_a_while(pyr_own_stacks *stacks)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (pyr_lock_try(&stacks->lock)) {
            return true;
        }
    }
    return false;
}

static pyr_status walk(pyr_own_stacks *stacks, pyr_addr thread_state, pyr_own_stack *stack,
                       bool is_leaf)
{
    stack->count = stack->omitted = 0;
    stack->symbols = NULL;
    stack->epoch = 0;
    stack->thread_id = stack->thread_native_id = 0;
    stack->thread_name = stack->labels = 0;
    if (!try_for_a_while(stacks)) {
        count(&stacks->busy, 1);
        return PYR_EBUSY;
    }
    stack->symbols = stacks->symbols;
    stack->epoch = atomic_load(&stacks->epoch);
    if (thread_state != 0) {
        const uint8_t *state = (const uint8_t *)thread_state;
        stack->thread_id = pyr_load_u64(state, stacks->layout->thread_ident);
        stack->thread_native_id = pyr_load_u64(state, stacks->layout->thread_native_id);
        stack->thread_name = name_of_thread(stacks, stack->thread_native_id);
        stack->labels = find_labels(stacks, state);
        pyr_addr frame = current_frame(stacks->layout, thread_state);
        if (is_leaf) {
            follow_frames(stacks, frame, stack, 1, 1);
        } else {
            follow_all(stacks, frame, stack);
        }
    }
    if (stack->count == 0 && !is_leaf) {
        stack->frames[stack->count++] = (pyr_frame){.function = stacks->nothing};
    }
    pyr_lock_release(&stacks->lock);
    count(&stacks->walks, 1);
    count(&stacks->frames, stack->count);
    return PYR_OK;
}

pyr_status pyr_own_stack_walk(pyr_own_stacks *stacks, pyr_addr thread_state, pyr_own_stack *stack)
{
    return walk(stacks, thread_state, stack, false);
}

uint32_t pyr_own_stack_frames(const pyr_own_stacks *stacks, pyr_addr thread_state,
                              pyr_own_frame *frames, uint32_t most)
{
    const pyr_layout *layout = stacks->layout;
    pyr_addr addr = current_frame(layout, thread_state);
    uint32_t used = 0;
    for (unsigned steps = 0; addr != 0 && steps < MOST_STEPS && used < most; steps++) {
        const uint8_t *frame = (const uint8_t *)addr;
        uint32_t unit;
        pyr_addr code = code_of(stacks, frame, &unit);
        if (code != 0) {
            frames[used++] = (pyr_own_frame){.start = addr,
                                             .code = code,
                                             .locals = addr + layout->frame_locals,
                                             .tag_mask = layout->code_tag_mask};
        }
        addr = pyr_load_addr(frame, layout->frame_previous);
    }
    return used;
}

pyr_status pyr_own_stack_leaf(pyr_own_stacks *stacks, pyr_addr thread_state, pyr_own_stack *stack,
                              bool *has_caller)
{
    pyr_status status = walk(stacks, thread_state, stack, true);
    *has_caller = stack->omitted > 0;
    stack->omitted = 0;
    return status;
}

uint32_t pyr_own_stack_string(pyr_own_stacks *stacks, const pyr_own_stack *stack, const char *text,
                              size_t length)
{
    uint32_t string = 0;
    if (!try_for_a_while(stacks)) {
        return 0;
    }
    if (stack->epoch == atomic_load(&stacks->epoch) &&
        pyr_symbols_string_reserved(stacks->symbols, text, length, &string) == PYR_ENOMEM) {
        atomic_store_explicit(&stacks->wants_room, 1, memory_order_relaxed);
    }
    pyr_lock_release(&stacks->lock);
    return string;
}

static uint64_t counted(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

void pyr_own_stacks_stats(const pyr_own_stacks *stacks, pyr_own_stack_stats *stats)
{
    *stats = (pyr_own_stack_stats){
        .walks = counted(&stacks->walks),
        .busy = counted(&stacks->busy),
        .frames = counted(&stacks->frames),
        .misses = pyr_own_names_misses(stacks->names),
        .unnamed = counted(&stacks->unnamed),
    };
}

/* ----------------------------------------------------------------------------------- fork ---- */

void pyr_own_stacks_prefork(pyr_own_stacks *stacks)
{
    pyr_lock_acquire(&stacks->lock);
}

void pyr_own_stacks_postfork_parent(pyr_own_stacks *stacks)
{
    pyr_lock_release(&stacks->lock);
}

void pyr_own_stacks_postfork_child(pyr_own_stacks *stacks)
{
    pyr_lock_fork_child(&stacks->lock);
}
