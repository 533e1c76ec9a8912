/* Where a code object calls: the static depth of the value stack at each call instruction.
 *
 * While a frame runs, 3.11 to 3.13 do not store its stack pointer. The depth before each
 * instruction is static though: the compiler guarantees it. One pass over the bytecode, as it
 * stands in memory (specialised, instrumented), gives the depth at each instruction that calls.
 * Stack effects come from tables that tools/gen_bytecode.py proves against each interpreter's own
 * dis.stack_effect. Pure: no reader, no interpreter; the input may be hostile.
 */
#ifndef PYR_CPYTHON_BYTECODE_H
#define PYR_CPYTHON_BYTECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What an instruction can be busy with, as far as its opcode tells. */
typedef enum pyr_site_kind {
    PYR_SITE_NONE,    /* pure: runs neither C code of others nor a destructor (LOAD_FAST, RESUME) */
    PYR_SITE_OTHER,   /* may be inside C: operators, attributes, iteration, dropped references */
    PYR_SITE_CALL,    /* calls with positional arguments (CALL, 3.11 also PRECALL) */
    PYR_SITE_CALL_KW, /* 3.13+: the same with a tuple of keyword names on top of the stack */
    PYR_SITE_CALL_EX, /* f(*args, **kwargs) */
    PYR_SITE_ENTER,   /* BEFORE_WITH up to 3.13: calls manager.__enter__ */
    PYR_SITE_EXIT,    /* WITH_EXCEPT_START: calls __exit__ with an exception */
    PYR_SITE_HIDDEN,  /* the true opcode stands elsewhere (monitored line, executor): unknown */
} pyr_site_kind;

/* What a call instruction, as specialised in memory, is able to call. */
typedef enum pyr_site_form {
    PYR_FORM_ANY,
    PYR_FORM_FUNCTION,   /* a PyCFunction */
    PYR_FORM_DESCRIPTOR, /* a method of a C type */
    PYR_FORM_CLASS,      /* a type */
    PYR_FORM_TYPE,       /* `type` itself, with one argument */
} pyr_site_form;

typedef struct pyr_site {
    pyr_site_kind kind; /* PYR_SITE_CALL ... PYR_SITE_EXIT */
    uint32_t depth;     /* values on the stack when the instruction starts */
    uint32_t oparg;     /* with its EXTENDED_ARG prefixes */
} pyr_site;

typedef struct pyr_bytecode pyr_bytecode; /* opaque, immutable once made */

/* Analyses one code object of CPython 3.`minor`. `units` is `count` units of 2 bytes (opcode,
 * oparg) as in co_code_adaptive, `exceptions` is co_exceptiontable; neither is kept. `stacksize` is
 * co_stacksize. An instruction whose depth is not the same on all ways to it, or out of
 * [0, stacksize], or behind an opcode that hides its own effect, is no site.
 * NULL: unknown minor, no memory, or more than PYR_LIMIT_BYTECODE_BYTES. */
pyr_bytecode *pyr_bytecode_new(unsigned minor, const uint8_t *units, size_t count,
                               const uint8_t *exceptions, size_t exceptions_length,
                               uint32_t stacksize);

/* NULL is fine. */
void pyr_bytecode_free(pyr_bytecode *bytecode);

/* Finds the call at unit index `unit`, which is where prev_instr (3.11, 3.12) or instr_ptr stands
 * during the call. False: no call there, or its depth is unknown. */
bool pyr_bytecode_site(const pyr_bytecode *bytecode, size_t unit, pyr_site *site);

/* The n-th site in the order of units, for listings and tests: false past the last. */
bool pyr_bytecode_site_at(const pyr_bytecode *bytecode, size_t index, size_t *unit, pyr_site *site);

/* Bytes held: for the caller's memory accounting. */
size_t pyr_bytecode_size(const pyr_bytecode *bytecode);

/* Classifies one opcode as it stands in memory; PYR_SITE_HIDDEN for an unknown minor too. At a
 * PYR_SITE_NONE instruction a thread may still wait for the GIL, collect garbage or run pending
 * calls: RESUME and JUMP_BACKWARD check for those. */
pyr_site_kind pyr_bytecode_class(unsigned minor, uint8_t opcode);

/* What `opcode` as it stands in memory is able to call; PYR_FORM_ANY unless it is specialised.
 * Pure, hook safe. */
PYR_HOOK_SAFE pyr_site_form pyr_bytecode_form(unsigned minor, uint8_t opcode);

#endif
