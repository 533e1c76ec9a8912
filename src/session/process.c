/* The state machine of the process: stopped or running, and a fork in between.
 *
 * Owns the running session. The child of a fork starts a little later than it is born, see
 * late_start.h; whoever asks for anything before that has it started at once. `lock` is held for
 * the few milliseconds of a start, and around a fork; never while something is delivered, so that a
 * fork never waits for a disk or a network.
 */
#include "session/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "os/os.h"
#include "os/task.h"
#include "session/control.h"
#include "session/late_start.h"
#include "session/share.h"
#include "session/termination.h"

enum { LINE_BYTES = 1024, LINGER_NS = 1000000, PAUSE_NS = 20000 };

enum { LAST_FLUSH_NS = 1000000000 }; /* longest delay of an end by C code */
enum { LATE_THREAD_NS = 20000000 };  /* longest wait for the thread of a late start */
enum { LEAVING_NS = 20000000 };      /* longest wait for the hooks that are in a session */
enum { MOST_RETIRED = 8 };           /* more are not freed at all */
enum { ENDING_NS = 200000000 };      /* how long a thread that ended may be counted, at most */

static struct {
    pyr_lock lock;
    pyr_session *running; /* guarded by lock; NULL = stopped */
    pyr_session *parents; /* guarded by lock; in the child of a fork, until resumed */
    pyr_host host;        /* guarded by lock; of the last start */
    bool watching_forks;  /* guarded by lock */
    bool paused;          /* guarded by lock: the running session, around a fork */
    bool late_paused;     /* guarded by lock: the late start, around a fork */
    bool control_paused;  /* guarded by lock: the door (control.h), around a fork */
    bool control_due;     /* guarded by lock: a child whose parent had a door and nothing else */
    bool is_child;        /* of a fork; written in its only thread */
    pyr_birth birth;      /* guarded by lock: of a child; its parent stands in `parents` */

    /* Guarded by lock: sessions that are stopped, and that somebody was still in. */
    pyr_session *retired[MOST_RETIRED];

    /* Guarded by lock: a start that PROCESS_PCT left out, for the children of the process, each of
     * which draws its own lot. */
    pyr_settings left_out;
    int64_t left_out_pid; /* 0 = none */

    /* What a signal may still flush: the running session, and one that is being stopped. */
    _Atomic(pyr_session *) deliverer;
    _Atomic int64_t deliverer_pid;
    _Atomic uint32_t users; /* threads and signal handlers that use a session without the lock */
} process = {.lock = PYR_LOCK_INIT(PYR_LOCK_SESSION)};

/* -------------------------------------------------------------------------------------- fork */

static void prefork(void)
{
    pyr_lock_acquire(&process.lock);
    if (process.running != NULL) {
        pyr_session_prefork(process.running);
    }
}

static void postfork_parent(void)
{
    if (process.running != NULL) {
        pyr_session_postfork_parent(process.running);
    }
    pyr_lock_release(&process.lock);
}

static void postfork_child(void)
{
    atomic_store(&process.deliverer, NULL);
    atomic_store(&process.users, 0); /* those threads are the parent's */
    pyr_log_fork_child();
    pyr_late_start_fork_child();
    process.late_paused = false;
    process.control_due =
        process.running == NULL && (pyr_control_is_on() || process.control_paused);
    process.control_paused = false;
    pyr_control_fork_child();
    process.is_child = true;
    memset(process.retired, 0, sizeof process.retired); /* their pages are the parent's for good */
    process.birth = (pyr_birth){0};
    if (process.running != NULL) {
        pyr_session_postfork_child(process.running);
        process.parents = process.running;
        process.running = NULL;
        process.paused = false;
    }
    pyr_lock_fork_child(&process.lock);
    if (process.host.adopt_fork != NULL) {
        process.host.adopt_fork();
        pyr_process_resume(); /* nobody else will call it */
    }
}

/* ------------------------------------------------------------------------------------- start */

static void forget_left_out(void)
{
    if (process.left_out_pid != 0) {
        pyr_settings_fini(&process.left_out);
        process.left_out_pid = 0;
    }
}

static void explain_left_out(const pyr_settings *settings, char *why, size_t why_size)
{
    snprintf(why, why_size,
             "this process is not in the share of %g %% that is profiled (PYROMETER_PROCESS_PCT)",
             pyr_settings_real(settings, PYR_SETTING_PROCESS_PCT));
}

/* With the lock held: frees what nobody is in any more. Between two sessions no hook gets in. */
static void free_retired(void)
{
    for (size_t index = 0; index < MOST_RETIRED && atomic_load(&process.users) == 0; index++) {
        if (pyr_session_free(process.retired[index])) {
            process.retired[index] = NULL;
        }
    }
}

/* With the lock held. Hooks never wait, but a thread in one may not get a CPU for long. */
static void retire(pyr_session *session)
{
    size_t index = 0;
    while (index < MOST_RETIRED && process.retired[index] != NULL) {
        index++;
    }
    if (index < MOST_RETIRED) {
        process.retired[index] = session;
    }
}

/* With the lock held: PYR_ELEFTOUT, and the settings are kept; or PYR_OK. */
static pyr_status draw_lot(const pyr_settings *settings, char *why, size_t why_size)
{
    if (pyr_share_includes_this(pyr_settings_real(settings, PYR_SETTING_PROCESS_PCT))) {
        return PYR_OK;
    }
    explain_left_out(settings, why, why_size);
    if (settings != &process.left_out) {
        forget_left_out();
        if (pyr_settings_copy(&process.left_out, settings) != PYR_OK) {
            return PYR_ELEFTOUT; /* its children will not be profiled either */
        }
    }
    process.left_out_pid = getpid();
    return PYR_ELEFTOUT;
}

/* With the lock held. */
static pyr_status start(const pyr_settings *settings, const pyr_session *parent, char *why,
                        size_t why_size)
{
    pyr_session *session = NULL;
    pyr_status status = draw_lot(settings, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    free_retired();
    process.birth.parent = parent;
    if (pyr_settings_bool(settings, PYR_SETTING_CONTROL_ENABLED)) {
        pyr_local_make_room(); /* before there are threads of ours */
    }
    status = pyr_session_new(settings, &process.host, &process.birth, &session, why, why_size);
    process.birth = (pyr_birth){0}; /* the next one begins in the middle of a life */
    if (status != PYR_OK) {
        return status;
    }
    status = pyr_session_start(session, why, why_size);
    if (status != PYR_OK) {
        if (!pyr_session_free(session)) {
            retire(session);
        }
        return status;
    }
    forget_left_out();
    process.running = session;
    atomic_store(&process.deliverer_pid, getpid());
    atomic_store(&process.deliverer, session);
    pyr_termination_install();
    if (pyr_settings_bool(settings, PYR_SETTING_CONTROL_ENABLED)) {
        (void)!pyr_control_start(process.host.control); /* status() tells where there is none */
    }
    return PYR_OK;
}

/* With the lock held: it is the child of a fork whose parent was profiled (or left out), and not
 * started yet. */
static bool is_waiting_child(void)
{
    return process.parents != NULL ||
           (process.left_out_pid != 0 && process.left_out_pid != getpid());
}

/* With the lock held: starts the child of a fork, if that was not done yet. */
static void resume(void)
{
    if (!is_waiting_child()) {
        return;
    }
    char why[LINE_BYTES];
    pyr_session *parent = process.parents;
    process.parents = NULL;
    pyr_late_start_cancel(); /* from its own thread, too */
    pyr_status status = start(parent != NULL ? pyr_session_settings(parent) : &process.left_out,
                              parent, why, sizeof why);
    process.host.announce_start();
    if (status != PYR_OK && status != PYR_ELEFTOUT) {
        forget_left_out(); /* else every call would try again */
    }
    if (status != PYR_OK) {
        pyr_log_add(status == PYR_ELEFTOUT ? PYR_LOG_INFO : PYR_LOG_WARNING,
                    "the child process %d is not profiled: %s", (int)getpid(), why);
    }
    if (!pyr_session_free(parent)) {
        retire(parent);
    }
}

/* On the thread of the late start. */
static void resume_late(void)
{
    pyr_lock_acquire(&process.lock);
    resume();
    void (*announce)(void) = process.host.announce_lines;
    pyr_lock_release(&process.lock);
    if (pyr_log_waiting()) {
        announce();
    }
}

/* With the lock held. */
static void plan_resume(void)
{
    if (is_waiting_child() && !pyr_late_start_has_thread() &&
        pyr_late_start_plan(resume_late) != PYR_OK) {
        resume(); /* which says what is wrong */
    }
}

void pyr_process_resume(void)
{
    pyr_lock_acquire(&process.lock);
    process.birth.since_fork = is_waiting_child();
    plan_resume();
    if (process.control_due) { /* stopped as its parent, and can be started as that */
        process.control_due = false;
        (void)!pyr_control_start(process.host.control);
    }
    pyr_lock_release(&process.lock);
}

/* When C code ends the program by exit(), Python's atexit does not run, or not always: uWSGI leaves
 * it out for a worker that is busy, and calls exit() within a handler of a signal. So this waits
 * and locks no more than a handler may. After a stop there is nothing left to do. */
static void flush_at_exit(void)
{
    pyr_process_flush_from_signal(pyr_clock_monotonic_ns() + LAST_FLUSH_NS);
}

pyr_status pyr_process_start(const pyr_settings *settings, const pyr_host *host, char *line,
                             size_t line_size)
{
    pyr_status status = PYR_OK;
    pyr_lock_acquire(&process.lock);
    resume();
    if (process.running != NULL) {
        snprintf(line, line_size, "the profiler runs already in this process");
        status = PYR_EEXIST;
        goto out;
    }
    if (!process.watching_forks) {
        if (pthread_atfork(prefork, postfork_parent, postfork_child) != 0 ||
            atexit(flush_at_exit) != 0) {
            snprintf(line, line_size, "out of memory");
            status = PYR_ENOMEM;
            goto out;
        }
        process.watching_forks = true;
    }
    process.host = *host;
    status = start(settings, NULL, line, line_size);
    if (status == PYR_OK) {
        pyr_session_describe(process.running, line, line_size);
    }
out:
    pyr_lock_release(&process.lock);
    return status;
}

/* ------------------------------------------------------------------------------------- pause */

/* How many tasks there are, once those are gone that have just ended: waits for more than `most`
 * to become fewer as long as a thread of ours may be among them. */
static uint64_t settled_tasks(uint64_t most)
{
    uint64_t count = pyr_os_task_count();
    while (count > most && pyr_clock_monotonic_ns() - pyr_os_thread_last_end_ns() <= ENDING_NS) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        count = pyr_os_task_count();
    }
    return count;
}

void pyr_process_pause(void)
{
    pyr_lock_acquire(&process.lock);
    size_t late = pyr_late_start_has_thread();
    size_t control = pyr_control_is_on();
    size_t ours =
        late + control + (process.running != NULL ? pyr_session_threads(process.running) : 0);
    bool alone = ours > 0 && settled_tasks(1 + ours) == 1 + ours;
    if (alone && late > 0) {
        pyr_late_start_cancel();
        process.late_paused = is_waiting_child();
    }
    if (alone && process.running != NULL) {
        process.paused = pyr_session_pause(process.running);
    }
    alone = alone && (process.running == NULL || process.paused);
    process.control_paused = alone && control > 0;
    pyr_lock_release(&process.lock);
    if (alone && control > 0) {
        pyr_control_stop(); /* without the lock, which its thread may be waiting for */
    }
    if (alone && late > 0) {
        pyr_late_start_wait(pyr_clock_monotonic_ns() + LATE_THREAD_NS);
    }
    if (alone || ours == 0) { /* none is left, but the last may be counted still */
        (void)settled_tasks(1);
    }
}

void pyr_process_unpause(void)
{
    char why[LINE_BYTES];
    pyr_lock_acquire(&process.lock);
    if (process.paused) {
        process.paused = false;
        if (pyr_session_start(process.running, why, sizeof why) != PYR_OK) {
            pyr_log_add(PYR_LOG_WARNING, "pyrometer is off after a fork: %s", why);
        }
    }
    if (process.control_paused) {
        process.control_paused = false;
        (void)!pyr_control_start(process.host.control);
    }
    if (process.late_paused) {
        process.late_paused = false;
        plan_resume();
    }
    pyr_lock_release(&process.lock);
}

/* -------------------------------------------------------------------------------------- stop */

/* Waits until nobody uses a session without the lock; false: somebody still does. */
static bool wait_for_users(int64_t deadline_ns)
{
    while (atomic_load(&process.users) > 0) {
        if (pyr_clock_monotonic_ns() >= deadline_ns) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = LINGER_NS}, NULL);
    }
    return true;
}

/* With the lock held: a child that ends as soon as it began is not worth a window of its own. */
static void drop_waiting_child(void)
{
    forget_left_out();
    pyr_late_start_cancel();
    (void)!pyr_session_free(process.parents); /* this process ends */
    process.parents = NULL;
}

void pyr_process_stop(bool flush)
{
    pyr_control_stop();
    pyr_lock_acquire(&process.lock);
    if (flush && process.birth.since_fork && pyr_late_start_is_due()) {
        resume(); /* without the hook that runs after CPython's forks, it is none of ours to tell */
    }
    drop_waiting_child();
    pyr_session *session = process.running;
    process.running = NULL;
    pyr_lock_release(&process.lock);
    pyr_late_start_wait(pyr_clock_monotonic_ns() + LATE_THREAD_NS);
    if (session == NULL) {
        return;
    }
    int64_t deadline_ns =
        pyr_clock_monotonic_ns() +
        pyr_settings_integer(pyr_session_settings(session), PYR_SETTING_EXIT_TIMEOUT);
    pyr_session_stop(session, flush, deadline_ns);
    /* Another thread may have started the next session meanwhile: then both belong to it. */
    pyr_session *expected = session;
    if (atomic_compare_exchange_strong(&process.deliverer, &expected, NULL)) {
        pyr_termination_remove();
    }
    bool freed = false;
    if (wait_for_users(deadline_ns + LINGER_NS)) {
        int64_t end_ns = pyr_clock_monotonic_ns() + LEAVING_NS;
        while (!(freed = pyr_session_free(session)) && pyr_clock_monotonic_ns() < end_ns) {
            nanosleep(&(struct timespec){.tv_nsec = LINGER_NS}, NULL);
        }
    }
    pyr_lock_acquire(&process.lock);
    free_retired();
    if (!freed) {
        retire(session);
    }
    pyr_lock_release(&process.lock);
}

void pyr_process_watch_termination(void)
{
    /* Whoever is being stopped meanwhile gives the default back afterwards. */
    if (atomic_load(&process.deliverer) != NULL &&
        atomic_load(&process.deliverer_pid) == getpid()) {
        pyr_termination_install();
    }
}

void pyr_process_end_child(void)
{
    if (!process.is_child) {
        return;
    }
    /* Most children end before they were started: freeing what they have of their parent would only
     * copy its pages. */
    pyr_lock_acquire(&process.lock);
    bool is_over = is_waiting_child() && !(process.birth.since_fork && pyr_late_start_is_due());
    pyr_lock_release(&process.lock);
    if (!is_over) {
        pyr_process_stop(true);
    }
}

pyr_status pyr_process_flush(int64_t timeout_ns)
{
    pyr_status status = PYR_ECLOSED;
    pyr_lock_acquire(&process.lock);
    resume();
    pyr_session *session = process.running;
    atomic_fetch_add(&process.users, 1);
    pyr_lock_release(&process.lock);
    if (session != NULL) {
        status = pyr_session_flush(session, pyr_clock_monotonic_ns() + timeout_ns);
    }
    atomic_fetch_sub(&process.users, 1);
    return status;
}

bool pyr_process_facts(pyr_facts *facts)
{
    pyr_lock_acquire(&process.lock);
    resume();
    bool running = process.running != NULL;
    if (running) {
        pyr_session_facts(process.running, facts);
    } else if (process.left_out_pid != 0) {
        char why[LINE_BYTES];
        explain_left_out(&process.left_out, why, sizeof why);
        pyr_facts_add_text(facts, "process", "left_out", why);
    }
    pyr_facts_add_text(facts, "process", "control", pyr_control_is_on() ? "on" : "off");
    pyr_lock_release(&process.lock);
    return running;
}

bool pyr_process_runtime_id(char id[PYR_LIMIT_RUNTIME_ID])
{
    pyr_lock_acquire(&process.lock);
    const pyr_session *session = process.running != NULL ? process.running : process.parents;
    if (session != NULL) {
        memcpy(id, pyr_session_runtime_id(session), PYR_LIMIT_RUNTIME_ID);
    }
    pyr_lock_release(&process.lock);
    return session != NULL;
}

void pyr_process_flush_from_signal(int64_t deadline_ns)
{
    atomic_fetch_add(&process.users, 1);
    pyr_session *session = atomic_load(&process.deliverer);
    /* A child of vfork shares this memory, but the session is not its own. */
    if (session != NULL && atomic_load(&process.deliverer_pid) == getpid()) {
        pyr_session_flush_from_signal(session, deadline_ns);
    }
    atomic_fetch_sub(&process.users, 1);
}
