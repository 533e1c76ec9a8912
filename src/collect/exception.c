/* The exception collector: what is raised, where, and whether it is caught.
 *
 * A countdown is drawn so that raises are sampled as a Poisson process; the raise that brings it to
 * 0 has its stack taken, with all raises since the sample before as its weight, so that totals are
 * exact. Each window begins with the first raises one by one, since most programs raise few; the
 * mean then is EXCEPTION_SAMPLING_INTERVAL, and grows while samples come too fast.
 *
 * Who brings the countdown to 0, or takes it, owns `draw` until the countdown goes on: no lock is
 * needed there. `lock` (rank PYR_LOCK_EXCEPTION) guards the pending
 * sample, which waits for where its exception is caught; hooks only try it. No thread of its own.
 */
#include "collect/exception.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/gate.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/memory.h"
#include "collect/collector.h"
#include "unwind/own_stack.h"

enum {
    FIRST_RAISES = 64, /* of a window: each is sampled */
    PACE_SAMPLES = 64, /* the mean is looked at again after so many */
    MOST_STRETCH = 20, /* doublings of the mean */
    MESSAGE_CHARACTERS = 128,
    PLACE_BYTES = 512, /* of "file.py:12:function" */
};

static const int64_t PACE_NS = 64000000; /* PACE_SAMPLES in less: a thousand a second is too much */

/* What only the owner of the countdown touches. */
typedef struct drawing {
    int64_t left_of_first;
    unsigned stretch;
    unsigned paced; /* samples since paced_ns */
    int64_t paced_ns;
} drawing;

typedef struct open_sample {
    bool is_open;
    int64_t weight;
    int64_t end_ns;
    uint32_t type, message; /* strings */
    const char *handled;    /* "yes", "no", "in C" */
    bool has_place;
    pyr_frame caught_at; /* where it is caught, or left Python code, as far as is known */
    pyr_own_stack stack;
} open_sample;

typedef struct exception_collector {
    pyr_collect_context context;
    drawing draw;
    pyr_lock lock;
    open_sample pending; /* by lock */
    bool running;        /* composition root only */
    _Atomic uint64_t raised, sampled, missed;
    uint64_t reported_raised, reported_sampled, reported_missed; /* at the last facts with reset */
} exception_collector;

pyr_countdown pyr_exception_countdown = PYR_COUNTDOWN_INIT;
_Atomic uintptr_t pyr_exception_pending;

static pyr_gate gate;
static _Atomic(const char *) hook_text = "none";

bool pyr_exception_is_on(void)
{
    return atomic_load(&gate.object) != NULL;
}

bool pyr_exception_wants_messages(void)
{
    const exception_collector *self = pyr_gate_enter(&gate);
    bool wants = self && self->context.exception_messages;
    pyr_gate_leave(&gate);
    return wants;
}

void pyr_exception_note_hook(const char *text)
{
    atomic_store(&hook_text, text);
}

/* ------------------------------------------------------------------------------ countdown ---- */

static double mean_of(const exception_collector *self)
{
    if (self->draw.left_of_first > 0) {
        return 1;
    }
    return (double)self->context.exception_interval * (double)(UINT64_C(1) << self->draw.stretch);
}

/* After a sample: fewer of them while they come too fast. */
static void pace(exception_collector *self, int64_t now_ns)
{
    drawing *draw = &self->draw;
    if (draw->left_of_first > 0) {
        draw->left_of_first--;
        draw->paced_ns = now_ns;
        return;
    }
    if (++draw->paced < PACE_SAMPLES) {
        return;
    }
    int64_t took_ns = now_ns - draw->paced_ns;
    if (took_ns < PACE_NS && draw->stretch < MOST_STRETCH) {
        draw->stretch++;
    } else if (took_ns > 4 * PACE_NS && draw->stretch > 0) {
        draw->stretch--;
    }
    draw->paced = 0;
    draw->paced_ns = now_ns;
}

/* -------------------------------------------------------------------------------- samples ---- */

static size_t put(char *to, size_t used, size_t size, const char *text, size_t length)
{
    size_t room = size - used;
    size_t bytes = length < room ? length : room;
    memcpy(to + used, text, bytes);
    return used + bytes;
}

/* "file.py:12:function", made once: an exception may pass through many frames. */
static uint32_t place_of(exception_collector *self, const open_sample *pending)
{
    const pyr_own_stack *stack = &pending->stack;
    char text[PLACE_BYTES], digits[12];
    size_t file_length, name_length, at = sizeof digits, used = 0;
    pyr_function function = pyr_symbols_get(stack->symbols, pending->caught_at.function);
    const char *file = pyr_symbols_text(stack->symbols, function.file, &file_length);
    const char *name = pyr_symbols_text(stack->symbols, function.name, &name_length);
    for (size_t i = file_length; i > 0; i--) {
        if (file[i - 1] == '/') {
            file += i;
            file_length -= i;
            break;
        }
    }
    digits[--at] = ':';
    uint32_t line = pending->caught_at.line;
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line != 0);
    digits[--at] = ':';
    used = put(text, used, sizeof text, file, file_length);
    used = put(text, used, sizeof text, digits + at, sizeof digits - at);
    used = put(text, used, sizeof text, name, name_length);
    return pyr_own_stack_string(self->context.own_stacks, stack, text, used);
}

/* Gives the pending sample out. Under the lock. */
static void give_pending(exception_collector *self)
{
    open_sample *pending = &self->pending;
    if (!pending->is_open) {
        return;
    }
    pending->is_open = false;
    atomic_store(&pyr_exception_pending, 0);
    if (pending->stack.epoch != pyr_own_stacks_epoch(self->context.own_stacks)) {
        self->context.sink.lose(self->context.sink.context, PYR_LOSS_OLD_SYMBOLS, 1);
        return; /* its table may be gone */
    }
    pyr_label labels[PYR_OWN_STACK_LABELS + 4];
    uint32_t count = pyr_own_stack_labels(&pending->stack, labels);
    labels[count++] = (pyr_label){.key = PYR_LABEL_EXCEPTION_TYPE, .text = pending->type};
    if (pending->message != 0) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_EXCEPTION_MESSAGE, .text = pending->message};
    }
    labels[count++] =
        (pyr_label){.key = PYR_LABEL_HANDLED,
                    .text = pyr_own_stack_string(self->context.own_stacks, &pending->stack,
                                                 pending->handled, strlen(pending->handled))};
    uint32_t caught_at = pending->has_place ? place_of(self, pending) : 0;
    if (caught_at != 0) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_CAUGHT_AT, .text = caught_at};
    }
    const pyr_sample sample = {
        .symbols = pending->stack.symbols,
        .kind = PYR_SAMPLE_KIND_EXCEPTION,
        .frame_count = pending->stack.count,
        .frames = pending->stack.frames,
        .omitted = pending->stack.omitted,
        .label_count = count,
        .labels = labels,
        .values = {pending->weight},
        .end_ns = self->context.timeline ? pending->end_ns : 0,
    };
    (void)self->context.sink.add(self->context.sink.context, &sample);
}

/* What ends every thread that `threading` starts: an exception that comes so far is not handled. */
static bool is_end_of_thread(const pyr_own_stack *stack)
{
    static const char end[] = "Thread._bootstrap_inner";
    size_t length;
    pyr_function function = pyr_symbols_get(stack->symbols, stack->frames[0].function);
    const char *name = pyr_symbols_text(stack->symbols, function.name, &length);
    return length == sizeof end - 1 && memcmp(name, end, length) == 0;
}

/* The pending exception is in the leaf of `stack` now: caught there, or on its way out of it. */
static void judge(exception_collector *self, const pyr_own_stack *stack, bool is_in_try,
                  bool has_caller)
{
    open_sample *pending = &self->pending;
    if (stack->count == 0 || stack->epoch != pending->stack.epoch) {
        return;
    }
    bool is_lost = is_end_of_thread(stack) || (!is_in_try && !has_caller);
    pending->handled = is_lost ? "no" : is_in_try ? "yes" : "in C";
    pending->has_place = !is_lost;
    pending->caught_at = stack->frames[0];
}

static bool try_lock(exception_collector *self)
{
    return pyr_lock_try(&self->lock);
}

/* The bytes of the first MESSAGE_CHARACTERS characters. */
static size_t cut_message(const char *message, size_t length)
{
    size_t characters = 0;
    for (size_t at = 0; at < length; at++) {
        if (((unsigned char)message[at] & 0xC0) != 0x80 && characters++ == MESSAGE_CHARACTERS) {
            return at;
        }
    }
    return length;
}

/* False: the stack could not be taken, and its raises go to the next sample. */
static bool take_sample(exception_collector *self, const pyr_raise *raise, int64_t weight,
                        int64_t now_ns)
{
    pyr_own_stacks *stacks = self->context.own_stacks;
    if (!try_lock(self)) {
        return false;
    }
    give_pending(self);
    open_sample *pending = &self->pending;
    bool good = pyr_own_stack_walk(stacks, raise->thread_state, &pending->stack) == PYR_OK;
    if (good) {
        pending->is_open = true;
        pending->has_place = false;
        pending->weight = weight;
        pending->end_ns = now_ns;
        pending->type =
            pyr_own_stack_string(stacks, &pending->stack, raise->type, raise->type_length);
        pending->message =
            raise->message
                ? pyr_own_stack_string(stacks, &pending->stack, raise->message,
                                       cut_message(raise->message, raise->message_length))
                : 0;
        judge(self, &pending->stack, raise->is_in_try,
              pending->stack.count + pending->stack.omitted > 1);
        atomic_store(&pyr_exception_pending, raise->exception);
    }
    pyr_lock_release(&self->lock);
    return good;
}

void pyr_exception_sample(const pyr_raise *raise)
{
    exception_collector *self = pyr_gate_enter(&gate);
    if (self) {
        pyr_collector_enter(&self->context);
        int64_t now_ns = pyr_clock_monotonic_ns();
        int64_t weight = pyr_countdown_weight(&pyr_exception_countdown);
        int64_t carry = weight;
        if (take_sample(self, raise, weight, now_ns)) {
            carry = 0;
            atomic_fetch_add_explicit(&self->raised, (uint64_t)weight, memory_order_relaxed);
            atomic_fetch_add_explicit(&self->sampled, 1, memory_order_relaxed);
        } else {
            atomic_fetch_add_explicit(&self->missed, 1, memory_order_relaxed);
        }
        pace(self, now_ns);
        pyr_countdown_go_on(&pyr_exception_countdown, mean_of(self), carry);
        pyr_collector_leave(&self->context);
    } else {
        pyr_countdown_stop(&pyr_exception_countdown);
    }
    pyr_gate_leave(&gate);
}

void pyr_exception_pass(pyr_addr thread_state, const void *exception, bool is_in_try)
{
    exception_collector *self = pyr_gate_enter(&gate);
    if (self && try_lock(self)) {
        pyr_own_stack leaf;
        bool has_caller;
        if (self->pending.is_open && pyr_exception_is_pending(exception) &&
            pyr_own_stack_leaf(self->context.own_stacks, thread_state, &leaf, &has_caller) ==
                PYR_OK) {
            judge(self, &leaf, is_in_try, has_caller);
        }
        pyr_lock_release(&self->lock);
    }
    pyr_gate_leave(&gate);
}

void pyr_exception_tend(void)
{
    exception_collector *self = pyr_gate_enter(&gate);
    if (self && pyr_own_stacks_want_room(self->context.own_stacks)) {
        pyr_own_stacks_tend(self->context.own_stacks);
    }
    pyr_gate_leave(&gate);
}

/* ------------------------------------------------------------------------------ collector ---- */

static pyr_status create(const pyr_collect_context *context, void **collector, char *why,
                         size_t why_size)
{
    if (!context->tells_of_raises) {
        snprintf(why, why_size,
                 "this Python has no sys.monitoring; the label `handling exception` of the stack "
                 "collector's samples says what is being handled");
        return PYR_ENOTSUP;
    }
    exception_collector *self = pyr_memory_new(1, sizeof *self);
    if (!self) {
        return PYR_ENOMEM;
    }
    self->context = *context;
    pyr_lock_init(&self->lock, PYR_LOCK_EXCEPTION);
    *collector = self;
    return PYR_OK;
}

static void destroy(void *collector)
{
    exception_collector *self = collector;
    if (self) {
        pyr_lock_fini(&self->lock);
        pyr_memory_free(self);
    }
}

static bool is_in_use(const void *collector)
{
    (void)collector;
    return pyr_gate_is_in_use(&gate);
}

/* Raises since the last sample, which no sample stands for yet: one without a stack, so that sums
 * are exact. The owner of the countdown calls. */
static void give_rest(exception_collector *self, int64_t weight)
{
    static const char name[] = "<raises between samples>";
    if (weight <= 0) {
        return;
    }
    pyr_frame frame = {
        .function = pyr_symbols_function(self->context.symbols, name, sizeof name - 1, "", 0, 0)};
    const pyr_sample sample = {
        .symbols = self->context.symbols,
        .kind = PYR_SAMPLE_KIND_EXCEPTION,
        .frame_count = 1,
        .frames = &frame,
        .values = {weight},
        .end_ns = self->context.timeline ? pyr_clock_monotonic_ns() : 0,
    };
    (void)self->context.sink.add(self->context.sink.context, &sample);
    atomic_fetch_add_explicit(&self->raised, (uint64_t)weight, memory_order_relaxed);
}

static void begin_window(exception_collector *self)
{
    self->draw.left_of_first = FIRST_RAISES;
    self->draw.paced_ns = pyr_clock_monotonic_ns();
    self->draw.paced = 0;
}

static pyr_status start(void *collector)
{
    exception_collector *self = collector;
    self->running = true;
    begin_window(self);
    atomic_store(&pyr_exception_pending, 0);
    pyr_gate_open(&gate, self);
    pyr_countdown_start(&pyr_exception_countdown, mean_of(self), pyr_hash_seed());
    return PYR_OK;
}

static void flush(void *collector)
{
    exception_collector *self = collector;
    int64_t rest;
    if (self->running && pyr_countdown_take(&pyr_exception_countdown, &rest)) {
        give_rest(self, rest);
        begin_window(self);
        pyr_countdown_resume(&pyr_exception_countdown, mean_of(self));
    }
    pyr_lock_acquire(&self->lock);
    give_pending(self);
    pyr_lock_release(&self->lock);
}

static void stop(void *collector)
{
    exception_collector *self = collector;
    int64_t rest;
    if (!self->running) {
        return;
    }
    self->running = false;
    if (pyr_countdown_take(&pyr_exception_countdown, &rest)) { /* and never given back */
        give_rest(self, rest);
    }
    pyr_gate_close(&gate);
    pyr_lock_acquire(&self->lock);
    give_pending(self);
    pyr_lock_release(&self->lock);
}

static void renew_symbols(void *collector, pyr_symbols *symbols)
{
    exception_collector *self = collector;
    self->context.symbols = symbols;
}

static void facts(void *collector, pyr_facts *rows, pyr_facts_occasion occasion)
{
    bool reset = occasion != PYR_FACTS_SO_FAR;
    exception_collector *self = collector;
    uint64_t raised = atomic_load(&self->raised), sampled = atomic_load(&self->sampled);
    uint64_t missed = atomic_load(&self->missed);
    pyr_facts_add_text(rows, "exceptions", "hook", atomic_load(&hook_text));
    pyr_facts_add_integer(rows, "exceptions", "raised", (int64_t)(raised - self->reported_raised));
    pyr_facts_add_integer(rows, "exceptions", "sampled",
                          (int64_t)(sampled - self->reported_sampled));
    pyr_facts_add_integer(rows, "exceptions", "missed", (int64_t)(missed - self->reported_missed));
    if (reset) {
        self->reported_raised = raised;
        self->reported_sampled = sampled;
        self->reported_missed = missed;
    }
}

static void prefork(void *collector)
{
    exception_collector *self = collector;
    pyr_lock_acquire(&self->lock);
}

static void postfork_parent(void *collector)
{
    exception_collector *self = collector;
    pyr_lock_release(&self->lock);
}

static void postfork_child(void *collector)
{
    exception_collector *self = collector;
    pyr_gate_fork_child(&gate);
    pyr_countdown_stop(&pyr_exception_countdown);
    atomic_store(&pyr_exception_pending, 0);
    pyr_lock_fork_child(&self->lock);
    self->pending.is_open = false;
    self->running = false;
}

const pyr_collector_class pyr_exception_collector = {
    .name = "exception",
    .setting = "EXCEPTION_ENABLED",
    .kinds = PYR_SAMPLE_KIND_BIT(EXCEPTION),
    .create = create,
    .destroy = destroy,
    .is_in_use = is_in_use,
    .start = start,
    .stop = stop,
    .flush = flush,
    .renew_symbols = renew_symbols,
    .facts = facts,
    .prefork = prefork,
    .postfork_parent = postfork_parent,
    .postfork_child = postfork_child,
};
