/* The interpreter that this process runs: how its memory is read, and what it looks like. */
#ifndef PYR_SESSION_INTERPRETER_H
#define PYR_SESSION_INTERPRETER_H

#include "session/session.h"

/* Opens a reader of the own memory, discovers the layout and has the host check it. The caller
 * closes and frees both, also after a failure, when they may be NULL; `why` then gets one sentence
 * for the user. PYR_EPERM, PYR_EVERSION, PYR_EBAD, PYR_ENOMEM. Any thread. */
PYR_MUST_USE pyr_status pyr_interpreter_open(const pyr_host *host, pyr_reader **reader,
                                             const pyr_layout **layout, char *why, size_t why_size);

#endif
