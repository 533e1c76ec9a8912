/* What the memory collector needs of the interpreter it runs in; python/_native gives it. */
#ifndef PYR_COLLECT_MEMORY_HOST_H
#define PYR_COLLECT_MEMORY_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "reader/reader.h"

/* Bytes of pymalloc's arenas. */
typedef struct pyr_arenas {
    int64_t now;           /* those at the start, if they are known, and those made since */
    int64_t at_start;      /* when the hooks were put in place; -1 = not known */
    int64_t used_at_start; /* of them, what was in use; -1 = not known */
} pyr_arenas;

typedef struct pyr_memory_host {
    /* Puts the hooks of all domains of allocators in place, where they are not: at once in a thread
     * of Python, which has the GIL, else when the main thread next runs bytecode. PYR_ENOSPC:
     * others have replaced them too often. */
    pyr_status (*install)(void);
    /* Asks for a look, when the main thread next runs bytecode, at whether the hooks are still in
     * place; if not, all live blocks are forgotten and they are put there again. Any thread. */
    void (*look_after)(void);
    /* Any thread. */
    pyr_arenas (*arenas)(void);
    /* The addresses of functions that allocate for the interpreter, at most `most`; how many. */
    size_t (*allocators)(uintptr_t *addresses, size_t most);
    /* The calling thread's own PyThreadState, 0 when it has none. `has_gil`: the caller's domain is
     * only used with the GIL. Hook safe. */
    pyr_addr (*thread_state)(bool has_gil);
} pyr_memory_host;

#endif
