/* Calls that the main thread makes when it next runs bytecode, asked for by threads of ours.
 *
 * Asking takes no GIL, but must not come when the interpreter has gone: Python says before its end
 * that nothing more may be asked for.
 */
#ifndef PYR_NATIVE_PENDING_H
#define PYR_NATIVE_PENDING_H

#include <stdbool.h>

/* Opens or closes the way. With the GIL; closing waits, for some milliseconds at most, until nobody
 * is asking. */
void pyr_pending_set_open(bool open);

/* Whether Python has not said that it ends. Any thread. */
bool pyr_pending_is_open(void);

/* Asks for one call of `function`, with the GIL in the main thread; its argument is NULL, its
 * result that of Py_AddPendingCall's functions. False: not asked, it is closed or too many wait.
 * Any thread, no GIL needed. */
bool pyr_pending_add(int (*function)(void *unused));

#endif
