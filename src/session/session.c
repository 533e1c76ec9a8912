/* The composition root: builds every part, and carries windows from recorder to delivery.
 *
 *     new    settings, reader, layout, symbols, recorder, collectors, delivery, scheduler
 *     flush  collectors flush -> recorder rotates -> facts -> delivery (on the scheduler's thread)
 *     stop   collectors stop -> last flush -> scheduler ends
 *
 * Owns all parts. Two threads exist while it runs: the stack collector's and the scheduler's. The
 * gather lock is held while a window is sealed, never while it is encoded or sent, so that a fork
 * waits for milliseconds at most.
 */
#include "session/session.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/requests.h"
#include "os/os.h"
#include "record/recorder.h"
#include "schedule/scheduler.h"
#include "session/collecting.h"
#include "session/delivery.h"
#include "session/exporting.h"
#include "session/flight.h"
#include "session/guard.h"
#include "session/identity.h"
#include "session/interpreter.h"
#include "session/termination.h"
#include "unwind/own_stack.h"

enum {
    NAMES_BYTES = 256,
    TARGET_BYTES = 512,
    WINDOW_BYTES = 64 << 20, /* address space; pages are used as samples come */
    WINDOW_SHARE = 16,       /* ... and where that is limited, at most one of so many parts */
    SYMBOLS_FULL_PCT = 50,   /* a fuller table is replaced at a rotation */
    EXIT_SHARE = 3,          /* of the time at the end, the last part is for keeping what is left */
};

static const int64_t SERVERLESS_TICK_NS = 1000000000;

struct pyr_session {
    pyr_settings settings;
    pyr_host host;
    pyr_identity identity;
    pyr_birth birth;
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_recorder *recorder;
    pyr_flight *flight; /* NULL = off */
    pyr_guard *guard;   /* NULL = none */
    pyr_delivery *delivery;
    pyr_scheduler *scheduler;

    pyr_lock gather;       /* guards what follows, and calls of collectors */
    sigset_t signals_held; /* from enter to leave: the mask to give back */
    pyr_symbols *symbols;
    pyr_own_stacks *own_stacks;
    pyr_collecting collecting;
    uint64_t lost[PYR_LOSSES]; /* in sealed windows */

    pyr_facts facts;         /* of the window being delivered; the scheduler's thread only */
    int64_t exported_cpu_ns; /* of the scheduler's thread at the last window; that thread only */
    _Atomic int64_t export_cpu_ns;
    _Atomic bool busy;        /* a flush is running; what it uses cannot be freed */
    _Atomic bool undelivered; /* the last flush left a window that nobody has taken yet */
};

/* Takes the gather lock; SIGTERM waits, since its handler waits for who else needs the lock. */
static void enter(pyr_session *session)
{
    sigset_t before;
    pyr_termination_hold(&before);
    pyr_lock_acquire(&session->gather);
    session->signals_held = before;
}

static void leave(pyr_session *session)
{
    sigset_t before = session->signals_held;
    pyr_lock_release(&session->gather);
    pyr_termination_release(&before);
}

/* --------------------------------------------------------------------------------- windows */

/* What the profiler itself uses, beside what the collectors measured. */
static void add_cost_facts(int64_t export_cpu_ns, pyr_facts *facts)
{
    pyr_facts_add_integer(facts, "cost", "export_cpu_ns", export_cpu_ns);
    pyr_facts_add_integer(facts, "memory", "profiler_bytes", (int64_t)pyr_memory_in_use());
}

/* The table for the next window: a new one when this one is half full, so that names which are no
 * longer used go away with the windows that used them. */
static pyr_symbols *next_symbols(const pyr_session *session)
{
    pyr_symbols *fresh = NULL;
    if (pyr_symbols_fill_pct(session->symbols) > SYMBOLS_FULL_PCT) {
        fresh = pyr_symbols_new();
    }
    return fresh != NULL ? fresh : pyr_symbols_share(session->symbols);
}

/* Seals the window and gathers its facts; `is_held`: a signal handler waits for it. NULL: no
 * memory, which the log says; samples go on into the same window. */
static pyr_window *gather(pyr_session *session, bool is_held)
{
    pyr_window *window = NULL;
    enter(session);
    pyr_collecting_flush(&session->collecting);
    pyr_symbols *next = next_symbols(session);
    if (pyr_recorder_rotate(session->recorder, next, &window) == PYR_OK) {
        if (next != session->symbols) {
            pyr_own_stacks_renew(session->own_stacks, next);
            pyr_collecting_renew_symbols(&session->collecting, next);
        }
        pyr_flight_seal(session->flight, next); /* a slice belongs to one window */
        pyr_symbols *old = session->symbols;
        session->symbols = next;
        next = old;
        for (int loss = 0; loss < PYR_LOSSES; loss++) {
            session->lost[loss] += pyr_window_lost(window, (pyr_loss)loss);
        }
        session->facts.count = 0;
        pyr_requests_take(&session->facts);
        pyr_identity_facts(&session->identity, &session->settings, &session->facts);
        pyr_collecting_facts(&session->collecting, &session->facts,
                             is_held ? PYR_FACTS_OF_HELD_WINDOW : PYR_FACTS_OF_WINDOW);
        int64_t cpu_ns = pyr_clock_own_cpu_ns();
        add_cost_facts(cpu_ns - session->exported_cpu_ns, &session->facts);
        session->exported_cpu_ns = cpu_ns;
        pyr_settings_facts(&session->settings, &session->facts, false);
    }
    pyr_symbols_release(next);
    bool resumed = pyr_collecting_resume(&session->collecting, session->symbols);
    leave(session);
    if (resumed) {
        session->host.announce_start(); /* Python's own hooks follow */
    }
    if (window == NULL) {
        pyr_log_add(PYR_LOG_WARNING, "this window goes on, there is none to follow it: %s",
                    pyr_collecting_explain(PYR_ENOMEM));
    }
    return window;
}

/* On the scheduler's thread. */
static void flush(void *context, pyr_flush_reason reason)
{
    pyr_session *session = context;
    atomic_store(&session->busy, true);
    bool is_last = reason == PYR_FLUSH_EXIT || reason == PYR_FLUSH_SIGNAL;
    /* Time for one upload that hangs and for another try; at the end EXIT_TIMEOUT counts. */
    int64_t timeout_ms = pyr_settings_integer(&session->settings, PYR_SETTING_API_TIMEOUT_MS);
    int64_t most_ns = is_last ? pyr_settings_integer(&session->settings, PYR_SETTING_EXIT_TIMEOUT)
                              : timeout_ms * 1000000 * 3 / 2;
    int64_t deadline_ns = pyr_clock_monotonic_ns() + most_ns;
    int64_t end_ns = 0;
    pyr_window *window = gather(session, reason == PYR_FLUSH_SIGNAL);
    if (window != NULL) {
        end_ns = pyr_window_end_ns(window) + pyr_window_epoch_offset_ns(window);
        pyr_delivery_add(session->delivery, window, &session->facts, session->identity.pid);
        pyr_window_free(window);
    }
    pyr_delivery_send(session->delivery, deadline_ns);
    bool undelivered = window == NULL || pyr_delivery_waiting(session->delivery) > 0;
    atomic_store(&session->undelivered, undelivered);
    if (is_last) {
        pyr_guard_end(session->guard); /* whatever comes now is none of a collector's doing */
    }
    if (!undelivered) {
        pyr_flight_delivered(session->flight, end_ns, is_last);
    }
    atomic_store(&session->export_cpu_ns, pyr_clock_own_cpu_ns());
    if (pyr_log_waiting()) {
        session->host.announce_lines();
    }
    atomic_store(&session->busy, false);
}

/* A slice for the flight recorder, on its thread. */
static size_t cut(void *context, pyr_window *windows[PYR_FLIGHT_SEALED], pyr_facts *facts)
{
    pyr_session *session = context;
    enter(session);
    pyr_collecting_checkpoint(&session->collecting);
    pyr_flight_seal(session->flight, session->symbols);
    size_t count = pyr_flight_take(session->flight, windows);
    pyr_identity_facts(&session->identity, &session->settings, facts);
    pyr_collecting_facts(&session->collecting, facts, PYR_FACTS_SO_FAR);
    pyr_settings_facts(&session->settings, facts, false);
    leave(session);
    return count;
}

/* ------------------------------------------------------------------------------------ parts */

static pyr_status create_collectors(pyr_session *session, char *why, size_t why_size)
{
    const pyr_settings *settings = &session->settings;
    const pyr_collect_context context = {
        .reader = session->reader,
        .layout = session->layout,
        .runtime = session->host.runtime,
        .code_type = session->host.code_type,
        .code_deaths = session->host.code_deaths,
        .labels = session->host.labels,
        .sink = session->flight != NULL ? pyr_flight_sink(session->flight)
                                        : pyr_recorder_sink(session->recorder),
        .symbols = session->symbols,
        .own_stacks = session->own_stacks,
        .interval_ns = pyr_settings_integer(settings, PYR_SETTING_SAMPLING_INTERVAL),
        .overhead_pct = pyr_settings_real(settings, PYR_SETTING_OVERHEAD_PCT),
        .max_frames = (unsigned)pyr_settings_integer(settings, PYR_SETTING_MAX_FRAMES),
        .timeline = pyr_settings_bool(settings, PYR_SETTING_TIMELINE_ENABLED),
        .tells_of_raises = session->host.tells_of_raises,
        .exception_interval =
            pyr_settings_integer(settings, PYR_SETTING_EXCEPTION_SAMPLING_INTERVAL),
        .lock_excluded = pyr_settings_text(settings, PYR_SETTING_LOCK_EXCLUDE_MODULES),
        .exception_messages = pyr_settings_bool(settings, PYR_SETTING_EXCEPTION_COLLECT_MESSAGE),
        .since_fork = session->birth.since_fork,
        .memory_host = session->host.memory,
        .heap_enabled = pyr_settings_bool(settings, PYR_SETTING_HEAP_ENABLED),
        .native_heap_enabled = pyr_settings_bool(settings, PYR_SETTING_NATIVE_HEAP_ENABLED),
        .heap_sample_bytes = pyr_settings_integer(settings, PYR_SETTING_HEAP_SAMPLE_SIZE),
    };
    return pyr_collecting_create(&session->collecting, &context, settings, session->guard, why,
                                 why_size);
}

static pyr_encode_options encoding_of(const pyr_session *session)
{
    return (pyr_encode_options){
        .kinds = pyr_collecting_kinds(&session->collecting),
        .timeline = pyr_settings_bool(&session->settings, PYR_SETTING_TIMELINE_ENABLED),
        .period_ns = pyr_settings_integer(&session->settings, PYR_SETTING_SAMPLING_INTERVAL),
        .executable = session->host.executable,
    };
}

static pyr_status build(pyr_session *session, char *why, size_t why_size)
{
    const pyr_settings *settings = &session->settings;
    pyr_status status =
        pyr_interpreter_open(&session->host, &session->reader, &session->layout, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    snprintf(why, why_size, "%s", pyr_collecting_explain(PYR_ENOMEM));
    session->symbols = pyr_symbols_new();
    if (session->symbols == NULL) {
        return PYR_ENOMEM;
    }
    size_t most_bytes = pyr_os_address_space() / WINDOW_SHARE;
    session->recorder =
        pyr_recorder_new(most_bytes < WINDOW_BYTES ? most_bytes : WINDOW_BYTES, session->symbols);
    session->own_stacks = pyr_own_stacks_new(
        session->layout, session->host.code_type, session->host.code_deaths, session->symbols,
        (unsigned)pyr_settings_integer(settings, PYR_SETTING_MAX_FRAMES));
    if (session->recorder == NULL || session->own_stacks == NULL) {
        return PYR_ENOMEM;
    }
    pyr_own_stacks_read_labels(session->own_stacks, session->host.labels);
    const pyr_flight_options flight = {
        .settings = settings,
        .identity = &session->identity,
        .sink = pyr_recorder_sink(session->recorder),
        .cut = cut,
        .context = session,
    };
    session->flight = pyr_flight_open(&flight, session->symbols);
    session->guard = pyr_guard_open(NULL, &session->identity, session->host.program);
    status = create_collectors(session, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    pyr_exporting texts;
    pyr_exporter_options options;
    pyr_exporting_options(settings, &session->identity, &session->host, &texts, &options);
    const pyr_encode_options encoding = encoding_of(session);
    status = pyr_delivery_open(&options, &encoding, pyr_recorder_sink(session->recorder),
                               &session->delivery, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    snprintf(why, why_size, "%s", pyr_collecting_explain(PYR_ENOMEM));
    int64_t period_ns = pyr_settings_integer(settings, PYR_SETTING_UPLOAD_INTERVAL);
    status = pyr_scheduler_new(period_ns, flush, session, &session->scheduler);
    if (status == PYR_OK && pyr_settings_text(settings, PYR_SETTING_FUNCTION_NAME)[0] != '\0') {
        pyr_scheduler_count_ticks(session->scheduler, SERVERLESS_TICK_NS,
                                  (uint64_t)(period_ns / SERVERLESS_TICK_NS));
    }
    return status;
}

pyr_status pyr_session_new(const pyr_settings *settings, const pyr_host *host,
                           const pyr_birth *birth, pyr_session **session, char *why,
                           size_t why_size)
{
    snprintf(why, why_size, "%s", pyr_collecting_explain(PYR_ENOMEM));
    pyr_session *made = pyr_memory_new(1, sizeof *made);
    if (made == NULL) {
        return PYR_ENOMEM;
    }
    pyr_lock_init(&made->gather, PYR_LOCK_GATHER);
    pyr_requests_drop(); /* those from before, and of the process that this one was forked from */
    made->host = *host;
    made->birth = *birth;
    made->birth.parent = NULL; /* is freed soon */
    const char *parent_id =
        birth->parent != NULL ? birth->parent->identity.runtime_id : host->parent_runtime_id;
    pyr_identity_make(&made->identity, parent_id, host->python);
    pyr_status status = pyr_settings_copy(&made->settings, settings);
    if (status == PYR_OK) {
        status = build(made, why, why_size);
    }
    if (status != PYR_OK) {
        pyr_flight_end(made->flight);
        pyr_guard_end(made->guard);
        (void)!pyr_session_free(made); /* it never ran: nobody is in it */
        return status;
    }
    *session = made;
    return PYR_OK;
}

static bool is_in_use(const pyr_session *session)
{
    return atomic_load(&session->busy) || pyr_collecting_is_in_use(&session->collecting);
}

bool pyr_session_free(pyr_session *session)
{
    if (session == NULL) {
        return true;
    }
    if (is_in_use(session)) {
        return false;
    }
    pyr_scheduler_free(session->scheduler);
    pyr_collecting_destroy(&session->collecting);
    pyr_own_stacks_free(session->own_stacks);
    pyr_delivery_close(session->delivery);
    pyr_flight_free(session->flight);
    pyr_guard_close(session->guard);
    pyr_recorder_free(session->recorder);
    pyr_symbols_release(session->symbols);
    pyr_layout_free(session->layout);
    if (session->reader != NULL) {
        pyr_reader_close(session->reader);
    }
    pyr_settings_fini(&session->settings);
    pyr_lock_fini(&session->gather);
    pyr_memory_free(session);
    return true;
}

/* ------------------------------------------------------------------------------------- life */

pyr_status pyr_session_start(pyr_session *session, char *why, size_t why_size)
{
    pyr_status status = pyr_collecting_start(&session->collecting, why, why_size);
    if (status == PYR_OK) {
        status = pyr_scheduler_start(session->scheduler);
        if (status == PYR_OK) {
            const pyr_encode_options encoding = encoding_of(session);
            status = pyr_flight_start(session->flight, &encoding);
        }
        snprintf(why, why_size, "%s", pyr_collecting_explain(status));
    }
    if (status != PYR_OK) {
        pyr_session_stop(session, false, pyr_clock_monotonic_ns());
    }
    return status;
}

static void stop_collectors(pyr_session *session)
{
    enter(session);
    pyr_collecting_stop(&session->collecting);
    leave(session);
}

/* The session ends at `deadline_ns`: uploads are given up some time before, and go to disk. */
static void hurry(pyr_session *session, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - pyr_clock_monotonic_ns();
    pyr_delivery_hurry(session->delivery, deadline_ns - (left_ns > 0 ? left_ns / EXIT_SHARE : 0));
}

void pyr_session_stop(pyr_session *session, bool flush_last, int64_t deadline_ns)
{
    hurry(session, deadline_ns);
    stop_collectors(session);
    pyr_guard_end(session->guard);
    pyr_flight_stop(session->flight);
    if (!flush_last) {
        pyr_flight_end(session->flight);
    }
    if (flush_last &&
        pyr_scheduler_flush(session->scheduler, PYR_FLUSH_EXIT, deadline_ns) == PYR_EBUSY) {
        pyr_log_add(PYR_LOG_WARNING, "the last window was not delivered in time");
    }
    pyr_scheduler_stop(session->scheduler, deadline_ns);
}

size_t pyr_session_threads(const pyr_session *session)
{
    size_t scheduler = 1;
    return scheduler + pyr_collecting_threads(&session->collecting) +
           pyr_flight_is_running(session->flight);
}

bool pyr_session_pause(pyr_session *session)
{
    if (atomic_load(&session->busy)) {
        return false;
    }
    stop_collectors(session);
    pyr_flight_stop(session->flight);
    pyr_scheduler_stop(session->scheduler, INT64_MAX);
    return true;
}

pyr_status pyr_session_flush(pyr_session *session, int64_t deadline_ns)
{
    pyr_status status = pyr_scheduler_flush(session->scheduler, PYR_FLUSH_REQUEST, deadline_ns);
    return status == PYR_OK && atomic_load(&session->undelivered) ? PYR_EBUSY : status;
}

void pyr_session_flush_from_signal(pyr_session *session, int64_t deadline_ns)
{
    hurry(session, deadline_ns);
    (void)!pyr_scheduler_flush_from_signal(session->scheduler, deadline_ns);
    pyr_guard_end(session->guard); /* served in time or not: no collector has asked for the end */
}

/* ------------------------------------------------------------------------------------- facts */

void pyr_session_facts(pyr_session *session, pyr_facts *facts)
{
    enter(session);
    pyr_identity_facts(&session->identity, &session->settings, facts);
    pyr_collecting_facts(&session->collecting, facts, PYR_FACTS_SO_FAR);
    add_cost_facts(atomic_load(&session->export_cpu_ns), facts);
    for (int loss = 0; loss < PYR_LOSSES; loss++) {
        if (session->lost[loss] > 0) {
            pyr_facts_add_integer(facts, "losses", pyr_loss_id((pyr_loss)loss),
                                  (int64_t)session->lost[loss]);
        }
    }
    /* It takes a lane's lock, which the handler of SIGTERM waits for too. */
    pyr_facts_add_integer(facts, "recorder", "used_bytes",
                          (int64_t)pyr_recorder_used(session->recorder));
    pyr_own_stack_stats own;
    pyr_own_stacks_stats(session->own_stacks, &own);
    pyr_facts_add_integer(facts, "hooks", "stacks", (int64_t)own.walks);
    pyr_facts_add_integer(facts, "hooks", "frames", (int64_t)own.frames);
    pyr_facts_add_integer(facts, "hooks", "frames_read", (int64_t)own.misses);
    pyr_facts_add_integer(facts, "hooks", "frames_unnamed", (int64_t)own.unnamed);
    leave(session);
    char target[TARGET_BYTES];
    pyr_delivery_describe(session->delivery, target, sizeof target);
    pyr_facts_add_text(facts, "delivery", "target", target);
    pyr_delivery_facts(session->delivery, facts);
    pyr_flight_facts(session->flight, facts);
    pyr_facts_add_text(facts, "reader", "method", pyr_reader_method(session->reader));
    pyr_settings_facts(&session->settings, facts, true);
}

void pyr_session_describe(const pyr_session *session, char *text, size_t size)
{
    char target[TARGET_BYTES];
    char names[NAMES_BYTES];
    pyr_collecting_names(&session->collecting, names, sizeof names);
    pyr_delivery_describe(session->delivery, target, sizeof target);
    double seconds =
        (double)pyr_settings_integer(&session->settings, PYR_SETTING_UPLOAD_INTERVAL) / 1e9;
    snprintf(text, size,
             "pyrometer " PYR_VERSION " is on: %s; to %s every %g s; PYROMETER_ENABLED=false "
             "switches it off",
             names, target, seconds);
}

const pyr_settings *pyr_session_settings(const pyr_session *session)
{
    return &session->settings;
}

const char *pyr_session_runtime_id(const pyr_session *session)
{
    return session->identity.runtime_id;
}

/* -------------------------------------------------------------------------------------- fork */

void pyr_session_prefork(pyr_session *session)
{
    enter(session);
    pyr_collecting_prefork(&session->collecting);
    pyr_own_stacks_prefork(session->own_stacks);
    pyr_recorder_prefork(session->recorder);
    pyr_flight_prefork(session->flight);
}

void pyr_session_postfork_parent(pyr_session *session)
{
    pyr_flight_postfork_parent(session->flight);
    pyr_recorder_postfork_parent(session->recorder);
    pyr_own_stacks_postfork_parent(session->own_stacks);
    pyr_collecting_postfork_parent(&session->collecting);
    leave(session);
}

void pyr_session_postfork_child(pyr_session *session)
{
    pyr_reader_fork_child(session->reader);
    pyr_symbols_fork_child(session->symbols);
    pyr_own_stacks_postfork_child(session->own_stacks);
    pyr_recorder_postfork_child(session->recorder);
    pyr_flight_postfork_child(session->flight);
    pyr_guard_fork_child(session->guard);
    pyr_collecting_postfork_child(&session->collecting);
    pyr_scheduler_fork_child(session->scheduler);
    pyr_lock_fork_child(&session->gather);
    pyr_termination_release(&session->signals_held);
}
