/* Passes 3 and 4 of the parser: locations, and the samples that refer to them.
 *
 * Owns nothing; works on the parser of one call. Inlined lines are flattened here: a location is a
 * run of frames, and a sample's stack the runs of its locations.
 */
#include "pprof/parser_state.h"

#include <string.h>

#include "base/load.h"

enum {
    LABEL_TAG = 3 << 3 | PYR_WIRE_BYTES,
    LABEL_KEY_TAG = 1 << 3 | PYR_WIRE_VARINT,
    LABEL_NUMBER_TAG = 3 << 3 | PYR_WIRE_VARINT,
    MOMENT_BYTES = 14, /* tag and length; tag and key; tag and a moment of this century */
};

/* ------------------------------------------------------------------- pass 3: locations ---- */

/* Adds one line to the location being read. */
static pyr_status add_line(pyr_parser *p, uint64_t function, int64_t line, uint64_t address)
{
    const uint64_t key[3] = {function, (uint64_t)line, address};
    size_t known = pyr_intern_count(p->frames);
    uint64_t index;
    pyr_status status = pyr_intern_add(p->frames, key, sizeof key, &index);
    if (status != PYR_OK) {
        return pyr_parser_fail_memory(p, status);
    }
    if (index == known) {
        const pyr_profile_frame frame = {(uint32_t)function, line, address};
        pyr_buffer_append(&p->builder.frames, &frame, sizeof frame);
    }
    const uint32_t place = (uint32_t)index;
    pyr_buffer_append(&p->lines, &place, sizeof place);
    return PYR_OK;
}

/* A location without lines is an address that nobody has put a name to. It gets a function of its
 * mapping named "<unknown>", so that its samples are not lost; one function a mapping. */
static pyr_status add_unknown(pyr_parser *p, uint64_t mapping_id, uint64_t address)
{
    uint64_t index = 0; /* the entry for "no mapping", also for an id that does not exist */
    if (pyr_parser_find_id(&p->mapping_ids, mapping_id, &index)) {
        index++;
    }
    pyr_parser_mapping where;
    memcpy(&where, p->mappings.data + index * sizeof where, sizeof where);
    if (where.unknown == 0) {
        const pyr_profile_function entry = {
            .name = (uint32_t)(p->builder.strings.length / sizeof(pyr_profile_text)),
            .file = (uint32_t)where.file,
        };
        pyr_profile_builder_string(&p->builder, "<unknown>", strlen("<unknown>"));
        pyr_buffer_append(&p->builder.functions, &entry, sizeof entry);
        where.unknown = (uint32_t)(p->builder.functions.length / sizeof entry);
        pyr_status status = pyr_profile_builder_status(&p->builder);
        if (status != PYR_OK) {
            return pyr_parser_fail_memory(p, status);
        }
        memcpy(p->mappings.data + index * sizeof where, &where, sizeof where);
    }
    return add_line(p, where.unknown - 1, 0, address);
}

static pyr_status read_line(pyr_parser *p, const pyr_wire_field *field, uint64_t address)
{
    uint64_t n[4], function;
    pyr_status status = pyr_parser_numbers(p, field, n, 3);
    if (status != PYR_OK) {
        return status;
    }
    if (!pyr_parser_find_id(&p->function_ids, n[1], &function)) {
        return pyr_parser_fail(p, PYR_EBAD, "a location refers to a function that does not exist",
                               field->body.at);
    }
    return add_line(p, function, (int64_t)n[2], address);
}

/* Calls `visit` for the line messages of a location when it is given, else reads its numbers. */
static pyr_status read_location_fields(pyr_parser *p, const pyr_wire_field *message, uint64_t n[6],
                                       bool want_lines)
{
    pyr_wire_reader reader = message->body;
    pyr_wire_field field;
    pyr_status status;
    while ((status = pyr_wire_next(&reader, &field)) == PYR_OK) {
        if (field.number == 4) {
            status = want_lines ? read_line(p, &field, n[3]) : PYR_OK;
        } else if (field.number < 6 && !want_lines) {
            status = pyr_parser_need(p, &field, PYR_WIRE_VARINT);
            n[field.number] = field.value;
        }
        if (status != PYR_OK) {
            return status;
        }
    }
    return pyr_parser_end_of(p, status, &reader);
}

pyr_status pyr_parser_read_locations(pyr_parser *p, const pyr_wire_field *field)
{
    if (field->number != 4) {
        return PYR_OK;
    }
    uint64_t n[6] = {0};
    pyr_parser_lines entry = {.start = p->lines.length / sizeof(uint32_t)};
    pyr_status status = pyr_parser_need(p, field, PYR_WIRE_BYTES);
    if (status == PYR_OK) {
        status = read_location_fields(p, field, n, false); /* the address may follow the lines */
    }
    if (status == PYR_OK) {
        status = pyr_parser_add_id(p, &p->location_ids, n[1], field->body.at);
    }
    if (status == PYR_OK) {
        status = read_location_fields(p, field, n, true);
    }
    if (status == PYR_OK && p->lines.length / sizeof(uint32_t) == entry.start) {
        status = add_unknown(p, n[2], n[3]);
    }
    entry.count = p->lines.length / sizeof(uint32_t) - entry.start;
    pyr_buffer_append(&p->locations, &entry, sizeof entry);
    return status;
}

/* --------------------------------------------------------------------- pass 4: samples ---- */

/* A list of numbers may be packed or not. */
static pyr_status need_list(pyr_parser *p, const pyr_wire_field *field)
{
    return field->type == PYR_WIRE_BYTES ? PYR_OK : pyr_parser_need(p, field, PYR_WIRE_VARINT);
}

static pyr_status take_frames(pyr_parser *p, size_t count)
{
    if (count > p->frames_left) {
        return pyr_parser_fail_memory(p, PYR_ETOOBIG);
    }
    p->frames_left -= count;
    return PYR_OK;
}

static pyr_status add_frames(pyr_parser *p, uint64_t id, const uint8_t *at)
{
    uint64_t index;
    if (!pyr_parser_find_id(&p->location_ids, id, &index)) {
        return pyr_parser_fail(p, PYR_EBAD, "a sample refers to a location that does not exist",
                               at);
    }
    pyr_parser_lines place;
    memcpy(&place, p->locations.data + index * sizeof place, sizeof place);
    pyr_status status = take_frames(p, place.count);
    if (status == PYR_OK) {
        status = pyr_buffer_append(&p->builder.stack_frames,
                                   p->lines.data + place.start * sizeof(uint32_t),
                                   place.count * sizeof(uint32_t));
        status = status == PYR_OK ? PYR_OK : pyr_parser_fail_memory(p, status);
    }
    return status;
}

/* Adds a list of locations to the frames of a sample, which are copied to the end of all frames
 * when they are elsewhere. */
static pyr_status append_locations(pyr_parser *p, const pyr_wire_field *field,
                                   pyr_profile_sample *sample)
{
    pyr_buffer *frames = &p->builder.stack_frames;
    size_t end = frames->length / sizeof(uint32_t);
    pyr_status status = need_list(p, field);
    if (status != PYR_OK) {
        return status;
    }
    bool is_elsewhere = sample->frame_start + sample->frame_count < end;
    if (sample->frame_count > 0 && is_elsewhere) {
        size_t bytes = sample->frame_count * sizeof(uint32_t);
        status = take_frames(p, sample->frame_count);
        if (status == PYR_OK && pyr_buffer_reserve(frames, bytes) != PYR_OK) {
            status = pyr_parser_fail_memory(p, frames->status);
        }
        if (status != PYR_OK) {
            return status;
        }
        (void)pyr_buffer_append(frames, frames->data + sample->frame_start * sizeof(uint32_t),
                                bytes);
    }
    if (is_elsewhere) {
        sample->frame_start = (uint32_t)end;
    }
    pyr_wire_reader reader = field->body;
    uint64_t id;
    while ((status = pyr_wire_varint(&reader, &id)) == PYR_OK) {
        status = add_frames(p, id, field->body.at);
        if (status != PYR_OK) {
            return status;
        }
    }
    sample->frame_count = (uint32_t)(frames->length / sizeof(uint32_t)) - sample->frame_start;
    return pyr_parser_end_of(p, status, &reader);
}

/* The locations of a sample. Most samples have a stack that others have too, as one packed list:
 * the same bytes are the same frames, which are found once. */
static pyr_status read_locations(pyr_parser *p, const pyr_wire_field *field,
                                 pyr_profile_sample *sample)
{
    if (field->type != PYR_WIRE_BYTES || sample->frame_count > 0) {
        return append_locations(p, field, sample);
    }
    size_t known = pyr_intern_count(p->stacks);
    uint64_t index = 0;
    pyr_parser_run run;
    pyr_status status = pyr_intern_add(p->stacks, field->body.at,
                                       (size_t)(field->body.end - field->body.at), &index);
    if (status != PYR_OK) {
        return pyr_parser_fail_memory(p, status);
    }
    if (index == known) {
        status = append_locations(p, field, sample);
        run = (pyr_parser_run){sample->frame_start, sample->frame_count};
        if (status == PYR_OK && pyr_buffer_append(&p->runs, &run, sizeof run) != PYR_OK) {
            status = pyr_parser_fail_memory(p, p->runs.status);
        }
        return status;
    }
    memcpy(&run, p->runs.data + index * sizeof run, sizeof run);
    sample->frame_start = run.start;
    sample->frame_count = run.count;
    return take_frames(p, run.count);
}

static pyr_status wrong_value_count(pyr_parser *p, const uint8_t *at)
{
    return pyr_parser_fail(p, PYR_EBAD,
                           "a sample has more or fewer values than there are sample types", at);
}

/* *left: how many values the sample still lacks. */
static pyr_status read_values(pyr_parser *p, const pyr_wire_field *field, size_t *left)
{
    pyr_buffer *values = &p->builder.values;
    pyr_wire_reader reader = field->body;
    pyr_status status = need_list(p, field);
    if (status == PYR_OK && pyr_buffer_reserve(values, *left * sizeof(int64_t)) != PYR_OK) {
        status = pyr_parser_fail_memory(p, values->status);
    }
    if (status != PYR_OK) {
        return status;
    }
    int64_t *next = (int64_t *)(void *)(values->data + values->length);
    int64_t *end = next + *left;
    for (;;) {
        /* Most values are 0 or a small count, in one byte: of eight bytes those before the first
         * longer number, at once. */
        uint64_t longer = 0;
        while (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && longer == 0 && end - next >= 8 &&
               reader.end - reader.at >= 8) {
            longer = pyr_load_u64(reader.at, 0) & UINT64_C(0x8080808080808080);
            size_t count = longer != 0 ? (size_t)__builtin_ctzll(longer) / 8 : 8;
            for (size_t i = 0; i < 8; i++) {
                next[i] = reader.at[i];
            }
            next += count;
            reader.at += count;
        }
        uint64_t number;
        status = pyr_wire_varint(&reader, &number);
        if (status != PYR_OK) {
            break;
        }
        if (next == end) {
            return wrong_value_count(p, field->body.at);
        }
        *next++ = (int64_t)number;
    }
    values->length += (*left - (size_t)(end - next)) * sizeof *next;
    *left = (size_t)(end - next);
    return pyr_parser_end_of(p, status, &reader);
}

static pyr_status read_label(pyr_parser *p, const pyr_wire_field *field)
{
    const uint8_t *at = field->body.at;
    size_t length = (size_t)(field->body.end - at);
    /* Samples of a thread mostly follow each other: two of three labels are what they were in the
     * last sample that had the key, which is the second byte. */
    pyr_parser_label *last = &p->labels[length > 1 ? at[1] % PYR_PARSER_LABELS : 0];
    if (field->type == PYR_WIRE_BYTES && length == last->length && length > 0 &&
        memcmp(at, last->at, length) == 0) {
        pyr_buffer_append(&p->builder.labels, &last->label, sizeof last->label);
        return PYR_OK;
    }
    uint64_t n[5];
    pyr_status status = pyr_parser_numbers(p, field, n, 4);
    if (status != PYR_OK) {
        return status;
    }
    uint64_t strings[] = {n[1], n[2], n[4]};
    status = pyr_parser_check_strings(p, strings, 3, field->body.at);
    bool is_text = strings[1] != 0;
    const pyr_profile_label label = {
        .key = (uint32_t)strings[0],
        .text = (uint32_t)strings[1],
        .number = is_text ? 0 : (int64_t)n[3],
        .unit = is_text ? 0 : (uint32_t)strings[2],
    };
    if (status == PYR_OK) {
        *last = (pyr_parser_label){at, length, label};
        pyr_buffer_append(&p->builder.labels, &label, sizeof label);
    }
    return status;
}

/* The fields of a sample's labels, as writers have them: at its end, and the moment, which is of
 * this sample alone, before or behind the others. */
typedef struct label_fields {
    pyr_wire_reader others;
    pyr_wire_reader moment; /* the content of its message */
    enum { MOMENT_NONE, MOMENT_FIRST, MOMENT_LAST, MOMENTS } moment_is;
} label_fields;

static bool is_moment(const pyr_parser *p, const uint8_t *at, ptrdiff_t room)
{
    return room >= MOMENT_BYTES && at[0] == LABEL_TAG && at[2] == LABEL_KEY_TAG &&
           at[3] == p->moment_key && p->moment_key != 0;
}

/* Says where they are, if all are labels: whether the others are, nobody has looked. */
static label_fields find_label_fields(const pyr_parser *p, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *last = end - MOMENT_BYTES;
    if (is_moment(p, at, end - at) && at[1] >= 4 && at[1] <= end - at - 2 && at[1] < 0x80) {
        const uint8_t *next = at + 2 + at[1];
        return (label_fields){{next, end}, {at + 2, next}, MOMENT_FIRST};
    }
    if (end - at >= MOMENT_BYTES && is_moment(p, last, MOMENT_BYTES) &&
        last[1] == MOMENT_BYTES - 2) {
        return (label_fields){{at, last}, {last + 2, end}, MOMENT_LAST};
    }
    return (label_fields){{at, end}, {NULL, NULL}, MOMENT_NONE};
}

static pyr_status read_moment(pyr_parser *p, pyr_wire_reader body)
{
    pyr_profile_label label = {.key = p->moment_key};
    pyr_wire_reader reader = {body.at + 3, body.end};
    uint64_t number = 0;
    if (body.at[2] != LABEL_NUMBER_TAG || pyr_wire_varint(&reader, &number) != PYR_OK ||
        reader.at != reader.end) { /* something else is there too */
        return read_label(p, &(pyr_wire_field){.number = 3, .type = PYR_WIRE_BYTES, .body = body});
    }
    label.number = (int64_t)number;
    (void)pyr_buffer_append(&p->builder.labels, &label, sizeof label);
    return PYR_OK;
}

/* PYR_ENOENT: these are not labels alone. */
static pyr_status read_label_fields(pyr_parser *p, pyr_wire_reader reader)
{
    pyr_wire_field field;
    pyr_status status;
    while ((status = pyr_wire_next(&reader, &field)) == PYR_OK) {
        status = field.number == 3 ? read_label(p, &field) : PYR_ENOENT;
        if (status != PYR_OK) {
            return status;
        }
    }
    return reader.at == reader.end ? PYR_OK : PYR_ENOENT;
}

/* Labels that samples have over and over, but for their moment, are read once. PYR_ENOENT as
 * above. */
static pyr_status read_other_labels(pyr_parser *p, pyr_wire_reader bytes, uint64_t *run_index)
{
    pyr_buffer *labels = &p->builder.labels;
    size_t known = pyr_intern_count(p->label_bytes);
    pyr_status status =
        pyr_intern_add(p->label_bytes, bytes.at, (size_t)(bytes.end - bytes.at), run_index);
    if (status != PYR_OK) {
        return pyr_parser_fail_memory(p, status);
    }
    pyr_parser_label_run run = {.start = (uint32_t)(labels->length / sizeof(pyr_profile_label))};
    if (*run_index == known) {
        status = read_label_fields(p, bytes);
        run.count = (uint32_t)(labels->length / sizeof(pyr_profile_label)) - run.start;
        run.is_other = status == PYR_ENOENT;
        return pyr_buffer_append(&p->label_runs, &run, sizeof run) == PYR_OK
                   ? status
                   : pyr_parser_fail_memory(p, p->label_runs.status);
    }
    memcpy(&run, p->label_runs.data + *run_index * sizeof run, sizeof run);
    if (run.is_other) {
        return PYR_ENOENT;
    }
    size_t length = run.count * sizeof(pyr_profile_label);
    if (pyr_buffer_reserve(labels, length) != PYR_OK) {
        return pyr_parser_fail_memory(p, labels->status);
    }
    (void)pyr_buffer_append(labels, labels->data + run.start * sizeof(pyr_profile_label), length);
    return PYR_OK;
}

uint32_t pyr_parser_kinds(const pyr_parser *p)
{
    return (uint32_t)pyr_intern_count(p->label_bytes) * MOMENTS;
}

/* What is left of a sample, if it is labels: else PYR_ENOENT, and they must be read one by one. */
static pyr_status read_labels(pyr_parser *p, pyr_wire_reader bytes, pyr_profile_sample *sample)
{
    pyr_buffer *labels = &p->builder.labels;
    const label_fields fields = find_label_fields(p, bytes.at, bytes.end);
    size_t start = labels->length;
    uint64_t run = 0;
    pyr_status status = PYR_OK;
    if (pyr_intern_count(p->label_bytes) == PYR_PARSER_LABEL_RUNS) {
        return PYR_ENOENT;
    }
    if (fields.moment_is == MOMENT_FIRST) {
        status = read_moment(p, fields.moment);
    }
    if (status == PYR_OK) {
        status = read_other_labels(p, fields.others, &run);
    }
    if (status == PYR_OK && fields.moment_is == MOMENT_LAST) {
        status = read_moment(p, fields.moment);
    }
    if (status == PYR_ENOENT) {
        labels->length = start;
    }
    if (status != PYR_OK || labels->status != PYR_OK) {
        return status; /* what sticks in a buffer is found at the end of the pass */
    }
    size_t count = (labels->length - start) / sizeof(pyr_profile_label);
    const pyr_profile_label *own = (const void *)(labels->data + start);
    const pyr_profile_label *moment = &own[fields.moment_is == MOMENT_FIRST ? 0 : count - 1];
    sample->label_count = (uint32_t)count;
    if (fields.moment_is == MOMENT_NONE ||
        (moment->key == p->moment_key && moment->text == 0 && moment->unit == 0)) {
        sample->label_kind = 1 + (uint32_t)run * MOMENTS + fields.moment_is;
    }
    return PYR_OK;
}

pyr_status pyr_parser_read_samples(pyr_parser *p, const pyr_wire_field *field)
{
    if (field->number != 2) {
        return PYR_OK;
    }
    size_t type_count = p->builder.types.length / sizeof(pyr_profile_type);
    if (type_count == 0) {
        return pyr_parser_fail(p, PYR_EBAD, "there are samples but no sample types",
                               field->body.at);
    }
    pyr_profile_sample sample = pyr_profile_builder_mark(&p->builder);
    pyr_wire_reader reader = field->body;
    pyr_wire_field part;
    pyr_status status;
    size_t left = type_count;
    for (;;) {
        if (reader.at < reader.end && reader.at[0] == LABEL_TAG && sample.label_count == 0) {
            status = read_labels(p, reader, &sample);
            if (status == PYR_OK) {
                reader.at = reader.end;
            } else if (status != PYR_ENOENT) {
                return status;
            }
        }
        status = pyr_wire_next(&reader, &part);
        if (status != PYR_OK) {
            break;
        }
        if (part.number == 1) {
            status = read_locations(p, &part, &sample);
        } else if (part.number == 2) {
            status = read_values(p, &part, &left);
        } else if (part.number == 3) {
            status = read_label(p, &part);
            sample.label_count++;
        }
        if (status != PYR_OK) {
            return status;
        }
    }
    if (status == PYR_ENOENT && left > 0) {
        return wrong_value_count(p, field->body.at);
    }
    (void)pyr_buffer_append(&p->builder.samples, &sample, sizeof sample);
    return pyr_parser_end_of(p, status, &reader);
}
