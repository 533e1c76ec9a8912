/* What collectors produce: samples of several kinds, each with a stack of ids, values and labels.
 *
 * Plain data, no pointers into the target. Two tables say everything about kinds and sample types;
 * a new collector adds its rows here. Order of sample types: Datadog's, then our own.
 */
#ifndef PYR_MODEL_SAMPLE_H
#define PYR_MODEL_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

/* Sample types of the profile, in the order of the file: enum, name, unit. Datadog's order, then
 * our own. A profile has those of the collectors that are on. */
#define PYR_SAMPLE_TYPE_MAP(X)                                                                     \
    X(CPU_TIME, "cpu-time", "nanoseconds")                                                         \
    X(CPU_SAMPLES, "cpu-samples", "count")                                                         \
    X(WALL_TIME, "wall-time", "nanoseconds")                                                       \
    X(WALL_SAMPLES, "wall-samples", "count")                                                       \
    X(EXCEPTION_SAMPLES, "exception-samples", "count")                                             \
    X(LOCK_ACQUIRE_WAIT, "lock-acquire-wait", "nanoseconds")                                       \
    X(LOCK_ACQUIRE, "lock-acquire", "count")                                                       \
    X(LOCK_RELEASE_HOLD, "lock-release-hold", "nanoseconds")                                       \
    X(LOCK_RELEASE, "lock-release", "count")                                                       \
    X(ALLOC_SPACE, "alloc-space", "bytes")                                                         \
    X(ALLOC_SAMPLES, "alloc-samples", "count")                                                     \
    X(HEAP_SPACE, "heap-space", "bytes")                                                           \
    X(HEAP_LIVE_SAMPLES, "heap-live-samples", "count")                                             \
    X(GIL_WAIT, "gil-wait", "nanoseconds")                                                         \
    X(GIL_HOLD_BLOCKING, "gil-hold-blocking", "nanoseconds")                                       \
    X(LOCK_HOLD_BLOCKING, "lock-hold-blocking", "nanoseconds")                                     \
    X(GC_TIME, "gc-time", "nanoseconds")                                                           \
    X(GC_COUNT, "gc-count", "count")                                                               \
    X(GC_COLLECTED, "gc-collected", "count")

typedef enum pyr_sample_type {
#define PYR_SAMPLE_TYPE_ENUM(name, type, unit) PYR_SAMPLE_TYPE_##name,
    PYR_SAMPLE_TYPE_MAP(PYR_SAMPLE_TYPE_ENUM)
#undef PYR_SAMPLE_TYPE_ENUM
        PYR_SAMPLE_TYPES,
    PYR_SAMPLE_TYPE_NONE = PYR_SAMPLE_TYPES /* fills a kind's row */
} pyr_sample_type;

/* Kinds of samples: which sample types their values fill, in order; NONE after the last. */
#define PYR_SAMPLE_KIND_MAP(X)                                                                     \
    X(STACK, CPU_TIME, CPU_SAMPLES, WALL_TIME, WALL_SAMPLES)                                       \
    X(MEMORY, ALLOC_SPACE, ALLOC_SAMPLES, HEAP_SPACE, HEAP_LIVE_SAMPLES)                           \
    X(EXCEPTION, EXCEPTION_SAMPLES, NONE, NONE, NONE)                                              \
    X(LOCK_ACQUIRE, LOCK_ACQUIRE_WAIT, LOCK_ACQUIRE, NONE, NONE)                                   \
    X(LOCK_RELEASE, LOCK_RELEASE_HOLD, LOCK_RELEASE, NONE, NONE)                                   \
    X(LOCK_HOLDER, LOCK_HOLD_BLOCKING, NONE, NONE, NONE)                                           \
    X(GIL_WAIT, GIL_WAIT, NONE, NONE, NONE)                                                        \
    X(GIL_HOLDER, GIL_HOLD_BLOCKING, NONE, NONE, NONE)                                             \
    X(GC, GC_TIME, GC_COUNT, GC_COLLECTED, NONE)

typedef enum pyr_sample_kind {
#define PYR_SAMPLE_KIND_ENUM(name, ...) PYR_SAMPLE_KIND_##name,
    PYR_SAMPLE_KIND_MAP(PYR_SAMPLE_KIND_ENUM)
#undef PYR_SAMPLE_KIND_ENUM
        PYR_SAMPLE_KINDS
} pyr_sample_kind;

/* A set of kinds, as bits. */
#define PYR_SAMPLE_KIND_BIT(kind) (UINT32_C(1) << PYR_SAMPLE_KIND_##kind)

/* Label keys: enum, name in the profile, numeric?, unit of numbers ("" = none). */
#define PYR_LABEL_MAP(X)                                                                           \
    X(THREAD_ID, "thread id", 1, "")                                                               \
    X(THREAD_NATIVE_ID, "thread native id", 1, "")                                                 \
    X(THREAD_NAME, "thread name", 0, "")                                                           \
    X(STATE, "state", 0, "")                                                                       \
    X(HANDLING_EXCEPTION, "handling exception", 0, "")                                             \
    X(ALLOCATOR_DOMAIN, "allocator domain", 0, "")                                                 \
    X(EXCEPTION_TYPE, "exception type", 0, "")                                                     \
    X(EXCEPTION_MESSAGE, "exception message", 0, "")                                               \
    X(HANDLED, "handled", 0, "")                                                                   \
    X(CAUGHT_AT, "caught at", 0, "")                                                               \
    X(LOCK_NAME, "lock name", 0, "")                                                               \
    X(LOCK_TYPE, "lock type", 0, "")                                                               \
    X(WAIT_KIND, "wait kind", 0, "")                                                               \
    X(PAIR_ID, "pair id", 1, "")                                                                   \
    X(GC_GENERATION, "gc generation", 1, "")                                                       \
    X(PROGRAM, "", 0, "") /* all that the program itself said, as one string: see below */

typedef enum pyr_label_key {
#define PYR_LABEL_ENUM(name, key, numeric, unit) PYR_LABEL_##name,
    PYR_LABEL_MAP(PYR_LABEL_ENUM)
#undef PYR_LABEL_ENUM
        PYR_LABEL_KEYS
} pyr_label_key;

/* The text of a PYR_LABEL_PROGRAM is "key\x1Fvalue" for each of at most PYR_LIMIT_PROGRAM_LABELS
 * labels, parted by "\x1E": one string a set, so that samples stay small. The encoder makes a label
 * of each. */
enum { PYR_LABEL_UNIT = 0x1F, PYR_LABEL_RECORD = 0x1E };

typedef struct pyr_label {
    pyr_label_key key;
    uint32_t text;  /* string of the symbol table, for text labels */
    int64_t number; /* for numeric labels */
} pyr_label;

typedef struct pyr_frame {
    uint32_t function; /* of the symbol table */
    uint32_t line;     /* 0 = unknown */
} pyr_frame;

typedef struct pyr_sample {
    const struct pyr_symbols *symbols; /* the table of all ids in it; NULL = that of the window */
    pyr_sample_kind kind;
    uint32_t frame_count;
    const pyr_frame *frames; /* leaf first; borrowed for the call */
    uint32_t omitted;        /* frames cut at the root end: becomes one "<N frames omitted>" */
    uint32_t label_count;
    const pyr_label *labels;          /* borrowed for the call; at most PYR_LIMIT_LABELS */
    int64_t values[PYR_LIMIT_VALUES]; /* by the kind's row */
    int64_t end_ns;                   /* monotonic time of the sample's end; 0 = none */
} pyr_sample;

/* What a thread was doing, as the label `state` says it. */
#define PYR_STATE_MAP(X)                                                                           \
    X(ON_CPU, "on-cpu")                                                                            \
    X(RUNNABLE, "runnable")                                                                        \
    X(GIL_WAIT, "gil-wait")                                                                        \
    X(LOCK_WAIT, "lock-wait")                                                                      \
    X(IO, "io")                                                                                    \
    X(SLEEP, "sleep")                                                                              \
    X(PARKED, "parked")                                                                            \
    X(OTHER, "other")

typedef enum pyr_state {
#define PYR_STATE_ENUM(name, text) PYR_STATE_##name,
    PYR_STATE_MAP(PYR_STATE_ENUM)
#undef PYR_STATE_ENUM
        PYR_STATES
} pyr_state;

/* Why something was lost. Ids are stable names in documents and comments: never reuse one. */
#define PYR_LOSS_MAP(X)                                                                            \
    X(TORN_STACK, "torn-stack", "stacks that moved in every attempt to read them")                 \
    X(NO_ROOT, "no-root", "stacks whose root was not reached")                                     \
    X(UNREADABLE, "unreadable", "stacks in memory that could not be read")                         \
    X(STALE_CODE, "stale-code", "stacks whose code object died while its name was read")           \
    X(TOO_MANY_THREADS, "too-many-threads", "visits to threads beyond the limit")                  \
    X(LANES_BUSY, "lanes-busy", "samples that found every lane of the recorder busy")              \
    X(WINDOW_FULL, "window-full", "samples beyond the memory of a window")                         \
    X(SYMBOLS_FULL, "symbols-full", "names beyond the memory of the symbol table")                 \
    X(MISSED_TICKS, "missed-ticks", "ticks that came too late to happen")                          \
    X(WINDOW_DROPPED, "window-dropped", "windows dropped because exporting was too slow")          \
    X(OLD_SYMBOLS, "old-symbols", "samples that met the change of the symbol table")               \
    X(MISSED_ALLOCATION, "missed-allocation",                                                      \
      "sampled allocations that met a busy sampler; "                                              \
      "others stand for them")                                                                     \
    X(MISSED_BLOCK, "missed-block", "sampled blocks without room among those alive")               \
    X(NAMES_BUSY, "names-busy", "events in hooks that found the table of names busy")

typedef enum pyr_loss {
#define PYR_LOSS_ENUM(name, id, text) PYR_LOSS_##name,
    PYR_LOSS_MAP(PYR_LOSS_ENUM)
#undef PYR_LOSS_ENUM
        PYR_LOSSES
} pyr_loss;

/* Where collectors put their samples: they know nothing of the recorder behind it. */
typedef struct pyr_sink {
    void *context;
    /* Hook safe, never waits: PYR_OK, or the sample was dropped and counted. */
    pyr_status (*add)(void *context, const pyr_sample *sample);
    /* Counts a sample lost before it had a stack. Hook safe. */
    void (*lose)(void *context, pyr_loss reason, uint64_t count);
} pyr_sink;

/* The tables above, as functions. */
const char *pyr_sample_type_name(pyr_sample_type type);
const char *pyr_sample_type_unit(pyr_sample_type type);
/* Fills the sample types of a kind's values; returns how many. */
size_t pyr_sample_kind_types(pyr_sample_kind kind, pyr_sample_type types[PYR_LIMIT_VALUES]);
const char *pyr_label_name(pyr_label_key key);
PYR_HOOK_SAFE int pyr_label_is_number(pyr_label_key key);
const char *pyr_label_unit(pyr_label_key key);
const char *pyr_state_name(pyr_state state);
const char *pyr_loss_id(pyr_loss loss);
const char *pyr_loss_text(pyr_loss loss);

#endif
