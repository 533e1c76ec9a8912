/* What one interpreter looks like in memory: offsets and traits of its version, filled once,
 * validated once, then constant. The only module that knows CPython versions. */
#ifndef PYR_CPYTHON_LAYOUT_H
#define PYR_CPYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "reader/reader.h"

typedef struct pyr_layout pyr_layout; /* body in layout_fields.h, for cpython/ and unwind/ */

/* Finds the layout of the interpreter whose _PyRuntime stands at `runtime`.
 * `version` is PY_VERSION_HEX of that interpreter (the exported word Py_Version): it chooses the
 * checked-in table on 3.11 and 3.12, and must agree with the published table from 3.13 on.
 * PYR_EVERSION (unknown version or free-threaded: `why` says which, in one sentence for the user),
 * PYR_EBAD (a field fails validation: `why` names it), PYR_EFAULT, PYR_ENOMEM.
 * The caller frees with pyr_layout_free. */
PYR_MUST_USE pyr_status pyr_layout_discover(pyr_reader *reader, pyr_addr runtime, uint32_t version,
                                            const pyr_layout **layout, char *why, size_t why_size);

void pyr_layout_free(const pyr_layout *layout);

/* Pure: a layout from the bytes of a published table (3.13+). Tests and fuzzers. */
PYR_MUST_USE pyr_status pyr_layout_from_bytes(const uint8_t *table, size_t length, uint32_t version,
                                              pyr_layout *layout, char *why, size_t why_size);

/* Pure: checks every offset and size; PYR_OK or PYR_EBAD with the first offender in `why`. */
PYR_MUST_USE pyr_status pyr_layout_check(const pyr_layout *layout, char *why, size_t why_size);

/* The version it is for, as PY_VERSION_HEX. */
uint32_t pyr_layout_version(const pyr_layout *layout);

/* Name and offset of field `index`, for self-checks and bug reports; NULL past the last one.
 * PYR_FIELD_ABSENT where this version has no such field. */
const char *pyr_layout_field(const pyr_layout *layout, size_t index, uint32_t *offset);

/* Text of the whole layout, for logs and bug reports. */
PYR_MUST_USE pyr_status pyr_layout_describe(const pyr_layout *layout, pyr_buffer *out);

#endif
