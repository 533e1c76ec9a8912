/* Is the layout that was discovered the one that this extension was compiled for? */
#ifndef PYR_NATIVE_SELFCHECK_H
#define PYR_NATIVE_SELFCHECK_H

#include "cpython/layout.h"

/* Compares every offset of the layout with the true one from the interpreter's own headers. NULL
 * when all agree, else the name of the first field that differs. Any thread, no Python call. */
const char *pyr_selfcheck(const pyr_layout *layout);

#endif
