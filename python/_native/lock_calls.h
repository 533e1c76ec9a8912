/* What hooks around methods of locks ask of a call. Private to them. */
#ifndef PYR_NATIVE_LOCK_CALLS_H
#define PYR_NATIVE_LOCK_CALLS_H

#include <Python.h>

#include <stdbool.h>

#include "collect/lock.h"
#include "own_state.h"
#include "reader/reader.h"

enum { PYR_MOST_THREADS = 20000 }; /* followed in a list to find one */

/* Whether a thread state is in the list of its interpreter: then it exists, since threads end with
 * the GIL. */
static inline bool pyr_thread_exists(const PyThreadState *own, pyr_addr state)
{
    const PyThreadState *at = PyInterpreterState_ThreadHead(own->interp);
    for (int i = 0; at != NULL && i < PYR_MOST_THREADS; i++) {
        if ((pyr_addr)at == state) {
            return true;
        }
        at = at->next;
    }
    return false;
}

/* The calling thread is about to give the lock back for good. Asks for its state only where that is
 * needed. */
static inline void pyr_release_begin(const void *lock, const void *object, pyr_lock_type type)
{
    pyr_held *held = pyr_lock_noted(lock);
    if (held != NULL) {
        if (__builtin_expect(pyr_held_is_measured(held), 0)) {
            pyr_lock_sample_release(held, object, type, (pyr_addr)pyr_own_state());
        }
        pyr_held_note_release(held);
    }
}

/* Sets no error, however large it is. */
static inline bool pyr_is_zero(PyObject *value)
{
    int beyond = 0; /* then -1 is returned */
    return value == Py_False ||
           (PyLong_CheckExact(value) && PyLong_AsLongAndOverflow(value, &beyond) == 0) ||
           (PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == 0.0);
}

/* Whether an acquisition with these arguments may wait at all. */
static inline bool pyr_may_wait(PyObject *const *values, Py_ssize_t count, PyObject *names,
                                PyObject *dict)
{
    for (Py_ssize_t i = 0; i < count && i < 2; i++) {
        if (pyr_is_zero(values[i])) {
            return false;
        }
    }
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        if (pyr_is_zero(values[count + i])) {
            return false;
        }
    }
    PyObject *key = NULL;
    PyObject *value = NULL;
    Py_ssize_t position = 0;
    while (dict != NULL && PyDict_Next(dict, &position, &key, &value)) {
        if (pyr_is_zero(value)) {
            return false;
        }
    }
    return true;
}

/* Whether a wait with these arguments has an end of its own: (blocking, timeout), of which None and
 * what is below 0 stand for none. */
static inline bool pyr_has_timeout(PyObject *const *values, Py_ssize_t count, PyObject *names,
                                   PyObject *dict)
{
    PyObject *timeout = count > 1 ? values[1] : NULL;
    int beyond = 0;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "timeout") == 0) {
            timeout = values[count + i];
        }
    }
    PyObject *key = NULL;
    PyObject *value = NULL;
    Py_ssize_t position = 0;
    while (dict != NULL && PyDict_Next(dict, &position, &key, &value)) {
        if (PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, "timeout") == 0) {
            timeout = value;
        }
    }
    return timeout != NULL && timeout != Py_None &&
           !(PyFloat_CheckExact(timeout) && PyFloat_AS_DOUBLE(timeout) < 0) &&
           !(PyLong_CheckExact(timeout) && PyLong_AsLongAndOverflow(timeout, &beyond) < 0);
}

#endif
