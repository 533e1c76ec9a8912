/* Code objects by address: names, lines and call sites, resolved once and kept while they hold.
 *
 * Addresses are reused, so an entry is valid only as long as no code object died in its slot since
 * it was resolved (cpython/code_deaths.h). Without that hook entries live for one tick
 * (pyr_codes_new_tick). Bounded; a full table is emptied. One thread at a time.
 */
#ifndef PYR_UNWIND_CODES_H
#define PYR_UNWIND_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/bytecode.h"
#include "cpython/code_deaths.h"
#include "cpython/layout.h"
#include "model/sample.h"
#include "model/symbols.h"
#include "reader/reader.h"

typedef struct pyr_codes pyr_codes;
typedef struct pyr_code pyr_code; /* valid until the next resolve of the same table */

/* Borrows all. `code_type` is the address of PyCode_Type, 0 = unknown (then learned from the first
 * object that names itself "code"). `deaths` may be NULL. NULL: out of memory. */
pyr_codes *pyr_codes_new(pyr_reader *reader, const pyr_layout *layout, pyr_addr code_type,
                         const pyr_code_deaths *deaths, pyr_symbols *symbols);
void pyr_codes_free(pyr_codes *codes);

/* Forgets everything and takes names from `symbols` from now on. */
void pyr_codes_renew(pyr_codes *codes, pyr_symbols *symbols);

/* Starts a tick: the moment that names must have held since. */
void pyr_codes_new_tick(pyr_codes *codes);

/* The code object at `addr`, which was on a stack in this tick. PYR_EBAD: no code object is there;
 * PYR_ETORN: one died there during this tick, so its name is not sure; PYR_EFAULT; PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_codes_resolve(pyr_codes *codes, pyr_addr addr, const pyr_code **code);

/* Frame of an instruction pointer as it stands in the frame (prev_instr or instr_ptr). */
pyr_frame pyr_code_frame(const pyr_code *code, pyr_addr instr);

/* Index of the 2-byte unit that a frame's instruction pointer stands on; -1 before the first. */
int64_t pyr_code_unit(const pyr_code *code, pyr_addr instr);

/* What the instruction at `unit` can be busy with, from the bytecode as it was analysed. */
pyr_site_kind pyr_codes_site_kind(pyr_codes *codes, const pyr_code *code, size_t unit);

/* Its call sites, analysed at the first use; NULL when they cannot be known. */
const pyr_bytecode *pyr_codes_sites(pyr_codes *codes, const pyr_code *code);

uint32_t pyr_code_nlocalsplus(const pyr_code *code);

/* Whether a frame (not of a generator) at `instr` is still being set up, or is one of the
 * interpreter's own that never runs code of the program: CPython hides these too
 * (_PyFrame_IsIncomplete). */
bool pyr_code_is_incomplete(const pyr_code *code, pyr_addr instr);

/* A moment in the life of all names at once. */
typedef struct pyr_codes_stamp {
    uint64_t deaths; /* of code objects, at the start of a tick */
    uint64_t epoch;  /* of the table; 0 = no moment */
} pyr_codes_stamp;

/* The start of this tick: what was resolved in it holds as long as pyr_codes_hold says so. Where
 * deaths are not known, no moment. */
pyr_codes_stamp pyr_codes_now(const pyr_codes *codes);

/* Whether no code object has died since, and the table was not emptied: then all names hold. */
bool pyr_codes_hold(const pyr_codes *codes, pyr_codes_stamp since);

#endif
