/* A pprof profile in memory: what the parser makes, what merge, diff, reports and pages read.
 *
 * Plain data, all owned by the profile (arrays by pyr_memory, freed together by
 * pyr_profile_free). Ids of the file are gone: references are indices into the arrays, checked by
 * the parser, so consumers need no bounds checks. strings[0] is "", and 0 is the only reference to
 * an empty text. Frames of a sample stand leaf first, inlined lines flattened (innermost first).
 * One thread at a time. Format: github.com/google/pprof, proto/profile.proto.
 */
#ifndef PYR_PPROF_PROFILE_H
#define PYR_PPROF_PROFILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct pyr_profile_text {
    const char *data; /* UTF-8, NUL-terminated; a NUL inside the text is kept, so use length */
    size_t length;
} pyr_profile_text;

typedef struct pyr_profile_type {
    uint32_t type; /* string: "cpu-time" */
    uint32_t unit; /* string: "nanoseconds" */
} pyr_profile_type;

typedef struct pyr_profile_function {
    uint32_t name, system_name, file; /* strings */
    int64_t start_line;
} pyr_profile_function;

typedef struct pyr_profile_frame { /* one line of one location */
    uint32_t function;
    int64_t line; /* 0 = unknown */
    uint64_t address;
} pyr_profile_frame;

typedef struct pyr_profile_label {
    uint32_t key;  /* string */
    uint32_t text; /* string; 0 when numeric */
    int64_t number;
    uint32_t unit; /* string; 0 = none */
} pyr_profile_label;

typedef struct pyr_profile_sample {
    /* Into stack_frames, leaf first. Samples of a parsed profile may share them; those of a merged
     * one do not. */
    uint32_t frame_start, frame_count;
    uint32_t label_start, label_count; /* into labels */
    /* Samples of one kind have the same labels in the same order, but for the number of
     * "end_timestamp_ns". 1 to kind_count; 0 = nothing is known. Only parsed profiles have them. */
    uint32_t label_kind;
    size_t value_start; /* into values: type_count of them */
} pyr_profile_sample;

typedef struct pyr_profile {
    pyr_profile_text *strings;
    pyr_profile_type *types;
    pyr_profile_function *functions;
    pyr_profile_frame *frames; /* distinct frames */
    uint32_t *stack_frames;    /* indices into frames, of all samples */
    pyr_profile_label *labels;
    int64_t *values;
    pyr_profile_sample *samples;
    uint32_t *comments; /* strings */
    size_t string_count, type_count, function_count, frame_count, stack_frame_count, label_count,
        value_count, sample_count, comment_count;
    uint32_t kind_count;          /* of samples' labels */
    int64_t time_ns, duration_ns; /* 0 = unknown */
    pyr_profile_type period_type;
    int64_t period;
    uint32_t default_type; /* string, 0 = none */
    uint32_t main_binary;  /* string: file name of the first mapping, 0 = none */
    void *arena;           /* storage behind strings; private to pprof/ */
} pyr_profile;

/* Frees everything; NULL is fine. */
void pyr_profile_free(pyr_profile *profile);

/* Index of the sample type named `name` ("cpu-time"), or -1. */
int pyr_profile_find_type(const pyr_profile *profile, const char *name);

/* Index of the type that viewers show first: default_sample_type, else the last one. */
int pyr_profile_default_type(const pyr_profile *profile);

/* The label of `sample` whose key is `key`, or NULL. */
const pyr_profile_label *pyr_profile_find_label(const pyr_profile *profile,
                                                const pyr_profile_sample *sample, const char *key);

#endif
