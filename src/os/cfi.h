/* Where a function's caller is: call frame information of a loaded object, as compilers leave it in
 * `.eh_frame` for exceptions, found by the sorted table of `.eh_frame_hdr`.
 *
 * What is answered is what a walk needs: from the stack pointer and the frame pointer in a function
 * those in its caller, and where it returns to. Anything unusual is "not known", never a guess.
 * Memory is read by the caller's own function, which may fail, so nothing here faults; no
 * allocation, hook safe.
 *
 * Sources: System V ABI for x86-64, 4.2.4; LSB core 5.0, 10.6; DWARF 5, 6.4; DWARF for AArch64.
 */
#ifndef PYR_OS_CFI_H
#define PYR_OS_CFI_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What a place is counted from. */
typedef enum pyr_cfi_base {
    PYR_CFI_UNKNOWN, /* no rule that is understood */
    PYR_CFI_END,     /* this function has no caller */
    PYR_CFI_SP,      /* stack pointer */
    PYR_CFI_FP,      /* frame pointer */
    PYR_CFI_AT_FP,   /* the word at frame pointer + offset */
    PYR_CFI_CFA,     /* canonical frame address: the caller's stack pointer */
    PYR_CFI_SAME,    /* it is what it was */
} pyr_cfi_base;

typedef struct pyr_cfi_place {
    int32_t base; /* pyr_cfi_base */
    int32_t offset;
} pyr_cfi_place;

typedef struct pyr_cfi_rule {
    pyr_cfi_place cfa;            /* its value: END, SP, FP or AT_FP */
    pyr_cfi_place frame_pointer;  /* where the caller's is kept: CFA, FP, SAME or UNKNOWN */
    pyr_cfi_place return_address; /* likewise: CFA or FP */
} pyr_cfi_rule;

/* How memory is read: as many of the bytes as there are. Hook safe where it is used in hooks. */
typedef struct pyr_cfi_memory {
    size_t (*read)(void *context, uintptr_t address, void *destination, size_t length);
    void *context;
} pyr_cfi_memory;

/* Room that finding a rule needs. */
typedef struct pyr_cfi_scratch {
    uint8_t function[2048], common[256];
} pyr_cfi_scratch;

/* The rule at `pc` in the object whose PT_GNU_EH_FRAME lies at `header`; PYR_OK, or PYR_ENOTSUP
 * with an unknown one. */
PYR_HOOK_SAFE pyr_status pyr_cfi_find(const pyr_cfi_memory *memory, uintptr_t header, uintptr_t pc,
                                      pyr_cfi_scratch *scratch, pyr_cfi_rule *rule);

#endif
