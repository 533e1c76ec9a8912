/* Hooks around the methods of `_thread.lock` and `_thread.RLock`: every lock of the process.
 *
 * The types' method descriptors lead to a PyMethodDef in static memory, whose C function is read at
 * each call, also through bound methods and specialised bytecode. Exchanging it there measures all
 * locks, whenever made, and changes nothing that a program can see. Call conventions differ by
 * version: the flags of each entry choose the hook, and an entry with unknown flags is left alone.
 *
 * A hook runs in the calling thread with the GIL. Whether an acquisition will wait is asked before
 * it is made: of a lock by its own method `locked`, of an RLock by the word where it keeps its
 * owner, which is found at installation by looking at one (the struct is CPython's own). Where that
 * does not tell all and somebody waits for the lock, a call without arguments is tried without
 * waiting first, and others are timed.
 * Owns the original functions. It runs no Python code beside them and leaves results, errors and
 * reference counts alone.
 */
#include "lock_hook.h"

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collect/lock.h"
#include "lock_calls.h"
#include "lock_name.h"
#include "own_state.h"

enum {
    OWNER_FIRST = 2, /* words of an RLock behind its head, among which the owner is looked for */
    OWNER_LAST = 6,
    HOOK_TEXT_BYTES = 200,
    WAITER_PLACES = 1 << 12,
};

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

static PyCFunction is_locked;       /* lock.locked, as it is */
static PyCFunction is_rlock_locked; /* RLock.locked, where there is one: then it is exact, too */
static bool is_exact;               /* `locked` of a lock tells all; see install */
static PyObject *only_false;        /* (False,) */
static size_t owner_offset;         /* of an RLock's owner; 0 = not found */
static char hook_text[HOOK_TEXT_BYTES];
static bool is_installed;

/* Threads in calls that may wait, by the address of the lock. Several locks may share a place, and
 * in the child of a fork threads may be counted that are gone: then a lock is only taken for one
 * that somebody waits for. */
static _Atomic uint16_t waiters[WAITER_PLACES];

static inline _Atomic uint16_t *waiters_of(const PyObject *lock)
{
    return &waiters[(uintptr_t)lock >> 4 & (WAITER_PLACES - 1)];
}

static inline bool is_waited_for(const PyObject *lock)
{
    return atomic_load_explicit(waiters_of(lock), memory_order_relaxed) != 0;
}

static inline uintptr_t owner_of(const PyObject *rlock)
{
    uintptr_t owner;
    memcpy(&owner, (const char *)rlock + owner_offset, sizeof owner);
    return owner;
}

/* ---------------------------------------------------------------------------------- waits ---- */

/* One call of an original, whatever its convention. */
typedef struct call {
    PyObject *self;
    PyObject *tuple;         /* METH_VARARGS */
    PyObject *dict;          /* METH_KEYWORDS with it */
    PyObject *const *values; /* METH_FASTCALL */
    Py_ssize_t count;
    PyObject *names;
    PyCFunction original;
    int flags;
} call;

static ALWAYS_INLINE PyObject *make_call(const call *made)
{
    switch (made->flags) {
    case METH_VARARGS | METH_KEYWORDS:
        return ((PyCFunctionWithKeywords)(void (*)(void))made->original)(made->self, made->tuple,
                                                                         made->dict);
    case METH_FASTCALL | METH_KEYWORDS:
        return ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *))(void (*)(
            void))made->original)(made->self, made->values, made->count, made->names);
    case METH_FASTCALL:
        return ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t))(
                    void (*)(void))made->original)(made->self, made->values, made->count);
    default: /* METH_VARARGS, METH_NOARGS, METH_O */
        return made->original(made->self, made->tuple);
    }
}

/* Calls are handed to what is not inline by value: so they are in memory only there. */

static inline PyObject *make_waiting_call(const call *made)
{
    _Atomic uint16_t *count = waiters_of(made->self);
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    PyObject *result = make_call(made);
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
    return result;
}

/* An acquisition of a lock that somebody has. */
static __attribute__((noinline)) PyObject *wait_for(call made, pyr_lock_type type,
                                                    bool returns_none)
{
    PyThreadState *own = pyr_own_state();
    PyObject *const *values = made.values;
    Py_ssize_t count = made.count;
    if ((made.flags & METH_VARARGS) != 0 && made.tuple != NULL && !returns_none) {
        values = ((PyTupleObject *)made.tuple)->ob_item;
        count = PyTuple_GET_SIZE(made.tuple);
    }
    if (!returns_none && !pyr_may_wait(values, count, made.names, made.dict)) {
        PyObject *result = make_call(&made);
        if (result == Py_True) {
            pyr_lock_got(made.self, type, (pyr_addr)own);
        }
        return result;
    }
    pyr_lock_wait wait;
    pyr_addr holder = pyr_lock_holder_or_heir(made.self, (pyr_addr)own);
    pyr_lock_wait_begin(&wait, made.self, type, (pyr_addr)own,
                        holder != 0 && pyr_thread_exists(own, holder) ? holder : 0,
                        !returns_none && pyr_has_timeout(values, count, made.names, made.dict));
    PyObject *result = make_waiting_call(&made);
    bool got = returns_none ? result != NULL : result == Py_True;
    if (pyr_lock_wait_end(&wait, (pyr_addr)own, got)) {
        pyr_lock_tend();
    }
    return result;
}

/* Takes the lock if it is free, where the call has no arguments: NULL with no error: it is not, or
 * cannot be tried. */
static inline PyObject *try_call(const call *made)
{
    PyObject *result = NULL;
    if (made->flags == (METH_VARARGS | METH_KEYWORDS) && PyTuple_GET_SIZE(made->tuple) == 0 &&
        made->dict == NULL) {
        result =
            ((PyCFunctionWithKeywords)(void (*)(void))made->original)(made->self, only_false, NULL);
    } else if (made->flags == (METH_FASTCALL | METH_KEYWORDS) && made->count == 0 &&
               made->names == NULL) {
        PyObject *const values[] = {Py_False};
        result = ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *))(
                      void (*)(void))made->original)(made->self, values, 1, NULL);
    }
    if (LIKELY(result == Py_True)) {
        return result;
    }
    Py_XDECREF(result);
    if (UNLIKELY(result == NULL)) {
        PyErr_Clear();
    }
    return NULL;
}

/* A call that may wait, though the lock looks free, and cannot be tried first: what it took. */
static PyObject *call_timed(const call *made, pyr_lock_type type, bool returns_none)
{
    pyr_lock_wait wait;
    int64_t began_ns = pyr_clock_monotonic_ns();
    PyObject *result = make_waiting_call(made);
    bool got = returns_none ? result != NULL : result == Py_True;
    if (pyr_lock_wait_late(&wait, made->self, type, began_ns)) {
        if (pyr_lock_wait_end(&wait, (pyr_addr)pyr_own_state(), got)) {
            pyr_lock_tend();
        }
    } else if (got) {
        pyr_lock_got(made->self, type, (pyr_addr)pyr_own_state());
    }
    return result;
}

/* An acquisition of a lock that is free. */
static ALWAYS_INLINE PyObject *acquire_free(const call *made, pyr_lock_type type, bool returns_none)
{
    PyObject *result = make_call(made);
    if (LIKELY(returns_none ? result != NULL : result == Py_True)) {
        pyr_lock_got(made->self, type, (pyr_addr)pyr_own_state());
    }
    return result;
}

/* An acquisition of a lock that looks free but that somebody waits for: up to 3.13 a waiter that
 * was woken has it before it has the GIL, and only then it is marked. */
static __attribute__((noinline)) PyObject *acquire_unsure(call made, pyr_lock_type type,
                                                          bool returns_none)
{
    bool has_no_arguments =
        !returns_none &&
        ((made.flags == (METH_VARARGS | METH_KEYWORDS) && PyTuple_GET_SIZE(made.tuple) == 0 &&
          made.dict == NULL) ||
         (made.flags == (METH_FASTCALL | METH_KEYWORDS) && made.count == 0 && made.names == NULL));
    if (is_exact) {
        return acquire_free(&made, type, returns_none);
    }
    if (!has_no_arguments) {
        return call_timed(&made, type, returns_none);
    }
    PyObject *result = try_call(&made);
    if (LIKELY(result != NULL)) {
        pyr_lock_got(made.self, type, (pyr_addr)pyr_own_state());
        return result;
    }
    return wait_for(made, type, false);
}

static ALWAYS_INLINE PyObject *acquire_lock(const call *made)
{
    if (UNLIKELY(!pyr_lock_is_on())) {
        return make_call(made);
    }
    PyObject *locked = is_locked(made->self, NULL);
    bool is_free = locked == Py_False;
    Py_DECREF(locked);
    if (UNLIKELY(!is_free)) {
        return wait_for(*made, PYR_LOCK_TYPE_LOCK, false);
    }
    if (UNLIKELY(is_waited_for(made->self))) {
        return acquire_unsure(*made, PYR_LOCK_TYPE_LOCK, false);
    }
    return acquire_free(made, PYR_LOCK_TYPE_LOCK, false);
}

/* An acquisition of an RLock that has an owner, or that somebody waits for. */
static __attribute__((noinline)) PyObject *acquire_used_rlock(call made, bool returns_none)
{
    uintptr_t owner = owner_of(made.self);
    if (owner == PyThread_get_thread_ident()) {
        PyObject *result = make_call(&made);
        bool got = returns_none ? result != NULL : result == Py_True;
        if (got && pyr_countdown_hit(&pyr_lock_countdown)) {
            pyr_lock_sample(NULL, made.self, PYR_LOCK_TYPE_RLOCK, (pyr_addr)pyr_own_state());
        }
        return result;
    }
    bool is_taken = owner != 0;
    if (!is_taken && is_rlock_locked != NULL) {
        PyObject *locked = is_rlock_locked(made.self, NULL);
        is_taken = locked == Py_True;
        Py_XDECREF(locked);
    }
    return is_taken ? wait_for(made, PYR_LOCK_TYPE_RLOCK, returns_none)
                    : acquire_unsure(made, PYR_LOCK_TYPE_RLOCK, returns_none);
}

static ALWAYS_INLINE PyObject *acquire_rlock(const call *made, bool returns_none)
{
    if (UNLIKELY(!pyr_lock_is_on())) {
        return make_call(made);
    }
    if (UNLIKELY(owner_of(made->self) != 0 || is_waited_for(made->self))) {
        return acquire_used_rlock(*made, returns_none);
    }
    return acquire_free(made, PYR_LOCK_TYPE_RLOCK, returns_none);
}

static __attribute__((noinline)) PyObject *release_measured_lock(call made)
{
    pyr_release_begin(made.self, made.self, PYR_LOCK_TYPE_LOCK);
    return make_call(&made);
}

static ALWAYS_INLINE PyObject *release_lock(const call *made)
{
    pyr_held *held = pyr_lock_is_on() ? pyr_lock_noted(made->self) : NULL;
    if (LIKELY(held != NULL)) {
        if (UNLIKELY(pyr_held_is_measured(held))) {
            return release_measured_lock(*made);
        }
        pyr_held_note_release(held);
    }
    return make_call(made);
}

/* Only the last of as many releases as acquisitions gives an RLock back. */
static ALWAYS_INLINE PyObject *release_rlock(const call *made)
{
    PyObject *result = make_call(made);
    if (LIKELY(pyr_lock_is_on()) && owner_of(made->self) == 0) {
        pyr_release_begin(made->self, made->self, PYR_LOCK_TYPE_RLOCK);
    }
    return result;
}

/* ---------------------------------------------------------------------------------- slots ---- */

/* X(slot, type, what the hook does, name of the method). Two names of one function are two slots:
 * they have an entry each. */
#define SLOTS(X)                                                                                   \
    X(lock_acquire, LOCK, acquire_lock(&made), "acquire")                                          \
    X(lock_acquire_lock, LOCK, acquire_lock(&made), "acquire_lock")                                \
    X(lock_enter, LOCK, acquire_lock(&made), "__enter__")                                          \
    X(lock_release, LOCK, release_lock(&made), "release")                                          \
    X(lock_release_lock, LOCK, release_lock(&made), "release_lock")                                \
    X(lock_exit, LOCK, release_lock(&made), "__exit__")                                            \
    X(rlock_acquire, RLOCK, acquire_rlock(&made, false), "acquire")                                \
    X(rlock_enter, RLOCK, acquire_rlock(&made, false), "__enter__")                                \
    X(rlock_restore, RLOCK, acquire_rlock(&made, true), "_acquire_restore")                        \
    X(rlock_release, RLOCK, release_rlock(&made), "release")                                       \
    X(rlock_exit, RLOCK, release_rlock(&made), "__exit__")                                         \
    X(rlock_save, RLOCK, release_rlock(&made), "_release_save")

/* The original of a slot, and a hook of each convention around it: the flags are constants in each,
 * so that make_call is one plain call. */
#define DEFINE_SLOT(slot, type, action, name)                                                      \
    static PyCFunction original_##slot;                                                            \
    static PyObject *slot##_words(PyObject *self, PyObject *tuple, PyObject *dict)                 \
    {                                                                                              \
        const call made = {.self = self,                                                           \
                           .tuple = tuple,                                                         \
                           .dict = dict,                                                           \
                           .original = original_##slot,                                            \
                           .flags = METH_VARARGS | METH_KEYWORDS};                                 \
        return action;                                                                             \
    }                                                                                              \
    static PyObject *slot##_fast_words(PyObject *self, PyObject *const *values, Py_ssize_t count,  \
                                       PyObject *names)                                            \
    {                                                                                              \
        const call made = {.self = self,                                                           \
                           .values = values,                                                       \
                           .count = count,                                                         \
                           .names = names,                                                         \
                           .original = original_##slot,                                            \
                           .flags = METH_FASTCALL | METH_KEYWORDS};                                \
        return action;                                                                             \
    }                                                                                              \
    static PyObject *slot##_fast(PyObject *self, PyObject *const *values, Py_ssize_t count)        \
    {                                                                                              \
        const call made = {.self = self,                                                           \
                           .values = values,                                                       \
                           .count = count,                                                         \
                           .original = original_##slot,                                            \
                           .flags = METH_FASTCALL};                                                \
        return action;                                                                             \
    }                                                                                              \
    static PyObject *slot##_plain(PyObject *self, PyObject *tuple)                                 \
    {                                                                                              \
        const call made = {                                                                        \
            .self = self, .tuple = tuple, .original = original_##slot, .flags = METH_O};           \
        return action;                                                                             \
    }

SLOTS(DEFINE_SLOT)

typedef struct slot_row {
    pyr_lock_type type;
    const char *name;
    PyCFunction *original;
    PyCFunctionWithKeywords words;
    PyObject *(*fast_words)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    PyObject *(*fast)(PyObject *, PyObject *const *, Py_ssize_t);
    PyCFunction plain;
} slot_row;

static const slot_row rows[] = {
#define ROW(slot, type, action, name)                                                              \
    {PYR_LOCK_TYPE_##type, name,        &original_##slot, slot##_words,                            \
     slot##_fast_words,    slot##_fast, slot##_plain},
    SLOTS(ROW)
#undef ROW
};

/* The hook of a row for a convention; NULL: not one that we know. */
static PyCFunction hook_for(const slot_row *row, int flags)
{
    switch (flags) {
    case METH_VARARGS | METH_KEYWORDS:
        return (PyCFunction)(void (*)(void))row->words;
    case METH_FASTCALL | METH_KEYWORDS:
        return (PyCFunction)(void (*)(void))row->fast_words;
    case METH_FASTCALL:
        return (PyCFunction)(void (*)(void))row->fast;
    case METH_VARARGS:
    case METH_NOARGS:
    case METH_O:
        return row->plain;
    default:
        return NULL;
    }
}

/* --------------------------------------------------------------------------- installation ---- */

/* The entry behind a method of a type; NULL: there is none, and no error is set. */
static PyMethodDef *entry_of(PyObject *type, const char *name)
{
    PyObject *method = PyObject_GetAttrString(type, name);
    PyMethodDef *entry = NULL;
    if (method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type)) {
        entry = ((PyMethodDescrObject *)method)->d_method; /* static: outlives the descriptor */
    }
    Py_XDECREF(method);
    PyErr_Clear();
    return entry;
}

/* Where RLocks keep their owner: the word that is 0 before and after, and the thread's ident while
 * it has the lock. 0: it was not found. */
static size_t find_owner(PyObject *rlock_type)
{
    uintptr_t before[OWNER_LAST], during[OWNER_LAST], after[OWNER_LAST];
    size_t found = 0;
    size_t words = (size_t)((PyTypeObject *)rlock_type)->tp_basicsize / sizeof(uintptr_t);
    words = words < OWNER_LAST ? words : OWNER_LAST;
    PyObject *rlock = PyObject_CallNoArgs(rlock_type);
    if (rlock != NULL) {
        memcpy(before, rlock, words * sizeof(uintptr_t));
        PyObject *taken = PyObject_CallMethod(rlock, "acquire", NULL);
        memcpy(during, rlock, words * sizeof(uintptr_t));
        PyObject *given = taken != NULL ? PyObject_CallMethod(rlock, "release", NULL) : NULL;
        memcpy(after, rlock, words * sizeof(uintptr_t));
        for (size_t i = OWNER_FIRST; given != NULL && i < words && found == 0; i++) {
            if (before[i] == 0 && during[i] == PyThread_get_thread_ident() && after[i] == 0) {
                found = i * sizeof(uintptr_t);
            }
        }
        Py_XDECREF(taken);
        Py_XDECREF(given);
        Py_DECREF(rlock);
    }
    PyErr_Clear();
    return found;
}

static void install(PyObject *lock_type, PyObject *rlock_type)
{
    size_t hooked = 0;
    const PyMethodDef *locked = entry_of(lock_type, "locked");
    is_locked = locked != NULL && locked->ml_flags == METH_NOARGS ? locked->ml_meth : NULL;
    /* A lock that is one byte behind the object's head is marked by whoever takes it, at once. */
    is_exact = ((PyTypeObject *)lock_type)->tp_basicsize <= (Py_ssize_t)(3 * sizeof(void *));
    const PyMethodDef *rlock_locked = entry_of(rlock_type, "locked");
    is_rlock_locked = is_exact && rlock_locked != NULL && rlock_locked->ml_flags == METH_NOARGS
                          ? rlock_locked->ml_meth
                          : NULL;
    only_false = PyTuple_Pack(1, Py_False);
    if (only_false == NULL) {
        PyErr_Clear();
        pyr_lock_note_hook(PYR_LOCK_HOOK_THREADS, "no memory");
        return;
    }
    owner_offset = find_owner(rlock_type);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const slot_row *row = &rows[i];
        bool is_lock = row->type == PYR_LOCK_TYPE_LOCK;
        PyMethodDef *entry = entry_of(is_lock ? lock_type : rlock_type, row->name);
        PyCFunction hook = entry != NULL ? hook_for(row, entry->ml_flags) : NULL;
        if (hook != NULL && (is_lock ? is_locked != NULL : owner_offset != 0)) {
            *row->original = entry->ml_meth;
            /* Interpreters with a GIL of their own read it in parallel. */
            __atomic_store_n(&entry->ml_meth, hook, __ATOMIC_RELEASE);
            hooked++;
        }
    }
    (void)snprintf(hook_text, sizeof hook_text, "%zu of %zu methods%s%s", hooked,
                   sizeof rows / sizeof rows[0], is_locked == NULL ? "; not Lock" : "",
                   owner_offset == 0 ? "; not RLock" : "");
    pyr_lock_note_hook(PYR_LOCK_HOOK_THREADS, hook_text);
}

/* A type of CPython's, also where the program has put something else in its place, as gevent does.
 * A new reference; NULL: there is none, and no error is set. */
static PyObject *find_type(PyObject *module, const char *attribute, const char *name)
{
    PyObject *found = module != NULL ? PyObject_GetAttrString(module, attribute) : NULL;
    if (found != NULL && PyType_Check(found) &&
        strcmp(((PyTypeObject *)found)->tp_name, name) == 0) {
        return found;
    }
    Py_CLEAR(found);
    PyErr_Clear();
    PyObject *all = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__subclasses__", NULL);
    for (Py_ssize_t i = 0; all != NULL && PyList_Check(all) && i < PyList_GET_SIZE(all); i++) {
        PyObject *type = PyList_GET_ITEM(all, i);
        if (found == NULL && PyType_Check(type) &&
            strcmp(((PyTypeObject *)type)->tp_name, name) == 0) {
            found = Py_NewRef(type);
        }
    }
    PyErr_Clear();
    Py_XDECREF(all);
    return found;
}

void pyr_lock_hook_follow(void)
{
    if (is_installed || !pyr_lock_is_on()) {
        return;
    }
    is_installed = true;
    pyr_lock_set_namer(pyr_lock_name_find);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *module = PyImport_ImportModule("_thread");
    PyObject *lock_type = find_type(module, "LockType", "_thread.lock");
    PyObject *rlock_type = find_type(module, "RLock", "_thread.RLock");
    if (lock_type != NULL && rlock_type != NULL) {
        install(lock_type, rlock_type);
    } else {
        pyr_lock_note_hook(PYR_LOCK_HOOK_THREADS, "this Python's locks are not known");
    }
    Py_XDECREF(lock_type);
    Py_XDECREF(rlock_type);
    Py_XDECREF(module);
    PyErr_Restore(type, value, traceback);
}
