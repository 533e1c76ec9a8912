/* The state of the calling thread, for hooks. */
#ifndef PYR_NATIVE_OWN_STATE_H
#define PYR_NATIVE_OWN_STATE_H

#include <Python.h>

/* Of the calling thread, which has the GIL. Without it: none, or before 3.12 that of whoever has
 * it. */
static inline PyThreadState *pyr_own_state(void)
{
#ifdef Py_mod_gil /* the version that brought this slot made the function public */
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

#endif
