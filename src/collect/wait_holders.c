/* Holders of locks, one after the other; see the header. Static memory, touched as it is used. */
#include "collect/wait_holders.h"

#include <string.h>

#include "collect/waits.h"

enum {
    FRAMES = 64, /* kept of a stack, the leaf first */
    FIRST = -1,  /* whoever had the lock as the wait began */
    NOBODY = PYR_WAIT_SUCCESSORS,
};

typedef struct successor {
    const pyr_symbols *symbols;
    uint64_t epoch, thread_id, thread_native_id;
    uint32_t thread_name, labels, count, omitted;
    pyr_frame frames[FRAMES];
} successor;

typedef struct wait_row {
    int64_t changed_ns; /* since then `current` has the lock */
    int current;
    int count;
    int64_t times_ns[PYR_WAIT_PARTS];
    successor successors[PYR_WAIT_SUCCESSORS];
} wait_row;

static wait_row rows[PYR_WAITS];

void pyr_wait_holders_begin(int entry, int64_t now_ns)
{
    if (entry >= 0) {
        wait_row *row = &rows[entry];
        row->changed_ns = now_ns;
        row->current = FIRST;
        row->count = 0;
        memset(row->times_ns, 0, sizeof row->times_ns);
    }
}

static void add_time(wait_row *row, int64_t now_ns)
{
    if (row->current != FIRST) {
        row->times_ns[row->current] += now_ns - row->changed_ns;
    }
    row->changed_ns = now_ns;
}

static void keep(successor *to, const pyr_own_stack *stack)
{
    to->symbols = stack->symbols;
    to->epoch = stack->epoch;
    to->thread_id = stack->thread_id;
    to->thread_native_id = stack->thread_native_id;
    to->thread_name = stack->thread_name;
    to->labels = stack->labels;
    to->count = stack->count < FRAMES ? stack->count : FRAMES;
    to->omitted = stack->omitted + (stack->count - to->count);
    memcpy(to->frames, stack->frames, to->count * sizeof to->frames[0]);
}

static bool has_frames(const successor *one, const pyr_own_stack *stack)
{
    uint32_t count = stack->count < FRAMES ? stack->count : FRAMES;
    return one->epoch == stack->epoch && one->count == count &&
           memcmp(one->frames, stack->frames, count * sizeof one->frames[0]) == 0;
}

/* The place of a successor. Threads are told apart while there is room, then only lines. */
static int place_of(wait_row *row, const pyr_own_stack *stack)
{
    int alike = NOBODY;
    for (int at = 0; at < row->count; at++) {
        if (has_frames(&row->successors[at], stack)) {
            alike = at;
            if (row->successors[at].thread_native_id == stack->thread_native_id) {
                return at;
            }
        }
    }
    if (row->count == PYR_WAIT_SUCCESSORS) {
        return alike;
    }
    keep(&row->successors[row->count], stack);
    return row->count++;
}

void pyr_wait_holders_change(const void *lock, const pyr_own_stack *stack, int64_t now_ns)
{
    for (int entry = pyr_waits_next(lock, -1); entry >= 0; entry = pyr_waits_next(lock, entry)) {
        wait_row *row = &rows[entry];
        add_time(row, now_ns);
        row->current = place_of(row, stack);
    }
}

void pyr_wait_holders_end(int entry, int64_t now_ns, int64_t times_ns[PYR_WAIT_PARTS])
{
    memset(times_ns, 0, PYR_WAIT_PARTS * sizeof times_ns[0]);
    if (entry >= 0) {
        add_time(&rows[entry], now_ns);
        memcpy(times_ns, rows[entry].times_ns, sizeof rows[entry].times_ns);
    }
}

bool pyr_wait_holders_stack(int entry, unsigned part, pyr_own_stack *stack)
{
    if (entry < 0 || part >= (unsigned)rows[entry].count) {
        return false;
    }
    const successor *from = &rows[entry].successors[part];
    stack->symbols = from->symbols;
    stack->epoch = from->epoch;
    stack->thread_id = from->thread_id;
    stack->thread_native_id = from->thread_native_id;
    stack->thread_name = from->thread_name;
    stack->labels = from->labels;
    stack->count = from->count;
    stack->omitted = from->omitted;
    memcpy(stack->frames, from->frames, from->count * sizeof from->frames[0]);
    return true;
}
