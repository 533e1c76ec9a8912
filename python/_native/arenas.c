/* pymalloc's arenas; see the header.
 *
 * Those since the start are counted by a hook of the allocator of arenas, which is called with the
 * GIL of any interpreter. How many there were before is a secret of CPython's structs, which differ
 * between versions and are partly static; but pymalloc tells it in the report that
 * sys._debugmallocstats() prints, whose function takes a file: here one in memory. The rows that
 * are looked for are the same in all versions. Where a row or the function is missing, as with
 * PYTHONMALLOC=malloc or under tracemalloc, what was there is unknown. The report is of the
 * interpreter that starts us: arenas that other interpreters had by then are not in it.
 */
#include "arenas.h"

#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { REPORT_BYTES = 64 << 10 }; /* a tenth is needed */

/* Exported, but declared in no public header. */
extern int _PyObject_DebugMallocStats(FILE *out) __attribute__((weak));

static PyObjectArenaAllocator original; /* its context stays as it is: see heap_hooks.c */
static _Atomic int64_t taken;           /* since they are watched, less what was given back */
static int64_t at_start = -1, used_at_start = -1;
static bool is_watched;

static void *take(void *context, size_t size)
{
    void *arena = original.alloc(context, size);
    if (arena != NULL) {
        atomic_fetch_add_explicit(&taken, (int64_t)size, memory_order_relaxed);
    }
    return arena;
}

static void give_back(void *context, void *arena, size_t size)
{
    atomic_fetch_sub_explicit(&taken, (int64_t)size, memory_order_relaxed);
    original.free(context, arena, size);
}

/* The number behind '=' in the first row that has `name`: "# bytes = 1,234"; -1: there is none. */
static int64_t read_row(const char *report, const char *name)
{
    int64_t number = -1;
    const char *at = strstr(report, name);
    const char *end = at != NULL ? strchr(at, '\n') : NULL;
    at = end != NULL ? memchr(at, '=', (size_t)(end - at)) : NULL;
    for (; at != NULL && at < end; at++) {
        if (*at >= '0' && *at <= '9' && number < INT64_MAX / 100) {
            number = (number > 0 ? number : 0) * 10 + (*at - '0');
        }
    }
    return number;
}

static void read_report(void)
{
    char *report = pyr_memory_new(1, REPORT_BYTES);
    FILE *file = report != NULL ? fmemopen(report, REPORT_BYTES - 1, "w") : NULL;
    if (file != NULL) {
        bool is_told = _PyObject_DebugMallocStats(file) != 0;
        if (fclose(file) == 0 && is_told) {
            at_start = read_row(report, " arenas * ");
            used_at_start = read_row(report, "# bytes in allocated blocks");
        }
    }
    pyr_memory_free(report);
}

void pyr_arenas_watch(void)
{
    if (!is_watched) {
        PyObjectArenaAllocator hook = {.alloc = take, .free = give_back};
        if (_PyObject_DebugMallocStats != NULL) {
            read_report();
        }
        PyObject_GetArenaAllocator(&original);
        hook.ctx = original.ctx;
        atomic_thread_fence(memory_order_seq_cst);
        PyObject_SetArenaAllocator(&hook);
        is_watched = true;
    }
}

pyr_arenas pyr_arenas_get(void)
{
    int64_t now = atomic_load_explicit(&taken, memory_order_relaxed);
    now += at_start > 0 ? at_start : 0;
    return (pyr_arenas){
        .now = now > 0 ? now : 0, /* unknown ones may be given back, too */
        .at_start = at_start,
        .used_at_start = used_at_start,
    };
}

uintptr_t pyr_arenas_source(void)
{
    return is_watched ? (uintptr_t)original.alloc : 0;
}
