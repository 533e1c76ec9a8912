/* Hooks of the native heap; see the header.
 *
 * A slot may hold the C library's function, that of another allocator, or somebody else's hook. So
 * there are several sets of hooks, and what a set passes on to is written before the first slot
 * gets one of its hooks, and never changed after that.
 *
 * A hook runs in any thread, with any locks held, maybe in a signal handler: it never allocates,
 * waits, or asks the loader. The mark `nested` keeps what an allocator calls on its way from being
 * counted again. `lock` guards the rest; it is never held by a hook.
 */
#include "collect/native_hooks.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"
#include "collect/heap_sampler.h"
#include "os/imports.h"
#include "os/loaded.h"

enum { SETS = 4 };

#define UNLIKELY(condition) __builtin_expect(condition, 0)

/* C++'s `new` and `delete`, by the names that they have for the linker (Itanium C++ ABI, 5.1). What
 * follows size or block (alignment, size, std::nothrow) is passed on as it comes. */
#define NEW_FUNCTIONS(X, set)                                                                      \
    X(_Znwm, set)                                                                                  \
    X(_Znam, set)                                                                                  \
    X(_ZnwmRKSt9nothrow_t, set)                                                                    \
    X(_ZnamRKSt9nothrow_t, set)                                                                    \
    X(_ZnwmSt11align_val_t, set)                                                                   \
    X(_ZnamSt11align_val_t, set)                                                                   \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, set)                                                     \
    X(_ZnamSt11align_val_tRKSt9nothrow_t, set)
#define DELETE_FUNCTIONS(X, set)                                                                   \
    X(_ZdlPv, set)                                                                                 \
    X(_ZdaPv, set)                                                                                 \
    X(_ZdlPvm, set)                                                                                \
    X(_ZdaPvm, set)                                                                                \
    X(_ZdlPvRKSt9nothrow_t, set)                                                                   \
    X(_ZdaPvRKSt9nothrow_t, set)                                                                   \
    X(_ZdlPvSt11align_val_t, set)                                                                  \
    X(_ZdaPvSt11align_val_t, set)                                                                  \
    X(_ZdlPvmSt11align_val_t, set)                                                                 \
    X(_ZdaPvmSt11align_val_t, set)                                                                 \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, set)                                                    \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t, set)

/* Functions of which slots are exchanged; those of C++ come last. */
#define FUNCTIONS(X, set)                                                                          \
    X(malloc, set)                                                                                 \
    X(calloc, set)                                                                                 \
    X(realloc, set)                                                                                \
    X(reallocarray, set)                                                                           \
    X(free, set)                                                                                   \
    X(posix_memalign, set)                                                                         \
    X(aligned_alloc, set)                                                                          \
    X(memalign, set)                                                                               \
    X(valloc, set)                                                                                 \
    X(mmap, set)                                                                                   \
    X(mmap64, set)                                                                                 \
    X(mremap, set)                                                                                 \
    X(munmap, set)                                                                                 \
    NEW_FUNCTIONS(X, set)                                                                          \
    DELETE_FUNCTIONS(X, set)

typedef enum function {
#define ENUMERATOR(name, unused) FUNCTION_##name,
    FUNCTIONS(ENUMERATOR, )
#undef ENUMERATOR
        FUNCTION_COUNT,
    FUNCTION_FIRST_OF_CPP = FUNCTION__Znwm
} function;

/* There only where somebody has loaded a C++ library for all. */
typedef void *new_function(size_t size, uintptr_t second, uintptr_t third);
typedef void delete_function(void *block, uintptr_t second, uintptr_t third);
#define DECLARATION(name, unused) extern __attribute__((weak)) new_function name;
NEW_FUNCTIONS(DECLARATION, )
#undef DECLARATION
#define DECLARATION(name, unused) extern __attribute__((weak)) delete_function name;
DELETE_FUNCTIONS(DECLARATION, )
#undef DECLARATION

static const char *const names[FUNCTION_COUNT] = {
#define NAME(name, unused) [FUNCTION_##name] = #name,
    FUNCTIONS(NAME, )
#undef NAME
};

typedef struct functions {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    void *(*mmap64)(void *, size_t, int, int, int, off_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    int (*munmap)(void *, size_t);
#define MEMBER(name, unused) new_function *name;
    NEW_FUNCTIONS(MEMBER, )
#undef MEMBER
#define MEMBER(name, unused) delete_function *name;
    DELETE_FUNCTIONS(MEMBER, )
#undef MEMBER
} functions;

_Static_assert(sizeof(functions) == FUNCTION_COUNT * sizeof(uintptr_t), "one word each");

/* Also as addresses, in the same order. */
typedef union addresses {
    functions of;
    uintptr_t words[FUNCTION_COUNT];
} addresses;

static addresses originals[SETS];

/* ------------------------------------------------------------------------------- counting ---- */

/* Allocations larger than this fail, or reserve address space for things to come. */
static const size_t MOST_BYTES = (size_t)1 << 46;

static inline bool is_counted_elsewhere(size_t size)
{
    return UNLIKELY(pyr_heap_mine.nested > 0 || size > MOST_BYTES);
}

/* Counts, and marks that this thread has; true: the allocation is to be sampled. */
static inline bool begin(size_t size)
{
    pyr_heap_mine.nested = 1;
    return UNLIKELY(!pyr_heap_count(size));
}

static __attribute__((noinline)) void end_slowly(void *block, size_t size, bool is_due,
                                                 uintptr_t caller)
{
    if (block == NULL) {
        pyr_heap_undo(size);
        return;
    }
    /* A block at this address was freed on a way around the hooks. */
    if (pyr_heap_filter_has((uintptr_t)block)) {
        pyr_heap_reused((uintptr_t)block);
    }
    if (is_due) {
        pyr_heap_sample_native((uintptr_t)block, size, caller);
    }
}

static inline void end(void *block, size_t size, bool is_due, uintptr_t caller)
{
    pyr_heap_mine.nested = 0;
    if (UNLIKELY(is_due || block == NULL || pyr_heap_filter_has((uintptr_t)block))) {
        end_slowly(block, size, is_due, caller);
    }
}

static inline int64_t begin_resizing(const void *block)
{
    return UNLIKELY(pyr_heap_filter_has((uintptr_t)block)) ? pyr_heap_resizing((uintptr_t)block)
                                                           : -1;
}

static __attribute__((noinline)) void forget(const void *block)
{
    pyr_heap_freed((uintptr_t)block);
}

/* What is kept ready for use; not mappings of files, address space without memory, and what takes
 * the place of other mappings. */
static inline bool is_memory(int protection, int flags, int file)
{
    return (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_FIXED) == 0 &&
           (protection & PROT_WRITE) != 0 && file == -1;
}

static inline void *none_if_failed(void *mapping)
{
    return mapping == MAP_FAILED ? NULL : mapping;
}

/* ----------------------------------------------------------------------------------- hooks ---- */

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* A function that returns a block of `size` bytes. */
#define DEFINE_ALLOCATION(name, set, parameters, arguments, bytes)                                 \
    static void *name##_##set parameters                                                           \
    {                                                                                              \
        size_t size = bytes;                                                                       \
        if (is_counted_elsewhere(size)) {                                                          \
            return originals[set].of.name arguments;                                               \
        }                                                                                          \
        bool is_due = begin(size);                                                                 \
        void *block = originals[set].of.name arguments;                                            \
        end(block, size, is_due, CALLER);                                                          \
        return block;                                                                              \
    }

/* One that resizes a block: it is a new one, in its place or elsewhere; if that fails, it is the
 * old one. Resizing to nothing may free it. */
#define DEFINE_RESIZING(name, set, parameters, arguments, bytes)                                   \
    static void *name##_##set parameters                                                           \
    {                                                                                              \
        size_t size = bytes;                                                                       \
        if (is_counted_elsewhere(size)) {                                                          \
            return originals[set].of.name arguments;                                               \
        }                                                                                          \
        bool is_due = begin(size);                                                                 \
        int64_t place = begin_resizing(block);                                                     \
        void *resized = originals[set].of.name arguments;                                          \
        pyr_heap_resized(place, (uintptr_t)block, resized != NULL || size == 0);                   \
        end(resized, size, is_due, CALLER);                                                        \
        return resized;                                                                            \
    }

#define DEFINE_MAPPING(name, set)                                                                  \
    static void *name##_##set(void *at, size_t size, int protection, int flags, int file,          \
                              off_t offset)                                                        \
    {                                                                                              \
        if (is_counted_elsewhere(size) || !is_memory(protection, flags, file)) {                   \
            return originals[set].of.name(at, size, protection, flags, file, offset);              \
        }                                                                                          \
        bool is_due = begin(size);                                                                 \
        void *mapping = originals[set].of.name(at, size, protection, flags, file, offset);         \
        end(none_if_failed(mapping), size, is_due, CALLER);                                        \
        return mapping;                                                                            \
    }

/* What munmap takes of a mapping. */
static inline size_t whole_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return size <= MOST_BYTES ? (size + page - 1) / page * page : size;
}

static inline size_t product(size_t count, size_t each)
{
    size_t bytes;
    return __builtin_mul_overflow(count, each, &bytes) ? SIZE_MAX : bytes;
}

/* C++'s may end by an exception, which passes by its hook: so what has succeeded is counted, and
 * no mark is set. Only the allocator's own are hooked, which call no hook on their way. */
#define DEFINE_NEW(name, set)                                                                      \
    static void *name##_##set(size_t size, uintptr_t second, uintptr_t third)                      \
    {                                                                                              \
        void *block = originals[set].of.name(size, second, third);                                 \
        if (block != NULL && !is_counted_elsewhere(size)) {                                        \
            end(block, size, !pyr_heap_count(size), CALLER);                                       \
        }                                                                                          \
        return block;                                                                              \
    }

#define DEFINE_DELETE(name, set)                                                                   \
    static void name##_##set(void *block, uintptr_t second, uintptr_t third)                       \
    {                                                                                              \
        if (UNLIKELY(pyr_heap_filter_has((uintptr_t)block))) {                                     \
            forget(block);                                                                         \
        }                                                                                          \
        originals[set].of.name(block, second, third);                                              \
    }

#define DEFINE_SET(set)                                                                            \
    DEFINE_ALLOCATION(malloc, set, (size_t bytes), (bytes), bytes)                                 \
    DEFINE_ALLOCATION(calloc, set, (size_t count, size_t each), (count, each),                     \
                      product(count, each))                                                        \
    DEFINE_ALLOCATION(aligned_alloc, set, (size_t alignment, size_t bytes), (alignment, bytes),    \
                      bytes)                                                                       \
    DEFINE_ALLOCATION(memalign, set, (size_t alignment, size_t bytes), (alignment, bytes), bytes)  \
    DEFINE_ALLOCATION(valloc, set, (size_t bytes), (bytes), bytes)                                 \
    DEFINE_RESIZING(realloc, set, (void *block, size_t bytes), (block, bytes), bytes)              \
    DEFINE_RESIZING(reallocarray, set, (void *block, size_t count, size_t each),                   \
                    (block, count, each), product(count, each))                                    \
    DEFINE_MAPPING(mmap, set)                                                                      \
    DEFINE_MAPPING(mmap64, set)                                                                    \
    NEW_FUNCTIONS(DEFINE_NEW, set)                                                                 \
    DELETE_FUNCTIONS(DEFINE_DELETE, set)                                                           \
    static void free_##set(void *block)                                                            \
    {                                                                                              \
        if (UNLIKELY(pyr_heap_filter_has((uintptr_t)block))) {                                     \
            forget(block);                                                                         \
        }                                                                                          \
        originals[set].of.free(block);                                                             \
    }                                                                                              \
    static int posix_memalign_##set(void **block, size_t alignment, size_t size)                   \
    {                                                                                              \
        if (is_counted_elsewhere(size)) {                                                          \
            return originals[set].of.posix_memalign(block, alignment, size);                       \
        }                                                                                          \
        bool is_due = begin(size);                                                                 \
        int error = originals[set].of.posix_memalign(block, alignment, size);                      \
        end(error == 0 ? *block : NULL, size, is_due, CALLER);                                     \
        return error;                                                                              \
    }                                                                                              \
    static int munmap_##set(void *mapping, size_t size)                                            \
    {                                                                                              \
        if (UNLIKELY(pyr_heap_filter_has((uintptr_t)mapping))) {                                   \
            pyr_heap_cut((uintptr_t)mapping, whole_pages(size));                                   \
        }                                                                                          \
        return originals[set].of.munmap(mapping, size);                                            \
    }                                                                                              \
    static void *mremap_##set(void *mapping, size_t old_size, size_t size, int flags, ...)         \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        void *target = flags > MREMAP_MAYMOVE ? va_arg(rest, void *) : NULL;                       \
        va_end(rest);                                                                              \
        if (is_counted_elsewhere(size) || target != NULL) {                                        \
            return originals[set].of.mremap(mapping, old_size, size, flags, target);               \
        }                                                                                          \
        bool is_due = begin(size);                                                                 \
        int64_t place = begin_resizing(mapping);                                                   \
        void *moved = originals[set].of.mremap(mapping, old_size, size, flags, target);            \
        pyr_heap_resized(place, (uintptr_t)mapping, moved != MAP_FAILED);                          \
        end(none_if_failed(moved), size, is_due, CALLER);                                          \
        return moved;                                                                              \
    }

DEFINE_SET(0)
DEFINE_SET(1)
DEFINE_SET(2)
DEFINE_SET(3)

#define MEMBER(name, set) .name = name##_##set,
#define SET_OF_HOOKS(set)                                                                          \
    {                                                                                              \
        .of = { FUNCTIONS(MEMBER, set) }                                                           \
    }

static const addresses hooks[SETS] = {SET_OF_HOOKS(0), SET_OF_HOOKS(1), SET_OF_HOOKS(2),
                                      SET_OF_HOOKS(3)};
#undef MEMBER

/* What a slot would be bound to that is not yet: what we are bound to; 0: nobody has it yet. */
#define MEMBER(name, unused) .name = name,
static const addresses usual = {.of = {FUNCTIONS(MEMBER, )}};
#undef MEMBER

/* ----------------------------------------------------------------------------------- slots ---- */

static struct {
    pyr_lock lock;
    const void *owner; /* by lock, as what follows; NULL = nobody */
    pyr_native_stacks *stacks;
    pyr_imports imports;
    pyr_imports_wanted wanted;
    uint64_t unknown;                   /* slots left as they are for lack of a set */
    bool is_allocators[FUNCTION_COUNT]; /* C++'s that the allocator of malloc brings itself */
    atomic_bool is_open;
} state = {.lock = PYR_LOCK_INIT(PYR_LOCK_NATIVE)};

/* The set of which a function's hook is `held`; SETS: it is none of ours. */
static size_t set_of(size_t name, uintptr_t held)
{
    size_t set = 0;
    while (set < SETS && hooks[set].words[name] != held) {
        set++;
    }
    return set;
}

/* The set that passes a function on to `original`, maybe a fresh one; SETS: there is none left. */
static size_t set_for(size_t name, uintptr_t original)
{
    for (size_t set = 0; set < SETS; set++) {
        uintptr_t *word = &originals[set].words[name];
        if (*word == 0) {
            *word = original; /* the exchange of a slot is atomic, and comes after this */
        }
        if (*word == original) {
            return set;
        }
    }
    return SETS;
}

static uintptr_t choose_hook(void *context, size_t name, uintptr_t held, bool is_data)
{
    (void)context;
    bool is_usual = held == usual.words[name];
    if (set_of(name, held) < SETS || (is_data && !is_usual) ||
        (name >= FUNCTION_FIRST_OF_CPP && !(is_usual && state.is_allocators[name]))) {
        return held;
    }
    size_t set = set_for(name, held);
    state.unknown += set == SETS;
    return set < SETS ? hooks[set].words[name] : held;
}

static uintptr_t choose_original(void *context, size_t name, uintptr_t held, bool is_data)
{
    (void)context;
    (void)is_data;
    size_t set = set_of(name, held);
    return set < SETS ? originals[set].words[name] : held;
}

static void leave_alone(uintptr_t address)
{
    if (address != 0 && state.wanted.left_alone_count < PYR_IMPORTS_LEFT_ALONE) {
        state.wanted.left_alone[state.wanted.left_alone_count++] = address;
    }
}

/* C++'s functions of objects that define malloc. Usually those are another's, which calls malloc by
 * a slot of its own. */
static bool look_for_cpp(void *unused, const pyr_loaded *object)
{
    (void)unused;
    bool is_allocator = pyr_loaded_defines(object, names[FUNCTION_malloc]);
    for (size_t name = FUNCTION_FIRST_OF_CPP; is_allocator && name < FUNCTION_COUNT; name++) {
        state.is_allocators[name] |= pyr_loaded_has(object, usual.words[name], 1, PF_X);
    }
    return false;
}

/* Exchanges the slots of what is new, with the lock held; `now`: what is loaded. */
static void exchange(pyr_loaded_counts now)
{
    if (state.stacks != NULL) {
        pyr_native_stacks_look(state.stacks, now);
    }
    if (pyr_imports_want_round(&state.imports, now)) {
        pyr_imports_exchange(&state.imports, &state.wanted);
    }
}

void pyr_native_hooks_open(const void *owner, pyr_native_stacks *stacks,
                           const uintptr_t *left_alone, size_t count)
{
    pyr_loaded_counts now;
    pyr_lock_acquire(&state.lock);
    if (state.owner == NULL) {
        pyr_imports_clear(&state.imports);
        state.unknown = 0;
    }
    state.owner = owner;
    state.stacks = stacks;
    memset(state.is_allocators, 0, sizeof state.is_allocators);
    (void)!pyr_loaded_each(look_for_cpp, NULL);
    state.wanted = (pyr_imports_wanted){
        .names = names,
        .count = state.is_allocators[FUNCTION__Znwm] ? FUNCTION_COUNT : FUNCTION_FIRST_OF_CPP,
        .definer = "malloc",
        .choose = choose_hook,
        .usual = usual.words,
    };
    leave_alone((uintptr_t)&state);                 /* ourselves */
    leave_alone(usual.words[FUNCTION_mmap]);        /* the C library */
    leave_alone((uintptr_t)getauxval(AT_BASE) + 1); /* the loader */
    for (size_t at = 0; at < count; at++) {
        leave_alone(left_alone[at]);
    }
    state.imports.is_incomplete = true;
    if (pyr_loaded_count(&now)) {
        exchange(now);
    }
    atomic_store(&state.is_open, true);
    pyr_lock_release(&state.lock);
}

static void look(pyr_loaded_counts now)
{
    pyr_lock_acquire(&state.lock);
    if (state.owner != NULL) {
        exchange(now);
    }
    pyr_lock_release(&state.lock);
}

void pyr_native_hooks_tick(void)
{
    pyr_loaded_counts now;
    if (atomic_load_explicit(&state.is_open, memory_order_relaxed) && pyr_loaded_count_here(&now)) {
        look(now);
    }
}

void pyr_native_hooks_look(void)
{
    pyr_loaded_counts now;
    if (atomic_load_explicit(&state.is_open, memory_order_relaxed) && pyr_loaded_count(&now)) {
        look(now);
    }
}

void pyr_native_hooks_close(const void *owner)
{
    pyr_lock_acquire(&state.lock);
    if (state.owner == owner) {
        state.owner = NULL;
        state.stacks = NULL;
        atomic_store(&state.is_open, false);
        state.wanted.choose = choose_original;
        pyr_imports_clear(&state.imports);
        pyr_imports_exchange(&state.imports, &state.wanted);
    }
    pyr_lock_release(&state.lock);
}

void pyr_native_hooks_get_stats(pyr_native_hook_stats *stats)
{
    pyr_lock_acquire(&state.lock);
    *stats = (pyr_native_hook_stats){
        .exchanged = state.imports.exchanged,
        .refused = state.imports.refused + state.unknown,
    };
    pyr_lock_release(&state.lock);
}

/* ------------------------------------------------------------------------------------ fork ---- */

void pyr_native_hooks_prefork(void)
{
    pyr_lock_acquire(&state.lock);
    pyr_loaded_prefork();
}

void pyr_native_hooks_postfork_parent(void)
{
    pyr_lock_release(&state.lock);
}

void pyr_native_hooks_postfork_child(void)
{
    pyr_loaded_fork_child();
    pyr_lock_fork_child(&state.lock);
}
