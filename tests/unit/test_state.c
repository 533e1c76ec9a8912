/* Unit tests of collect/state: one row an evidence, and the word for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collect/state.h"

enum { GIL_FROM = 0x1000, GIL_TO = 0x1100, FRAMES = 4 };

static pyr_task_wait answer;
static uintptr_t answered_futex;
static unsigned questions;

static pyr_task_wait ask(pyr_task_files *files, int64_t task, uintptr_t *futex)
{
    assert_null(files);
    assert_int_equal(task, 77);
    questions++;
    *futex = answered_futex;
    return answer;
}

/* A thread in a C function (NULL: in none) under Python frames "function file", leaf first. */
typedef struct sight {
    const char *native;
    struct {
        const char *function, *file;
    } frames[FRAMES];
    bool holds_gil, gil_requested, gil_free;
    pyr_site_kind leaf;
    bool moved, busy, may_ask, gil_unknown;
    pyr_task_wait answer;
    uintptr_t futex;
    bool told; /* the system tells of the CPU: `cpu`; else the rest has to do */
    pyr_cpu_wait cpu;
} sight;

static pyr_state_verdict judge(const sight *seen)
{
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_thread_ref ref = {.native_id = 77};
    pyr_frame frames[FRAMES + 1];
    uint32_t count = 0;
    if (seen->native) {
        frames[count++].function =
            pyr_symbols_function(symbols, seen->native, strlen(seen->native), "<native>", 8, 0);
    }
    for (int i = 0; i < FRAMES && seen->frames[i].function; i++) {
        const char *function = seen->frames[i].function, *file = seen->frames[i].file;
        frames[count++].function =
            pyr_symbols_function(symbols, function, strlen(function), file, strlen(file), 1);
    }
    pyr_visit visit = {.ref = &ref,
                       .frames = frames,
                       .count = count,
                       .holds_gil = seen->holds_gil,
                       .gil_free = seen->gil_free,
                       .gil_requested = seen->gil_requested,
                       .leaf_kind = seen->leaf,
                       .native = seen->native};
    pyr_state_evidence evidence = {.visit = &visit,
                                   .symbols = symbols,
                                   .moved = seen->moved,
                                   .busy = seen->busy,
                                   .cpu = seen->told ? seen->cpu : PYR_CPU_WAIT_UNSURE,
                                   .believe = !seen->told,
                                   .may_ask = seen->may_ask,
                                   .ask = ask,
                                   .gil_waits_from = seen->gil_unknown ? 0 : GIL_FROM,
                                   .gil_waits_to = seen->gil_unknown ? 0 : GIL_TO};
    answer = seen->answer;
    answered_futex = seen->futex;
    questions = 0;
    pyr_state_verdict verdict = pyr_state_judge(&evidence);
    assert_int_equal(questions, verdict.asked);
    assert_true(questions == 0 || seen->may_ask);
    pyr_symbols_release(symbols);
    return verdict;
}

typedef struct row {
    sight seen;
    pyr_state state;
    bool spends, settled, asked;
} row;

static void assert_rows(const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pyr_state_verdict verdict = judge(&rows[i].seen);
        if (verdict.state != rows[i].state || verdict.spends != rows[i].spends ||
            verdict.settled != rows[i].settled || verdict.asked != rows[i].asked) {
            fail_msg("row %zu: %s%s%s%s", i, pyr_state_name(verdict.state),
                     verdict.spends ? ", spends" : "", verdict.settled ? ", settled" : "",
                     verdict.asked ? ", asked" : "");
        }
    }
}

#define WORK                                                                                       \
    {                                                                                              \
        {                                                                                          \
            "work", "/app/main.py"                                                                 \
        }                                                                                          \
    }

static void test_gil(void **state)
{
    (void)state;
    const row rows[] = {
        /* Who holds the GIL runs, whatever the call is called. */
        {{.holds_gil = true, .frames = WORK}, PYR_STATE_ON_CPU, true, false, false},
        {{.holds_gil = true, .native = "time.sleep", .frames = WORK, .may_ask = true},
         PYR_STATE_ON_CPU,
         true,
         false,
         false},
        {{.holds_gil = true, .gil_requested = true}, PYR_STATE_ON_CPU, true, false, false},
        /* 3.15 says that it waits; else: bytecode, and no GIL to run it. */
        {{.gil_requested = true, .native = "time.sleep", .may_ask = true},
         PYR_STATE_GIL_WAIT,
         false,
         false,
         false},
        {{.frames = WORK, .leaf = PYR_SITE_NONE, .may_ask = true},
         PYR_STATE_GIL_WAIT,
         false,
         false,
         false},
        {{.frames = WORK, .leaf = PYR_SITE_NONE, .moved = true, .busy = true},
         PYR_STATE_GIL_WAIT,
         false,
         false,
         false},
        /* ... but not where no GIL is known, and not without a frame. */
        {{.frames = WORK, .leaf = PYR_SITE_NONE, .gil_unknown = true},
         PYR_STATE_OTHER,
         false,
         false,
         false},
        {{.leaf = PYR_SITE_NONE}, PYR_STATE_OTHER, false, false, false},
        /* The kernel: it sleeps on the GIL's own words. */
        {{.frames = WORK,
          .leaf = PYR_SITE_CALL,
          .may_ask = true,
          .answer = PYR_TASK_FUTEX,
          .futex = GIL_FROM},
         PYR_STATE_GIL_WAIT,
         false,
         false,
         true},
        {{.frames = WORK,
          .leaf = PYR_SITE_CALL,
          .may_ask = true,
          .answer = PYR_TASK_FUTEX,
          .futex = GIL_TO - 1,
          .native = "time.sleep",
          .moved = true},
         PYR_STATE_GIL_WAIT,
         false,
         false,
         true},
        {{.frames = WORK,
          .leaf = PYR_SITE_CALL,
          .may_ask = true,
          .answer = PYR_TASK_FUTEX,
          .futex = GIL_TO},
         PYR_STATE_LOCK_WAIT,
         false,
         true,
         true},
        {{.frames = WORK,
          .leaf = PYR_SITE_CALL,
          .may_ask = true,
          .answer = PYR_TASK_FUTEX,
          .futex = 0,
          .gil_unknown = true},
         PYR_STATE_LOCK_WAIT,
         false,
         true,
         true},
    };
    assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void test_named_waits(void **state)
{
    (void)state;
    const struct {
        const char *native;
        pyr_state state;
    } names[] = {
        {"time.sleep", PYR_STATE_SLEEP},
        {"signal.sigwaitinfo", PYR_STATE_SLEEP},
        {"_thread.lock.acquire", PYR_STATE_LOCK_WAIT},
        {"_thread.lock.__enter__", PYR_STATE_LOCK_WAIT},
        {"_thread.RLock.acquire", PYR_STATE_LOCK_WAIT},
        {"_socket.socket.recv", PYR_STATE_IO},
        {"_socket.socket.accept", PYR_STATE_PARKED},
        {"select.epoll.poll", PYR_STATE_IO},
        {"posix.read", PYR_STATE_IO},
        {"posix.readv", PYR_STATE_OTHER}, /* no pattern */
        {"posix.waitpid", PYR_STATE_IO},
        {"_queue.SimpleQueue.get", PYR_STATE_PARKED},
        {"time.sleepy", PYR_STATE_OTHER},
        {"math.gcd", PYR_STATE_OTHER},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        /* A clock that stands still proves the wait; so does a GIL that is free. */
        bool waits = names[i].state != PYR_STATE_OTHER;
        const row rows[] = {
            {{.native = names[i].native, .frames = WORK, .leaf = PYR_SITE_CALL},
             names[i].state,
             false,
             waits,
             false},
            {{.native = names[i].native,
              .frames = WORK,
              .leaf = PYR_SITE_CALL,
              .moved = true,
              .gil_free = true},
             names[i].state,
             false,
             waits,
             false},
            /* Moved, and nobody to ask: what the call says, but not settled. */
            {{.native = names[i].native, .frames = WORK, .leaf = PYR_SITE_CALL, .moved = true},
             names[i].state,
             false,
             false,
             false},
        };
        assert_rows(rows, sizeof rows / sizeof rows[0]);
    }
}

static void test_kernel(void **state)
{
    (void)state;
    const sight call = {.frames = WORK, .leaf = PYR_SITE_CALL, .may_ask = true};
    const struct {
        pyr_task_wait answer;
        const char *native;
        bool moved, busy;
        pyr_state state;
        bool spends, settled;
    } table[] = {
        /* C code that gave the GIL away and runs. */
        {PYR_TASK_RUNNING, NULL, false, false, PYR_STATE_ON_CPU, true, false},
        {PYR_TASK_RUNNING, "zlib.compress", true, true, PYR_STATE_ON_CPU, true, false},
        /* Just woken: it waits for a CPU where it used none. */
        {PYR_TASK_RUNNING, "time.sleep", true, false, PYR_STATE_RUNNABLE, false, false},
        {PYR_TASK_RUNNING, "time.sleep", true, true, PYR_STATE_RUNNABLE, false, false},
        {PYR_TASK_RUNNING, "posix.read", true, false, PYR_STATE_RUNNABLE, false, false},
        {PYR_TASK_RUNNING, "posix.read", true, true, PYR_STATE_ON_CPU, true, false},
        /* Blocked: a call of the table knows better why. */
        {PYR_TASK_FUTEX, NULL, false, false, PYR_STATE_LOCK_WAIT, false, true},
        {PYR_TASK_FUTEX, "_queue.SimpleQueue.get", true, false, PYR_STATE_PARKED, false, true},
        {PYR_TASK_SLEEP, "math.gcd", false, false, PYR_STATE_SLEEP, false, true},
        {PYR_TASK_SLEEP, "posix.read", true, false, PYR_STATE_IO, false, true},
        {PYR_TASK_IO, NULL, true, false, PYR_STATE_IO, false, true},
        {PYR_TASK_IO, "time.sleep", true, false, PYR_STATE_SLEEP, false, true},
        /* A call without a class, or no answer: the clock tells. */
        {PYR_TASK_UNKNOWN, NULL, false, false, PYR_STATE_OTHER, false, true},
        {PYR_TASK_UNKNOWN, NULL, true, false, PYR_STATE_OTHER, false, true},
        {PYR_TASK_UNKNOWN, "zlib.compress", true, true, PYR_STATE_ON_CPU, true, false},
        {PYR_TASK_UNKNOWN, "posix.write", true, true, PYR_STATE_ON_CPU, true, false},
        {PYR_TASK_UNKNOWN, "time.sleep", true, false, PYR_STATE_SLEEP, false, true},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        row one = {call, table[i].state, table[i].spends, table[i].settled, true};
        one.seen.answer = table[i].answer;
        one.seen.native = table[i].native;
        one.seen.moved = table[i].moved;
        one.seen.busy = table[i].busy;
        pyr_state_verdict verdict = judge(&one.seen);
        if (verdict.state != one.state || verdict.spends != one.spends ||
            verdict.settled != one.settled || !verdict.asked) {
            fail_msg("row %zu: %s%s%s", i, pyr_state_name(verdict.state),
                     verdict.spends ? ", spends" : "", verdict.settled ? ", settled" : "");
        }
    }
}

/* Nobody to ask: a clock that advanced by half of the time says that it runs. */
static void test_unasked(void **state)
{
    (void)state;
    const row rows[] = {
        {{.frames = WORK, .leaf = PYR_SITE_CALL, .moved = true, .busy = true},
         PYR_STATE_ON_CPU,
         true,
         false,
         false},
        {{.frames = WORK, .leaf = PYR_SITE_CALL, .moved = true},
         PYR_STATE_OTHER,
         false,
         false,
         false},
        {{.frames = WORK, .leaf = PYR_SITE_CALL}, PYR_STATE_OTHER, false, false, false},
        {{.frames = WORK,
          .leaf = PYR_SITE_OTHER,
          .moved = true,
          .busy = true,
          .native = "zlib.compress"},
         PYR_STATE_ON_CPU,
         true,
         false,
         false},
    };
    assert_rows(rows, sizeof rows / sizeof rows[0]);
}

/* CPU is put only where a thread has one, in system calls too. */
static void test_cpu(void **state)
{
    (void)state;
    const pyr_cpu_wait runs = PYR_CPU_WAIT_NO, waits = PYR_CPU_WAIT_YES;
    const row rows[] = {
        {{.frames = WORK, .holds_gil = true, .told = true, .cpu = runs},
         PYR_STATE_ON_CPU,
         true,
         false,
         false},
        {{.frames = WORK, .holds_gil = true, .told = true, .cpu = waits},
         PYR_STATE_RUNNABLE,
         false,
         false,
         false},
        {{.frames = WORK, .holds_gil = true, .told = true, .cpu = PYR_CPU_WAIT_PARTLY},
         PYR_STATE_RUNNABLE,
         false,
         false,
         false},
        {{.frames = WORK, .holds_gil = true, .told = true, .cpu = PYR_CPU_WAIT_UNSURE},
         PYR_STATE_ON_CPU,
         false,
         false,
         false},
        {{.native = "_socket.socket.send",
          .frames = WORK,
          .leaf = PYR_SITE_CALL,
          .moved = true,
          .gil_free = true,
          .told = true,
          .cpu = runs},
         PYR_STATE_ON_CPU,
         true,
         false,
         false},
        {{.native = "_socket.socket.send",
          .frames = WORK,
          .leaf = PYR_SITE_CALL,
          .moved = true,
          .gil_free = true,
          .told = true,
          .cpu = waits},
         PYR_STATE_IO,
         false,
         true,
         false},
        {{.native = "time.sleep",
          .frames = WORK,
          .leaf = PYR_SITE_CALL,
          .moved = true,
          .may_ask = true,
          .answer = PYR_TASK_RUNNING,
          .told = true,
          .cpu = waits},
         PYR_STATE_RUNNABLE,
         false,
         false,
         true},
    };
    assert_rows(rows, sizeof rows / sizeof rows[0]);
}

/* Waits for work: by the Python functions around them. */
static void test_parked(void **state)
{
    (void)state;
    const char *const lock = "_thread.lock.acquire", *const poll = "select.epoll.poll";
    const row rows[] = {
        {{.native = lock, .frames = {{"Condition.wait", "/usr/lib/python3/threading.py"}}},
         PYR_STATE_PARKED,
         false,
         true,
         false},
        {{.native = lock,
          .frames = {{"Event.wait", "/x/threading.py"}, {"Condition.wait", "/x/threading.py"}}},
         PYR_STATE_PARKED,
         false,
         true,
         false}, /* the second frame counts too */
        {{.native = lock,
          .frames = {{"a", "/a.py"}, {"b", "/b.py"}, {"Condition.wait", "/x/threading.py"}}},
         PYR_STATE_LOCK_WAIT,
         false,
         true,
         false}, /* too far away */
        {{.native = lock, .frames = {{"Condition.wait", "/app/my_threading.py"}}},
         PYR_STATE_LOCK_WAIT,
         false,
         true,
         false}, /* another file */
        {{.native = lock, .frames = {{"Condition.waits", "/x/threading.py"}}},
         PYR_STATE_LOCK_WAIT,
         false,
         true,
         false},
        {{.native = lock, .frames = {{"Condition.wait", "ng.py"}}},
         PYR_STATE_LOCK_WAIT,
         false,
         true,
         false}, /* a file shorter than what it should end in */
        /* A selector only where it waits for work. */
        {{.native = poll,
          .frames = {{"EpollSelector.select", "/x/selectors.py"},
                     {"BaseEventLoop._run_once", "/x/asyncio/base_events.py"}}},
         PYR_STATE_PARKED,
         false,
         true,
         false},
        {{.native = poll,
          .frames = {{"EpollSelector.select", "/x/selectors.py"}, {"fetch", "/app/client.py"}}},
         PYR_STATE_IO,
         false,
         true,
         false},
        {{.native = poll,
          .frames = {{"EpollSelector.select", "/x/selectors.py"},
                     {"a", "/a.py"},
                     {"BaseServer.serve_forever", "/x/socketserver.py"}}},
         PYR_STATE_PARKED,
         false,
         true,
         false},
        /* The kernel's word is refined alike. */
        {{.frames = {{"Thread.join", "/x/threading.py"}},
          .leaf = PYR_SITE_CALL,
          .may_ask = true,
          .answer = PYR_TASK_FUTEX},
         PYR_STATE_PARKED,
         false,
         true,
         true},
        /* Running is no wait. */
        {{.frames = {{"Thread.join", "/x/threading.py"}},
          .leaf = PYR_SITE_CALL,
          .may_ask = true,
          .answer = PYR_TASK_RUNNING},
         PYR_STATE_ON_CPU,
         true,
         false,
         true},
    };
    row with_leaf[sizeof rows / sizeof rows[0]];
    memcpy(with_leaf, rows, sizeof rows);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        with_leaf[i].seen.leaf = PYR_SITE_CALL;
    }
    assert_rows(with_leaf, sizeof rows / sizeof rows[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gil),    cmocka_unit_test(test_named_waits),
        cmocka_unit_test(test_kernel), cmocka_unit_test(test_unasked),
        cmocka_unit_test(test_cpu),    cmocka_unit_test(test_parked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
