/* multiprocessing starts a worker as a new Python with a command of its own, not the program's; so
 * nothing of `pyrometer run` would reach it, and its environment is left as the program has it. The
 * one place that all of them pass is the C function _posixsubprocess.fork_exec: it is exchanged in
 * its method table, and where the command is multiprocessing's and no environment is given, one is.
 *
 * Owns the copied folder. Runs with the GIL, in whatever thread spawns. It must leave every other
 * call exactly as it is, and no error of its own may reach the program.
 */
#include "spawn_hook.h"

#include <Python.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "session/process.h"

extern char **environ;

enum { COMMAND = 0, ENVIRONMENT = 5, LEAST_ARGUMENTS = 20, MOST_ARGUMENTS = 32 };

typedef PyObject *(*fast_function)(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

static char bootstrap[PYR_LIMIT_PATH_BYTES];
static fast_function original_fast; /* one of these is set: by its version */
static PyCFunction original;

/* The text of a str or bytes; NULL: neither, or none. */
static const char *text_of(PyObject *object)
{
    const char *text = PyBytes_Check(object)     ? PyBytes_AS_STRING(object)
                       : PyUnicode_Check(object) ? PyUnicode_AsUTF8(object)
                                                 : NULL;
    PyErr_Clear();
    return text;
}

static bool is_multiprocessing(PyObject *command)
{
    /* From 3.14.8 on there is an import of sys before it. */
    static const char server[] = "from multiprocessing.forkserver import main; main(";
    PyObject *words = PySequence_Fast(command, "");
    bool found = false;
    for (Py_ssize_t i = 0; words != NULL && i < PySequence_Fast_GET_SIZE(words) && !found; i++) {
        const char *text = text_of(PySequence_Fast_GET_ITEM(words, i));
        found = text != NULL &&
                (strcmp(text, "--multiprocessing-fork") == 0 || strstr(text, server) != NULL);
    }
    PyErr_Clear();
    Py_XDECREF(words);
    return found;
}

static bool add(PyObject *list, const char *text)
{
    PyObject *bytes = PyBytes_FromString(text);
    bool added = bytes != NULL && PyList_Append(list, bytes) == 0;
    Py_XDECREF(bytes);
    return added;
}

/* "NAME=value" for one name: NULL when the variable is another. */
static const char *value_of(const char *variable, const char *name)
{
    size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=' ? variable + length + 1
                                                                           : NULL;
}

static bool add_path(PyObject *list, const char *before)
{
    size_t length = strlen(bootstrap);
    bool is_there = before != NULL && strncmp(before, bootstrap, length) == 0 &&
                    (before[length] == '\0' || before[length] == ':');
    PyObject *path = is_there ? PyBytes_FromFormat("PYTHONPATH=%s", before)
                     : before != NULL && before[0] != '\0'
                         ? PyBytes_FromFormat("PYTHONPATH=%s:%s", bootstrap, before)
                         : PyBytes_FromFormat("PYTHONPATH=%s", bootstrap);
    bool added = path != NULL && PyList_Append(list, path) == 0;
    Py_XDECREF(path);
    return added;
}

/* The environment with our folder and the parent's id; NULL: as it is will do. */
static PyObject *make_environment(void)
{
    char parent[sizeof PYR_PARENT_VARIABLE + PYR_LIMIT_RUNTIME_ID];
    char id[PYR_LIMIT_RUNTIME_ID];
    const char *path = NULL;
    PyObject *list = PyList_New(0);
    bool good = list != NULL && pyr_process_runtime_id(id);
    for (char **at = environ; good && at != NULL && *at != NULL; at++) {
        const char *value = value_of(*at, "PYTHONPATH");
        path = value != NULL ? value : path;
        if (value == NULL && value_of(*at, PYR_PARENT_VARIABLE) == NULL) {
            good = add(list, *at);
        }
    }
    snprintf(parent, sizeof parent, "%s=%s", PYR_PARENT_VARIABLE, good ? id : "");
    if (!good || !add(list, parent) || !add_path(list, path)) {
        Py_CLEAR(list);
    }
    PyErr_Clear();
    return list;
}

/* A new environment for a call with these arguments, or NULL. */
static PyObject *environment_for(PyObject *const *arguments, Py_ssize_t count)
{
    bool ours = count >= LEAST_ARGUMENTS && count <= MOST_ARGUMENTS &&
                arguments[ENVIRONMENT] == Py_None && is_multiprocessing(arguments[COMMAND]);
    return ours ? make_environment() : NULL;
}

static PyObject *spawn_fast(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *copy[MOST_ARGUMENTS];
    PyObject *environment = environment_for(arguments, count);
    if (environment == NULL) {
        return original_fast(module, arguments, count);
    }
    memcpy(copy, arguments, (size_t)count * sizeof copy[0]);
    copy[ENVIRONMENT] = environment;
    PyObject *result = original_fast(module, copy, count);
    Py_DECREF(environment);
    return result;
}

static PyObject *spawn(PyObject *module, PyObject *arguments)
{
    PyObject *copy = NULL;
    PyObject *environment =
        PyTuple_Check(arguments)
            ? environment_for(&PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments))
            : NULL;
    if (environment != NULL) {
        copy = PyTuple_New(PyTuple_GET_SIZE(arguments));
    }
    for (Py_ssize_t i = 0; copy != NULL && i < PyTuple_GET_SIZE(copy); i++) {
        PyObject *item = i == ENVIRONMENT ? environment : PyTuple_GET_ITEM(arguments, i);
        PyTuple_SET_ITEM(copy, i, Py_NewRef(item));
    }
    if (copy == NULL) {
        PyErr_Clear();
    }
    PyObject *result = original(module, copy != NULL ? copy : arguments);
    Py_XDECREF(copy);
    Py_XDECREF(environment);
    return result;
}

static void exchange(PyMethodDef *definition)
{
    if (definition->ml_flags == METH_FASTCALL) {
        fast_function ours = spawn_fast;
        memcpy(&original_fast, &definition->ml_meth, sizeof original_fast);
        memcpy(&definition->ml_meth, &ours, sizeof ours);
    } else if (definition->ml_flags == METH_VARARGS) {
        original = definition->ml_meth;
        definition->ml_meth = spawn;
    }
}

void pyr_spawn_hook_install(const char *folder)
{
    if (original != NULL || original_fast != NULL || strlen(folder) >= sizeof bootstrap) {
        return;
    }
    memcpy(bootstrap, folder, strlen(folder) + 1);
    PyObject *module = PyImport_ImportModule("_posixsubprocess");
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, "fork_exec") : NULL;
    if (function != NULL && PyCFunction_CheckExact(function)) {
        exchange(((PyCFunctionObject *)function)->m_ml);
    }
    PyErr_Clear();
    Py_XDECREF(function);
    Py_XDECREF(module);
}
