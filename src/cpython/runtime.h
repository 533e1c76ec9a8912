/* Finds the interpreter of another process: from a pid to what pyr_layout_discover needs.
 *
 * For the own process the linker knows the answer; from there on, inside and outside are the same
 * code over another reader.
 */
#ifndef PYR_CPYTHON_RUNTIME_H
#define PYR_CPYTHON_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "reader/reader.h"

typedef struct pyr_runtime {
    pyr_addr address;   /* _PyRuntime */
    pyr_addr code_type; /* PyCode_Type, 0 = not known */
    uint32_t version;   /* PY_VERSION_HEX */
} pyr_runtime;

/* Finds the interpreter of process `pid`, whose memory `reader` reads. Stops and changes nothing.
 * PYR_EPERM; PYR_ENOENT (no such process, or no interpreter in it); PYR_EVERSION (it does not tell
 * its version); PYR_ENOMEM, PYR_ETOOBIG, PYR_EBAD; each with one sentence for the user in `why`.
 * Whether the version is known is for pyr_layout_discover to say. Any thread, not hook safe. */
PYR_MUST_USE pyr_status pyr_runtime_find(pyr_reader *reader, int64_t pid, pyr_runtime *runtime,
                                         char *why, size_t why_size);

/* Why a process cannot be read, as one sentence, from what pyr_reader_open_pid returned; returns
 * `status`. */
pyr_status pyr_runtime_explain(pyr_status status, int64_t pid, char *why, size_t why_size);

#endif
