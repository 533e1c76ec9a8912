/* The hooks of CPython's memory allocators: they count, and pass on.
 *
 * Each domain (OBJ, MEM, RAW) has its functions exchanged by PyMem_SetAllocator and keeps its
 * context, because callers read function and context separately, and RAW is used without the GIL:
 * so they may meet the new function with the old context, or the other way round, and both must be
 * right. What was there before is kept in a set of originals, written before the exchange and never
 * changed after it. Where others have taken our hooks away, they are put back: in the same set if
 * what is below is the same, else in the next one. Hooks stay to the end of the process.
 *
 * A hook runs in any thread, RAW ones with or without the GIL. It must never allocate, wait, or
 * touch an object; the common way is a count, a bit, and a jump to the original.
 */
#include "heap_hooks.h"

#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arenas.h"
#include "collect/heap_account.h"
#include "collect/heap_sampler.h"
#include "own_state.h"
#include "pending.h"

/* The thread state is a thread's own from the version on that has this slot; before, a variable of
 * the process, which tells of the thread that has the GIL. */
#ifdef Py_mod_multiple_interpreters
#define THREAD_STATE_IS_THREAD_LOCAL 1
#else
#define THREAD_STATE_IS_THREAD_LOCAL 0
#endif

enum {
    SETS = 4,
    DOMAINS = 3,
    PYMALLOC_BYTES = 512, /* larger requests of OBJ and MEM are passed on to RAW */
    PROBES = 3,
};

#define LIKELY(condition) __builtin_expect(condition, 1)
#define UNLIKELY(condition) __builtin_expect(condition, 0)

typedef struct original {
    PyMemAllocatorEx allocator;
    bool is_used;
} original;

static const PyMemAllocatorDomain domains[DOMAINS] = {
    [PYR_HEAP_OBJ] = PYMEM_DOMAIN_OBJ,
    [PYR_HEAP_MEM] = PYMEM_DOMAIN_MEM,
    [PYR_HEAP_RAW] = PYMEM_DOMAIN_RAW,
};

static original originals[SETS][DOMAINS];

/* Requests of OBJ and MEM up to this size certainly stay within their allocator. Others may be
 * passed on to RAW, which then must not count them again. */
static _Atomic size_t own_bytes;

static atomic_bool is_looked_after;

/* ------------------------------------------------------------------------- the slower ways ---- */

/* What was counted just now, and is due. */
static __attribute__((noinline)) void *finish(pyr_heap_domain domain, void *block, size_t size)
{
    if (block != NULL) {
        pyr_heap_sample(domain, (uintptr_t)block, size);
    } else {
        pyr_heap_undo(size);
    }
    return block;
}

/* They look for the original themselves, so that the common way loads it but once. */
static __attribute__((noinline)) void *allocate_due(int set, pyr_heap_domain domain, void *context,
                                                    size_t size)
{
    return finish(domain, originals[set][domain].allocator.malloc(context, size), size);
}

/* A request that may be passed on to RAW. */
static __attribute__((noinline)) void *allocate(int set, pyr_heap_domain domain, void *context,
                                                size_t size)
{
    bool is_due = !pyr_heap_count(size);
    pyr_heap_mine.nested++;
    void *block = originals[set][domain].allocator.malloc(context, size);
    pyr_heap_mine.nested--;
    return is_due ? finish(domain, block, size) : block;
}

static __attribute__((noinline)) void *callocate(const original *to, pyr_heap_domain domain,
                                                 void *context, size_t count, size_t each)
{
    size_t size = count * each; /* the caller has made sure that there is no overflow */
    bool is_inner = domain == PYR_HEAP_RAW && pyr_heap_mine.nested > 0;
    bool is_due = !is_inner && !pyr_heap_count(size);
    pyr_heap_mine.nested++;
    void *block = to->allocator.calloc(context, count, each);
    pyr_heap_mine.nested--;
    return is_due ? finish(domain, block, size) : block;
}

/* Whether what RAW is asked to do with a block was counted above it. Said of a block it holds once:
 * where the allocator above did not pass it on, the address may be another block's later. */
static bool is_counted(const void *block)
{
    bool is_told = block != NULL && pyr_heap_mine.counted == (uintptr_t)block;
    if (is_told) {
        pyr_heap_mine.counted = 0;
    }
    return is_told || pyr_heap_mine.nested > 0;
}

/* A block that is resized is a new one, in its place or elsewhere; if that fails, it is the old
 * one.
 */
static __attribute__((noinline)) void *reallocate(const original *to, pyr_heap_domain domain,
                                                  void *context, void *block, size_t size)
{
    bool is_inner = domain == PYR_HEAP_RAW && is_counted(block);
    bool is_due = !is_inner && !pyr_heap_count(size);
    int64_t place = block != NULL && pyr_heap_filter_has((uintptr_t)block)
                        ? pyr_heap_resizing((uintptr_t)block)
                        : -1;
    pyr_heap_mine.nested++;
    void *resized = to->allocator.realloc(context, block, size);
    pyr_heap_mine.nested--;
    pyr_heap_resized(place, (uintptr_t)block, resized != NULL);
    return is_due ? finish(domain, resized, size) : resized;
}

static __attribute__((noinline)) void forget(const original *to, void *context, void *block)
{
    pyr_heap_freed((uintptr_t)block);
    to->allocator.free(context, block);
}

/* ----------------------------------------------------------------------------------- hooks ---- */

/* The common way, for small requests of OBJ and MEM: counted, not due, passed on. One of nothing at
 * all reaches RAW, as what is large. */
#define DEFINE_SMALL_MALLOC(name, set, domain)                                                     \
    static void *malloc_##name##_##set(void *context, size_t size)                                 \
    {                                                                                              \
        if (UNLIKELY(size - 1 >= atomic_load_explicit(&own_bytes, memory_order_relaxed))) {        \
            return allocate(set, domain, context, size);                                           \
        }                                                                                          \
        if (UNLIKELY(!pyr_heap_count(size))) {                                                     \
            return allocate_due(set, domain, context, size);                                       \
        }                                                                                          \
        return originals[set][domain].allocator.malloc(context, size);                             \
    }

#define DEFINE_SMALL_CALLOC(name, set, domain)                                                     \
    static void *calloc_##name##_##set(void *context, size_t count, size_t each)                   \
    {                                                                                              \
        size_t size = count * each; /* the caller has made sure that there is no overflow */       \
        if (UNLIKELY(size - 1 >= atomic_load_explicit(&own_bytes, memory_order_relaxed) ||         \
                     pyr_heap_is_due(size))) {                                                     \
            return callocate(&originals[set][domain], domain, context, count, each);               \
        }                                                                                          \
        (void)pyr_heap_count(size);                                                                \
        return originals[set][domain].allocator.calloc(context, count, each);                      \
    }

/* ... and of RAW, where nobody above has counted. */
#define DEFINE_RAW_MALLOC(name, set, domain)                                                       \
    static void *malloc_##name##_##set(void *context, size_t size)                                 \
    {                                                                                              \
        if (UNLIKELY(pyr_heap_mine.nested == 0 && !pyr_heap_count(size))) {                        \
            return allocate_due(set, domain, context, size);                                       \
        }                                                                                          \
        return originals[set][domain].allocator.malloc(context, size);                             \
    }

/* Most that is resized is a list that grows, of small blocks that nobody sampled. The block may be
 * a large one, which RAW has: it is told that this one is counted. */
#define DEFINE_SMALL_REALLOC(name, set, domain)                                                    \
    static void *realloc_##name##_##set(void *context, void *block, size_t size)                   \
    {                                                                                              \
        if (UNLIKELY(size - 1 >= atomic_load_explicit(&own_bytes, memory_order_relaxed) ||         \
                     pyr_heap_filter_has((uintptr_t)block) || pyr_heap_is_due(size))) {            \
            return reallocate(&originals[set][domain], domain, context, block, size);              \
        }                                                                                          \
        (void)pyr_heap_count(size);                                                                \
        pyr_heap_mine.counted = (uintptr_t)block;                                                  \
        return originals[set][domain].allocator.realloc(context, block, size);                     \
    }

#define DEFINE_RAW_OTHERS(name, set, domain)                                                       \
    static void *calloc_##name##_##set(void *context, size_t count, size_t each)                   \
    {                                                                                              \
        return callocate(&originals[set][domain], domain, context, count, each);                   \
    }                                                                                              \
    static void *realloc_##name##_##set(void *context, void *block, size_t size)                   \
    {                                                                                              \
        return reallocate(&originals[set][domain], domain, context, block, size);                  \
    }

#define DEFINE_FREE(name, set, domain)                                                             \
    static void free_##name##_##set(void *context, void *block)                                    \
    {                                                                                              \
        if (LIKELY(!pyr_heap_filter_has((uintptr_t)block))) {                                      \
            originals[set][domain].allocator.free(context, block);                                 \
            return;                                                                                \
        }                                                                                          \
        forget(&originals[set][domain], context, block);                                           \
    }

#define DEFINE_SET(set)                                                                            \
    DEFINE_SMALL_MALLOC(obj, set, PYR_HEAP_OBJ)                                                    \
    DEFINE_SMALL_MALLOC(mem, set, PYR_HEAP_MEM)                                                    \
    DEFINE_RAW_MALLOC(raw, set, PYR_HEAP_RAW)                                                      \
    DEFINE_SMALL_CALLOC(obj, set, PYR_HEAP_OBJ)                                                    \
    DEFINE_SMALL_CALLOC(mem, set, PYR_HEAP_MEM)                                                    \
    DEFINE_SMALL_REALLOC(obj, set, PYR_HEAP_OBJ)                                                   \
    DEFINE_SMALL_REALLOC(mem, set, PYR_HEAP_MEM)                                                   \
    DEFINE_RAW_OTHERS(raw, set, PYR_HEAP_RAW)                                                      \
    DEFINE_FREE(obj, set, PYR_HEAP_OBJ)                                                            \
    DEFINE_FREE(mem, set, PYR_HEAP_MEM)                                                            \
    DEFINE_FREE(raw, set, PYR_HEAP_RAW)

DEFINE_SET(0)
DEFINE_SET(1)
DEFINE_SET(2)
DEFINE_SET(3)

#define FUNCTIONS(name, set)                                                                       \
    {                                                                                              \
        NULL, malloc_##name##_##set, calloc_##name##_##set, realloc_##name##_##set,                \
            free_##name##_##set                                                                    \
    }
#define SET_OF_FUNCTIONS(set)                                                                      \
    {                                                                                              \
        FUNCTIONS(obj, set), FUNCTIONS(mem, set), FUNCTIONS(raw, set)                              \
    }

static const PyMemAllocatorEx hooks[SETS][DOMAINS] = {
    SET_OF_FUNCTIONS(0),
    SET_OF_FUNCTIONS(1),
    SET_OF_FUNCTIONS(2),
    SET_OF_FUNCTIONS(3),
};

/* ---------------------------------------------------------------------------- installation ---- */

static bool is_same(const PyMemAllocatorEx *one, const PyMemAllocatorEx *other)
{
    return one->ctx == other->ctx && one->malloc == other->malloc && one->calloc == other->calloc &&
           one->realloc == other->realloc && one->free == other->free;
}

/* How often allocating `size` bytes in a domain passes our hooks. With the GIL. */
static uint64_t passes(PyMemAllocatorDomain domain, size_t size)
{
    uint64_t least = UINT64_MAX;
    /* An allocator may make room for itself meanwhile, but not each time. */
    for (int probe = 0; probe < PROBES; probe++) {
        void *block = NULL;
        uint64_t before = pyr_heap_mine.count;
        switch (domain) {
        case PYMEM_DOMAIN_OBJ:
            block = PyObject_Malloc(size);
            break;
        case PYMEM_DOMAIN_MEM:
            block = PyMem_Malloc(size);
            break;
        default:
            block = PyMem_RawMalloc(size);
            break;
        }
        uint64_t after = pyr_heap_mine.count;
        switch (domain) {
        case PYMEM_DOMAIN_OBJ:
            PyObject_Free(block);
            break;
        case PYMEM_DOMAIN_MEM:
            PyMem_Free(block);
            break;
        default:
            PyMem_RawFree(block);
            break;
        }
        /* A sample begins a new count: that probe tells nothing. */
        if (after >= before && after - before < least) {
            least = after - before;
        }
    }
    return least;
}

/* The first set that can pass on to `below`: one that did before, or a fresh one; -1: none. */
static int find_set(size_t domain, const PyMemAllocatorEx *below)
{
    for (int set = 0; set < SETS; set++) {
        original *one = &originals[set][domain];
        if (!one->is_used) {
            one->allocator = *below;
            one->is_used = true;
            atomic_thread_fence(memory_order_seq_cst);
            return set;
        }
        if (is_same(&one->allocator, below)) {
            return set;
        }
    }
    return -1;
}

static pyr_status install_domain(size_t domain)
{
    if (passes(domains[domain], 1) > 0) {
        return PYR_OK;
    }
    PyMemAllocatorEx below;
    PyMem_GetAllocator(domains[domain], &below);
    int set = find_set(domain, &below);
    if (set < 0) {
        return PYR_ENOSPC;
    }
    PyMemAllocatorEx above = hooks[set][domain];
    above.ctx = below.ctx;
    PyMem_SetAllocator(domains[domain], &above);
    return PYR_OK;
}

/* With the GIL. */
static pyr_status install_all(void)
{
    pyr_status status = PYR_OK;
    pyr_arenas_watch();
    for (size_t domain = 0; domain < DOMAINS && status == PYR_OK; domain++) {
        status = install_domain(domain);
    }
    /* With debug hooks below, requests grow on their way; with other allocators none is passed on.
     * Asked the short way, which does not keep RAW from counting. */
    atomic_store(&own_bytes, PYMALLOC_BYTES);
    bool is_usual = passes(PYMEM_DOMAIN_OBJ, PYMALLOC_BYTES) == 1 &&
                    passes(PYMEM_DOMAIN_MEM, PYMALLOC_BYTES) == 1;
    atomic_store(&own_bytes, is_usual ? PYMALLOC_BYTES : 0);
    return status;
}

/* In the main thread, with the GIL. */
static int look(void *unused)
{
    (void)unused;
    bool is_missing = false;
    atomic_store(&is_looked_after, false);
    for (size_t domain = 0; domain < DOMAINS; domain++) {
        is_missing |= passes(domains[domain], 1) == 0;
    }
    if (is_missing) {
        pyr_heap_forget_live();
        (void)install_all();
    }
    return 0;
}

static void look_after(void)
{
    if (!atomic_exchange(&is_looked_after, true) && !pyr_pending_add(look)) {
        atomic_store(&is_looked_after, false);
    }
}

static pyr_addr thread_state(bool has_gil)
{
    PyThreadState *current = pyr_own_state();
    if (has_gil) {
        return (pyr_addr)current;
    }
    if (THREAD_STATE_IS_THREAD_LOCAL) {
        return (pyr_addr)(current != NULL ? current : PyGILState_GetThisThreadState());
    }
    /* Without the GIL this is somebody else's; our own is where we left it, and its frames stand.
     */
    return (pyr_addr)PyGILState_GetThisThreadState();
}

/* The child of a fork starts on a thread of ours, or as it is stopped, without the GIL. The hooks
 * are there then, since its parent put them there; if not, the main thread does. */
static pyr_status install(void)
{
    PyThreadState *own = PyGILState_GetThisThreadState();
    if (own != NULL && thread_state(true) == (pyr_addr)own) { /* it has the GIL just now */
        return install_all();
    }
    look_after();
    return PYR_OK;
}

static size_t allocators(uintptr_t *addresses, size_t most)
{
    size_t count = 0;
    if (most > 0) {
        addresses[count++] = (uintptr_t)PyMem_RawMalloc;
    }
    if (most > count && pyr_arenas_source() != 0) {
        addresses[count++] = pyr_arenas_source();
    }
    for (size_t set = 0; set < SETS; set++) {
        for (size_t domain = 0; domain < DOMAINS && count < most; domain++) {
            if (originals[set][domain].is_used) {
                addresses[count++] = (uintptr_t)originals[set][domain].allocator.malloc;
            }
        }
    }
    return count;
}

const pyr_memory_host pyr_heap_hooks = {
    .install = install,
    .look_after = look_after,
    .arenas = pyr_arenas_get,
    .allocators = allocators,
    .thread_state = thread_state,
};
