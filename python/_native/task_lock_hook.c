/* Hooks around asyncio's Lock, Semaphore, BoundedSemaphore, Condition, Event and Queue.
 *
 * These are classes in Python, in one interpreter. What is exchanged is the C function by which a
 * function object is called (PyFunction_SetVectorcall): the classes, their methods and the code of
 * these stay the same objects, and are as before once the collector stops. Where calls from
 * bytecode do not ask for it, `async with` still does, and the one method that all waits go through
 * is replaced in its (private) class.
 *
 * An acquisition is counted as its coroutine is made. When it has to wait it asks for the loop
 * (`_get_loop`), and is no longer counted: the wait is. The stack then is that of the task, down to
 * what awaits the lock. The wait ends with the coroutine, which whoever awaits lets go of as soon
 * as it is done: a weak reference of a type of our own carries what is known, and its callback ends
 * it. Hooks run in the thread of the loop, with the GIL, and run no Python code beside the
 * originals.
 *
 * More lines than most: acquisitions, waits and releases decide together what is hooked when, and
 * the oldest version needs its own way to each of them.
 */
#include "task_lock_hook.h"

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "collect/lock.h"
#include "import_hook.h"
#include "lock_calls.h"
#include "own_state.h"

enum {
    MOST_OPEN = 16384,   /* waits that are followed at a time */
    MOST_MEASURED = 256, /* holds whose releases are looked for at a time */
};

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* X(type, module, class, whether its waits are for being woken). A class comes before its base. */
#define CLASSES(X)                                                                                 \
    X(TASK_LOCK, "asyncio.locks", "Lock", false)                                                   \
    X(TASK_BOUNDED_SEMAPHORE, "asyncio.locks", "BoundedSemaphore", false)                          \
    X(TASK_SEMAPHORE, "asyncio.locks", "Semaphore", false)                                         \
    X(TASK_CONDITION, "asyncio.locks", "Condition", true)                                          \
    X(TASK_EVENT, "asyncio.locks", "Event", true)                                                  \
    X(TASK_QUEUE, "asyncio.queues", "Queue", true)

typedef struct lock_class {
    pyr_lock_type type;
    const char *module, *name;
    bool parks;
    PyObject *object; /* ours while installed */
} lock_class;

static lock_class classes[] = {
#define ROW(type, module, name, parks) {PYR_LOCK_TYPE_##type, module, name, parks, NULL},
    CLASSES(ROW)
#undef ROW
};
enum { CLASS_COUNT = sizeof classes / sizeof classes[0] };

/* A weak reference to the coroutine that waits. */
typedef struct open_wait {
    PyWeakReference base;
    pyr_task_wait wait;
    PyObject *lock; /* a weak reference to it; NULL = there is none */
    bool is_over;
} open_wait;

static PyTypeObject *wait_type;
static PyObject *wait_callback;
static PyObject *spent;     /* an open_wait that is over: freed when its callback has returned */
static PyObject *is_locked; /* "_locked" */
static unsigned open_count;
static bool is_installed;

/* The version that brought this slot also asks for it in calls from bytecode. */
#ifdef Py_mod_multiple_interpreters
#define CALLS_ASK 1
#else
#define CALLS_ASK 0
static PyObject *counted;  /* the lock that was counted last: an identity */
#endif

static const lock_class *class_of(PyObject *lock)
{
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        if (classes[i].object != NULL &&
            PyObject_TypeCheck(lock, (PyTypeObject *)classes[i].object)) {
            return &classes[i];
        }
    }
    return NULL;
}

/* An attribute that lies in the object; a new reference. NULL: it has none, or its class has
 * something of that name, which might run code of the program. */
static PyObject *attribute_of(PyObject *lock, PyObject *name)
{
    return _PyType_Lookup(Py_TYPE(lock), name) == NULL ? PyObject_GenericGetAttr(lock, name) : NULL;
}

/* Each task has a context of its own. */
static uintptr_t key_of(const PyObject *lock, const PyThreadState *own)
{
    return pyr_lock_task_key(lock, own->context);
}

/* ------------------------------------------------------------------- acquisitions, releases ----
 */

static void expect_release(uintptr_t key);
static void follow_releases(void);

static __attribute__((noinline)) void sample(PyObject *lock, uintptr_t key, PyThreadState *own)
{
    const lock_class *class = class_of(lock);
    pyr_lock_type type = class != NULL ? class->type : PYR_LOCK_TYPE_TASK_LOCK;
    (void)pyr_lock_note((const void *)key, (pyr_addr)own);
    pyr_lock_sample((const void *)key, lock, type, (pyr_addr)own);
    pyr_lock_tend();
    expect_release(key);
}

static inline void acquire(PyObject *lock)
{
    PyThreadState *own = pyr_own_state();
    uintptr_t key = key_of(lock, own);
    pyr_lock_forget(key);
    if (UNLIKELY(pyr_countdown_hit(&pyr_lock_countdown))) {
        sample(lock, key, own);
    }
}

/* The acquisition that was counted last has to wait. */
static void forget_count(const PyObject *lock)
{
#if CALLS_ASK
    (void)lock;
    pyr_countdown_undo(&pyr_lock_countdown);
#else
    if (counted == lock) { /* others are not counted but by `async with` */
        counted = NULL;
        pyr_countdown_undo(&pyr_lock_countdown);
    }
#endif
}

static __attribute__((noinline)) void sample_release(PyObject *lock, uintptr_t key)
{
    const lock_class *class = class_of(lock);
    pyr_release_begin((const void *)key, lock,
                      class != NULL ? class->type : PYR_LOCK_TYPE_TASK_LOCK);
    pyr_lock_forget(key);
}

static inline void release(PyObject *lock)
{
    PyThreadState *own = pyr_own_state();
    uintptr_t key = key_of(lock, own);
    if (UNLIKELY(pyr_lock_has_waiting_tasks(lock))) {
        pyr_lock_task_release(lock, (pyr_addr)own);
        follow_releases();
    }
    if (UNLIKELY(atomic_load_explicit(&pyr_held_place((const void *)key)->lock,
                                      memory_order_relaxed) == key)) {
        sample_release(lock, key);
        follow_releases();
    }
}

/* ---------------------------------------------------------------------------------- waits ---- */

/* The wait that goes on in a coroutine; borrowed, NULL = none. */
static open_wait *find_wait(PyObject *coroutine)
{
    PyWeakReference *at = (PyWeakReference *)*PyObject_GET_WEAKREFS_LISTPTR(coroutine);
    while (at != NULL && !Py_IS_TYPE((PyObject *)at, wait_type)) {
        at = at->wr_next;
    }
    return (open_wait *)at;
}

static void end_wait(open_wait *open)
{
    if (open->is_over) {
        return;
    }
    open->is_over = true;
    bool got = !open->wait.parks;
    PyObject *lock = open->lock != NULL ? PyObject_CallNoArgs(open->lock) : NULL;
    if (lock == Py_None) {
        Py_CLEAR(lock);
    }
    if (open->wait.type == PYR_LOCK_TYPE_TASK_LOCK) {
        /* It waited in vain: it was cancelled. Not seen where another task has the lock. */
        PyObject *locked = lock != NULL ? attribute_of(lock, is_locked) : NULL;
        got = locked == Py_True;
        Py_XDECREF(locked);
    }
    PyErr_Clear();
    pyr_lock_task_wait_end(&open->wait, lock, (pyr_addr)pyr_own_state(), got);
    expect_release(open->wait.key);
    Py_XDECREF(lock);
    Py_CLEAR(open->lock);
}

/* Called as the coroutine goes. */
static PyObject *on_end(PyObject *module, PyObject *reference)
{
    (void)module;
    if (Py_IS_TYPE(reference, wait_type)) {
        end_wait((open_wait *)reference);
        open_count--;
        Py_XSETREF(spent, reference);
    }
    Py_RETURN_NONE;
}

static PyMethodDef on_end_definition = {"on_end", on_end, METH_O, NULL};

/* The coroutine of a frame; NULL: it is none's. */
static PyObject *coroutine_of(PyFrameObject *frame)
{
    PyObject *coroutine = frame != NULL ? PyFrame_GetGenerator(frame) : NULL;
    if (coroutine != NULL && !PyCoro_CheckExact(coroutine)) {
        Py_CLEAR(coroutine);
    }
    return coroutine;
}

static void follow_wait(PyObject *coroutine, PyObject *lock, const lock_class *class, uintptr_t key)
{
    open_wait *open = NULL;
    if (open_count < MOST_OPEN) {
        open = (open_wait *)PyObject_CallFunctionObjArgs((PyObject *)wait_type, coroutine,
                                                         wait_callback, NULL);
    }
    if (open == NULL) {
        PyErr_Clear();
        pyr_lock_miss();
        return;
    }
    open_count++;
    open->lock = PyWeakref_NewRef(lock, NULL);
    PyErr_Clear();
    pyr_lock_forget(key);
    pyr_lock_task_wait_begin(&open->wait, lock, key, class->type, class->parks,
                             (pyr_addr)pyr_own_state());
    follow_releases();
}

/* A coroutine asks for the loop of `lock`, since it has to wait. */
static __attribute__((noinline)) void begin_wait(PyObject *lock)
{
    PyThreadState *own = pyr_own_state();
    const lock_class *class = class_of(lock);
    PyFrameObject *frame = class != NULL ? PyThreadState_GetFrame(own) : NULL;
    PyObject *coroutine = coroutine_of(frame);
    /* A queue's getter may have to wait again: that is one wait. */
    if (coroutine != NULL && find_wait(coroutine) == NULL) {
        PyFrameObject *outer_frame = PyFrame_GetBack(frame);
        PyObject *outer = coroutine_of(outer_frame);
        open_wait *waits = outer != NULL ? find_wait(outer) : NULL;
        if (waits != NULL) {
            end_wait(waits); /* Condition.wait has been woken, and takes its lock again */
        }
        if (!class->parks) {
            forget_count(lock);
        }
        follow_wait(coroutine, lock, class, key_of(lock, own));
        Py_XDECREF(outer);
        Py_XDECREF(outer_frame);
    }
    PyErr_Clear();
    Py_XDECREF(coroutine);
    Py_XDECREF(frame);
}

/* ------------------------------------------------------------------------------- functions ---- */

static vectorcallfunc call_function; /* how CPython calls a function */

static inline PyObject *first_of(PyObject *const *values, size_t count)
{
    return PyVectorcall_NARGS(count) > 0 && pyr_lock_is_on() ? values[0] : NULL;
}

#if CALLS_ASK

static PyObject *call_acquire(PyObject *function, PyObject *const *values, size_t count,
                              PyObject *names)
{
    PyObject *lock = first_of(values, count);
    if (LIKELY(lock != NULL)) {
        acquire(lock);
    }
    return call_function(function, values, count, names);
}

static PyObject *call_release(PyObject *function, PyObject *const *values, size_t count,
                              PyObject *names)
{
    PyObject *lock = first_of(values, count);
    if (LIKELY(lock != NULL)) {
        release(lock);
    }
    return call_function(function, values, count, names);
}

static PyObject *call_get_loop(PyObject *function, PyObject *const *values, size_t count,
                               PyObject *names)
{
    PyObject *loop = call_function(function, values, count, names);
    PyObject *lock = loop != NULL ? first_of(values, count) : NULL;
    if (lock != NULL) {
        begin_wait(lock);
    }
    return loop;
}

#else

static PyObject *condition_lock; /* "_lock" */

/* What `async with` takes: of a condition, its lock. Borrowed: whoever calls has the condition. */
static PyObject *lock_of(PyObject *manager)
{
    const lock_class *class = class_of(manager);
    if (class == NULL || class->type != PYR_LOCK_TYPE_TASK_CONDITION) {
        return manager;
    }
    PyObject *lock = attribute_of(manager, condition_lock);
    PyErr_Clear();
    Py_XDECREF(lock);
    return lock != NULL ? lock : manager;
}

static PyObject *call_enter(PyObject *function, PyObject *const *values, size_t count,
                            PyObject *names)
{
    PyObject *lock = first_of(values, count);
    if (LIKELY(lock != NULL)) {
        counted = lock_of(lock);
        acquire(counted);
    }
    return call_function(function, values, count, names);
}

static PyObject *call_exit(PyObject *function, PyObject *const *values, size_t count,
                           PyObject *names)
{
    PyObject *lock = first_of(values, count);
    if (LIKELY(lock != NULL)) {
        release(lock_of(lock));
    }
    return call_function(function, values, count, names);
}

static PyObject *original_get_loop;

static PyObject *get_loop(PyObject *lock, PyObject *unused)
{
    (void)unused;
    PyObject *loop = PyObject_CallOneArg(original_get_loop, lock);
    if (loop != NULL && pyr_lock_is_on()) {
        begin_wait(lock);
    }
    return loop;
}

static PyMethodDef get_loop_definition = {"_get_loop", get_loop, METH_NOARGS, NULL};

#endif

typedef struct hooked_function {
    const char *class, *name;
    vectorcallfunc hook;
    bool is_release;
    PyObject *function; /* ours while installed */
    PyObject *code;     /* what it had then; ours */
    uint32_t version;   /* what it had before it was hooked */
} hooked_function;

static hooked_function functions[] = {
#if CALLS_ASK
    {.class = "Lock", .name = "acquire", .hook = call_acquire},
    {.class = "Lock", .name = "release", .hook = call_release, .is_release = true},
    {.class = "Semaphore", .name = "acquire", .hook = call_acquire},
    {.class = "Semaphore", .name = "release", .hook = call_release, .is_release = true},
    {.class = "Lock", .name = "_get_loop", .hook = call_get_loop},
#else
    {.class = "Lock", .name = "__aenter__", .hook = call_enter},
    {.class = "Lock", .name = "__aexit__", .hook = call_exit},
#endif
};
enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };

static void hook(hooked_function *hooked)
{
    PyFunctionObject *function = (PyFunctionObject *)hooked->function;
    if (function->vectorcall != call_function) {
        return; /* somebody else's now */
    }
    hooked->version = function->func_version;
#if CALLS_ASK
    PyFunction_SetVectorcall(function, hooked->hook);
#else
    function->vectorcall = hooked->hook;
#endif
}

/* A function that was hooked has no version any more, and later ones never get another: calls of it
 * from bytecode would stay slow for ever. It has its own again if it still is what that stood for.
 */
static void unhook(hooked_function *hooked)
{
    PyFunctionObject *function = (PyFunctionObject *)hooked->function;
    if (function->vectorcall != hooked->hook) {
        return;
    }
    function->vectorcall = call_function;
    if (function->func_code == hooked->code && function->func_defaults == NULL &&
        function->func_kwdefaults == NULL) {
        function->func_version = hooked->version;
    }
}

#if CALLS_ASK

/* A hook makes a call from bytecode into one from C, which costs several times what the hook does.
 * So releases are hooked only while one may have something to tell: of a hold that is measured, or
 * to tasks that wait. */
static uintptr_t measured[MOST_MEASURED]; /* keys of holds */
static unsigned measured_count;
static bool is_crowded; /* there were more: releases stay hooked */
static bool sees_releases;

static void see_releases(bool wanted)
{
    for (size_t i = 0; i < FUNCTION_COUNT && wanted != sees_releases; i++) {
        if (functions[i].is_release) {
            (wanted ? hook : unhook)(&functions[i]);
        }
    }
    sees_releases = wanted;
}

/* Forgets holds that are over, or whose note another lock has taken; and `key`. */
static void look_through_measured(uintptr_t key)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < measured_count; i++) {
        if (measured[i] != key && pyr_lock_is_measured((const void *)measured[i])) {
            measured[kept++] = measured[i];
        }
    }
    measured_count = kept;
}

static void follow_releases(void)
{
    if (is_installed && !is_crowded) {
        look_through_measured(0);
        see_releases(measured_count > 0 || pyr_lock_has_any_waiting_tasks());
    }
}

/* The hold of `key` has begun, and may be measured. */
static void expect_release(uintptr_t key)
{
    look_through_measured(key);
    if (pyr_lock_is_measured((const void *)key)) {
        if (measured_count < MOST_MEASURED) {
            measured[measured_count++] = key;
        } else {
            is_crowded = true;
        }
    }
    follow_releases();
}

/* All have just been hooked. */
static void begin_releases(void)
{
    measured_count = 0;
    is_crowded = false;
    sees_releases = true;
    follow_releases();
}

#else /* they are called from C anyway */

static void begin_releases(void)
{
}

static void follow_releases(void)
{
}

static void expect_release(uintptr_t key)
{
    (void)key;
}

#endif

/* ---------------------------------------------------------------------- installation, removal ----
 */

static bool take_classes(void)
{
    PyObject *found[CLASS_COUNT];
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        found[i] = pyr_import_hook_find(classes[i].module, classes[i].name);
        if (found[i] == NULL || !PyType_Check(found[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        classes[i].object = Py_NewRef(found[i]);
    }
    return true;
}

/* The functions as they are; false: they are not what we know, and nothing may be done. */
static bool take_functions(void)
{
    bool good = true;
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        PyObject *class = pyr_import_hook_find("asyncio.locks", functions[i].class);
        PyObject *function = PyObject_GetAttrString(class, functions[i].name);
        PyErr_Clear();
        functions[i].function = function;
        if (function == NULL || !PyFunction_Check(function)) {
            good = false;
        } else if (call_function == NULL) {
            call_function = ((PyFunctionObject *)function)->vectorcall;
        }
        good = good && ((PyFunctionObject *)function)->vectorcall == call_function;
        functions[i].code = good ? Py_NewRef(((PyFunctionObject *)function)->func_code) : NULL;
    }
    return good;
}

static bool make_wait_type(void)
{
    static PyType_Slot slots[] = {{Py_tp_doc, NULL}, {0, NULL}};
    static PyType_Spec spec = {
        .name = "pyrometer._native.wait",
        .basicsize = sizeof(open_wait),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots + 1,
    };
    if (wait_type == NULL) {
        is_locked = PyUnicode_InternFromString("_locked");
        wait_callback = PyCFunction_New(&on_end_definition, NULL);
        wait_type =
            (PyTypeObject *)PyType_FromSpecWithBases(&spec, (PyObject *)&_PyWeakref_RefType);
    }
    return is_locked != NULL && wait_callback != NULL && wait_type != NULL;
}

#if CALLS_ASK

static bool replace_get_loop(void)
{
    return true;
}

static void restore_get_loop(void)
{
}

#else

/* The class that has it: one that is private, above those that programs use. Ours while installed.
 */
static PyObject *loop_class;
static bool is_passed_on; /* the program calls ours from what it put there: never again */

static bool replace_get_loop(void)
{
    PyObject *class = pyr_import_hook_find("asyncio.mixins", "_LoopBoundMixin");
    condition_lock = condition_lock != NULL ? condition_lock : PyUnicode_InternFromString("_lock");
    if (class == NULL || !PyType_Check(class) || condition_lock == NULL || is_passed_on) {
        return false;
    }
    PyObject *function = PyObject_GetAttrString(class, "_get_loop");
    PyObject *ours = PyDescr_NewMethod((PyTypeObject *)class, &get_loop_definition);
    bool good = function != NULL && PyFunction_Check(function) && ours != NULL &&
                PyObject_SetAttrString(class, "_get_loop", ours) == 0;
    Py_XDECREF(ours);
    if (good) {
        Py_XSETREF(original_get_loop, function);
        Py_XSETREF(loop_class, Py_NewRef(class));
    } else {
        Py_XDECREF(function);
    }
    return good;
}

/* Where the program has put something else there, that stays. */
static void restore_get_loop(void)
{
    PyObject *there = PyObject_GetAttrString(loop_class, "_get_loop");
    if (there != NULL && Py_IS_TYPE(there, &PyMethodDescr_Type) &&
        ((PyMethodDescrObject *)there)->d_method == &get_loop_definition) {
        (void)PyObject_SetAttrString(loop_class, "_get_loop", original_get_loop);
    } else {
        is_passed_on = true;
    }
    Py_XDECREF(there);
    Py_CLEAR(loop_class);
}

#endif

/* Also of what was taken in part. */
static void remove_hooks(void)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        if (is_installed) {
            unhook(&functions[i]);
        }
        Py_CLEAR(functions[i].function);
        Py_CLEAR(functions[i].code);
    }
    if (is_installed) {
        restore_get_loop();
    }
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        Py_CLEAR(classes[i].object);
    }
    is_installed = false;
    pyr_lock_note_hook(PYR_LOCK_HOOK_TASKS, "none");
}

static bool is_unknown; /* this Python's asyncio is another one */

static void install(void)
{
    if (!take_classes()) {
        return; /* not imported yet */
    }
    if (!take_functions() || !make_wait_type() || !replace_get_loop()) {
        is_unknown = true;
        remove_hooks();
        pyr_lock_note_hook(PYR_LOCK_HOOK_TASKS, "this Python's asyncio is not known");
        return;
    }
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        hook(&functions[i]);
    }
    is_installed = true;
    begin_releases();
    pyr_lock_note_hook(PYR_LOCK_HOOK_TASKS,
                       CALLS_ASK ? "waits and acquisitions" : "waits and `async with`");
}

bool pyr_task_lock_hook_follow(void)
{
    bool wanted = pyr_lock_is_on();
    PyObject *type, *value, *traceback;
    if (wanted == is_installed || is_unknown) {
        return false;
    }
    PyErr_Fetch(&type, &value, &traceback);
    if (wanted) {
        install();
    } else {
        remove_hooks();
    }
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return wanted && !is_installed && !is_unknown;
}
