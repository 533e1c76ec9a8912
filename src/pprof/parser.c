/* Reads untrusted pprof bytes into a profile; see the header.
 *
 * The order of fields is free in protobuf, so what others refer to is read first: four passes over
 * the top level (strings; functions and mappings; locations; samples), each of which skips what is
 * not its own; samples, which are most of a profile, are mostly together, and skipped at once. The
 * first two are in parser_tables.c, the others in parser_stacks.c; here is what
 * runs them. Ids become indices through maps with secret seeds, so no choice of ids is slow.
 * Frames are flattened, and samples with the same list of locations share them: a bound on the
 * frames that all samples have keeps the work of whoever reads the profile in proportion to the
 * input, even when many samples refer to a location with many inlined lines. Nothing recurses. What
 * is refused is refused by google/pprof too, but for that bound and numbers of more than 64 bits.
 */
#include "pprof/parser.h"

#include <string.h>

#include "pprof/compress.h"
#include "pprof/parser_state.h"

enum {
    /* Flattened frames for each byte of input: real profiles stay below 2. */
    FRAMES_PER_BYTE = 16,
    FRAMES_ALWAYS = 1 << 16,
};

typedef pyr_status (*pass)(pyr_parser *p, const pyr_wire_field *field);

pyr_status pyr_parser_fail(pyr_parser *p, pyr_status status, const char *what, const uint8_t *at)
{
    p->error->what = what;
    p->error->offset = (size_t)(at - p->message.at);
    return status;
}

pyr_status pyr_parser_fail_memory(pyr_parser *p, pyr_status status)
{
    return pyr_parser_fail(p, status,
                           status == PYR_ENOMEM
                               ? "out of memory"
                               : "the profile holds more than can be read: a table, or the "
                                 "frames of all samples, is too large for its size",
                           p->message.at);
}

pyr_status pyr_parser_end_of(pyr_parser *p, pyr_status status, const pyr_wire_reader *reader)
{
    return status == PYR_ENOENT ? PYR_OK
                                : pyr_parser_fail(p, PYR_EBAD,
                                                  "a field is malformed or does not fit the "
                                                  "message around it",
                                                  reader->at);
}

pyr_status pyr_parser_need(pyr_parser *p, const pyr_wire_field *field, pyr_wire_type type)
{
    return field->type == type
               ? PYR_OK
               : pyr_parser_fail(p, PYR_EBAD, "a known field has the wrong wire type",
                                 field->body.at);
}

/* From here on the ids do not count from 1. */
static pyr_status make_map(pyr_parser_ids *ids)
{
    pyr_status status = PYR_OK;
    for (uint64_t index = 0; index < ids->counted && status == PYR_OK; index++) {
        status = pyr_map_put(ids->map, index + 1, index);
    }
    ids->is_map = true;
    return status;
}

pyr_status pyr_parser_add_id(pyr_parser *p, pyr_parser_ids *ids, uint64_t id, const uint8_t *at)
{
    uint64_t known;
    pyr_status status = PYR_OK;
    if (id == 0) {
        return pyr_parser_fail(p, PYR_EBAD, "a mapping, function or location has the reserved id 0",
                               at);
    }
    if (pyr_parser_find_id(ids, id, &known)) {
        return pyr_parser_fail(p, PYR_EBAD, "two mappings, functions or locations have one id", at);
    }
    if (!ids->is_map && id != ids->counted + 1) {
        status = make_map(ids);
    }
    if (ids->is_map && status == PYR_OK) {
        status = pyr_map_put(ids->map, id, ids->counted);
    }
    ids->counted++;
    return status == PYR_OK ? PYR_OK : pyr_parser_fail_memory(p, status);
}

/* ------------------------------------------------------------------------------ the whole ---- */

static pyr_status run(pyr_parser *p, pass each)
{
    pyr_wire_reader reader = p->message;
    pyr_wire_field field;
    pyr_status status;
    for (;;) {
        if (reader.at == p->samples.at && each != pyr_parser_read_samples) {
            reader.at = p->samples.end;
        }
        p->field = reader.at;
        status = pyr_wire_next(&reader, &field);
        if (status == PYR_OK) {
            status = each(p, &field);
        }
        if (status != PYR_OK) {
            break;
        }
    }
    if (status == PYR_EPARTIAL) {
        return pyr_parser_fail(p, status, "the profile ends too early: the file is truncated",
                               reader.at);
    }
    if (status == PYR_EBAD && !p->is_pprof) {
        return pyr_parser_fail(p, status, "this is not a pprof profile", reader.at);
    }
    if (status == PYR_EBAD && !p->error->what) {
        return pyr_parser_fail(p, status, "the profile is damaged: no field can begin here",
                               reader.at);
    }
    return status == PYR_ENOENT ? PYR_OK : status;
}

/* Room for all samples, which a window has thousands of. The sizes are what the message can hold:
 * each value takes a byte of it; and for labels what it mostly holds, one in twelve bytes. A
 * failure sticks in the buffers. */
static void reserve_samples(pyr_parser *p)
{
    size_t types = p->builder.types.length / sizeof(pyr_profile_type);
    size_t values = (size_t)(p->message.end - p->message.at);
    if (p->sample_count == 0 || types < values / p->sample_count) {
        values = types * p->sample_count;
    }
    size_t labels = (size_t)(p->samples.end - p->samples.at) / 12;
    (void)pyr_buffer_reserve(&p->builder.labels, labels * sizeof(pyr_profile_label));
    (void)pyr_buffer_reserve(&p->builder.values, values * sizeof(int64_t));
    (void)pyr_buffer_reserve(&p->builder.samples, p->sample_count * sizeof(pyr_profile_sample));
}

static pyr_status parse_message(pyr_parser *p)
{
    static const pass passes[] = {pyr_parser_read_strings, pyr_parser_read_tables,
                                  pyr_parser_read_locations, pyr_parser_read_samples};
    if (p->message.at == p->message.end) {
        return pyr_parser_fail(p, PYR_EPARTIAL, "the file is empty", p->message.at);
    }
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        if (passes[i] == pyr_parser_read_samples) {
            reserve_samples(p);
        }
        pyr_status status = run(p, passes[i]);
        if (status == PYR_OK && i == 0 && p->builder.strings.length == 0) {
            status = pyr_parser_fail(p, PYR_EBAD,
                                     p->is_pprof ? "the string table is missing"
                                                 : "this is not a pprof "
                                                   "profile",
                                     p->message.at);
        }
        pyr_status stuck = pyr_profile_builder_status(&p->builder);
        stuck = stuck == PYR_OK ? p->mappings.status : stuck;
        stuck = stuck == PYR_OK ? p->locations.status : stuck;
        stuck = stuck == PYR_OK ? p->lines.status : stuck;
        stuck = stuck == PYR_OK ? p->runs.status : stuck;
        if (stuck != PYR_OK) {
            return pyr_parser_fail_memory(p, stuck);
        }
        if (status != PYR_OK) {
            return status;
        }
    }
    return PYR_OK;
}

static pyr_status parser_init(pyr_parser *p, const uint8_t *bytes, size_t length,
                              pyr_parse_error *error)
{
    const pyr_parser_mapping none = {0};
    size_t frames = length < SIZE_MAX / 128 ? length * FRAMES_PER_BYTE + FRAMES_ALWAYS : UINT32_MAX;
    static const uint8_t nothing[1];
    bytes = length > 0 ? bytes : nothing; /* NULL is allowed then, but not as an address */
    *p = (pyr_parser){.message = {bytes, bytes + length}, .error = error};
    pyr_profile_builder_init(&p->builder);
    p->frames_left = frames < UINT32_MAX ? frames : UINT32_MAX;
    pyr_buffer_init(&p->mappings, SIZE_MAX / 2);
    pyr_buffer_init(&p->locations, UINT32_MAX * sizeof(pyr_parser_lines));
    pyr_buffer_init(&p->lines, UINT32_MAX * sizeof(uint32_t));
    pyr_buffer_init(&p->runs, UINT32_MAX * sizeof(pyr_parser_run));
    pyr_buffer_init(&p->label_runs, UINT32_MAX * sizeof(pyr_parser_label_run));
    p->mapping_ids.map = pyr_map_new(UINT32_MAX);
    p->function_ids.map = pyr_map_new(UINT32_MAX);
    p->location_ids.map = pyr_map_new(UINT32_MAX);
    p->frames = pyr_intern_new(UINT32_MAX, SIZE_MAX / 2);
    p->stacks = pyr_intern_new(UINT32_MAX, SIZE_MAX / 2);
    p->label_bytes = pyr_intern_new(PYR_PARSER_LABEL_RUNS, SIZE_MAX / 2);
    pyr_buffer_append(&p->mappings, &none, sizeof none);
    bool good = p->mapping_ids.map && p->function_ids.map && p->location_ids.map && p->frames &&
                p->stacks && p->label_bytes && p->mappings.status == PYR_OK;
    return good ? PYR_OK : pyr_parser_fail_memory(p, PYR_ENOMEM);
}

static void parser_fini(pyr_parser *p)
{
    pyr_profile_builder_fini(&p->builder);
    pyr_map_free(p->mapping_ids.map);
    pyr_map_free(p->function_ids.map);
    pyr_map_free(p->location_ids.map);
    pyr_intern_free(p->frames);
    pyr_intern_free(p->stacks);
    pyr_intern_free(p->label_bytes);
    pyr_buffer_fini(&p->label_runs);
    pyr_buffer_fini(&p->runs);
    pyr_buffer_fini(&p->mappings);
    pyr_buffer_fini(&p->locations);
    pyr_buffer_fini(&p->lines);
}

/* Uncompresses when needed: `message` then holds the bytes. */
static pyr_status unpack(const uint8_t *bytes, size_t length, pyr_buffer *message,
                         pyr_parse_error *error)
{
    if (pyr_compression_detect(bytes, length) == PYR_PPROF_RAW) {
        error->what = "the profile is larger than what is accepted";
        return length > message->maximum ? PYR_ETOOBIG : PYR_OK;
    }
    pyr_status status = pyr_decompress(bytes, length, message);
    error->offset = message->length;
    switch (status) {
    case PYR_EPARTIAL:
        error->what = "the compressed data ends too early: the file is truncated";
        break;
    case PYR_ETOOBIG:
        error->what = "the profile is larger than what is accepted once uncompressed";
        break;
    case PYR_ENOMEM:
        error->what = "out of memory";
        break;
    default:
        error->what = "the compressed data is damaged";
        break;
    }
    return status;
}

pyr_status pyr_profile_parse(const uint8_t *bytes, size_t length, size_t max_bytes,
                             pyr_profile **profile, pyr_parse_error *error)
{
    *profile = NULL;
    *error = (pyr_parse_error){0};
    pyr_buffer message;
    pyr_buffer_init(&message, max_bytes);
    pyr_status status = unpack(bytes, length, &message, error);
    if (status == PYR_OK) {
        bool packed = pyr_compression_detect(bytes, length) != PYR_PPROF_RAW;
        pyr_parser p;
        *error = (pyr_parse_error){0};
        status =
            parser_init(&p, packed ? message.data : bytes, packed ? message.length : length, error);
        if (status == PYR_OK) {
            status = parse_message(&p);
            p.builder.head.kind_count = pyr_parser_kinds(&p);
        }
        if (status == PYR_OK) {
            status = pyr_profile_builder_finish(&p.builder, profile);
            if (status != PYR_OK) {
                (void)pyr_parser_fail_memory(&p, status);
            }
        }
        parser_fini(&p);
    }
    if (status == PYR_OK) {
        *error = (pyr_parse_error){0};
    }
    pyr_buffer_fini(&message);
    return status;
}
