/* The labels that the program put on what it does, read from a thread's context without its help.
 *
 * The program's label set is the value of one context variable. A thread state points to its
 * context, that to a hash array mapped trie, and a walk of one to eight nodes leads to the value:
 * an object of our own type (python/_native/labels.c), whose head is described here. All of them
 * are immutable but for the pointer in the context; they may die while they are read.
 *
 * What is proved and what not. Every node's type is checked, the variable is compared by address,
 * and a set carries the hash of its text: text that does not have this hash is not believed. So no
 * label can come out that the program never made; whether it was the one in force is for the caller
 * to prove (pyr_context_path_check over copies that were taken while the thread stood still, or a
 * thread that looks at itself).
 */
#ifndef PYR_CPYTHON_CONTEXT_H
#define PYR_CPYTHON_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "cpython/layout.h"
#include "reader/reader.h"

/* Bounds of what a program may say. The text of a set is that of a PYR_LABEL_PROGRAM
 * (model/sample.h), sorted by key. */
enum {
    PYR_LABEL_SET_LABELS = PYR_LIMIT_PROGRAM_LABELS,
    PYR_LABEL_SET_KEY_BYTES = 64,
    PYR_LABEL_SET_VALUE_BYTES = 128,
    PYR_LABEL_SET_BYTES =
        PYR_LABEL_SET_LABELS * (PYR_LABEL_SET_KEY_BYTES + PYR_LABEL_SET_VALUE_BYTES + 2),
};

/* Where a set object keeps what is read of it, behind the object's own head. */
enum {
    PYR_LABEL_SET_HASH_AT = 16,   /* u64: pyr_hash_bytes of the text with the source's seed */
    PYR_LABEL_SET_LENGTH_AT = 24, /* u32: bytes of the text */
    PYR_LABEL_SET_TEXT_AT = 28,
};

/* What leads to the sets; one a process, filled by the extension before `variable` is published. */
typedef struct pyr_label_source {
    _Atomic pyr_addr variable; /* the context variable; 0 = the program has used no label so far */
    pyr_addr set_type;         /* type of its values */
    uint64_t seed;             /* of the hash of texts */
    uint32_t hash;             /* of the variable, as the trie uses it */
} pyr_label_source;

/* True once the program has used a label: before that there is nothing to read. Hook safe. */
static inline bool pyr_label_source_is_used(const pyr_label_source *source)
{
    return source != NULL &&
           atomic_load_explicit(&((pyr_label_source *)(uintptr_t)source)->variable,
                                memory_order_acquire) != 0;
}

/* The hash of a context variable as the trie uses it, from what Python's hash() says of it. */
uint32_t pyr_context_hash(int64_t hash);

enum { PYR_CONTEXT_STEPS = 11 }; /* context, trie, seven levels and a collision, value */

/* What to copy to find a thread's set, in order; learned by one walk, checked over any copy. */
typedef struct pyr_context_path {
    struct pyr_context_step {
        pyr_addr addr;
        uint32_t length; /* bytes */
    } steps[PYR_CONTEXT_STEPS];
    uint8_t count; /* 0 = nothing learned */
} pyr_context_path;

/* Types of a trie's nodes: learned by their names when they are first met. They never die. One
 * thread at a time; all zero at first. */
typedef struct pyr_context_kinds {
    pyr_addr bitmap, array, collision;
} pyr_context_kinds;

/* What was found. */
typedef struct pyr_label_set {
    pyr_addr addr; /* of the object; 0 = no labels */
    uint64_t hash;
    uint32_t length; /* bytes of its text */
} pyr_label_set;

/* Reads memory of the target: exactly `length` bytes, or false. */
typedef struct pyr_context_fetch {
    bool (*read)(void *context, pyr_addr addr, void *destination, size_t length);
    void *context;
} pyr_context_fetch;

/* Walks from `context` (what the thread state points to; 0 = none) to the set, and notes in *path
 * what it came past. PYR_OK, also where there are no labels; PYR_EFAULT, PYR_EBAD: something moved
 * or is not what it should be. Hook safe if `fetch` is. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_context_walk(const pyr_layout *layout,
                                                       const pyr_label_source *source,
                                                       pyr_context_kinds *kinds, pyr_addr context,
                                                       const pyr_context_fetch *fetch,
                                                       pyr_context_path *path, pyr_label_set *set);

/* Pure: the same over copies of a path's steps (`copies[i]` has steps[i].length bytes; NULL: it
 * could not be copied). PYR_EPARTIAL: the path is another one by now. */
PYR_MUST_USE pyr_status pyr_context_path_check(const pyr_layout *layout,
                                               const pyr_label_source *source,
                                               const pyr_context_kinds *kinds, pyr_addr context,
                                               const pyr_context_path *path,
                                               const uint8_t *const copies[PYR_CONTEXT_STEPS],
                                               pyr_label_set *set);

/* Reads the text of a set into `text` and proves it by its hash. PYR_EFAULT, PYR_EBAD. Hook safe if
 * `fetch` is. */
PYR_HOOK_SAFE PYR_MUST_USE pyr_status pyr_label_set_text(const pyr_label_source *source,
                                                         const pyr_label_set *set,
                                                         const pyr_context_fetch *fetch,
                                                         char text[PYR_LABEL_SET_BYTES]);

/* Memory of the calling thread's own process by plain copies: for a thread that looks at its own
 * context, which then cannot change meanwhile. */
extern const pyr_context_fetch pyr_context_own_memory;

#endif
