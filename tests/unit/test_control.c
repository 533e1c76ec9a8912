/* Unit tests of session/control and os/local_socket: who may ask, what is answered, and that
 * nothing sent to the door can hurt; a program that closes descriptors, forks, and ends in the
 * middle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "os/os.h"
#include "os/task.h"
#include "session/control.h"

static char last_words[4][64];
static size_t last_count;

static pyr_status command(const char *const *words, size_t count, char *error, size_t error_size)
{
    last_count = count;
    for (size_t at = 0; at < count && at < 4; at++) {
        snprintf(last_words[at], sizeof last_words[at], "%s", words[at]);
    }
    if (strcmp(words[0], "stop") == 0) {
        snprintf(error, error_size, "it is \"stopped\" already");
        return PYR_EINVAL;
    }
    return PYR_OK;
}

static void name_of_self(char name[PYR_LIMIT_SOCKET_NAME])
{
    pyr_local_process self;
    assert_int_equal(pyr_local_process_self(&self), PYR_OK);
    pyr_control_name(&self, name);
}

/* Sends bytes to the own door; the answer, or NULL where there is none. */
static json_t *ask(const char *bytes, size_t length)
{
    char name[PYR_LIMIT_SOCKET_NAME];
    int connection;
    pyr_local_peer peer;
    pyr_buffer answer;
    name_of_self(name);
    /* Between a socket that was closed under it and its successor there is none for a moment. */
    pyr_status status = pyr_local_connect(name, &connection, &peer);
    for (int tries = 0; status == PYR_ENOENT && tries < 200; tries++) {
        pyr_os_sleep(10000000);
        status = pyr_local_connect(name, &connection, &peer);
    }
    assert_int_equal(status, PYR_OK);
    assert_int_equal(peer.pid, getpid());
    assert_int_equal(peer.user, geteuid());
    pyr_local_set_timeout(connection, 5000000000);
    (void)!pyr_local_send(connection, bytes, length);
    pyr_buffer_init(&answer, 1 << 20);
    json_t *read = NULL;
    if (pyr_local_receive(connection, &answer) == PYR_OK && answer.length > 0) {
        read = json_loadb((const char *)answer.data, answer.length, 0, NULL);
    }
    pyr_buffer_fini(&answer);
    pyr_local_close(connection);
    return read;
}

static void assert_answer(const char *bytes, size_t length, int ok, const char *error)
{
    json_t *answer = ask(bytes, length);
    const json_t *head = json_object_get(answer, "answer");
    assert_non_null(head);
    assert_int_equal(json_integer_value(json_object_get(head, "ok")), ok);
    assert_int_equal(json_integer_value(json_object_get(head, "running")), 0);
    const char *text = json_string_value(json_object_get(head, "error"));
    if (error ? !text || !strstr(text, error) : text != NULL) {
        fail_msg("it answered: %s", text ? text : "nothing wrong");
    }
    json_decref(answer);
}

#define ASK(words, ok, error) assert_answer(words, sizeof words - 1, ok, error)

static int begin(void **state)
{
    (void)state;
    last_count = 0;
    assert_int_equal(pyr_control_start(command), PYR_OK);
    assert_true(pyr_control_is_on());
    return 0;
}

static int end(void **state)
{
    (void)state;
    pyr_control_stop();
    assert_false(pyr_control_is_on());
    return 0;
}

static void test_requests(void **state)
{
    (void)state;
    ASK("status", 1, NULL);
    ASK("flush", 0, "stopped");
    ASK("start", 1, NULL);
    assert_int_equal(last_count, 1);
    ASK("stop", 0, "it is \"stopped\" already");
    ASK("set\0sampling_interval=5ms\0TAGS=a:b=c", 1, NULL);
    assert_int_equal(last_count, 3);
    assert_string_equal(last_words[2], "TAGS=a:b=c");
    ASK("set\0url=http://a:8126, unix:///b", 1, NULL);
    ASK("set\0url=", 1, NULL); /* back to what is found */
    assert_false(pyr_control_is_self());
}

static void test_what_is_refused(void **state)
{
    (void)state;
    ASK("", 0, "nothing was asked");
    ASK("frobnicate", 0, "it knows");
    ASK("status\0more", 0, "it knows");
    ASK("stop\0TAGS=a", 0, "takes nothing more");
    ASK("set", 0, "NAME=VALUE");
    ASK("set\0sampling_interval", 0, "NAME=VALUE");
    ASK("set\0=5", 0, "NAME=VALUE");
    ASK("set\0sampling_intervall=5ms", 0, "did you mean SAMPLING_INTERVAL?");
    ASK("set\0sampling_interval=5y", 0, "SAMPLING_INTERVAL: ");
    ASK("set\0enabled=false", 0, "start and stop");
    ASK("set\0url=ftp://x", 0, "URL: \"ftp://x\" is no address");
    ASK("set\0url=http://a:8126,b:8126", 0, "URL: \"b:8126\" is no address");
    ASK("start\0url=http://me:hunter2@a", 0, "URL: the address has a user or password in it");
    ASK("set\0intake_url=datadoghq.eu", 0, "INTAKE_URL: \"datadoghq.eu\" is no address");
    ASK("start\0process_pct=50", 0, "when the process starts");
    assert_int_equal(last_count, 0);
}

/* Bytes of every kind and length, and connections that say nothing. */
static void test_hostile_requests(void **state)
{
    (void)state;
    static char bytes[PYR_CONTROL_REQUEST_BYTES + 4096];
    uint32_t random = 1;
    for (int round = 0; round < 200; round++) {
        size_t length = (size_t)(random >> 8) % (round % 10 ? 64 : sizeof bytes);
        for (size_t at = 0; at < length; at++) {
            random = random * 1664525 + 1013904223;
            bytes[at] = (char)(random >> 24);
        }
        memcpy(bytes, "set", length < 4 ? 0 : round % 2 ? 4 : 0);
        random = random * 1664525 + 1013904223;
        json_decref(ask(bytes, length));
    }
    memset(bytes, 'x', sizeof bytes); /* too long: no answer, and no harm */
    assert_null(ask(bytes, sizeof bytes));
    memset(bytes, 0, sizeof bytes);
    ASK("status", 1, NULL);
}

/* A program that closes what it does not know, as daemons do: the door opens anew. */
static void test_closed_descriptors(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* which calls it a race that somebody closes what another thread uses: it is one */
#endif
    for (int descriptor = 3; descriptor < 1100; descriptor++) {
        close(descriptor);
    }
    int files[1024];
    for (int i = 0; i < 1024; i++) {
        files[i] = dup(0); /* as many as there may be, the number of the socket among them */
    }
    ASK("status", 1, NULL);
    for (int i = 0; i < 1024; i++) {
        assert_true(files[i] < 0 || close(files[i]) == 0); /* none was taken for the socket */
    }
    ASK("status", 1, NULL);
    ASK("status", 1, NULL);
}

static void test_forks(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* which cannot start threads in a fork's child */
#endif
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            pyr_control_fork_child();
            int good = !pyr_control_is_on() && pyr_control_start(command) == PYR_OK;
            char name[PYR_LIMIT_SOCKET_NAME];
            pyr_local_peer peer;
            int connection = -1;
            name_of_self(name);
            good = good && pyr_local_connect(name, &connection, &peer) == PYR_OK;
            pyr_local_close(connection);
            pyr_control_stop();
            _exit(good ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        ASK("status", 1, NULL);
    }
}

static void test_again_and_again(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        assert_int_equal(pyr_control_start(command), PYR_OK); /* runs already */
        if (round % 3 == 0) {
            ASK("status", 1, NULL);
        }
        pyr_control_stop();
        pyr_control_stop();
        /* On a busy machine the one before may still be on its way out. */
        pyr_status status = pyr_control_start(command);
        for (int tries = 0; status != PYR_OK && tries < 500; tries++) {
            pyr_os_sleep(10000000);
            status = pyr_control_start(command);
        }
        assert_int_equal(status, PYR_OK);
    }
}

static void test_processes(void **state)
{
    (void)state;
    pyr_local_process self, found;
    assert_int_equal(pyr_local_process_self(&self), PYR_OK);
    assert_int_equal(pyr_local_process_find(getpid(), &found), PYR_OK);
    assert_int_equal(self.pid, found.pid);
    assert_int_equal(self.pid_namespace, found.pid_namespace);
    assert_int_equal(pyr_local_process_find(1 << 30, &found), PYR_ENOENT);
    assert_int_equal(pyr_local_enter_network(getpid()), PYR_OK);
    pyr_local_listener taken;
    char name[PYR_LIMIT_SOCKET_NAME];
    pyr_control_name(&self, name);
    assert_int_equal(pyr_local_listen(name, &taken), PYR_EEXIST);
    assert_int_equal(taken.descriptor, -1);
    pyr_local_listener_close(&taken);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_requests),           TEST(test_what_is_refused), TEST(test_hostile_requests),
        TEST(test_closed_descriptors), TEST(test_forks),           TEST(test_again_and_again),
        TEST(test_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
