/* Late starts; see the header. Owns two futex words: `over` ends the wait of the thread, `alive` is
 * what others wait for. The thread is detached: nobody has to come back for it. */
#include "session/late_start.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "os/os.h"

static const int64_t EARLY_NS = 20000000; /* of life, for a child that is busy */
static const int64_t LATE_NS = 60000000;  /* ... for any other */
static const int64_t BUSY_NS = 5000000;   /* of CPU */

static struct {
    _Atomic uint32_t over;
    _Atomic uint32_t alive;
    void (*start)(void); /* written before the thread is made */
} late;

bool pyr_late_start_is_due(void)
{
    return pyr_clock_process_cpu_ns() >= BUSY_NS;
}

/* False: cancelled. */
static bool sleep_until(int64_t time_ns)
{
    while (!atomic_load(&late.over) && pyr_clock_monotonic_ns() < time_ns) {
        pyr_os_futex_wait(&late.over, 0, time_ns);
    }
    return !atomic_load(&late.over);
}

static void *wait_and_start(void *unused)
{
    (void)unused;
    int64_t born_ns = pyr_clock_monotonic_ns();
    bool wanted = sleep_until(born_ns + EARLY_NS);
    if (wanted && !pyr_late_start_is_due()) {
        wanted = sleep_until(born_ns + LATE_NS);
    }
    if (wanted) {
        late.start();
    }
    atomic_store(&late.alive, 0);
    pyr_os_futex_wake(&late.alive);
    return NULL;
}

pyr_status pyr_late_start_plan(void (*start)(void))
{
    if (atomic_load(&late.alive)) {
        return PYR_EBUSY;
    }
    pthread_t thread;
    late.start = start;
    atomic_store(&late.over, 0);
    atomic_store(&late.alive, 1);
    pyr_status status = pyr_os_thread_start(&thread, "pyrometer-start", wait_and_start, NULL);
    if (status != PYR_OK) {
        atomic_store(&late.alive, 0);
        return status;
    }
    pthread_detach(thread);
    return PYR_OK;
}

void pyr_late_start_cancel(void)
{
    atomic_store(&late.over, 1);
    pyr_os_futex_wake(&late.over);
}

bool pyr_late_start_has_thread(void)
{
    return atomic_load(&late.alive) != 0;
}

void pyr_late_start_wait(int64_t deadline_ns)
{
    while (atomic_load(&late.alive) && pyr_clock_monotonic_ns() < deadline_ns) {
        pyr_os_futex_wait(&late.alive, 1, deadline_ns);
    }
}

void pyr_late_start_fork_child(void)
{
    atomic_store(&late.alive, 0);
    atomic_store(&late.over, 0);
}
