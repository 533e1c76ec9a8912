/* What the parts of the parser share: its state, and how they fail. Private to parser*.c.
 *
 * One parser lives on the stack of pyr_profile_parse, one thread. Every function returns PYR_OK or
 * has filled the error.
 */
#ifndef PYR_PPROF_PARSER_STATE_H
#define PYR_PPROF_PARSER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map.h"
#include "base/status.h"
#include "pprof/builder.h"
#include "pprof/intern.h"
#include "pprof/parser.h"
#include "pprof/wire.h"

/* The frames of one location. */
typedef struct pyr_parser_lines {
    size_t start, count; /* into pyr_parser.lines */
} pyr_parser_lines;

/* The frames of one list of locations, as samples have it. */
typedef struct pyr_parser_run {
    uint32_t start, count; /* into stack_frames */
} pyr_parser_run;

/* The labels that a run of bytes says, as samples have it. */
typedef struct pyr_parser_label_run {
    uint32_t start, count; /* into labels */
    bool is_other;         /* than labels alone */
} pyr_parser_label_run;

/* Ids of the file and the indices that they got. Nearly all writers count from 1: then nothing but
 * their number is kept. */
typedef struct pyr_parser_ids {
    size_t counted; /* ids 1 to this one have the indices 0 to it - 1 ... */
    pyr_map *map;   /* ... and once an id was another, all are here */
    bool is_map;
} pyr_parser_ids;

typedef struct pyr_parser_mapping {
    uint64_t file;
    uint32_t unknown; /* function that stands for unnamed addresses, plus 1; 0 = not made yet */
} pyr_parser_mapping;

/* A label that was read before, with its bytes. */
typedef struct pyr_parser_label {
    const uint8_t *at;
    size_t length;
    pyr_profile_label label;
} pyr_parser_label;

enum {
    PYR_PARSER_LABELS = 64,
    /* Different runs of labels that are looked for: where each sample has its own, such as numbers
     * of spans, looking is in vain. */
    PYR_PARSER_LABEL_RUNS = 1 << 16,
    PYR_PARSER_MOMENT_KEYS = 0x80, /* moments are found by a key of one byte */
};

typedef struct pyr_parser {
    pyr_wire_reader message;
    const uint8_t *field; /* where the field at hand begins */
    pyr_profile_builder builder;
    pyr_parser_ids mapping_ids, function_ids, location_ids;
    pyr_buffer mappings;  /* pyr_parser_mapping; first is "none" */
    pyr_buffer locations; /* pyr_parser_lines */
    pyr_buffer lines;     /* uint32_t, into frames */
    pyr_intern *frames;
    pyr_intern *stacks; /* packed lists of locations: samples with equal bytes share their frames */
    pyr_buffer runs;    /* pyr_parser_run, of each of `stacks` */
    pyr_intern *label_bytes; /* fields of labels, without the moment: as with `stacks` */
    pyr_buffer label_runs;   /* pyr_parser_label_run, of each of `label_bytes` */
    uint32_t moment_key;     /* string: end_timestamp_ns; 0 = not known */
    size_t frames_left;      /* how many more frames all samples together may have, shared or not */
    size_t sample_count;     /* fields that are samples, known after the first pass */
    pyr_wire_reader samples; /* the first of them, and those that follow without a gap */
    pyr_parser_label
        labels[PYR_PARSER_LABELS]; /* the last one of each key; by the key's last bits */
    pyr_parse_error *error;
    bool is_pprof; /* something was read that only a profile has */
} pyr_parser;

/* Fills the error and returns `status`. `at` is in the message. */
pyr_status pyr_parser_fail(pyr_parser *p, pyr_status status, const char *what, const uint8_t *at);

/* The same for PYR_ENOMEM and PYR_ETOOBIG of a table. */
pyr_status pyr_parser_fail_memory(pyr_parser *p, pyr_status status);

/* The end of a loop over the fields of a message whose length is known: all but the end is bad. */
pyr_status pyr_parser_end_of(pyr_parser *p, pyr_status status, const pyr_wire_reader *reader);

/* A known field must have this type. */
pyr_status pyr_parser_need(pyr_parser *p, const pyr_wire_field *field, pyr_wire_type type);

/* Reads a message whose fields 1 to `count` are numbers, into numbers[1] to numbers[count]. Absent
 * ones are 0; other fields are skipped. In place, as the fields of wire.h are: a window has tens of
 * thousands of labels. */
static inline pyr_status pyr_parser_numbers(pyr_parser *p, const pyr_wire_field *message,
                                            uint64_t *numbers, uint32_t count)
{
    pyr_status status = pyr_parser_need(p, message, PYR_WIRE_BYTES);
    if (status != PYR_OK) {
        return status;
    }
    for (uint32_t i = 0; i <= count; i++) {
        numbers[i] = 0;
    }
    pyr_wire_reader reader = message->body;
    pyr_wire_field field;
    while ((status = pyr_wire_next(&reader, &field)) == PYR_OK) {
        if (field.number <= count) {
            if (field.type != PYR_WIRE_VARINT) {
                return pyr_parser_need(p, &field, PYR_WIRE_VARINT);
            }
            numbers[field.number] = field.value;
        }
    }
    return pyr_parser_end_of(p, status, &reader);
}

/* Checks references to strings. Those to an empty text become 0, so that 0 means empty. */
static inline pyr_status pyr_parser_check_strings(pyr_parser *p, uint64_t *indices, size_t count,
                                                  const uint8_t *at)
{
    const pyr_profile_text *texts = (const void *)p->builder.strings.data;
    for (size_t i = 0; i < count; i++) {
        if (indices[i] >= p->builder.strings.length / sizeof *texts) {
            return pyr_parser_fail(p, PYR_EBAD, "a string index is out of range", at);
        }
        indices[i] = texts[indices[i]].length == 0 ? 0 : indices[i];
    }
    return PYR_OK;
}

/* Gives an id the next index. */
pyr_status pyr_parser_add_id(pyr_parser *p, pyr_parser_ids *ids, uint64_t id, const uint8_t *at);

/* False: no such id, and *index is what it was. */
static inline bool pyr_parser_find_id(const pyr_parser_ids *ids, uint64_t id, uint64_t *index)
{
    if (ids->is_map) {
        return pyr_map_get(ids->map, id, index);
    }
    if (id - 1 >= ids->counted) { /* 0 - 1 is more than there are */
        return false;
    }
    *index = id - 1;
    return true;
}

/* The passes, each called for every field of the profile; see parser.c. */
pyr_status pyr_parser_read_strings(pyr_parser *p, const pyr_wire_field *field);
pyr_status pyr_parser_read_tables(pyr_parser *p, const pyr_wire_field *field);
pyr_status pyr_parser_read_locations(pyr_parser *p, const pyr_wire_field *field);
pyr_status pyr_parser_read_samples(pyr_parser *p, const pyr_wire_field *field);

/* The highest kind of labels that a sample can have got. */
uint32_t pyr_parser_kinds(const pyr_parser *p);

#endif
