/* Pauses of the garbage collector, seen through gc.callbacks of the main interpreter.
 *
 * One callable in C, called as (phase, info) before and after each collection, in the thread that
 * collects. It reads the two numbers of `info` and hands them on; it runs no Python code. Owns the
 * callable while it is in the list.
 */
#include "gc_hook.h"

#include <Python.h>

#include <stdbool.h>

#include "collect/gc.h"

static PyObject *callable; /* ours, while it is in the list; guarded by the GIL */
static PyObject *generation_key, *collected_key;

static int64_t number_at(PyObject *info, PyObject *key)
{
    PyObject *value = key != NULL ? PyDict_GetItemWithError(info, key) : NULL;
    return value != NULL && PyLong_CheckExact(value) ? PyLong_AsLongLong(value) : 0;
}

static PyObject *on_collection(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count == 2 && PyUnicode_Check(arguments[0]) && PyDict_CheckExact(arguments[1])) {
        if (PyUnicode_CompareWithASCIIString(arguments[0], "start") == 0) {
            pyr_gc_start();
        } else {
            pyr_gc_stop((pyr_addr)PyThreadState_Get(), number_at(arguments[1], generation_key),
                        number_at(arguments[1], collected_key));
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef method = {"on_collection", (PyCFunction)(void (*)(void))on_collection,
                             METH_FASTCALL, "on_collection(phase, info) -> None"};

static void add_to(PyObject *callbacks)
{
    generation_key = PyUnicode_InternFromString("generation");
    collected_key = PyUnicode_InternFromString("collected");
    callable = PyCFunction_New(&method, NULL);
    if (callable == NULL || PyList_Append(callbacks, callable) != 0) {
        Py_CLEAR(callable);
    }
}

static void remove_from(PyObject *callbacks)
{
    for (Py_ssize_t at = PyList_GET_SIZE(callbacks) - 1; at >= 0; at--) {
        if (PyList_GET_ITEM(callbacks, at) == callable) {
            (void)PySequence_DelItem(callbacks, at);
        }
    }
    Py_CLEAR(callable);
    Py_CLEAR(generation_key);
    Py_CLEAR(collected_key);
}

void pyr_gc_hook_follow(void)
{
    if (pyr_gc_is_on() == (callable != NULL)) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *module = PyImport_ImportModule("gc");
    PyObject *callbacks = module != NULL ? PyObject_GetAttrString(module, "callbacks") : NULL;
    if (callbacks != NULL && PyList_CheckExact(callbacks)) {
        if (callable == NULL) {
            add_to(callbacks);
        } else {
            remove_from(callbacks);
        }
    }
    Py_XDECREF(callbacks);
    Py_XDECREF(module);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}
