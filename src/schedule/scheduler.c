/* The scheduler; see the header.
 *
 * Two words carry everything between the thread and those who ask, so that a signal handler can
 * ask too: `asked` counts requests, its lowest bit means "end"; `served` is the count that the last
 * finished flush had seen at its start, its lowest bit means "ended". Each side sleeps on the word
 * that the other changes. A request that is posted before the end bit is served before the end.
 *
 * The thread never takes a lock of its own making; it must never call Python.
 */
#include "schedule/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collect/heap_sampler.h"
#include "os/os.h"

enum { LAST_BIT = 1, ONE_REQUEST = 2 };

struct pyr_scheduler {
    int64_t period_ns;
    void (*flush)(void *context, pyr_flush_reason reason);
    void *context;
    int64_t tick_ns;          /* 0 = periods are a matter of time alone */
    uint64_t ticks_of_period; /* least ticks in a period */
    uint64_t ticks;           /* in this period; as next_ns */
    int64_t next_ns;  /* when the next period ends; the thread, and between threads nobody */
    pthread_t thread; /* valid while started; whoever starts and stops */
    bool started;     /* likewise */
    _Atomic uint32_t asked, served;
    /* The reason why somebody asked for the last flush, which all from then on have; 0 before. */
    _Atomic uint32_t exiting;
    _Atomic uint32_t running;   /* requests are taken */
    _Atomic uint32_t abandoned; /* the thread hung at the end: it may use all this for ever */
};

/* Waits until there is something to do. The count of requests to serve, in units of ONE_REQUEST. */
static uint32_t wait_for_work(pyr_scheduler *scheduler, int64_t next_ns)
{
    int64_t tick_end_ns = pyr_clock_monotonic_ns() + scheduler->tick_ns;
    for (;;) {
        uint32_t asked = atomic_load(&scheduler->asked);
        int64_t now_ns = pyr_clock_monotonic_ns();
        if (scheduler->tick_ns > 0 && now_ns >= tick_end_ns) {
            scheduler->ticks++; /* one, however long ago the tick should have ended */
            tick_end_ns = now_ns + scheduler->tick_ns;
        }
        bool is_over = now_ns >= next_ns && scheduler->ticks >= scheduler->ticks_of_period;
        if (asked != atomic_load(&scheduler->served) || is_over) {
            return asked;
        }
        pyr_os_futex_wait(&scheduler->asked, asked, scheduler->tick_ns > 0 ? tick_end_ns : next_ns);
    }
}

static void *run(void *argument)
{
    pyr_scheduler *scheduler = argument;
    pyr_heap_leave_out_thread();
    (void)!pyr_os_own_descriptors(); /* without, a fork's child has the connection of an upload */
    if (scheduler->next_ns == 0) {   /* else started again: the plan stays */
        scheduler->next_ns = pyr_clock_monotonic_ns() + scheduler->period_ns;
    }
    for (;;) {
        uint32_t asked = wait_for_work(scheduler, scheduler->next_ns);
        uint32_t requests = asked & ~(uint32_t)LAST_BIT;
        uint32_t served = atomic_load(&scheduler->served);
        if ((asked & LAST_BIT && requests == served) || atomic_load(&scheduler->abandoned)) {
            break;
        }
        pyr_flush_reason reason = (pyr_flush_reason)atomic_load(&scheduler->exiting);
        if (reason == PYR_FLUSH_PERIOD && requests != served) {
            reason = PYR_FLUSH_REQUEST;
        }
        scheduler->flush(scheduler->context, reason);
        atomic_store(&scheduler->served, requests);
        pyr_os_futex_wake(&scheduler->served);
        /* From the plan, not from now, so that windows keep their length; but after a request, or
         * when the machine slept, a new period begins. */
        int64_t now_ns = pyr_clock_monotonic_ns();
        scheduler->ticks = 0;
        scheduler->next_ns += scheduler->period_ns;
        if (reason != PYR_FLUSH_PERIOD || scheduler->next_ns <= now_ns) {
            scheduler->next_ns = now_ns + scheduler->period_ns;
        }
    }
    atomic_fetch_or(&scheduler->served, LAST_BIT);
    pyr_os_futex_wake(&scheduler->served);
    return NULL;
}

/* Waits until `served` has reached `ticket`. Only futex and atomics. */
static pyr_status wait_for_service(pyr_scheduler *scheduler, uint32_t ticket, int64_t deadline_ns)
{
    for (;;) {
        uint32_t served = atomic_load(&scheduler->served);
        /* Counts wrap: compare by their distance. */
        if ((int32_t)((served & ~(uint32_t)LAST_BIT) - ticket) >= 0) {
            return PYR_OK;
        }
        if (served & LAST_BIT) {
            return PYR_ECLOSED;
        }
        if (pyr_clock_monotonic_ns() >= deadline_ns) {
            return PYR_EBUSY;
        }
        pyr_os_futex_wait(&scheduler->served, served, deadline_ns);
    }
}

static pyr_status ask(pyr_scheduler *scheduler, pyr_flush_reason reason, int64_t deadline_ns)
{
    if (!atomic_load(&scheduler->running)) {
        return PYR_ECLOSED;
    }
    if (reason == PYR_FLUSH_EXIT || reason == PYR_FLUSH_SIGNAL) {
        atomic_store(&scheduler->exiting, reason);
    }
    uint32_t ticket = atomic_fetch_add(&scheduler->asked, ONE_REQUEST) + ONE_REQUEST;
    pyr_os_futex_wake(&scheduler->asked);
    return wait_for_service(scheduler, ticket & ~(uint32_t)LAST_BIT, deadline_ns);
}

pyr_status pyr_scheduler_new(int64_t period_ns,
                             void (*flush)(void *context, pyr_flush_reason reason), void *context,
                             pyr_scheduler **scheduler)
{
    if (period_ns <= 0 || period_ns > INT64_MAX / 2) {
        return PYR_EINVAL;
    }
    pyr_scheduler *made = pyr_memory_new(1, sizeof *made);
    if (!made) {
        return PYR_ENOMEM;
    }
    made->period_ns = period_ns;
    made->flush = flush;
    made->context = context;
    *scheduler = made;
    return PYR_OK;
}

void pyr_scheduler_free(pyr_scheduler *scheduler)
{
    if (scheduler && !atomic_load(&scheduler->abandoned)) {
        pyr_memory_free(scheduler);
    }
}

void pyr_scheduler_count_ticks(pyr_scheduler *scheduler, int64_t tick_ns, uint64_t ticks)
{
    scheduler->tick_ns = tick_ns;
    scheduler->ticks_of_period = ticks;
}

pyr_status pyr_scheduler_start(pyr_scheduler *scheduler)
{
    if (scheduler->started || atomic_load(&scheduler->abandoned)) {
        return PYR_EBUSY;
    }
    atomic_store(&scheduler->asked, 0);
    atomic_store(&scheduler->served, 0);
    atomic_store(&scheduler->exiting, 0);
    pyr_status status = pyr_os_thread_start(&scheduler->thread, "pyr-export", run, scheduler);
    scheduler->started = status == PYR_OK;
    atomic_store(&scheduler->running, scheduler->started);
    return status;
}

pyr_status pyr_scheduler_flush(pyr_scheduler *scheduler, pyr_flush_reason reason,
                               int64_t deadline_ns)
{
    return ask(scheduler, reason, deadline_ns);
}

pyr_status pyr_scheduler_flush_from_signal(pyr_scheduler *scheduler, int64_t deadline_ns)
{
    return ask(scheduler, PYR_FLUSH_SIGNAL, deadline_ns);
}

void pyr_scheduler_stop(pyr_scheduler *scheduler, int64_t deadline_ns)
{
    if (!scheduler->started) {
        return;
    }
    scheduler->started = false;
    atomic_store(&scheduler->running, 0);
    atomic_fetch_or(&scheduler->asked, LAST_BIT);
    pyr_os_futex_wake(&scheduler->asked);
    uint32_t served = atomic_load(&scheduler->served);
    while (!(served & LAST_BIT) && pyr_clock_monotonic_ns() < deadline_ns) {
        pyr_os_futex_wait(&scheduler->served, served, deadline_ns);
        served = atomic_load(&scheduler->served);
    }
    if (served & LAST_BIT) {
        pthread_join(scheduler->thread, NULL);
    } else {
        atomic_store(&scheduler->abandoned, 1);
        pthread_detach(scheduler->thread);
    }
}

int pyr_scheduler_is_abandoned(const pyr_scheduler *scheduler)
{
    return (int)atomic_load((_Atomic uint32_t *)(uintptr_t)&scheduler->abandoned);
}

void pyr_scheduler_fork_child(pyr_scheduler *scheduler)
{
    scheduler->started = false;
    atomic_store(&scheduler->running, 0);
    atomic_store(&scheduler->abandoned, 0);
    /* Nobody serves what was asked: the start of a new thread clears it. */
}
