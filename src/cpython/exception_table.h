/* Exception tables of code objects (co_exceptiontable, 3.11 and later; CPython's
 * Objects/exception_handling_notes.txt): whether a `try` stands around an instruction.
 *
 * Pure; input is hostile: nothing beyond (table, length) is read.
 */
#ifndef PYR_CPYTHON_EXCEPTION_TABLE_H
#define PYR_CPYTHON_EXCEPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Whether the 2-byte unit `unit` stands inside a `try` that has handlers of its own: `except` or
 * `finally`, directly or around `with` blocks and the clean-up of handlers, which raise on. */
PYR_HOOK_SAFE bool pyr_exception_table_catches(const uint8_t *table, size_t length, uint32_t unit);

#endif
