/* What a lock is called. */
#ifndef PYR_NATIVE_LOCK_NAME_H
#define PYR_NATIVE_LOCK_NAME_H

#include "collect/lock.h"

/* A pyr_lock_namer. In the thread of `frames`, with the GIL; runs no code of the program, takes no
 * references and leaves the error indicator alone. */
size_t pyr_lock_name_find(const void *lock, const pyr_own_frame *frames, uint32_t count, char *text,
                          size_t size);

#endif
