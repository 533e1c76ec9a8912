/* Streaming pprof writer: samples go to the compressor as they come, nothing is kept but the
 * tables that dedupe strings, functions and locations.
 *
 * Order of calls: new; type (each), string/function/location/sample in any mix; finish; free.
 * Errors stick (as in pyr_buffer): check the status of finish. One thread at a time.
 * Format: google/pprof profile.proto; field order on the wire is free.
 */
#ifndef PYR_PPROF_WRITER_H
#define PYR_PPROF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "pprof/compress.h"

typedef struct pyr_pprof_writer pyr_pprof_writer;

typedef struct pyr_pprof_label {
    uint64_t key;  /* string index */
    uint64_t text; /* string index, 0 = numeric label, since the format has no empty text */
    int64_t number;
    uint64_t unit; /* string index, 0 = none; a number 0 without one is given its key as unit,
                      which is what Go takes for the unit then, and else it drops the label */
} pyr_pprof_label;

/* A writer into `out`, which it borrows and which bounds the compressed size. NULL: no memory. */
pyr_pprof_writer *pyr_pprof_writer_new(pyr_buffer *out, pyr_pprof_compression compression);
void pyr_pprof_writer_free(pyr_pprof_writer *writer);

/* Index of a string, interned. Invalid UTF-8 is replaced by U+FFFD (protobuf strings are UTF-8). */
uint64_t pyr_pprof_writer_string(pyr_pprof_writer *writer, const char *text, size_t length);

/* Declares the next sample type. All before the first sample. */
void pyr_pprof_writer_type(pyr_pprof_writer *writer, const char *type, const char *unit);

/* The one mapping: the program's executable. Optional; before the first location. */
void pyr_pprof_writer_mapping(pyr_pprof_writer *writer, const char *file);

/* Id of a function, interned by all its fields (string indices). */
uint64_t pyr_pprof_writer_function(pyr_pprof_writer *writer, uint64_t name, uint64_t file,
                                   int64_t start_line);

/* Id of a location, interned by function id and line. */
uint64_t pyr_pprof_writer_location(pyr_pprof_writer *writer, uint64_t function, int64_t line);

/* The same two with the fields that Python has no use for, but other profilers have. */
uint64_t pyr_pprof_writer_function_as(pyr_pprof_writer *writer, uint64_t name, uint64_t system_name,
                                      uint64_t file, int64_t start_line);
uint64_t pyr_pprof_writer_location_at(pyr_pprof_writer *writer, uint64_t function, int64_t line,
                                      uint64_t address);

/* Writes one sample: locations leaf first, one value a declared type. */
void pyr_pprof_writer_sample(pyr_pprof_writer *writer, const uint64_t *locations,
                             size_t location_count, const int64_t *values,
                             const pyr_pprof_label *labels, size_t label_count);

/* Writes a comment line (pprof -comments). */
void pyr_pprof_writer_comment(pyr_pprof_writer *writer, const char *text);

typedef struct pyr_pprof_summary {
    int64_t time_ns, duration_ns;
    const char *period_type, *period_unit; /* NULL = none */
    int64_t period;
    const char *default_type; /* NULL = none */
} pyr_pprof_summary;

/* Writes the tables and the trailer. PYR_OK, PYR_ENOMEM, PYR_ETOOBIG (out is full), PYR_EINVAL
 * (a call out of order). After it only free may follow. */
PYR_MUST_USE pyr_status pyr_pprof_writer_finish(pyr_pprof_writer *writer,
                                                const pyr_pprof_summary *summary);

/* Samples written so far. */
uint64_t pyr_pprof_writer_samples(const pyr_pprof_writer *writer);

#endif
