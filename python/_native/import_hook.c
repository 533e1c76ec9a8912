/* A hook in the import system, for hooks in modules that the program has not imported yet.
 *
 * Every import of a module that is not there yet takes and gives back the import lock, by a C
 * function in a static method table. Exchanging it there tells of imports and changes nothing that
 * a program can see, as a finder on sys.meta_path would. It is exchanged once and stays, as a
 * pass-through. Runs in any thread that imports, with the GIL.
 */
#include "import_hook.h"

static PyCFunction original;
static void (*follower)(void);
static bool is_wanted; /* guarded by the GIL of the main interpreter */

static PyObject *release_lock(PyObject *module, PyObject *unused)
{
    PyObject *result = original(module, unused);
    /* Other interpreters have the same table, and modules of their own. */
    if (is_wanted && result != NULL && PyInterpreterState_Get() == PyInterpreterState_Main()) {
        follower();
    }
    return result;
}

static void install(void)
{
    PyObject *module = PyImport_ImportModule("_imp"); /* always there */
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, "release_lock") : NULL;
    if (function != NULL && PyCFunction_CheckExact(function) &&
        PyCFunction_GET_FLAGS(function) == METH_NOARGS) {
        PyMethodDef *definition = ((PyCFunctionObject *)function)->m_ml;
        original = definition->ml_meth;
        /* Interpreters with a GIL of their own read it in parallel. */
        __atomic_store_n(&definition->ml_meth, release_lock, __ATOMIC_RELEASE);
    }
    PyErr_Clear();
    Py_XDECREF(function);
    Py_XDECREF(module);
}

void pyr_import_hook_follow(bool wanted, void (*follow)(void))
{
    follower = follow;
    is_wanted = wanted;
    if (wanted && original == NULL) {
        install();
    }
}

PyObject *pyr_import_hook_find(const char *module, const char *name)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as all here */
    PyObject *found = PyDict_Check(modules) ? PyDict_GetItemString(modules, module) : NULL;
    return found != NULL && PyModule_Check(found)
               ? PyDict_GetItemString(PyModule_GetDict(found), name)
               : NULL;
}
