/* Hooks around the locks of gevent and eventlet, by which greenlets wait: a greenlet that waits
 * keeps its thread free for others, as a task does, and so its waits are kept as those of tasks.
 *
 * The methods are functions in Python (eventlet), or of Cython (gevent). Both are called by a C
 * function that the object itself has (vectorcall), which is exchanged: classes, methods and locks
 * stay the same objects. Where calls from bytecode do not ask a function in Python for it, `with`
 * still does. Whether an acquisition has to wait is told by the lock's counter. Hooks stay, as a
 * pass-through: another tool may have put its own around them.
 *
 * Hooks run in any thread, with the GIL, in the stack of the greenlet that calls, and run no Python
 * code beside the originals.
 */
#include "greenlet_lock_hook.h"

#include <Python.h>

#include <stdbool.h>
#include <stdio.h>

#include "collect/lock.h"
#include "import_hook.h"
#include "lock_calls.h"
#include "own_state.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

typedef struct hooked_method {
    const char *module, *class, *name;
    bool acquires, returns_none; /* as `__enter__` does */
    PyObject *callable;          /* ours, once it is hooked; NULL = not yet */
    vectorcallfunc original;
} hooked_method;

/* The version that brought this slot also asks functions in Python in calls from bytecode. */
#ifdef Py_mod_multiple_interpreters
#define EVENTLET_METHODS                                                                           \
    {"eventlet.semaphore", "Semaphore", "acquire", true, false, NULL, NULL},                       \
        {"eventlet.semaphore", "Semaphore", "release", false, false, NULL, NULL},                  \
        {"eventlet.lock", "Lock", "release", false, false, NULL, NULL},
#else
#define EVENTLET_METHODS                                                                           \
    {"eventlet.semaphore", "Semaphore", "__enter__", true, true, NULL, NULL},                      \
        {"eventlet.semaphore", "Semaphore", "__exit__", false, false, NULL, NULL},
#endif

static hooked_method methods[] = {
    {"gevent.lock", "Semaphore", "acquire", true, false, NULL, NULL},
    {"gevent.lock", "Semaphore", "release", false, false, NULL, NULL},
    {"gevent.lock", "Semaphore", "__exit__", false, false, NULL, NULL},
    {"gevent.lock", "BoundedSemaphore", "release", false, false, NULL, NULL},
    EVENTLET_METHODS};
enum { METHODS = sizeof methods / sizeof methods[0] };

static PyObject *counter_name; /* "counter" */
static bool is_known[METHODS]; /* was looked at: its module is there */
static char hook_text[24];

static const hooked_method *method_of(const PyObject *callable)
{
    const hooked_method *at = methods;
    while (at->callable != callable) {
        at++; /* it is there: only these lead here */
    }
    return at;
}

static bool is_named(const PyTypeObject *type, const char *module, const char *name)
{
    const PyObject *class = pyr_import_hook_find(module, name);
    return class == (const PyObject *)type;
}

static pyr_lock_type type_of(PyObject *lock)
{
    const PyTypeObject *type = Py_TYPE(lock);
    return is_named(type, "gevent.thread", "LockType")         ? PYR_LOCK_TYPE_GEVENT_LOCK
           : is_named(type, "eventlet.lock", "Lock")           ? PYR_LOCK_TYPE_EVENTLET_LOCK
           : is_named(type, "eventlet.semaphore", "Semaphore") ? PYR_LOCK_TYPE_EVENTLET_SEMAPHORE
                                                               : PYR_LOCK_TYPE_GEVENT_SEMAPHORE;
}

/* How many may still take the lock; -1: it does not tell without running code. */
static long counter_of(PyObject *lock)
{
    PyObject *in_class = _PyType_Lookup(Py_TYPE(lock), counter_name); /* borrowed */
    if (in_class != NULL && !Py_IS_TYPE(in_class, &PyMemberDescr_Type) &&
        !Py_IS_TYPE(in_class, &PyGetSetDescr_Type)) {
        return -1;
    }
    PyObject *value = PyObject_GenericGetAttr(lock, counter_name);
    long counter = value != NULL && PyLong_CheckExact(value) ? PyLong_AsLong(value) : -1;
    PyErr_Clear();
    Py_XDECREF(value);
    return counter;
}

static PyObject *wait_for(const hooked_method *method, PyObject *const *values, size_t count,
                          PyObject *names)
{
    PyObject *lock = values[0];
    PyThreadState *own = pyr_own_state();
    pyr_task_wait wait;
    pyr_lock_task_wait_begin(&wait, lock, (uintptr_t)lock, type_of(lock), false, (pyr_addr)own);
    PyObject *result = method->original(method->callable, values, count, names);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    pyr_lock_task_wait_end(&wait, lock, (pyr_addr)pyr_own_state(),
                           method->returns_none ? result != NULL : result == Py_True);
    PyErr_Restore(type, value, traceback);
    return result;
}

static PyObject *call_acquire(PyObject *callable, PyObject *const *values, size_t count,
                              PyObject *names)
{
    const hooked_method *method = method_of(callable);
    Py_ssize_t given = PyVectorcall_NARGS(count);
    long counter = given > 0 && pyr_lock_is_on() ? counter_of(values[0]) : -1;
    if (counter == 0 && pyr_may_wait(values + 1, given - 1, names, NULL)) {
        return wait_for(method, values, count, names);
    }
    PyObject *result = method->original(callable, values, count, names);
    if (counter > 0 && LIKELY(method->returns_none ? result != NULL : result == Py_True)) {
        /* Its type is asked for only where that is needed. */
        (void)pyr_lock_note(values[0], (pyr_addr)pyr_own_state());
        if (pyr_countdown_hit(&pyr_lock_countdown)) {
            pyr_lock_sample(values[0], values[0], type_of(values[0]), (pyr_addr)pyr_own_state());
        }
    }
    return result;
}

static PyObject *call_release(PyObject *callable, PyObject *const *values, size_t count,
                              PyObject *names)
{
    if (PyVectorcall_NARGS(count) > 0 && pyr_lock_is_on()) {
        PyObject *lock = values[0];
        pyr_held *held = pyr_lock_noted(lock);
        if (held != NULL && pyr_held_is_measured(held)) {
            pyr_release_begin(lock, lock, type_of(lock)); /* its type is asked for only here */
        } else if (held != NULL) {
            pyr_held_note_release(held);
        }
        if (pyr_lock_has_waiting_tasks(lock)) {
            pyr_lock_task_release(lock, (pyr_addr)pyr_own_state());
        }
    }
    return method_of(callable)->original(callable, values, count, names);
}

/* --------------------------------------------------------------------------- installation ---- */

/* Where a callable keeps how it is called; NULL: it does not. */
static vectorcallfunc *call_of(PyObject *callable)
{
    PyTypeObject *type = Py_TYPE(callable);
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) && type->tp_vectorcall_offset > 0
               ? (vectorcallfunc *)((char *)callable + type->tp_vectorcall_offset)
               : NULL;
}

static void set_call(PyObject *callable, vectorcallfunc call)
{
#ifdef Py_mod_multiple_interpreters
    if (PyFunction_Check(callable)) {
        PyFunction_SetVectorcall((PyFunctionObject *)callable, call);
        return;
    }
#endif
    *call_of(callable) = call;
}

static bool is_ours(const PyObject *callable)
{
    for (size_t i = 0; i < METHODS; i++) {
        if (methods[i].callable == callable) {
            return true;
        }
    }
    return false;
}

static void install(hooked_method *method, PyObject *class)
{
    PyObject *name = PyUnicode_InternFromString(method->name);
    PyObject *callable =
        name != NULL && PyType_Check(class) ? _PyType_Lookup((PyTypeObject *)class, name) : NULL;
    vectorcallfunc *call = callable != NULL ? call_of(callable) : NULL;
    /* A method descriptor's is not asked for by bytecode. */
    if (call != NULL && *call != NULL && !Py_IS_TYPE(callable, &PyMethodDescr_Type) &&
        !is_ours(callable)) {
        method->original = *call;
        method->callable = Py_NewRef(callable);
        set_call(callable, method->acquires ? call_acquire : call_release);
    }
    Py_XDECREF(name);
    PyErr_Clear();
}

bool pyr_greenlet_lock_hook_follow(void)
{
    bool wanted = pyr_lock_is_on();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    counter_name = counter_name != NULL ? counter_name : PyUnicode_InternFromString("counter");
    bool waits = false;
    for (size_t i = 0; i < METHODS && counter_name != NULL; i++) {
        PyObject *class = wanted && !is_known[i]
                              ? pyr_import_hook_find(methods[i].module, methods[i].class)
                              : NULL;
        if (class != NULL) {
            is_known[i] = true;
            install(&methods[i], class);
        }
        waits = waits || (wanted && !is_known[i]);
    }
    unsigned hooked = 0;
    for (size_t i = 0; i < METHODS; i++) {
        hooked += methods[i].callable != NULL;
    }
    (void)snprintf(hook_text, sizeof hook_text, hooked > 0 ? "%u methods" : "none", hooked);
    pyr_lock_note_hook(PYR_LOCK_HOOK_GREENLETS, hook_text);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return waits;
}
