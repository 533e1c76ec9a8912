/* Hooks in the interpreter's own tables. */
#ifndef PYR_NATIVE_HOOKS_H
#define PYR_NATIVE_HOOKS_H

#include "cpython/code_deaths.h"

/* Exchanges PyCode_Type.tp_dealloc, once a process, and returns where deaths of code objects are
 * noted. The hook stays to the end of the process: somebody may have read the pointer just before
 * it would be given back. With the GIL. */
const pyr_code_deaths *pyr_hooks_install(void);

/* Exchanges the function behind os._exit, once a process: children of a fork mostly end by it, and
 * deliver their last window before it. Keeps the object and its type; where it does not look as
 * expected it is left alone. With the GIL. */
void pyr_hooks_watch_exit(void);

/* Exchanges the function behind signal.signal likewise: where the program sets SIGTERM's action
 * back to the default, the last window is still delivered. */
void pyr_hooks_watch_signal(void);

#endif
