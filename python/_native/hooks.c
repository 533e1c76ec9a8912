/* The hook on the death of code objects: what makes a name cached by address safe. And the one on
 * os._exit, which comes last in many children of a fork (RQ, billiard, multiprocessing).
 *
 * PyCode_Type is a static type, shared by all sub-interpreters, so one exchange sees every death
 * (code watchers do not: they are an interpreter's own). Owns the table of deaths, 128 KiB, touched
 * as addresses come. The hook runs in any thread of the program, wherever a code object dies, with
 * that interpreter's GIL: it notes, and calls the original. It must never touch Python.
 */
#include "hooks.h"

#include <Python.h>

#include <signal.h>
#include <string.h>

#include "session/process.h"

static pyr_code_deaths deaths;
static destructor original;

static void note_death(PyObject *code)
{
    pyr_code_deaths_note(&deaths, (uintptr_t)code);
    original(code);
}

const pyr_code_deaths *pyr_hooks_install(void)
{
    if (original == NULL) {
        original = PyCode_Type.tp_dealloc;
        /* Interpreters with a GIL of their own read it in parallel. */
        __atomic_store_n(&PyCode_Type.tp_dealloc, note_death, __ATOMIC_RELEASE);
    }
    return &deaths;
}

typedef PyObject *(*exit_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static exit_function original_exit;

/* The GIL is kept: no thread of the program may notice that the end takes a little longer. */
static PyObject *leave(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                       PyObject *names)
{
    if (count == 1 && names == NULL && PyLong_Check(arguments[0])) {
        pyr_process_end_child();
    }
    return original_exit(module, arguments, count, names);
}

void pyr_hooks_watch_exit(void)
{
    PyObject *module = original_exit == NULL ? PyImport_ImportModule("posix") : NULL;
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, "_exit") : NULL;
    if (function != NULL && PyCFunction_CheckExact(function) &&
        PyCFunction_GET_FLAGS(function) == (METH_FASTCALL | METH_KEYWORDS)) {
        PyMethodDef *definition = ((PyCFunctionObject *)function)->m_ml;
        memcpy(&original_exit, &definition->ml_meth, sizeof original_exit);
        exit_function ours = leave;
        memcpy(&definition->ml_meth, &ours, sizeof ours);
    }
    PyErr_Clear();
    Py_XDECREF(function);
    Py_XDECREF(module);
}

typedef PyObject *(*signal_function)(PyObject *, PyObject *const *, Py_ssize_t);

static signal_function original_signal;

/* Python knows SIGTERM's action as the default where it is ours. A program that saves it and gives
 * it back, as uvicorn does before it raises SIGTERM at its end, gives the true default back. */
static PyObject *set_signal(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *result = original_signal(module, arguments, count);
    if (result != NULL && count == 2 && PyLong_Check(arguments[0]) &&
        PyLong_AsLong(arguments[0]) == SIGTERM) {
        pyr_process_watch_termination();
    }
    return result;
}

void pyr_hooks_watch_signal(void)
{
    PyObject *module = original_signal == NULL ? PyImport_ImportModule("_signal") : NULL;
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, "signal") : NULL;
    if (function != NULL && PyCFunction_CheckExact(function) &&
        PyCFunction_GET_FLAGS(function) == METH_FASTCALL) {
        PyMethodDef *definition = ((PyCFunctionObject *)function)->m_ml;
        memcpy(&original_signal, &definition->ml_meth, sizeof original_signal);
        signal_function ours = set_signal;
        memcpy(&definition->ml_meth, &ours, sizeof ours);
    }
    PyErr_Clear();
    Py_XDECREF(function);
    Py_XDECREF(module);
}
