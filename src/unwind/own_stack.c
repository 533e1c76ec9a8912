/* Walking the own thread's frames; see the header.
 *
 * Owns a table of (code object, unit of bytecode) -> (function, line), four places a set, and the
 * scratch for texts; all guarded by `lock`, which a hook tries for a moment only. Any thread of the
 * program calls, in allocator hooks too: no function here but new, free, renew and tend may
 * allocate or wait. Memory is read directly: only of the calling thread's own live frames, the code
 * objects in them, and the texts and line tables of those.
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
#include "cpython/linetable.h"
#include "cpython/objects.h"

enum {
#ifdef PYR_HOSTILE
    SETS = 4,
#else
    SETS = 1 << 11, /* times 4 places of 32 bytes: 256 KiB */
#endif
    WAYS = 4,
    THREADS = 1024, /* names of threads remembered */
    THREAD_PROBES = 8,
    LOCK_TRIES = 64,
    MOST_STEPS = 1 << 16, /* frames followed, hidden and omitted ones included */
    OWNER_GENERATOR = 1,  /* FRAME_OWNED_BY_GENERATOR, the same on all versions */
};

static const uint32_t NO_UNIT = UINT32_MAX;    /* the place of the code object itself: no line */
static const uint32_t BEFORE = UINT32_MAX - 1; /* a frame that has not begun: the first line */

typedef struct place {
    pyr_addr code; /* 0 = empty */
    uint64_t sequence;
    uint32_t unit;
    uint32_t function;
    uint32_t line;
} place;

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
    uint32_t unnamed; /* function "<name not known>" */
    uint32_t turn;    /* which place of a full set goes next */
    uint64_t seed;
    char name[PYR_LIMIT_NAME_BYTES];
    char file[PYR_LIMIT_PATH_BYTES];
    _Atomic uint64_t epoch; /* written under the lock */
    _Atomic int wants_room;
    _Atomic uint64_t walks, busy, frames, misses, unnamed_frames;
    thread_name threads[THREADS];
    place places[SETS * WAYS];
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
    static const char unnamed[] = "<name not known>";
    stacks->symbols = pyr_symbols_share(symbols);
    stacks->unnamed = pyr_symbols_function(symbols, unnamed, sizeof unnamed - 1, "", 0, 0);
    pyr_symbols_reserve(symbols);
}

pyr_own_stacks *pyr_own_stacks_new(const pyr_layout *layout, pyr_addr code_type,
                                   const pyr_code_deaths *deaths, pyr_symbols *symbols,
                                   unsigned max_frames)
{
    pyr_own_stacks *stacks = pyr_memory_new(1, sizeof *stacks);
    if (!stacks) {
        return NULL;
    }
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
        pyr_memory_free(stacks);
    }
}

void pyr_own_stacks_renew(pyr_own_stacks *stacks, pyr_symbols *symbols)
{
    pyr_lock_acquire(&stacks->lock);
    memset(stacks->places, 0, sizeof stacks->places);
    memset(stacks->threads, 0, sizeof stacks->threads);
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

/* ---------------------------------------------------------------------------------- names ---- */

static pyr_addr addr_at(pyr_addr object, uint32_t offset)
{
    return pyr_load_addr((const uint8_t *)object, offset);
}

/* The text of the str at `addr`; its bytes. 0: none that can be read. */
static size_t read_text(const pyr_layout *layout, pyr_addr addr, char *out, size_t size)
{
    pyr_text text;
    out[0] = '\0';
    if (addr == 0 || pyr_text_describe(layout, (const uint8_t *)addr, &text) != PYR_OK) {
        return 0;
    }
    pyr_addr characters =
        text.offset != 0 ? addr + text.offset : addr_at(addr, layout->unicode_compact);
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
static place *set_of(pyr_own_stacks *stacks, pyr_addr code, uint32_t unit)
{
    uint64_t hash = pyr_hash_u64((uint64_t)code + ((uint64_t)unit << 48 ^ unit), stacks->seed);
    return &stacks->places[hash % SETS * WAYS];
}

static const place *find(pyr_own_stacks *stacks, pyr_addr code, uint32_t unit)
{
    const place *set = set_of(stacks, code, unit);
    for (int i = 0; i < WAYS; i++) {
        if (set[i].code == code && set[i].unit == unit &&
            pyr_code_deaths_last(stacks->deaths, code) <= set[i].sequence) {
            return &set[i];
        }
    }
    return NULL;
}

static void keep(pyr_own_stacks *stacks, const place *fresh)
{
    place *set = set_of(stacks, fresh->code, fresh->unit);
    int at = -1;
    for (int i = 0; i < WAYS && at < 0; i++) {
        if (set[i].code == 0 || (set[i].code == fresh->code && set[i].unit == fresh->unit)) {
            at = i;
        }
    }
    set[at >= 0 ? at : (int)(stacks->turn++ % WAYS)] = *fresh;
}

/* The code object itself: its function. False: no room for the name. */
static bool name_code(pyr_own_stacks *stacks, pyr_addr code, place *named)
{
    const pyr_layout *layout = stacks->layout;
    const place *known = stacks->deaths ? find(stacks, code, NO_UNIT) : NULL;
    if (known) {
        *named = *known;
        return true;
    }
    /* Alive now, so what dies here later dies after this sequence. */
    *named = (place){.code = code,
                     .unit = NO_UNIT,
                     .sequence = stacks->deaths ? pyr_code_deaths_now(stacks->deaths) : 0};
    size_t name_length =
        read_text(layout, addr_at(code, layout->code_qualname), stacks->name, sizeof stacks->name);
    size_t file_length =
        read_text(layout, addr_at(code, layout->code_filename), stacks->file, sizeof stacks->file);
    if (pyr_symbols_function_reserved(stacks->symbols, stacks->name, name_length, stacks->file,
                                      file_length,
                                      pyr_load_i32((const uint8_t *)code, layout->code_firstlineno),
                                      &named->function) != PYR_OK) {
        return false;
    }
    if (stacks->deaths) {
        keep(stacks, named);
    }
    return true;
}

/* The unit that a frame stands on; BEFORE: it has not begun. */
static uint32_t unit_of(const pyr_own_stacks *stacks, pyr_addr code, pyr_addr instr)
{
    pyr_addr start = code + stacks->layout->code_bytecode;
    return instr < start ? BEFORE : (uint32_t)((instr - start) / 2);
}

static pyr_frame name_frame(pyr_own_stacks *stacks, pyr_addr code, uint32_t unit)
{
    const place *known = stacks->deaths ? find(stacks, code, unit) : NULL;
    if (known) {
        return (pyr_frame){.function = known->function, .line = known->line};
    }
    place named;
    count(&stacks->misses, 1);
    if (!name_code(stacks, code, &named)) {
        atomic_store_explicit(&stacks->wants_room, 1, memory_order_relaxed);
        count(&stacks->unnamed_frames, 1);
        return (pyr_frame){.function = stacks->unnamed};
    }
    named.unit = unit;
    named.line = line_of(stacks->layout, code, unit);
    if (stacks->deaths) {
        keep(stacks, &named);
    }
    return (pyr_frame){.function = named.function, .line = named.line};
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

static pyr_addr current_frame(const pyr_layout *layout, pyr_addr thread_state)
{
    if (!pyr_layout_has_frame_link(layout)) {
        return addr_at(thread_state, layout->thread_frame);
    }
    pyr_addr link = addr_at(thread_state, pyr_layout_frame_link(layout));
    return link != 0 ? addr_at(link, pyr_layout_link_frame(layout)) : 0;
}

/* The code object of a frame that Python code runs in; 0: a frame of the interpreter's own. */
static pyr_addr code_of(const pyr_own_stacks *stacks, const uint8_t *frame)
{
    const pyr_layout *layout = stacks->layout;
    if (layout->boundary == PYR_BOUNDARY_OWNER &&
        frame[layout->frame_owner] >= layout->boundary_owner) {
        return 0;
    }
    pyr_addr code = pyr_load_addr(frame, layout->frame_code) & ~(pyr_addr)layout->code_tag_mask;
    return code != 0 && addr_at(code, layout->object_type) == stacks->code_type ? code : 0;
}

/* Whether a frame is still being set up, or is one that never runs code of the program: CPython
 * hides these too (_PyFrame_IsIncomplete). */
static bool is_incomplete(const pyr_layout *layout, const uint8_t *frame, pyr_addr code,
                          uint32_t unit)
{
    return frame[layout->frame_owner] != OWNER_GENERATOR &&
           (unit == BEFORE ||
            unit < pyr_load_u32((const uint8_t *)code, layout->code_firsttraceable));
}

/* Fills in up to `most` frames and counts up to `most_omitted` more. */
static void follow_frames(pyr_own_stacks *stacks, pyr_addr addr, pyr_own_stack *stack,
                          uint32_t most, uint32_t most_omitted)
{
    const pyr_layout *layout = stacks->layout;
    for (unsigned steps = 0; addr != 0 && steps < MOST_STEPS && stack->omitted < most_omitted;
         steps++) {
        const uint8_t *frame = (const uint8_t *)addr;
        pyr_addr code = code_of(stacks, frame);
        if (code != 0) {
            uint32_t unit = unit_of(stacks, code, pyr_load_addr(frame, layout->frame_instr));
            if (is_incomplete(layout, frame, code, unit)) {
                /* hidden */
            } else if (stack->count == most) {
                stack->omitted++;
            } else {
                stack->frames[stack->count++] = name_frame(stacks, code, unit);
            }
        }
        addr = pyr_load_addr(frame, layout->frame_previous);
    }
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
                       uint32_t most, uint32_t most_omitted)
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
        follow_frames(stacks, current_frame(stacks->layout, thread_state), stack, most,
                      most_omitted);
    }
    pyr_lock_release(&stacks->lock);
    count(&stacks->walks, 1);
    count(&stacks->frames, stack->count);
    return PYR_OK;
}

pyr_status pyr_own_stack_walk(pyr_own_stacks *stacks, pyr_addr thread_state, pyr_own_stack *stack)
{
    return walk(stacks, thread_state, stack, stacks->max_frames, UINT32_MAX);
}

uint32_t pyr_own_stack_frames(const pyr_own_stacks *stacks, pyr_addr thread_state,
                              pyr_own_frame *frames, uint32_t most)
{
    const pyr_layout *layout = stacks->layout;
    pyr_addr addr = current_frame(layout, thread_state);
    uint32_t used = 0;
    for (unsigned steps = 0; addr != 0 && steps < MOST_STEPS && used < most; steps++) {
        const uint8_t *frame = (const uint8_t *)addr;
        pyr_addr code = code_of(stacks, frame);
        if (code != 0 &&
            !is_incomplete(layout, frame, code,
                           unit_of(stacks, code, pyr_load_addr(frame, layout->frame_instr)))) {
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
    pyr_status status = walk(stacks, thread_state, stack, 1, 1);
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
        .misses = counted(&stacks->misses),
        .unnamed = counted(&stacks->unnamed_frames),
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
