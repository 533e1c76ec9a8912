/* The tick; see the header for how looks are rationed.
 *
 * Owns the list of followed threads, the unwinder and the accounts. Called by the sampler's thread
 * and by whoever flushes, under the collector's lock; reads the program's memory only through the
 * reader; never takes the GIL. More than 600 lines, because list, looks, visits and flush work on
 * one state that nobody else should see.
 */
#include "collect/tick.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "collect/cpu_wait.h"
#include "collect/followed.h"
#include "collect/state.h"
#include "collect/tasks.h"
#include "cpython/callee.h"
#include "cpython/layout_fields.h"
#include "cpython/thread_names.h"
#include "os/os.h"
#include "os/task.h"
#include "os/task_files.h"
#include "unwind/own_stack.h"
#include "unwind/threads.h"
#include "unwind/unwind.h"

enum {
    IDLE_LOOKS = 4,         /* at idle threads in a tick, however few they are */
    SCANNED = 64,           /* idle threads looked at in a tick with unexplained CPU */
    SCAN_REST = 64,         /* ticks between scans that find nothing, at most */
    UPDATE_NS = 1000000000, /* the list is walked again at least so often */
    NAMES_NS = 100000000,   /* names are read again at most so often */
    NAMES_READ = 2,         /* times, after the list has changed */
    NAMED_INTERPRETERS = 16,
    BELIEVED = 8,         /* unsure sights in a row before CPU is put on them */
    SUMMED_THREADS = 16,  /* from so many on, the kernel is asked to keep the sum of their CPU */
    COUNT_TICKS = 16,     /* the kernel's threads are counted at least so often, and when */
    BARELY = 64,          /* waking to ask for the GIL takes less than this part of the time */
    STEADY = 64,          /* whoever ran but for this part of the time runs now: no need to ask */
    LATEST = 8,           /* slots that a late tick stands for, at most */
    COUNT_CPU_NS = 10000, /* ... so much CPU is unexplained: a thread may have ended */
};

enum { GIL_WAITERS = 64 }; /* of a tick that learn who had the GIL */

enum { DUE_ACTIVE = 0 }; /* instead of the time of the next look */

typedef struct look { /* one look at a thread that leads to a visit */
    pyr_followed *thread;
    int64_t since_ns; /* wall time before this belongs to the open run */
    int64_t read_ns;  /* when its clock had been read */
    bool moved, busy;
    bool steady; /* it ran all the time since the last look, but for a moment */
} look;

struct pyr_tick {
    pyr_collect_context given;
    pyr_threads *threads;
    pyr_unwinder *unwinder;
    pyr_thread_names *names;
    struct pyr_own_stacks *own_stacks; /* is told the names; may be NULL */
    pyr_tasks *tasks;
    pyr_follow_context follow;
    pyr_followed *followed;
    int64_t *due_ns; /* of each followed thread: when to look next, or DUE_ACTIVE. Side by side,
                        because every tick goes through all of them */
    size_t count, capacity;
    pyr_map *by_state, *by_native_id; /* -> index in followed */
    pyr_visit *visits;                /* capacity entries, as looks */
    look *looks;
    size_t visit_count;
    pyr_frame no_frame;
    int64_t now_ns, interval_ns, updated_ns, named_ns;
    int64_t ran_ns;                   /* when this tick began */
    int64_t stands_for_ns;            /* time that a look at a running thread stands for */
    int64_t process_ns;               /* at the last tick */
    int64_t ahead_ns;                 /* CPU of looks made after the process's clock was read */
    int64_t unexplained_ns;           /* CPU since the last tick that no look has explained */
    int64_t uncounted_ns;             /* the same, since threads were counted */
    unsigned uncounted;               /* ticks since then */
    int process_clock;                /* handle of the quicker clock, -1 = not needed so far */
    int64_t own_ns;                   /* CPU of the last tick itself */
    size_t scan_from;                 /* where the next scan begins */
    unsigned scan_rest, scan_resting; /* ticks to rest after a scan that found nothing */
    bool incomplete;                  /* a listed thread has not started yet */
    bool changed;                     /* threads have come or gone since the last tick */
    uint64_t task_count;              /* of the kernel, at the last tick */
    unsigned names_due;               /* times that names are still to be read */
    unsigned asks;                    /* questions to the kernel in this tick */
    pyr_followed *gil_waiters[GIL_WAITERS]; /* of the visits going on */
    size_t gil_waiter_count;
    pyr_cpu_watch watch;
    pyr_task_files *files;
    uint64_t random;
    uint64_t looks_made, extended, asked, scans, unnamed_reads;
    pyr_unwind_stats reported;
};

static void renew_names(pyr_tick *tick)
{
    pyr_symbols *symbols = tick->follow.symbols;
    for (int state = 0; state < PYR_STATES; state++) {
        const char *name = pyr_state_name((pyr_state)state);
        tick->follow.state_names[state] = pyr_symbols_string(symbols, name, strlen(name));
    }
    tick->no_frame = pyr_unwinder_synthetic(tick->unwinder, "<no Python frame>");
    tick->follow.unseen = pyr_unwinder_synthetic(tick->unwinder, "<CPU between samples>");
}

pyr_tick *pyr_tick_new(const pyr_collect_context *context)
{
    pyr_tick *tick = pyr_memory_new(1, sizeof *tick);
    if (!tick) {
        return NULL;
    }
    tick->given = *context;
    tick->files = tick->watch.files = pyr_task_files_new();
    tick->process_clock = -1;
    tick->follow = (pyr_follow_context){
        .sink = context->sink, .symbols = context->symbols, .timeline = context->timeline != 0};
    tick->threads = pyr_threads_new(context->reader, context->layout, context->runtime);
    tick->unwinder =
        pyr_unwinder_new(context->reader, context->layout, context->code_type, context->code_deaths,
                         context->labels, context->symbols, context->max_frames);
    tick->own_stacks = context->own_stacks;
    tick->names = pyr_thread_names_new(context->reader, context->layout);
    tick->by_state = pyr_map_new(PYR_LIMIT_THREADS);
    tick->by_native_id = pyr_map_new(PYR_LIMIT_THREADS);
    if (!tick->threads || !tick->unwinder || !tick->names || !tick->by_state ||
        !tick->by_native_id || !tick->files) {
        pyr_tick_free(tick);
        return NULL;
    }
    renew_names(tick);
    return tick;
}

static void forget_threads(pyr_tick *tick)
{
    for (size_t i = 0; i < tick->count; i++) {
        pyr_followed_fini(&tick->followed[i]);
    }
    tick->count = 0;
    pyr_map_clear(tick->by_state);
    pyr_map_clear(tick->by_native_id);
}

void pyr_tick_free(pyr_tick *tick)
{
    if (tick) {
        if (tick->by_state && tick->by_native_id) {
            forget_threads(tick);
        }
        pyr_threads_free(tick->threads);
        pyr_unwinder_free(tick->unwinder);
        pyr_thread_names_free(tick->names);
        pyr_tasks_free(tick->tasks);
        pyr_map_free(tick->by_state);
        pyr_map_free(tick->by_native_id);
        pyr_os_process_clock_close(tick->process_clock);
        pyr_task_files_free(tick->files);
        pyr_memory_free(tick->due_ns);
        pyr_memory_free(tick->followed);
        pyr_memory_free(tick->visits);
        pyr_memory_free(tick->looks);
        pyr_memory_free(tick);
    }
}

pyr_status pyr_tick_begin(pyr_tick *tick)
{
    forget_threads(tick);
    pyr_tasks_free(tick->tasks);
    tick->tasks = pyr_tasks_new();
    tick->process_ns = pyr_clock_process_cpu_ns();
    tick->updated_ns = tick->ahead_ns = tick->ran_ns = 0;
    tick->follow.cpu_put_ns = 0;
    if (tick->tasks && tick->given.since_fork) {
        tick->given.since_fork = 0; /* a later start goes on from the stop before */
        pyr_tasks_give_past(tick->tasks, pyr_clock_monotonic_ns(), &tick->follow);
    }
    return tick->tasks ? PYR_OK : PYR_ENOMEM;
}

void pyr_tick_enter(pyr_tick *tick)
{
    tick->watch.own_task = pyr_os_own_task();
    (void)!pyr_task_files_begin(tick->files); /* without, looks are dearer, and as good */
}

/* ---------------------------------------------------------------------------------- list ---- */

static pyr_status grow(pyr_tick *tick)
{
    if (tick->count < tick->capacity) {
        return PYR_OK;
    }
    size_t capacity = tick->capacity ? tick->capacity * 2 : 16;
    void *followed = pyr_memory_resize(tick->followed, capacity, sizeof *tick->followed);
    tick->followed = followed ? followed : tick->followed;
    void *due = pyr_memory_resize(tick->due_ns, capacity, sizeof *tick->due_ns);
    tick->due_ns = due ? due : tick->due_ns;
    void *visits = pyr_memory_resize(tick->visits, capacity, sizeof *tick->visits);
    tick->visits = visits ? visits : tick->visits;
    void *looks = pyr_memory_resize(tick->looks, capacity, sizeof *tick->looks);
    tick->looks = looks ? looks : tick->looks;
    if (!followed || !due || !visits || !looks) {
        return PYR_ENOMEM;
    }
    tick->capacity = capacity;
    return PYR_OK;
}

static void follow(pyr_tick *tick, const pyr_thread_ref *ref)
{
    uint64_t index;
    if (pyr_map_get(tick->by_state, ref->state, &index)) {
        pyr_followed *known = &tick->followed[index];
        if (known->ref.unique_id == ref->unique_id && known->ref.interpreter == ref->interpreter &&
            (known->ref.native_id == ref->native_id || known->ref.native_id == 0)) {
            known->ref = *ref;
            known->listed = true;
            return;
        }
    }
    if (grow(tick) != PYR_OK) {
        tick->follow.sink.lose(tick->follow.sink.context, PYR_LOSS_TOO_MANY_THREADS, 1);
        return;
    }
    pyr_followed *thread = &tick->followed[tick->count++];
    pyr_followed_init(thread, ref, tick->now_ns);
    thread->listed = true;
}

/* A kernel thread that ran in several interpreters has a state in each (and up to 3.12 a new
 * sub-interpreter's state has the ids of its maker): its CPU must be counted once. The first keeps
 * the account, and who is seen with a GIL spends from it. */
static void share_thread(pyr_tick *tick, size_t index)
{
    pyr_followed *thread = &tick->followed[index];
    uint64_t first;
    thread->shares_thread = pyr_map_get(tick->by_native_id, thread->ref.native_id, &first);
    thread->keeps_account = !thread->shares_thread;
    if (thread->shares_thread) {
        tick->followed[first].shares_thread = true;
    } else {
        (void)!pyr_map_put(tick->by_native_id, thread->ref.native_id, index);
    }
}

/* Who keeps the account of this thread's CPU. */
static pyr_followed *account_of(pyr_tick *tick, pyr_followed *thread)
{
    uint64_t first;
    if (!thread->keeps_account && pyr_map_get(tick->by_native_id, thread->ref.native_id, &first)) {
        return &tick->followed[first];
    }
    return thread;
}

/* Makes the followed threads those that the list has now. */
static void sync_threads(pyr_tick *tick)
{
    for (size_t i = 0; i < tick->count; i++) {
        tick->followed[i].listed = false;
    }
    tick->incomplete = false;
    for (size_t i = 0; i < pyr_threads_count(tick->threads); i++) {
        const pyr_thread_ref *ref = pyr_threads_get(tick->threads, i);
        tick->incomplete |= ref->native_id == 0;
        follow(tick, ref);
    }
    size_t kept = 0;
    pyr_map_clear(tick->by_state);
    pyr_map_clear(tick->by_native_id);
    for (size_t i = 0; i < tick->count; i++) {
        pyr_followed *thread = &tick->followed[i];
        if (!thread->listed) { /* it ended */
            pyr_followed_extend(thread, tick->now_ns, false);
            pyr_followed_flush(thread, &tick->follow);
            pyr_followed_fini(thread);
            continue;
        }
        tick->followed[kept] = *thread;
        tick->due_ns[kept] = thread->active ? DUE_ACTIVE : thread->look_ns;
        (void)!pyr_map_put(tick->by_state, thread->ref.state, kept);
        share_thread(tick, kept);
        kept++;
    }
    tick->count = kept;
    if (tick->process_clock < 0 && tick->count >= SUMMED_THREADS) {
        tick->process_clock = pyr_os_process_clock_open();
    }
}

static void name_thread(pyr_tick *tick, pyr_followed *thread, const char *name, size_t length)
{
    thread->name = pyr_symbols_string(tick->follow.symbols, name, length);
    if (tick->own_stacks) {
        pyr_own_stacks_name_thread(tick->own_stacks, thread->ref.native_id, tick->follow.symbols,
                                   thread->name);
    }
}

/* Reads the names of one interpreter's threads. */
static void name_interpreter(pyr_tick *tick, pyr_addr interpreter)
{
    pyr_status status = pyr_thread_names_refresh(tick->names, interpreter);
    tick->unnamed_reads += status != PYR_OK && status != PYR_ENOENT;
    for (size_t i = 0; i < tick->count; i++) {
        size_t length;
        const char *name = pyr_thread_names_get(tick->names, tick->followed[i].ref.ident, &length);
        if (name && length > 0 && tick->followed[i].ref.interpreter == interpreter) {
            name_thread(tick, &tick->followed[i], name, length);
        }
    }
}

static void name_threads(pyr_tick *tick)
{
    static const char main_thread[] = "MainThread"; /* so `threading` will call it, if imported */
    pyr_addr named[NAMED_INTERPRETERS];
    size_t count = 0;
    uint64_t own = (uint64_t)getpid();
    for (size_t i = 0; i < tick->count; i++) {
        if (tick->followed[i].name == 0 && tick->followed[i].ref.native_id == own) {
            name_thread(tick, &tick->followed[i], main_thread, sizeof main_thread - 1);
        }
        pyr_addr interpreter = tick->followed[i].ref.interpreter;
        bool done = false;
        for (size_t k = 0; k < count && !done; k++) {
            done = named[k] == interpreter;
        }
        if (!done && count < NAMED_INTERPRETERS) {
            named[count++] = interpreter;
            name_interpreter(tick, interpreter);
        }
    }
    tick->named_ns = tick->now_ns;
}

/* Brings the list up to date; `changed` is what the look at it said. */
static void update_list(pyr_tick *tick, bool changed)
{
    bool ended = false; /* an idle thread's end would not be seen for a while */
    tick->uncounted_ns += tick->unexplained_ns;
    if (++tick->uncounted >= COUNT_TICKS || tick->uncounted_ns >= COUNT_CPU_NS) {
        uint64_t tasks = pyr_task_files_count(tick->files);
        ended = tasks < tick->task_count;
        tick->task_count = tasks;
        tick->uncounted_ns = tick->uncounted = 0;
    }
    if (changed || ended || tick->incomplete || tick->now_ns - tick->updated_ns >= UPDATE_NS) {
        pyr_status status = pyr_threads_update(tick->threads);
        if (status == PYR_ETOOBIG) {
            tick->follow.sink.lose(tick->follow.sink.context, PYR_LOSS_TOO_MANY_THREADS, 1);
        }
        if (status == PYR_OK || status == PYR_ETOOBIG) {
            tick->updated_ns = tick->now_ns;
            sync_threads(tick);
            /* A thread is listed before it has a name: read again after those that come now. */
            tick->names_due = changed ? NAMES_READ : tick->names_due;
        }
    }
    if (tick->names_due > 0 && tick->now_ns - tick->named_ns >= NAMES_NS) {
        tick->names_due--;
        name_threads(tick);
    }
}

/* --------------------------------------------------------------------------------- looks ---- */

/* Reads the thread's CPU clock. False: its thread has ended. */
static bool read_clock(pyr_tick *tick, pyr_followed *thread, int64_t *used)
{
    *used = 0;
    if (thread->ref.native_id == 0) {
        return false;
    }
    int64_t cpu = pyr_clock_thread_cpu_ns((int64_t)thread->ref.native_id);
    tick->looks_made++;
    if (cpu < 0) {
        tick->incomplete = true; /* walk the list again */
        return false;
    }
    if (thread->cpu_ns < 0) {
        int64_t before = pyr_tasks_before(tick->tasks, (int64_t)thread->ref.native_id);
        thread->cpu_ns = before <= cpu ? before : 0; /* else the kernel id was reused */
    }
    *used = cpu > thread->cpu_ns ? cpu - thread->cpu_ns : 0;
    thread->cpu_ns = cpu;
    thread->carry_ns += thread->keeps_account ? *used : 0;
    return true;
}

static void plan_look(pyr_tick *tick, pyr_followed *thread, bool moved)
{
    if (moved) {
        thread->active = true;
        thread->back_off_ns = 4 * tick->interval_ns;
    } else {
        thread->active = thread->active && !thread->settled;
        /* Few threads need no distance: so many looks a tick are nearly free. */
        int64_t most = 2 * tick->interval_ns * (int64_t)(tick->count / IDLE_LOOKS);
        most = most > PYR_TICK_OLDEST_NS ? PYR_TICK_OLDEST_NS : most;
        int64_t doubled = thread->back_off_ns * 2;
        doubled = doubled > most ? most : doubled;
        thread->back_off_ns = doubled < 2 * tick->interval_ns ? 2 * tick->interval_ns : doubled;
    }
    /* Up to a quarter sooner: no two threads stay in step. */
    tick->random = tick->random * 6364136223846793005U + 1442695040888963407U;
    thread->look_ns = tick->now_ns + thread->back_off_ns -
                      (int64_t)((tick->random >> 33) % (uint64_t)(thread->back_off_ns / 4));
    tick->due_ns[thread - tick->followed] = thread->active ? DUE_ACTIVE : thread->look_ns;
}

typedef enum look_reason { LOOK_ACTIVE, LOOK_HOLDER, LOOK_SCAN, LOOK_DUE } look_reason;

/* Looks at one thread: extends its run when it did not move, else lines it up for a visit.
 * Returns the CPU it used. */
static int64_t look_at(pyr_tick *tick, pyr_followed *thread, look_reason reason)
{
    int64_t used;
    thread->looked_ns = tick->now_ns;
    if (!read_clock(tick, thread, &used)) {
        return 0;
    }
    bool moved = used > 0;
    if (!moved && thread->settled && thread->has_run && reason != LOOK_HOLDER) {
        pyr_followed_extend(thread, tick->now_ns, true);
        tick->extended++;
        plan_look(tick, thread, false);
        return 0;
    }
    plan_look(tick, thread, moved);
    int64_t gap = tick->now_ns - thread->seen_ns;
    int64_t since = thread->seen_ns;
    if (2 * gap > 3 * tick->interval_ns && thread->has_run) {
        /* It was not looked at for a while. Idle, and seen because it became busy: it was idle
         * until now. Seen by chance, or late: the moment of change is somewhere in the gap. */
        bool became_busy = reason == LOOK_SCAN || reason == LOOK_HOLDER;
        since = became_busy ? tick->now_ns - tick->interval_ns : tick->now_ns - gap / 2;
    }
    look *why = &tick->looks[tick->visit_count];
    *why = (look){.thread = thread,
                  .since_ns = since,
                  .read_ns = pyr_clock_monotonic_ns(),
                  .moved = moved,
                  .busy = gap > 0 && 2 * used >= gap, /* of a new thread nothing is known */
                  .steady = gap > 0 && gap - used <= gap / STEADY + tick->own_ns};
    tick->visits[tick->visit_count++] = (pyr_visit){.ref = &thread->ref,
                                                    .plan = &thread->plan,
                                                    .owner = why,
                                                    .barely_ran = used <= gap / BARELY};
    return used;
}

/* Looks at threads whose time has come. */
static void look_at_due(pyr_tick *tick)
{
    size_t start = tick->count ? (size_t)(tick->random >> 33) % tick->count : 0;
    for (size_t n = 0, i = start; n < tick->count; n++, i = i + 1 < tick->count ? i + 1 : 0) {
        int64_t due = tick->due_ns[i];
        if (due <= tick->now_ns) {
            tick->unexplained_ns -=
                look_at(tick, &tick->followed[i], due == DUE_ACTIVE ? LOOK_ACTIVE : LOOK_DUE);
        }
    }
}

/* Looks at whoever holds a GIL and at threads that have just come, where that is still to do. */
static void look_at_new(pyr_tick *tick)
{
    for (size_t i = 0; i < pyr_threads_gil_count(tick->threads); i++) {
        uint64_t index;
        if (pyr_map_get(tick->by_state, pyr_threads_gil(tick->threads, i)->holder, &index) &&
            tick->followed[index].looked_ns != tick->now_ns) {
            tick->unexplained_ns -= look_at(tick, &tick->followed[index], LOOK_HOLDER);
        }
    }
    for (size_t i = 0; i < tick->count && tick->updated_ns == tick->now_ns; i++) {
        if (tick->followed[i].looked_ns == 0) {
            tick->unexplained_ns -= look_at(tick, &tick->followed[i], LOOK_ACTIVE);
        }
    }
}

/* Looks at idle threads when somebody used CPU and nobody is known to have. */
static void look_at_idle(pyr_tick *tick)
{
    if (tick->unexplained_ns < tick->interval_ns / 20) {
        tick->scan_rest = 0;
        return;
    }
    if (tick->scan_resting > 0) {
        tick->scan_resting--;
        return;
    }
    int64_t found = 0;
    tick->scans++;
    for (size_t n = 0, scanned = 0; n < tick->count && scanned < SCANNED; n++) {
        tick->scan_from = (tick->scan_from + 1) % tick->count;
        pyr_followed *thread = &tick->followed[tick->scan_from];
        if (thread->looked_ns != tick->now_ns) { /* a second visit would find no room */
            found += look_at(tick, thread, LOOK_SCAN);
            scanned++;
        }
    }
    tick->unexplained_ns -= found;
    /* CPU of threads that are not Python's stays unexplained: do not scan for it at each tick. */
    tick->scan_rest = found > 0                      ? 0
                      : tick->scan_rest == 0         ? 1
                      : tick->scan_rest >= SCAN_REST ? SCAN_REST
                                                     : tick->scan_rest * 2;
    tick->scan_resting = tick->scan_rest;
}

/* -------------------------------------------------------------------------------- visits ---- */

/* Whether a thread that was just visited has a CPU. One whose clock kept up with the time since the
 * last look does; one whose clock stood still does not, unless the sampler has just preempted it,
 * which is possible where it holds the GIL. */
static pyr_cpu_wait watch_cpu(pyr_tick *tick, pyr_followed *thread, const look *why,
                              const pyr_visit *visit)
{
    if (why->steady) {
        return PYR_CPU_WAIT_NO;
    }
    if (!why->moved && !visit->holds_gil) {
        return PYR_CPU_WAIT_YES;
    }
    pyr_cpu_wait wait = pyr_cpu_wait_of(&tick->watch, (int64_t)thread->ref.native_id,
                                        thread->cpu_ns, why->read_ns, visit->cpu, visit->holds_gil);
    if (wait == PYR_CPU_WAIT_NO) {
        thread->unsure = 0;
    } else if (wait == PYR_CPU_WAIT_UNSURE && thread->unsure < BELIEVED) {
        thread->unsure++;
    }
    return wait;
}

static void note_visit(void *context, const pyr_visit *visit)
{
    pyr_tick *tick = context;
    const look *why = visit->owner;
    pyr_followed *thread = why->thread;
    if (visit->status != PYR_OK) {
        pyr_loss reason = visit->status == PYR_ETORN ? PYR_LOSS_TORN_STACK : PYR_LOSS_UNREADABLE;
        if (visit->status == PYR_ENOENT) {
            tick->incomplete = true;
        } else {
            tick->follow.sink.lose(tick->follow.sink.context, reason, 1);
        }
        thread->settled = false;
        return;
    }
    const pyr_layout *layout = tick->given.layout;
    pyr_state_evidence evidence = {
        .visit = visit,
        .symbols = tick->follow.symbols,
        /* A wait for the GIL that goes on looks like the wait before it: ask again. */
        .moved = why->moved || (thread->has_run && thread->state == PYR_STATE_GIL_WAIT),
        .busy = why->busy,
        .cpu = watch_cpu(tick, thread, why, visit),
        .believe = thread->unsure >= BELIEVED,
        .may_ask = tick->asks * 4 < tick->visit_count + 8,
        .goes_on = visit->still_blank && thread->has_run && thread->state == PYR_STATE_GIL_WAIT,
        .files = tick->files,
        .ask = pyr_task_files_wait,
        .gil_waits_from = visit->ref->gil ? visit->ref->gil + layout->gil_cond : 0,
        .gil_waits_to = visit->ref->gil ? visit->ref->gil + layout->gil_size : 0,
    };
    pyr_state_verdict verdict = pyr_state_judge(&evidence);
    tick->asks += verdict.asked;
    tick->asked += verdict.asked;
    if (tick->changed && !visit->holds_gil) {
        /* Its kernel thread may run in an interpreter that is not on the list yet: its CPU waits.
         */
        verdict.spends = false;
    }
    if (thread->shares_thread) {
        /* That the kernel thread runs does not tell which of its states does. */
        verdict.spends = visit->holds_gil;
        if (verdict.state == PYR_STATE_ON_CPU && !verdict.spends) {
            verdict.state = PYR_STATE_OTHER;
        }
    }
    pyr_sight sight = {.frames = visit->frames,
                       .count = visit->count,
                       .omitted = visit->omitted,
                       .exception = visit->exception,
                       .labels = visit->labels,
                       .state = verdict.state,
                       .spends = verdict.spends,
                       .stands_for_ns = tick->stands_for_ns,
                       .now_ns = tick->now_ns,
                       .since_ns = why->since_ns};
    if (verdict.state == PYR_STATE_GIL_WAIT && visit->native && !pyr_callee_is_proved(layout)) {
        /* The call may have returned already, and its result lie where the callee was. */
        sight.frames++;
        sight.count--;
    }
    if (sight.count == 0) {
        sight.frames = &tick->no_frame;
        sight.count = 1;
    }
    thread->settled = verdict.settled;
    if (verdict.state == PYR_STATE_GIL_WAIT && tick->gil_waiter_count < GIL_WAITERS) {
        tick->gil_waiters[tick->gil_waiter_count++] = thread;
    }
    if (pyr_followed_see(thread, account_of(tick, thread), &sight, &tick->follow) != PYR_OK) {
        tick->follow.sink.lose(tick->follow.sink.context, PYR_LOSS_WINDOW_FULL, 1);
    }
}

/* Threads that were seen to wait for a GIL learn who had it. */
static void blame_holders(pyr_tick *tick)
{
    for (size_t i = 0; i < tick->gil_waiter_count; i++) {
        pyr_followed *waiter = tick->gil_waiters[i];
        for (size_t k = 0; k < pyr_threads_gil_count(tick->threads); k++) {
            const pyr_gil_ref *gil = pyr_threads_gil(tick->threads, k);
            uint64_t index;
            if (gil->gil == waiter->ref.gil && pyr_map_get(tick->by_state, gil->holder, &index)) {
                pyr_followed_blame(waiter, &tick->followed[index]);
            }
        }
    }
    tick->gil_waiter_count = 0;
}

/* Visits those who were lined up; a look at the lists, if wanted, shares the first call. */
static pyr_status visit(pyr_tick *tick, pyr_threads *lists, bool *changed)
{
    size_t count = tick->visit_count;
    tick->visit_count = 0;
    pyr_status status =
        pyr_unwinder_visit(tick->unwinder, lists, changed, tick->visits, count, note_visit, tick);
    blame_holders(tick);
    return status;
}

/* A tick stands for its slot, wherever in it it is; for more if it is later than any place in its
 * slot can be, as on a busy machine. Not for all the time of a process that was stopped. */
static int64_t stands_for(int64_t since_ns, int64_t interval_ns)
{
    int64_t most = LATEST * interval_ns;
    return since_ns < 2 * interval_ns ? interval_ns : since_ns < most ? since_ns : most;
}

pyr_status pyr_tick_run(pyr_tick *tick, int64_t interval_ns, int64_t own_ns, uint64_t random)
{
    tick->now_ns = pyr_clock_monotonic_ns();
    tick->interval_ns = interval_ns;
    tick->stands_for_ns = stands_for(tick->ran_ns ? tick->now_ns - tick->ran_ns : 0, interval_ns);
    tick->ran_ns = tick->now_ns;
    tick->own_ns = own_ns;
    tick->random ^= random;
    tick->asks = 0;
    tick->visit_count = 0;
    pyr_cpu_watch_begin(&tick->watch);
    int64_t process = pyr_clock_process_cpu_ns();
    tick->unexplained_ns = process - tick->process_ns - own_ns - tick->ahead_ns;
    tick->process_ns = process;
    look_at_due(tick);
    pyr_status status = visit(tick, tick->threads, &tick->changed);
    if (status == PYR_EFAULT) {
        tick->follow.sink.lose(tick->follow.sink.context, PYR_LOSS_UNREADABLE, 1);
    }
    if (status != PYR_OK) {
        return status;
    }
    update_list(tick, tick->changed);
    look_at_new(tick);
    look_at_idle(tick);
    tick->ahead_ns = tick->unexplained_ns < 0 ? -tick->unexplained_ns : 0;
    return tick->visit_count > 0 ? visit(tick, NULL, NULL) : PYR_OK;
}

void pyr_tick_hurry(void *context, pyr_addr thread_state)
{
    pyr_tick *tick = context;
    uint64_t index;
    if (pyr_map_get(tick->by_state, thread_state, &index)) {
        tick->due_ns[index] = DUE_ACTIVE;
    }
}

bool pyr_tick_stack_of(const pyr_tick *tick, pyr_addr thread_state, pyr_own_stack *stack)
{
    uint64_t index;
    if (!pyr_map_get(tick->by_state, thread_state, &index)) {
        return false;
    }
    const pyr_followed *thread = &tick->followed[index];
    if (!thread->has_run || thread->looked_ns != tick->ran_ns) {
        return false;
    }
    const pyr_kept_stack *seen = &thread->stack;
    stack->symbols = tick->follow.symbols;
    stack->thread_id = thread->ref.ident;
    stack->thread_native_id = thread->ref.native_id;
    stack->thread_name = thread->name;
    stack->labels = seen->labels;
    stack->count = seen->count < PYR_LIMIT_FRAMES ? seen->count : PYR_LIMIT_FRAMES;
    stack->omitted = seen->omitted + (seen->count - stack->count);
    memcpy(stack->frames, seen->frames, stack->count * sizeof stack->frames[0]);
    return true;
}

/* --------------------------------------------------------------------------------- flush ---- */

static bool is_followed(const void *owner, int64_t native_id)
{
    const pyr_tick *tick = owner;
    uint64_t index;
    return pyr_map_get(tick->by_native_id, (uint64_t)native_id, &index);
}

/* Gives out every run up to now by `give`, and what is nobody's. */
static void give_out(pyr_tick *tick,
                     void (*give)(pyr_followed *thread, pyr_follow_context *context))
{
    if (!tick->tasks) {
        return; /* never begun */
    }
    int64_t carried_ns = 0;
    tick->now_ns = pyr_clock_monotonic_ns();
    if (give == pyr_followed_flush || tick->names_due > 0) {
        name_threads(tick);
    }
    for (size_t i = 0; i < tick->count; i++) {
        pyr_followed *thread = &tick->followed[i];
        int64_t used;
        if (read_clock(tick, thread, &used)) {
            thread->settled = thread->settled && used == 0;
        } /* else it has ended since the last tick */
        pyr_followed_extend(thread, tick->now_ns, false);
        give(thread, &tick->follow);
        carried_ns += thread->carry_ns;
    }
    /* What is still carried is accounted for, and will be put later. */
    tick->follow.cpu_put_ns += carried_ns;
    pyr_tasks_account(tick->tasks, is_followed, tick, tick->now_ns, &tick->follow);
    tick->follow.cpu_put_ns -= carried_ns;
}

void pyr_tick_flush(pyr_tick *tick)
{
    give_out(tick, pyr_followed_flush);
}

void pyr_tick_checkpoint(pyr_tick *tick)
{
    give_out(tick, pyr_followed_cut);
}

void pyr_tick_renew_symbols(pyr_tick *tick, pyr_symbols *symbols)
{
    tick->follow.symbols = symbols;
    pyr_unwinder_renew(tick->unwinder, symbols);
    renew_names(tick);
    for (size_t i = 0; i < tick->count; i++) {
        pyr_followed_forget(&tick->followed[i]);
    }
    name_threads(tick);
}

void pyr_tick_fork_child(pyr_tick *tick)
{
    forget_threads(tick);
    pyr_tasks_free(tick->tasks);
    tick->tasks = NULL;
    tick->process_clock = -1; /* timers stay with the parent */
}

int64_t pyr_tick_process_ns(const pyr_tick *tick)
{
    return tick->process_ns;
}

void pyr_tick_facts(pyr_tick *tick, pyr_facts *facts, bool reset)
{
    pyr_unwind_stats now;
    pyr_unwinder_stats(tick->unwinder, &now);
    const pyr_unwind_stats *old = &tick->reported;
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"threads", tick->count},
        {"looks", tick->looks_made},
        {"extended", tick->extended},
        {"visits", now.visits - old->visits},
        {"tries", now.tries - old->tries},
        {"torn", now.torn - old->torn},
        {"changing", now.changing - old->changing},
        {"stale_names", now.stale - old->stale},
        {"plans_learned", now.learned - old->learned},
        {"native_leaves", now.native_leaves - old->native_leaves},
        {"read_calls", now.calls - old->calls},
        {"label_walks", now.label_walks - old->label_walks},
        {"labels_unread", now.label_unread - old->label_unread},
        {"kernel_questions", tick->asked},
        {"scans", tick->scans},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pyr_facts_add_integer(facts, "tick", rows[i].key, (int64_t)rows[i].value);
    }
    if (tick->tasks) {
        pyr_facts_add_integer(facts, "cost", "own_threads_cpu_ns", pyr_tasks_own_ns(tick->tasks));
    }
    if (reset) {
        tick->reported = now;
        tick->looks_made = tick->extended = tick->asked = tick->scans = 0;
    }
}
