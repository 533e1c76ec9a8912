/* The control thread; see the header.
 *
 * Owns the socket and the thread. The thread sleeps in accept; a request is read, checked and
 * answered within bounds of time and size, one at a time. It takes the GIL only in `command`, for
 * what was asked of it by the owner of the process. Who else connects is turned away before a byte
 * of him is read, and the thread then rests for a moment, so that nobody can keep it busy.
 *
 * A program that becomes a daemon closes every descriptor it finds. accept holds the socket even
 * then; afterwards the number may be another file's, which is noticed before it is used
 * (pyr_local_listener_is_open), and a new socket takes the name.
 */
#include "session/control.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "encode/encode.h"
#include "export/address.h"
#include "os/os.h"
#include "session/process.h"
#include "session/settings_sources.h"

enum {
    ANSWER_BYTES = 1 << 18,
    TURN_AWAY_REST_NS = 50000000,
    TALK_NS = 2000000000, /* for one read or write of a request or an answer */
};

static const int64_t FLUSH_NS = 10000000000;
/* Of waiting for the thread's end: while it serves a request, and while it has only to wake up. */
static const int64_t END_NS = 300000000, IDLE_END_NS = 2000000000;

static struct {
    pyr_local_listener listener; /* the thread, and between threads nobody; the child of a fork */
    char name[PYR_LIMIT_SOCKET_NAME];
    pyr_control_command command;
    pthread_t thread;          /* valid while is_on */
    _Atomic bool is_on;        /* a thread listens */
    _Atomic uint32_t stopping; /* futex word: it is to end */
    _Atomic uint32_t ended;    /* futex word: it has ended */
    _Atomic bool abandoned;    /* it was not waited for to the end: there is no other one before */
    _Atomic int connection;    /* being served, -1 = none; the child of a fork closes its copy */
} control = {.listener = {.descriptor = -1}, .connection = -1};

void pyr_control_name(const pyr_local_process *process, char name[PYR_LIMIT_SOCKET_NAME])
{
    snprintf(name, PYR_LIMIT_SOCKET_NAME, "pyrometer/control/%llu/%lld",
             (unsigned long long)process->pid_namespace, (long long)process->pid);
}

/* ---------------------------------------------------------------------------------- requests */

static void answer_error(pyr_facts *answer, const char *text)
{
    pyr_facts_add_integer(answer, "answer", "ok", 0);
    pyr_facts_add_text(answer, "answer", "error", text);
}

/* What cannot be changed while the process lives, and what to do instead. */
static const char *why_fixed(pyr_setting_id id)
{
    switch (id) {
    case PYR_SETTING_ENABLED:
        return "use start and stop";
    case PYR_SETTING_CONFIG_FILE:
    case PYR_SETTING_PROCESS_PCT:
    case PYR_SETTING_SUBPROCESSES:
    case PYR_SETTING_CONTROL_ENABLED:
    case PYR_SETTING_TAKEOVER:
        return "it counts when the process starts";
    default:
        return NULL;
    }
}

/* Whether all addresses in the text are some. */
static bool check_addresses(const char *text, char *why, size_t why_size)
{
    char one[PYR_LIMIT_URL_BYTES + 1];
    pyr_address address;
    size_t length;
    const char *at = pyr_address_next(&text, &length);
    for (; length > 0; at = pyr_address_next(&text, &length)) {
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        pyr_status status = pyr_address_parse(one, &address);
        if (status != PYR_OK) {
            pyr_address_explain(one, status, why, why_size);
            return false;
        }
    }
    return true;
}

bool pyr_control_check(const char *word, char *why, size_t why_size)
{
    char name[64], reason[PYR_CONTROL_ERROR_BYTES] = "";
    size_t length = strcspn(word, "=");
    if (word[length] != '=' || length == 0 || length >= sizeof name) {
        snprintf(why, why_size, "\"%.40s\" is not of the form NAME=VALUE", word);
        return false;
    }
    for (size_t at = 0; at < length; at++) {
        name[at] = (char)(word[at] >= 'a' && word[at] <= 'z' ? word[at] - 'a' + 'A' : word[at]);
    }
    name[length] = '\0';
    int id = pyr_setting_find(name);
    if (id < 0) {
        const char *nearest = pyr_nearest(name, PYR_SETTINGS, pyr_setting_name_at,
                                          pyr_setting_get((pyr_setting_id)0));
        snprintf(why, why_size, "there is no setting %s%s%s%s", name,
                 nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                 nearest != NULL ? "?" : "");
        return false;
    }
    const char *fixed = why_fixed((pyr_setting_id)id);
    if (fixed != NULL) {
        snprintf(why, why_size, "%s cannot be set now: %s", name, fixed);
        return false;
    }
    pyr_setting_value value;
    if (pyr_setting_parse(pyr_setting_get((pyr_setting_id)id), word + length + 1, &value, reason,
                          sizeof reason) != PYR_OK) {
        snprintf(why, why_size, "%s: %s", name, reason);
        return false;
    }
    bool is_address = id == PYR_SETTING_URL || id == PYR_SETTING_INTAKE_URL;
    if (is_address && !check_addresses(word + length + 1, reason, sizeof reason)) {
        snprintf(why, why_size, "%s: %s", name, reason);
        return false;
    }
    return true;
}

static void run_command(const char *const *words, size_t count, pyr_facts *answer)
{
    char error[PYR_CONTROL_ERROR_BYTES] = "";
    bool takes_settings = strcmp(words[0], "stop") != 0;
    if (!takes_settings && count > 1) {
        answer_error(answer, "stop takes nothing more");
        return;
    }
    if (strcmp(words[0], "set") == 0 && count == 1) {
        answer_error(answer, "set takes NAME=VALUE, one or more");
        return;
    }
    for (size_t at = 1; at < count; at++) {
        if (!pyr_control_check(words[at], error, sizeof error)) {
            answer_error(answer, error);
            return;
        }
    }
    if (control.command(words, count, error, sizeof error) == PYR_OK) {
        pyr_facts_add_integer(answer, "answer", "ok", 1);
    } else {
        answer_error(answer, error);
    }
}

static void run_flush(pyr_facts *answer)
{
    pyr_status status = pyr_process_flush(FLUSH_NS);
    if (status == PYR_OK) {
        pyr_facts_add_integer(answer, "answer", "ok", 1);
    } else {
        answer_error(answer, status == PYR_EBUSY
                                 ? "the window is not delivered yet; it is kept and sent later"
                                 : "the profiler is stopped");
    }
}

/* Answers one request. */
static void serve(const char *const *words, size_t count, pyr_facts *answer)
{
    answer->count = 0;
    if (count == 0) {
        answer_error(answer, "nothing was asked");
    } else if (strcmp(words[0], "status") == 0 && count == 1) {
        pyr_facts_add_integer(answer, "answer", "ok", 1);
    } else if (strcmp(words[0], "flush") == 0 && count == 1) {
        run_flush(answer);
    } else if (strcmp(words[0], "start") == 0 || strcmp(words[0], "stop") == 0 ||
               strcmp(words[0], "set") == 0) {
        run_command(words, count, answer);
    } else {
        answer_error(answer, "it knows status, flush, start, stop and set");
    }
    bool shows_all = count == 1 && strcmp(words[0], "status") == 0;
    pyr_facts *all = pyr_memory_new(1, sizeof *all);
    if (all != NULL) {
        bool running = pyr_process_facts(shows_all ? answer : all);
        pyr_facts_add_integer(answer, "answer", "running", running);
        pyr_memory_free(all);
    }
}

/* Words of a request; how many. */
static size_t split(pyr_buffer *request, const char *words[PYR_CONTROL_WORDS])
{
    size_t count = 0;
    const char *at = (const char *)request->data;
    const char *end = at + request->length - 1; /* the last byte is a zero of ours */
    while (at < end && count < PYR_CONTROL_WORDS) {
        words[count++] = at;
        at += strlen(at) + 1;
    }
    return count;
}

static void talk(int connection)
{
    const char *words[PYR_CONTROL_WORDS];
    pyr_buffer request, answer;
    pyr_facts *facts = pyr_memory_new(1, sizeof *facts);
    pyr_buffer_init(&request, PYR_CONTROL_REQUEST_BYTES);
    pyr_buffer_init(&answer, ANSWER_BYTES);
    pyr_local_set_timeout(connection, TALK_NS);
    if (facts != NULL && pyr_local_receive(connection, &request) == PYR_OK &&
        pyr_buffer_append(&request, "", 1) == PYR_OK) {
        serve(words, split(&request, words), facts);
        if (pyr_encode_facts(facts, &answer) == PYR_OK) {
            (void)!pyr_local_send(connection, answer.data, answer.length);
        }
    }
    pyr_buffer_fini(&request);
    pyr_buffer_fini(&answer);
    pyr_memory_free(facts);
}

/* ------------------------------------------------------------------------------------ thread */

static bool is_owner(const pyr_local_peer *peer)
{
    return peer->user == pyr_os_user() || peer->user == 0;
}

static void *listen_to(void *unused)
{
    (void)unused;
    while (!atomic_load(&control.stopping)) {
        int connection;
        pyr_local_peer peer;
        pyr_status status = pyr_local_accept(&control.listener, &connection, &peer);
        if (status == PYR_ECLOSED && !atomic_load(&control.stopping)) {
            if (pyr_local_listen(control.name, &control.listener) != PYR_OK) {
                break;
            }
            continue;
        }
        if (status == PYR_OK && is_owner(&peer) && !atomic_load(&control.stopping)) {
            atomic_store(&control.connection, connection);
            talk(connection);
            atomic_store(&control.connection, -1);
        } else if (!atomic_load(&control.stopping)) {
            pyr_os_futex_wait(&control.stopping, 0, pyr_clock_monotonic_ns() + TURN_AWAY_REST_NS);
        }
        pyr_local_close(connection);
    }
    pyr_local_listener_close(&control.listener);
    atomic_store(&control.ended, 1);
    pyr_os_futex_wake(&control.ended);
    return NULL;
}

pyr_status pyr_control_start(pyr_control_command command)
{
    if (atomic_load(&control.is_on)) {
        return PYR_OK;
    }
    if (atomic_load(&control.abandoned) && !atomic_load(&control.ended)) {
        return PYR_EBUSY;
    }
    pyr_local_process self;
    pyr_status status = pyr_local_process_self(&self);
    if (status != PYR_OK) {
        return status;
    }
    pyr_control_name(&self, control.name);
    control.command = command;
    status = pyr_local_listen(control.name, &control.listener);
    if (status != PYR_OK) {
        return status;
    }
    atomic_store(&control.stopping, 0);
    atomic_store(&control.ended, 0);
    atomic_store(&control.abandoned, false);
    status = pyr_os_thread_start(&control.thread, "pyr-control", listen_to, NULL);
    if (status != PYR_OK) {
        pyr_local_listener_close(&control.listener);
        return status;
    }
    atomic_store(&control.is_on, true);
    return PYR_OK;
}

void pyr_control_stop(void)
{
    int connection;
    pyr_local_peer peer;
    if (!atomic_load(&control.is_on) || pyr_control_is_self()) {
        return;
    }
    int64_t deadline_ns =
        pyr_clock_monotonic_ns() + (atomic_load(&control.connection) >= 0 ? END_NS : IDLE_END_NS);
    atomic_store(&control.is_on, false);
    atomic_store(&control.stopping, 1);
    pyr_os_futex_wake(&control.stopping);
    /* Whatever became of its descriptor, a connection wakes it. */
    if (pyr_local_connect(control.name, &connection, &peer) == PYR_OK) {
        pyr_local_close(connection);
    }
    while (!atomic_load(&control.ended) && pyr_clock_monotonic_ns() < deadline_ns) {
        pyr_os_futex_wait(&control.ended, 0, deadline_ns);
    }
    if (atomic_load(&control.ended)) {
        pthread_join(control.thread, NULL);
    } else {
        atomic_store(&control.abandoned, true); /* it ends when its last request is answered */
        pthread_detach(control.thread);
    }
}

bool pyr_control_is_on(void)
{
    return atomic_load(&control.is_on);
}

bool pyr_control_is_self(void)
{
    return atomic_load(&control.is_on) && pthread_equal(control.thread, pthread_self());
}

void pyr_control_fork_child(void)
{
    if (atomic_load(&control.is_on)) {
        pyr_local_listener_close(&control.listener);
        pyr_local_close(atomic_load(&control.connection));
        atomic_store(&control.is_on, false);
    }
    atomic_store(&control.connection, -1);
    atomic_store(&control.abandoned, false);
}
