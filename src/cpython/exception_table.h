/* Exception tables of code objects (co_exceptiontable, 3.11 and later; CPython's
 * Objects/exception_handling_notes.txt): whether an instruction has a handler around it.
 *
 * Pure; input is hostile: nothing beyond (table, length) is read.
 */
#ifndef PYR_CPYTHON_EXCEPTION_TABLE_H
#define PYR_CPYTHON_EXCEPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Whether the 2-byte unit `unit` has a handler around it: `except`, `finally`, the end of a `with`
 * or of another handler. It may let the exception go on, which is an event of its own. */
PYR_HOOK_SAFE bool pyr_exception_table_covers(const uint8_t *table, size_t length, uint32_t unit);

#endif
