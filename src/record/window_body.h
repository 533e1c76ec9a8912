/* What a window is made of. Private to record/: recorder.c fills it, window.c reads it. */
#ifndef PYR_RECORD_WINDOW_BODY_H
#define PYR_RECORD_WINDOW_BODY_H

#include <stdatomic.h>

#include "record/lane.h"
#include "record/window.h"

struct pyr_window {
    pyr_space space;
    pyr_lane lanes[PYR_LIMIT_LANES]; /* each guarded by its lock until sealed */
    pyr_symbols *symbols;            /* a share */
    uint64_t sequence;
    int64_t start_ns;
    int64_t end_ns, epoch_offset_ns; /* set when sealed, as the losses */
    uint64_t lost[PYR_LOSSES];
    uint64_t symbol_overflows; /* of the table, when the window was opened */
};

/* An open, empty window that begins now. NULL: out of memory. */
pyr_window *pyr_window_new(size_t window_bytes, pyr_symbols *symbols, uint64_t sequence);

/* Empties an open window, which begins anew. After a fork, in the child. Hook safe. */
PYR_HOOK_SAFE void pyr_window_reset(pyr_window *window);

#endif
