/* Hooks around the methods of `_multiprocessing.SemLock`, of which Lock, RLock, Semaphore and
 * BoundedSemaphore of multiprocessing are made, and with them its Condition, Event and queues.
 *
 * As in lock_hook.c, the C functions in the type's static method table are exchanged, once. A
 * semaphore of the kernel does not tell who has it, and may be another process's: what this process
 * took is in the table of held locks, by the object's address. A call without arguments is tried
 * without waiting first, which is what the original does; another one may have waited when it took
 * long. Hooks run in the calling thread with the GIL, and in children of forks as well.
 */
#include "process_lock_hook.h"

#include <Python.h>
#include <structmember.h>

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "collect/lock.h"
#include "import_hook.h"
#include "lock_calls.h"
#include "own_state.h"

enum { KIND_RECURSIVE = 0 }; /* of multiprocessing.synchronize */

typedef PyObject *(*fast_words)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef PyObject *(*fast)(PyObject *, PyObject *const *, Py_ssize_t);

static fast_words original_acquire;
static fast original_exit;
static PyCFunction original_enter, original_release, original_count;
static Py_ssize_t kind_at, maximum_at; /* in the object */
static long semaphore_maximum;         /* of a semaphore without bounds */
static bool is_done;                   /* installed, or not possible */

static int number_at(const PyObject *lock, Py_ssize_t offset)
{
    int number;
    memcpy(&number, (const char *)lock + offset, sizeof number);
    return number;
}

static pyr_lock_type type_of(const PyObject *lock)
{
    int maximum = number_at(lock, maximum_at);
    return number_at(lock, kind_at) == KIND_RECURSIVE ? PYR_LOCK_TYPE_PROCESS_RLOCK
           : maximum == 1                             ? PYR_LOCK_TYPE_PROCESS_LOCK
           : maximum == semaphore_maximum             ? PYR_LOCK_TYPE_PROCESS_SEMAPHORE
                                                      : PYR_LOCK_TYPE_PROCESS_BOUNDED_SEMAPHORE;
}

/* The thread has it, without a wait. */
static void got(const PyObject *lock, PyThreadState *own)
{
    pyr_lock_type type = type_of(lock);
    if (type == PYR_LOCK_TYPE_PROCESS_RLOCK && pyr_lock_holder(lock) == (pyr_addr)own) {
        if (pyr_countdown_hit(&pyr_lock_countdown)) {
            pyr_lock_sample(NULL, lock, type, (pyr_addr)own); /* once more */
        }
        return;
    }
    pyr_lock_got(lock, type, (pyr_addr)own);
}

/* A call that may wait. */
static __attribute__((noinline)) PyObject *wait_for(PyObject *lock, PyThreadState *own,
                                                    PyObject *const *values, Py_ssize_t count,
                                                    PyObject *names)
{
    pyr_lock_wait wait;
    pyr_addr holder = pyr_lock_holder(lock);
    holder = holder != (pyr_addr)own && pyr_thread_exists(own, holder) ? holder : 0;
    pyr_lock_wait_begin(&wait, lock, type_of(lock), (pyr_addr)own, holder,
                        pyr_has_timeout(values, count, names, NULL));
    PyObject *result = original_acquire(lock, values, count, names);
    if (pyr_lock_wait_drop(&wait)) {
        if (result == Py_True) {
            got(lock, own);
        }
        return result;
    }
    if (pyr_lock_wait_end(&wait, (pyr_addr)own, result == Py_True)) {
        pyr_lock_tend();
    }
    return result;
}

static PyObject *acquire(PyObject *lock, PyObject *const *values, Py_ssize_t count, PyObject *names)
{
    if (!pyr_lock_is_on()) {
        return original_acquire(lock, values, count, names);
    }
    PyThreadState *own = pyr_own_state();
    bool has_arguments = count != 0 || names != NULL;
    if (has_arguments && pyr_may_wait(values, count, names, NULL)) {
        return wait_for(lock, own, values, count, names);
    }
    PyObject *const only_false[] = {Py_False};
    PyObject *result = has_arguments ? original_acquire(lock, values, count, names)
                                     : original_acquire(lock, only_false, 1, NULL);
    if (result == Py_True) {
        got(lock, own);
    } else if (!has_arguments) {
        Py_XDECREF(result);
        PyErr_Clear(); /* it comes again */
        return wait_for(lock, own, values, count, names);
    }
    return result;
}

static PyObject *enter(PyObject *lock, PyObject *unused)
{
    return pyr_lock_is_on() ? acquire(lock, NULL, 0, NULL) : original_enter(lock, unused);
}

/* Before the lock is given back. Only the last of as many releases as acquisitions does that to an
 * RLock. */
static void note_release(PyObject *lock)
{
    if (!pyr_lock_is_on()) {
        return;
    }
    pyr_lock_type type = type_of(lock);
    if (type == PYR_LOCK_TYPE_PROCESS_RLOCK) {
        PyObject *count = original_count(lock, NULL);
        bool is_last = count != NULL && PyLong_AsLong(count) == 1;
        Py_XDECREF(count);
        PyErr_Clear();
        if (!is_last) {
            return;
        }
    }
    pyr_release_begin(lock, lock, type);
}

static PyObject *release(PyObject *lock, PyObject *unused)
{
    note_release(lock);
    return original_release(lock, unused);
}

static PyObject *leave(PyObject *lock, PyObject *const *values, Py_ssize_t count)
{
    note_release(lock);
    return original_exit(lock, values, count);
}

/* --------------------------------------------------------------------------- installation ---- */

/* The entry of a method; NULL: there is none of this convention. */
static PyMethodDef *entry_of(PyObject *type, const char *name, int flags)
{
    PyObject *method = PyObject_GetAttrString(type, name);
    PyMethodDef *entry = NULL;
    if (method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type)) {
        entry = ((PyMethodDescrObject *)method)->d_method; /* static: outlives the descriptor */
        entry = entry->ml_flags == flags ? entry : NULL;
    }
    Py_XDECREF(method);
    PyErr_Clear();
    return entry;
}

/* Where an object has an int; -1: nowhere. */
static Py_ssize_t place_of(PyObject *type, const char *name)
{
    PyObject *member = PyObject_GetAttrString(type, name);
    Py_ssize_t offset = -1;
    if (member != NULL && Py_IS_TYPE(member, &PyMemberDescr_Type)) {
        const PyMemberDef *definition = ((PyMemberDescrObject *)member)->d_member;
        offset = definition->type == T_INT ? definition->offset : -1;
    }
    Py_XDECREF(member);
    PyErr_Clear();
    return offset;
}

static void put(PyMethodDef *entry, PyCFunction hook)
{
    /* Interpreters with a GIL of their own read it in parallel. */
    __atomic_store_n(&entry->ml_meth, hook, __ATOMIC_RELEASE);
}

static const char *install(PyObject *type)
{
    PyMethodDef *acquire_entry = entry_of(type, "acquire", METH_FASTCALL | METH_KEYWORDS);
    PyMethodDef *enter_entry = entry_of(type, "__enter__", METH_NOARGS);
    PyMethodDef *release_entry = entry_of(type, "release", METH_NOARGS);
    PyMethodDef *exit_entry = entry_of(type, "__exit__", METH_FASTCALL);
    PyMethodDef *count_entry = entry_of(type, "_count", METH_NOARGS);
    PyObject *maximum = PyObject_GetAttrString(type, "SEM_VALUE_MAX");
    kind_at = place_of(type, "kind");
    maximum_at = place_of(type, "maxvalue");
    semaphore_maximum = maximum != NULL && PyLong_Check(maximum) ? PyLong_AsLong(maximum) : INT_MAX;
    Py_XDECREF(maximum);
    PyErr_Clear();
    if (acquire_entry == NULL || enter_entry == NULL || release_entry == NULL ||
        exit_entry == NULL || count_entry == NULL || kind_at < 0 || maximum_at < 0) {
        return "this Python's multiprocessing is not known";
    }
    original_acquire = (fast_words)(void (*)(void))acquire_entry->ml_meth;
    original_exit = (fast)(void (*)(void))exit_entry->ml_meth;
    original_enter = enter_entry->ml_meth;
    original_release = release_entry->ml_meth;
    original_count = count_entry->ml_meth;
    put(acquire_entry, (PyCFunction)(void (*)(void))acquire);
    put(exit_entry, (PyCFunction)(void (*)(void))leave);
    put(enter_entry, enter);
    put(release_entry, release);
    return "4 methods";
}

bool pyr_process_lock_hook_follow(void)
{
    if (is_done || !pyr_lock_is_on()) {
        return false;
    }
    PyObject *type = pyr_import_hook_find("_multiprocessing", "SemLock");
    if (type == NULL) {
        return true;
    }
    PyObject *error_type, *value, *traceback;
    PyErr_Fetch(&error_type, &value, &traceback);
    is_done = true;
    pyr_lock_note_hook(PYR_LOCK_HOOK_PROCESSES, install(type));
    PyErr_Restore(error_type, value, traceback);
    return false;
}
