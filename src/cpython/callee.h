/* Which C function a frame is calling, from the values on its stack.
 *
 * pyr_callee_find is pure: from the copied frame and the call site to the address of the object
 * being called. pyr_callee_name reads that object through the reader and names it as Python would:
 * "time.sleep", "list.sort", "_thread.lock.acquire", "sorted" (no "builtins."), "bytes".
 *
 * What it proves, and what not. The frame must be the topmost Python frame of its thread (another
 * frame above it means that the callee is not the leaf). The call instruction holds a reference to
 * the callee until the call ends, but nobody holds it for us: a name is right only if the frame,
 * read again *after* pyr_callee_name, still stands at the same instruction with the same callee.
 *
 * When a call has ended its result lies where the callee was, and the instruction goes on for some
 * nanoseconds; a result that is callable itself (of getattr, type, dict.get) then looks like a
 * callee. pyr_callee_fits rules most of this out by what a specialised instruction can call. The
 * rest matters where that moment is long: up to 3.13 an instruction that has ended its call may
 * wait for the GIL in its periodic check. So for a thread that waits for the GIL on 3.13 and before
 * (pyr_callee_is_proved false), give no name. 3.14+ stores the stack pointer around whatever may
 * take long, and pyr_callee_find checks it.
 */
#ifndef PYR_CPYTHON_CALLEE_H
#define PYR_CPYTHON_CALLEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cpython/bytecode.h"
#include "cpython/layout_fields.h"
#include "reader/reader.h"

typedef enum pyr_callee_kind {
    PYR_CALLEE_UNKNOWN, /* not callable, not C, unreadable or implausible: no name */
    PYR_CALLEE_PYTHON,  /* a Python function or bound method: its frame is being set up */
    PYR_CALLEE_NATIVE,  /* a C function, method or type: `name` is set */
} pyr_callee_kind;

enum { PYR_CALLEE_NAME_BYTES = 256 };

/* `is_stable`: the object's own bytes (its first 48, without the reference count) decide the name,
 * so a caller may remember it for (address, bytes). Not so for classes that come and go, or for
 * what is reached through another object. */
typedef struct pyr_callee {
    pyr_callee_kind kind;
    pyr_site_form form; /* of the object called, PYR_FORM_ANY when none of the others */
    bool is_stable;
    uint32_t length;                  /* bytes of name, without its NUL */
    char name[PYR_CALLEE_NAME_BYTES]; /* UTF-8, NUL-terminated, "" unless NATIVE */
} pyr_callee;

/* True where pyr_callee_find itself shows that the call is in progress (3.14+). */
bool pyr_callee_is_proved(const pyr_layout *layout);

/* Finds the callee. `frame` is a copy of the _PyInterpreterFrame at `frame_addr` with its
 * localsplus and stack, `frame_length` bytes (what is needed: frame_locals + 8 * (nlocalsplus +
 * depth); more is fine, less is PYR_EPARTIAL). `site` is of the instruction it stands at,
 * `nlocalsplus` of its code. For PYR_SITE_ENTER the result is the manager or its bound __exit__.
 * PYR_OK: *callee is an address worth reading. PYR_ENOENT: no call is in progress.
 * PYR_EBAD: the site does not fit (kind, or depth too small for its oparg). Pure, hook safe. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_callee_find(const pyr_layout *layout,
                                                      const uint8_t *frame, size_t frame_length,
                                                      const pyr_site *site, uint32_t nlocalsplus,
                                                      pyr_addr frame_addr, pyr_addr *callee);

/* Names what is called, by five to eight small reads (2-4 us): is_stable helps to avoid them. The
 * batch is cleared and used (it needs 4 KiB). `out` is always set. PYR_OK, also when the kind is
 * PYTHON or UNKNOWN; PYR_EFAULT when the object could not be read (then UNKNOWN). One thread at a
 * time per batch. */
PYR_MUST_USE pyr_status pyr_callee_name(pyr_reader *reader, pyr_batch *batch,
                                        const pyr_layout *layout, pyr_addr callee, pyr_callee *out);

/* False when the instruction `opcode`, as it stands in memory, is specialised for callees of
 * another form than this native one: then most probably the call has ended and `callee` is its
 * result (or, rarely, a call site meets many kinds of callee and has not been specialised anew).
 * Not for PYR_SITE_ENTER. Pure, hook safe. */
PYR_HOOK_SAFE bool pyr_callee_fits(unsigned minor, uint8_t opcode, const pyr_callee *callee);

/* As pyr_callee_name for PYR_SITE_ENTER: `object` is what pyr_callee_find gave for it, the name
 * ends in
 * ".__enter__" ("_thread.lock.__enter__"). */
PYR_MUST_USE pyr_status pyr_callee_name_enter(pyr_reader *reader, pyr_batch *batch,
                                              const pyr_layout *layout, pyr_addr object,
                                              pyr_callee *out);

#endif
