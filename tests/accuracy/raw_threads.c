/* Threads that allocate through CPython's RAW domain, which needs no GIL: they run at the same
 * time.
 *
 * Built into a shared library by test_memory_cost.py. Knows nothing of the profiler.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST_THREADS = 16 };

extern void *PyMem_RawMalloc(size_t size);
extern void PyMem_RawFree(void *block);

typedef struct work {
    long count;
    double seconds; /* of CPU */
    long waits;     /* how often it gave up its CPU by itself, as for a lock */
} work;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *run(void *argument)
{
    work *mine = argument;
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    long before = usage.ru_nvcsw;
    double begin = cpu_seconds();
    for (long i = 0; i < mine->count; i++) {
        PyMem_RawFree(PyMem_RawMalloc(64));
    }
    mine->seconds = cpu_seconds() - begin;
    getrusage(RUSAGE_THREAD, &usage);
    mine->waits = usage.ru_nvcsw - before;
    return NULL;
}

/* `count` allocations in each of so many threads: their CPU seconds and their waits, together.
 * 0, or an error number. */
int churn(int threads, long count, double *seconds, long *waits)
{
    pthread_t started[MOST_THREADS];
    work works[MOST_THREADS];
    int error = 0, running = 0;
    *seconds = 0;
    *waits = 0;
    for (; running < threads && running < MOST_THREADS && error == 0; running++) {
        works[running] = (work){.count = count};
        error = pthread_create(&started[running], NULL, run, &works[running]);
        running -= error != 0;
    }
    for (int i = 0; i < running; i++) {
        pthread_join(started[i], NULL);
        *seconds += works[i].seconds;
        *waits += works[i].waits;
    }
    return error;
}
