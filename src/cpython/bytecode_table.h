/* One row an opcode, one table a minor version: private to bytecode.c.
 *
 * A row with flow PYR_FLOW_UNKNOWN (all absent ones) hides what it does.
 */
#ifndef PYR_CPYTHON_BYTECODE_TABLE_H
#define PYR_CPYTHON_BYTECODE_TABLE_H

#include <stdint.h>

#include "cpython/bytecode.h"

typedef enum pyr_flow {
    PYR_FLOW_UNKNOWN,      /* no such opcode, or its effect stands elsewhere */
    PYR_FLOW_NEXT,         /* to the next instruction */
    PYR_FLOW_PREFIX,       /* EXTENDED_ARG */
    PYR_FLOW_STOP,         /* leaves: return, raise */
    PYR_FLOW_AHEAD,        /* to the next instruction, or argument units ahead of it */
    PYR_FLOW_BACK,         /* ... or argument units back from it */
    PYR_FLOW_AHEAD_ALWAYS, /* only ahead */
    PYR_FLOW_BACK_ALWAYS,  /* only back */
} pyr_flow;

typedef enum pyr_effect {
    PYR_EFFECT_LINEAR,   /* constant + per_arg * arg + per_bit * (arg & 1) */
    PYR_EFFECT_UNPACK,   /* UNPACK_EX: low byte of arg + the rest of it */
    PYR_EFFECT_POPCOUNT, /* MAKE_FUNCTION up to 3.12: minus the bits set in arg & 15 */
    PYR_EFFECT_SLICE,    /* BUILD_SLICE: -2 for three values, else -1 */
    PYR_EFFECT_FORMAT,   /* FORMAT_VALUE: -1 with a format specification, else 0 */
} pyr_effect;

typedef struct pyr_opcode {
    uint8_t kind;   /* pyr_site_kind */
    uint8_t form;   /* pyr_site_form */
    uint8_t flow;   /* pyr_flow */
    uint8_t caches; /* units of inline cache behind it */
    int8_t constant;
    int8_t per_arg;
    int8_t per_bit;
    uint8_t effect;         /* pyr_effect */
    int8_t jump_difference; /* added to the effect when it jumps */
} pyr_opcode;

#define PYR_ROW(number, kind, form, flow, caches, constant, per_arg, per_bit, effect, difference)  \
    [number] = {PYR_SITE_##kind, PYR_FORM_##form, PYR_FLOW_##flow,     caches,    constant,        \
                per_arg,         per_bit,         PYR_EFFECT_##effect, difference},

extern const pyr_opcode pyr_bytecode_table_311[256];
extern const pyr_opcode pyr_bytecode_table_312[256];
extern const pyr_opcode pyr_bytecode_table_313[256];
extern const pyr_opcode pyr_bytecode_table_314[256];
extern const pyr_opcode pyr_bytecode_table_315[256];

#endif
