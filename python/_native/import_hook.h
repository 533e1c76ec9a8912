/* Tells hooks when modules that they wait for may have come. */
#ifndef PYR_NATIVE_IMPORT_HOOK_H
#define PYR_NATIVE_IMPORT_HOOK_H

#include <Python.h>

#include <stdbool.h>

/* While `wanted`, `follow` is called after modules were looked for, in the main interpreter, with
 * the GIL, in the midst of an import: it may look at what there is, and import nothing. It is to
 * say by the next call of this function whether it waits further. With the GIL. */
void pyr_import_hook_follow(bool wanted, void (*follow)(void));

/* What a module in sys.modules has under a name by now; borrowed, NULL = nothing, without an error.
 * Runs no code of Python. */
PyObject *pyr_import_hook_find(const char *module, const char *name);

#endif
