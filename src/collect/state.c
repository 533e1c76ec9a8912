/* States of threads; see the header. Any thread; no state of its own.
 *
 * The tables hold what cannot be seen from outside: that a C function waits, and for what. A wait
 * for the GIL looks like the call that needs it, so a thread whose clock moved is asked about.
 */
#include "collect/state.h"

#include <string.h>

static const struct {
    const char *name; /* of the C function; a trailing '*' matches the rest */
    pyr_state state;
} natives[] = {
    {"_thread.lock.*", PYR_STATE_LOCK_WAIT},
    {"_thread.RLock.*", PYR_STATE_LOCK_WAIT},
    {"_multiprocessing.SemLock.*", PYR_STATE_LOCK_WAIT},
    {"_thread._ThreadHandle.join", PYR_STATE_PARKED},
    {"_queue.SimpleQueue.get", PYR_STATE_PARKED},
    {"time.sleep", PYR_STATE_SLEEP},
    {"signal.pause", PYR_STATE_SLEEP},
    {"signal.sigwait*", PYR_STATE_SLEEP},
    {"signal.sigtimedwait", PYR_STATE_SLEEP},
    {"_socket.socket.accept", PYR_STATE_PARKED},
    {"_socket.socket._accept", PYR_STATE_PARKED},
    {"_socket.*", PYR_STATE_IO},
    {"socket.accept", PYR_STATE_PARKED},
    {"socket._accept", PYR_STATE_PARKED},
    {"socket.*", PYR_STATE_IO},
    {"_ssl.*", PYR_STATE_IO},
    {"select.*", PYR_STATE_IO},
    {"posix.read", PYR_STATE_IO},
    {"posix.write", PYR_STATE_IO},
    {"posix.pread", PYR_STATE_IO},
    {"posix.pwrite", PYR_STATE_IO},
    {"posix.open", PYR_STATE_IO},
    {"posix.fsync", PYR_STATE_IO},
    {"posix.fdatasync", PYR_STATE_IO},
    {"posix.wait*", PYR_STATE_IO},
    {"posix.sendfile", PYR_STATE_IO},
    {"fcntl.*", PYR_STATE_IO},
};

/* Python functions in which a wait means: nothing to do. File by its end. */
static const struct {
    const char *function, *file;
} parks[] = {
    {"Condition.wait", "/threading.py"},       {"Thread._wait_for_tstate_lock", "/threading.py"},
    {"Thread.join", "/threading.py"},          {"SelectSelector.select", "/selectors.py"},
    {"PollSelector.select", "/selectors.py"},  {"_PollLikeSelector.select", "/selectors.py"},
    {"EpollSelector.select", "/selectors.py"}, {"SelectSelector._select", "/selectors.py"},
};

/* A selector is also how one waits for one socket; only these callers wait for work. */
static const struct {
    const char *function, *file;
} select_parks[] = {
    {"BaseEventLoop._run_once", "/base_events.py"},
    {"BaseServer.serve_forever", "/socketserver.py"},
};

static bool matches(const char *pattern, const char *name)
{
    size_t length = strlen(pattern);
    if (length > 0 && pattern[length - 1] == '*') {
        return strncmp(pattern, name, length - 1) == 0;
    }
    return strcmp(pattern, name) == 0;
}

static bool is_function(const pyr_symbols *symbols, pyr_frame frame, const char *name,
                        const char *file_end)
{
    pyr_function function = pyr_symbols_get(symbols, frame.function);
    if (strcmp(pyr_symbols_text(symbols, function.name, NULL), name) != 0) {
        return false;
    }
    size_t length, end = strlen(file_end);
    const char *file = pyr_symbols_text(symbols, function.file, &length);
    return length >= end && memcmp(file + length - end, file_end, end) == 0;
}

static bool waits_for_work(const pyr_symbols *symbols, const pyr_visit *visit)
{
    uint32_t first = visit->native ? 1 : 0;
    for (uint32_t i = first; i < visit->count && i < first + 2; i++) {
        for (size_t row = 0; row < sizeof parks / sizeof parks[0]; row++) {
            if (!is_function(symbols, visit->frames[i], parks[row].function, parks[row].file)) {
                continue;
            }
            if (strcmp(parks[row].file, "/selectors.py") != 0) {
                return true;
            }
            for (size_t caller = 0; caller < sizeof select_parks / sizeof select_parks[0];
                 caller++) {
                for (uint32_t up = i + 1; up < visit->count && up <= i + 2; up++) {
                    if (is_function(symbols, visit->frames[up], select_parks[caller].function,
                                    select_parks[caller].file)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}

/* The state that the C function tells, or PYR_STATE_OTHER. */
static pyr_state named_state(const pyr_state_evidence *evidence)
{
    const pyr_visit *visit = evidence->visit;
    if (visit->native) {
        for (size_t i = 0; i < sizeof natives / sizeof natives[0]; i++) {
            if (matches(natives[i].name, visit->native)) {
                return natives[i].state;
            }
        }
    }
    return PYR_STATE_OTHER;
}

static bool is_wait(pyr_state state)
{
    return state == PYR_STATE_LOCK_WAIT || state == PYR_STATE_IO || state == PYR_STATE_SLEEP ||
           state == PYR_STATE_PARKED;
}

/* The verdict on a thread that is able to run: it does, or it waits for a CPU. `named` and `busy`
 * decide only where the system does not tell. */
static pyr_state_verdict running(const pyr_state_evidence *evidence, pyr_state named, bool busy)
{
    switch (evidence->cpu) {
    case PYR_CPU_WAIT_NO:
        return (pyr_state_verdict){.state = PYR_STATE_ON_CPU, .spends = true};
    case PYR_CPU_WAIT_YES:
    case PYR_CPU_WAIT_PARTLY:
        return (pyr_state_verdict){.state = PYR_STATE_RUNNABLE};
    case PYR_CPU_WAIT_UNSURE:
        break;
    }
    /* A thread that was just woken waits for a CPU inside the call that it waited in, and uses
     * none there. A sleep or a lock never does; reading or writing much may. */
    bool waits = is_wait(named) && !(named == PYR_STATE_IO && busy);
    return (pyr_state_verdict){.state = waits ? PYR_STATE_RUNNABLE : PYR_STATE_ON_CPU,
                               .spends = !waits && evidence->believe};
}

pyr_state_verdict pyr_state_judge(const pyr_state_evidence *evidence)
{
    const pyr_visit *visit = evidence->visit;
    pyr_state_verdict verdict = {.state = PYR_STATE_OTHER};
    if (visit->holds_gil) {
        return running(evidence, PYR_STATE_OTHER, true);
    }
    if (visit->gil_requested) {
        verdict.state = PYR_STATE_GIL_WAIT;
        return verdict;
    }
    bool gil_known = evidence->gil_waits_from != evidence->gil_waits_to;
    if (visit->count > 0 && visit->leaf_kind == PYR_SITE_NONE && gil_known) {
        /* Nothing but bytecode to run, and no GIL to run it with. */
        verdict.state = PYR_STATE_GIL_WAIT;
        return verdict;
    }
    if (evidence->goes_on) {
        verdict.state = PYR_STATE_GIL_WAIT;
        return verdict;
    }
    if (evidence->cpu == PYR_CPU_WAIT_NO) { /* C code or a system call, without the GIL */
        return running(evidence, PYR_STATE_OTHER, true);
    }
    pyr_state named = named_state(evidence);
    if (is_wait(named) && (!evidence->moved || visit->gil_free)) {
        /* It stood still, or there is no GIL to wait for: it waits for what its call says. */
        verdict.state = named;
        verdict.settled = true;
    } else if (evidence->may_ask) {
        uintptr_t futex;
        switch (evidence->ask(evidence->files, (int64_t)visit->ref->native_id, &futex)) {
        case PYR_TASK_RUNNING:
            verdict = running(evidence, named, evidence->busy);
            verdict.asked = true;
            return verdict;
        case PYR_TASK_FUTEX:
            if (futex >= evidence->gil_waits_from && futex < evidence->gil_waits_to) {
                verdict.state = PYR_STATE_GIL_WAIT;
                verdict.asked = true;
                return verdict;
            }
            verdict.state = is_wait(named) ? named : PYR_STATE_LOCK_WAIT;
            break;
        case PYR_TASK_SLEEP:
            verdict.state = is_wait(named) ? named : PYR_STATE_SLEEP;
            break;
        case PYR_TASK_IO:
            verdict.state = is_wait(named) ? named : PYR_STATE_IO;
            break;
        case PYR_TASK_UNKNOWN:
            if (evidence->busy) { /* not every kernel answers: then the clock does */
                verdict = running(evidence, named, true);
                verdict.asked = true;
                return verdict;
            }
            verdict.state = is_wait(named) ? named : PYR_STATE_OTHER;
            break;
        }
        verdict.settled = true;
        verdict.asked = true;
    } else if (is_wait(named)) {
        verdict.state = named;
    } else if (evidence->busy) {
        verdict = running(evidence, named, true); /* C code that gave the GIL away and computes */
    }
    if (is_wait(verdict.state) && waits_for_work(evidence->symbols, visit)) {
        verdict.state = PYR_STATE_PARKED;
    }
    return verdict;
}
