/* Ends slow connections; see the header.
 *
 * Owns a table of sockets with the moment at which each has had its time. The HTTP library closes
 * sockets, after it has taken them out of here, so none is shut that is another's by now.
 */
#include "server/watch.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "os/os.h"

static const int64_t SECOND_NS = 1000000000;
enum { HEAD_S = 10, BODY_S = 60, IDLE_S = 90 };

struct pyr_watch {
    pthread_mutex_t mutex;
    pthread_cond_t stopped;
    pthread_t thread;
    bool stops;
    size_t count;
    struct {
        int socket; /* plus 1; 0 = free */
        int64_t until_ns;
    } rows[PYR_WATCH_CONNECTIONS];
};

static void *run(void *context)
{
    pyr_watch *watch = context;
    (void)pthread_mutex_lock(&watch->mutex);
    while (!watch->stops) {
        struct timespec next;
        (void)clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec += 1;
        (void)pthread_cond_timedwait(&watch->stopped, &watch->mutex, &next);
        int64_t now = pyr_clock_monotonic_ns();
        for (size_t at = 0; at < PYR_WATCH_CONNECTIONS; at++) {
            if (watch->rows[at].socket != 0 && watch->rows[at].until_ns < now) {
                (void)shutdown(watch->rows[at].socket - 1, SHUT_RDWR);
            }
        }
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

pyr_watch *pyr_watch_start(void)
{
    pyr_watch *watch = pyr_memory_new(1, sizeof *watch);
    if (watch == NULL) {
        return NULL;
    }
    (void)pthread_mutex_init(&watch->mutex, NULL);
    (void)pthread_cond_init(&watch->stopped, NULL);
    if (pyr_os_thread_start(&watch->thread, "pyr-watch", run, watch) != PYR_OK) {
        pyr_memory_free(watch);
        return NULL;
    }
    return watch;
}

void pyr_watch_stop(pyr_watch *watch)
{
    if (watch != NULL) {
        (void)pthread_mutex_lock(&watch->mutex);
        watch->stops = true;
        (void)pthread_cond_signal(&watch->stopped);
        (void)pthread_mutex_unlock(&watch->mutex);
        (void)pthread_join(watch->thread, NULL);
        (void)pthread_cond_destroy(&watch->stopped);
        (void)pthread_mutex_destroy(&watch->mutex);
        pyr_memory_free(watch);
    }
}

int pyr_watch_add(pyr_watch *watch, int socket)
{
    int number = -1;
    (void)pthread_mutex_lock(&watch->mutex);
    for (int at = 0; at < PYR_WATCH_CONNECTIONS && number < 0; at++) {
        if (watch->rows[at].socket == 0) {
            watch->rows[at].socket = socket + 1;
            watch->rows[at].until_ns = pyr_clock_monotonic_ns() + HEAD_S * SECOND_NS;
            watch->count++;
            number = at;
        }
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    return number;
}

void pyr_watch_remove(pyr_watch *watch, int number)
{
    if (number >= 0) {
        (void)pthread_mutex_lock(&watch->mutex);
        watch->rows[number].socket = 0;
        watch->count--;
        (void)pthread_mutex_unlock(&watch->mutex);
    }
}

void pyr_watch_set(pyr_watch *watch, int number, pyr_watch_state state)
{
    static const int64_t SECONDS[] = {
        [PYR_WATCH_HEAD] = HEAD_S,
        [PYR_WATCH_BODY] = BODY_S,
        [PYR_WATCH_WORKING] = 0,
        [PYR_WATCH_IDLE] = IDLE_S,
    };
    int64_t until = state == PYR_WATCH_WORKING
                        ? INT64_MAX
                        : pyr_clock_monotonic_ns() + SECONDS[state] * SECOND_NS;
    if (number >= 0) {
        (void)pthread_mutex_lock(&watch->mutex);
        watch->rows[number].until_ns = until;
        (void)pthread_mutex_unlock(&watch->mutex);
    }
}

size_t pyr_watch_count(pyr_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    size_t count = watch->count;
    (void)pthread_mutex_unlock(&watch->mutex);
    return count;
}
