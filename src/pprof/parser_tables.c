/* Passes 1 and 2 of the parser: what stands in tables and refers to strings at most.
 *
 * Owns nothing; works on the parser of one call. Must not read locations or samples, which refer to
 * what these passes collect.
 */
#include "pprof/parser_state.h"

#include <string.h>

enum { MAPPING_FIELDS = 10 };

/* ------------------------------------------------------- pass 1: strings, plain numbers ---- */

static bool is_moment(const pyr_wire_reader *text)
{
    static const char NAME[] = "end_timestamp_ns";
    return (size_t)(text->end - text->at) == sizeof NAME - 1 &&
           memcmp(text->at, NAME, sizeof NAME - 1) == 0;
}

pyr_status pyr_parser_read_strings(pyr_parser *p, const pyr_wire_field *field)
{
    pyr_profile *head = &p->builder.head;
    pyr_status status;
    switch (field->number) {
    case 1: /* only looked at: a profile whose samples mean anything has sample types */
        status = pyr_parser_need(p, field, PYR_WIRE_BYTES);
        p->is_pprof = p->is_pprof || status == PYR_OK;
        return status;
    case 2: /* counted, so that there is room for all of them at once */
        p->sample_count++;
        if (p->samples.at == NULL) {
            p->samples = (pyr_wire_reader){p->field, p->field};
        }
        if (p->samples.end == p->field) {
            p->samples.end = field->body.end;
        }
        return pyr_parser_need(p, field, PYR_WIRE_BYTES);
    case 6:
        status = pyr_parser_need(p, field, PYR_WIRE_BYTES);
        if (status != PYR_OK) {
            return status;
        }
        if (p->builder.strings.length == 0 && field->body.at != field->body.end) {
            return pyr_parser_fail(p, PYR_EBAD, "the first entry of the string table is not empty",
                                   field->body.at);
        }
        p->is_pprof = true;
        if (is_moment(&field->body)) {
            size_t index = p->builder.strings.length / sizeof(pyr_profile_text);
            p->moment_key = index < PYR_PARSER_MOMENT_KEYS ? (uint32_t)index : 0;
        }
        pyr_profile_builder_string(&p->builder, field->body.at,
                                   (size_t)(field->body.end - field->body.at));
        return PYR_OK;
    case 9:
        if (head->time_ns != 0) {
            return pyr_parser_fail(p, PYR_EBAD, "the file holds several profiles one after another",
                                   field->body.at);
        }
        head->time_ns = (int64_t)field->value;
        return pyr_parser_need(p, field, PYR_WIRE_VARINT);
    case 10:
        head->duration_ns = (int64_t)field->value;
        return pyr_parser_need(p, field, PYR_WIRE_VARINT);
    case 12:
        head->period = (int64_t)field->value;
        return pyr_parser_need(p, field, PYR_WIRE_VARINT);
    default:
        return PYR_OK;
    }
}

/* ------------------------------------- pass 2: what refers to strings and nothing else ---- */

static pyr_status read_type(pyr_parser *p, const pyr_wire_field *field, pyr_profile_type *type)
{
    uint64_t n[3];
    pyr_status status = pyr_parser_numbers(p, field, n, 2);
    if (status == PYR_OK) {
        status = pyr_parser_check_strings(p, n + 1, 2, field->body.at);
    }
    if (status == PYR_OK) {
        *type = (pyr_profile_type){(uint32_t)n[1], (uint32_t)n[2]};
    }
    return status;
}

static pyr_status read_mapping(pyr_parser *p, const pyr_wire_field *field)
{
    uint64_t n[MAPPING_FIELDS + 1];
    pyr_status status = pyr_parser_numbers(p, field, n, MAPPING_FIELDS);
    if (status == PYR_OK) {
        status = pyr_parser_check_strings(p, n + 5, 2, field->body.at);
    }
    if (status == PYR_OK) {
        status = pyr_parser_add_id(p, &p->mapping_ids, n[1], field->body.at);
    }
    if (status == PYR_OK) {
        if (p->mapping_ids.counted == 1) {
            p->builder.head.main_binary = (uint32_t)n[5];
        }
        const pyr_parser_mapping entry = {.file = n[5]};
        pyr_buffer_append(&p->mappings, &entry, sizeof entry);
    }
    return status;
}

static pyr_status read_function(pyr_parser *p, const pyr_wire_field *field)
{
    uint64_t n[6];
    pyr_status status = pyr_parser_numbers(p, field, n, 5);
    if (status == PYR_OK) {
        status = pyr_parser_check_strings(p, n + 2, 3, field->body.at);
    }
    if (status == PYR_OK) {
        status = pyr_parser_add_id(p, &p->function_ids, n[1], field->body.at);
    }
    if (status == PYR_OK) {
        const pyr_profile_function entry = {
            .name = (uint32_t)n[2],
            .system_name = (uint32_t)n[3],
            .file = (uint32_t)n[4],
            .start_line = (int64_t)n[5],
        };
        pyr_buffer_append(&p->builder.functions, &entry, sizeof entry);
    }
    return status;
}

static pyr_status read_comments(pyr_parser *p, const pyr_wire_field *field)
{
    if (field->type != PYR_WIRE_VARINT && field->type != PYR_WIRE_BYTES) {
        return pyr_parser_need(p, field, PYR_WIRE_VARINT);
    }
    pyr_wire_reader reader = field->body;
    pyr_status status;
    uint64_t index;
    while ((status = pyr_wire_varint(&reader, &index)) == PYR_OK) {
        status = pyr_parser_check_strings(p, &index, 1, field->body.at);
        if (status != PYR_OK) {
            return status;
        }
        const uint32_t comment = (uint32_t)index;
        pyr_buffer_append(&p->builder.comments, &comment, sizeof comment);
    }
    return pyr_parser_end_of(p, status, &reader);
}

pyr_status pyr_parser_read_tables(pyr_parser *p, const pyr_wire_field *field)
{
    pyr_profile_type type;
    uint64_t index;
    pyr_status status = PYR_OK;
    switch (field->number) {
    case 1:
        status = read_type(p, field, &type);
        if (status == PYR_OK) {
            pyr_buffer_append(&p->builder.types, &type, sizeof type);
        }
        return status;
    case 3:
        return read_mapping(p, field);
    case 5:
        return read_function(p, field);
    case 11:
        return read_type(p, field, &p->builder.head.period_type);
    case 13:
        return read_comments(p, field);
    case 7:  /* drop frames */
    case 8:  /* keep frames */
    case 14: /* default sample type */
    case 15: /* documentation address */
        status = pyr_parser_need(p, field, PYR_WIRE_VARINT);
        index = field->value;
        if (status == PYR_OK) {
            status = pyr_parser_check_strings(p, &index, 1, field->body.at);
        }
        if (status == PYR_OK && field->number == 14) {
            p->builder.head.default_type = (uint32_t)index;
        }
        return status;
    default:
        return PYR_OK;
    }
}
