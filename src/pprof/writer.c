/* Streaming pprof writer; see the header.
 *
 * Owns the compressor and three tables that number strings, functions and locations. Samples, types
 * and comments leave at once, through `pending`, which only exists to hand the compressor larger
 * pieces; the tables follow at the end, since protobuf leaves the order of fields free and like
 * next to like compresses best. Must never keep a sample.
 */
#include "pprof/writer.h"

#include <stdbool.h>
#include <string.h>

#include "base/limits.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "pprof/intern.h"
#include "pprof/wire.h"

enum { PENDING_BYTES = 32 * 1024, RECORD_BYTES = 16 << 20 };

/* Field numbers: profile.proto. */
enum {
    PROFILE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14,
};

/* As kept in the tables: no padding, so equal records are equal bytes. */
typedef struct function {
    uint64_t name, system_name, file;
    int64_t start_line;
} function;

typedef struct location {
    uint64_t function;
    int64_t line;
    uint64_t address;
} location;

struct pyr_pprof_writer {
    pyr_compressor *compressor;
    pyr_intern *strings, *functions, *locations;
    pyr_buffer pending; /* finished fields on their way to the compressor */
    pyr_buffer record;  /* the message being made */
    pyr_buffer part;    /* a message or packed list inside it */
    pyr_buffer text;    /* a string being repaired */
    uint64_t mapping_file;
    uint64_t sample_count;
    size_t type_count;
    pyr_status status; /* first failure, sticky */
    bool finished;
};

static bool is_good(const pyr_pprof_writer *writer)
{
    return writer->status == PYR_OK;
}

static void fail(pyr_pprof_writer *writer, pyr_status status)
{
    if (writer->status == PYR_OK) {
        writer->status = status;
    }
}

pyr_pprof_writer *pyr_pprof_writer_new(pyr_buffer *out, pyr_pprof_compression compression)
{
    pyr_pprof_writer *writer = pyr_memory_new(1, sizeof *writer);
    if (!writer) {
        return NULL;
    }
    pyr_buffer_init(&writer->pending, PENDING_BYTES + RECORD_BYTES + 32);
    pyr_buffer_init(&writer->record, RECORD_BYTES);
    pyr_buffer_init(&writer->part, RECORD_BYTES);
    pyr_buffer_init(&writer->text, RECORD_BYTES);
    writer->compressor = pyr_compressor_new(out, compression);
    writer->strings = pyr_intern_new(UINT32_MAX, PYR_LIMIT_PPROF_BYTES);
    writer->functions = pyr_intern_new(UINT32_MAX, PYR_LIMIT_PPROF_BYTES);
    writer->locations = pyr_intern_new(UINT32_MAX, PYR_LIMIT_PPROF_BYTES);
    uint64_t empty; /* string 0, by the format */
    if (!writer->compressor || !writer->strings || !writer->functions || !writer->locations ||
        pyr_intern_add(writer->strings, "", 0, &empty) != PYR_OK) {
        pyr_pprof_writer_free(writer);
        return NULL;
    }
    return writer;
}

void pyr_pprof_writer_free(pyr_pprof_writer *writer)
{
    if (!writer) {
        return;
    }
    pyr_compressor_free(writer->compressor);
    pyr_intern_free(writer->strings);
    pyr_intern_free(writer->functions);
    pyr_intern_free(writer->locations);
    pyr_buffer_fini(&writer->pending);
    pyr_buffer_fini(&writer->record);
    pyr_buffer_fini(&writer->part);
    pyr_buffer_fini(&writer->text);
    pyr_memory_free(writer);
}

uint64_t pyr_pprof_writer_samples(const pyr_pprof_writer *writer)
{
    return writer->sample_count;
}

/* ------------------------------------------------------------------------------- tables ---- */

uint64_t pyr_pprof_writer_string(pyr_pprof_writer *writer, const char *text, size_t length)
{
    uint64_t index = 0;
    if (!is_good(writer)) {
        return 0;
    }
    if (pyr_utf8_valid(text, length) < length) {
        pyr_buffer_clear(&writer->text);
        fail(writer, pyr_wire_append_text(&writer->text, text, length));
        text = (const char *)writer->text.data;
        length = writer->text.length;
    }
    if (is_good(writer)) {
        fail(writer, pyr_intern_add(writer->strings, text, length, &index));
    }
    return index;
}

static uint64_t string_of(pyr_pprof_writer *writer, const char *text)
{
    return text ? pyr_pprof_writer_string(writer, text, strlen(text)) : 0;
}

static bool is_string(const pyr_pprof_writer *writer, uint64_t index)
{
    return index < pyr_intern_count(writer->strings);
}

/* The id of a record: its number + 1, since 0 is no id; 0 after a failure. */
static uint64_t add_record(pyr_pprof_writer *writer, pyr_intern *table, const void *record,
                           size_t size)
{
    uint64_t index = 0;
    fail(writer, pyr_intern_add(table, record, size, &index));
    return is_good(writer) ? index + 1 : 0;
}

uint64_t pyr_pprof_writer_function_as(pyr_pprof_writer *writer, uint64_t name, uint64_t system_name,
                                      uint64_t file, int64_t start_line)
{
    if (!is_string(writer, name) || !is_string(writer, system_name) || !is_string(writer, file)) {
        fail(writer, PYR_EINVAL);
    }
    const function record = {name, system_name, file, start_line};
    return is_good(writer) ? add_record(writer, writer->functions, &record, sizeof record) : 0;
}

uint64_t pyr_pprof_writer_function(pyr_pprof_writer *writer, uint64_t name, uint64_t file,
                                   int64_t start_line)
{
    return pyr_pprof_writer_function_as(writer, name, 0, file, start_line);
}

uint64_t pyr_pprof_writer_location_at(pyr_pprof_writer *writer, uint64_t function_id, int64_t line,
                                      uint64_t address)
{
    if (function_id == 0 || function_id > pyr_intern_count(writer->functions)) {
        fail(writer, PYR_EINVAL);
    }
    const location record = {function_id, line, address};
    return is_good(writer) ? add_record(writer, writer->locations, &record, sizeof record) : 0;
}

uint64_t pyr_pprof_writer_location(pyr_pprof_writer *writer, uint64_t function_id, int64_t line)
{
    return pyr_pprof_writer_location_at(writer, function_id, line, 0);
}

void pyr_pprof_writer_mapping(pyr_pprof_writer *writer, const char *file)
{
    if (writer->mapping_file != 0 || pyr_intern_count(writer->locations) > 0 || !file || !*file) {
        fail(writer, PYR_EINVAL);
    }
    writer->mapping_file = string_of(writer, file);
}

/* --------------------------------------------------------------------------------- wire ---- */

static void flush(pyr_pprof_writer *writer)
{
    if (is_good(writer)) {
        fail(writer, pyr_compressor_write(writer->compressor, writer->pending.data,
                                          writer->pending.length));
    }
    pyr_buffer_clear(&writer->pending);
}

/* Starts a message of the profile. */
static pyr_buffer *begin(pyr_pprof_writer *writer)
{
    pyr_buffer_clear(&writer->record);
    return &writer->record;
}

/* Starts a message or packed list inside it. */
static pyr_buffer *begin_part(pyr_pprof_writer *writer)
{
    pyr_buffer_clear(&writer->part);
    return &writer->part;
}

static void end_part(pyr_pprof_writer *writer, uint32_t number)
{
    fail(writer, writer->part.status);
    pyr_wire_append_bytes(&writer->record, number, writer->part.data, writer->part.length);
}

/* After each field added to `pending`. */
static void settle(pyr_pprof_writer *writer)
{
    fail(writer, writer->pending.status);
    if (writer->pending.length >= PENDING_BYTES) {
        flush(writer);
    }
}

/* Sends bytes as field `number` of the profile. */
static void send(pyr_pprof_writer *writer, uint32_t number, const void *bytes, size_t length)
{
    pyr_wire_append_bytes(&writer->pending, number, bytes, length);
    settle(writer);
}

static void end(pyr_pprof_writer *writer, uint32_t number)
{
    fail(writer, writer->record.status);
    send(writer, number, writer->record.data, writer->record.length);
}

static void send_type(pyr_pprof_writer *writer, uint32_t number, const char *type, const char *unit)
{
    uint64_t type_index = string_of(writer, type), unit_index = string_of(writer, unit);
    pyr_buffer *record = begin(writer);
    pyr_wire_append_nonzero(record, 1, type_index);
    pyr_wire_append_nonzero(record, 2, unit_index);
    end(writer, number);
}

void pyr_pprof_writer_type(pyr_pprof_writer *writer, const char *type, const char *unit)
{
    if (writer->sample_count > 0) {
        fail(writer, PYR_EINVAL);
    }
    if (is_good(writer)) {
        send_type(writer, PROFILE_TYPE, type, unit);
        writer->type_count++;
    }
}

void pyr_pprof_writer_comment(pyr_pprof_writer *writer, const char *text)
{
    uint64_t index = string_of(writer, text);
    pyr_wire_append_number(&writer->pending, PROFILE_COMMENT, index);
    settle(writer);
}

static void append_label(pyr_pprof_writer *writer, const pyr_pprof_label *label)
{
    if (!is_string(writer, label->key) || !is_string(writer, label->text) ||
        !is_string(writer, label->unit)) {
        fail(writer, PYR_EINVAL);
    }
    pyr_buffer *part = begin_part(writer);
    pyr_wire_append_nonzero(part, 1, label->key);
    if (label->text != 0) {
        pyr_wire_append_number(part, 2, label->text);
    } else {
        /* Go drops a label that is 0 and has no unit. Its own default unit is the key's name, so
         * saying just that keeps the label and changes nothing else. */
        uint64_t unit = label->number == 0 && label->unit == 0 ? label->key : label->unit;
        pyr_wire_append_nonzero(part, 3, (uint64_t)label->number);
        pyr_wire_append_nonzero(part, 4, unit);
    }
    end_part(writer, 3);
}

void pyr_pprof_writer_sample(pyr_pprof_writer *writer, const uint64_t *locations,
                             size_t location_count, const int64_t *values,
                             const pyr_pprof_label *labels, size_t label_count)
{
    if (writer->type_count == 0) {
        fail(writer, PYR_EINVAL);
    }
    if (!is_good(writer)) {
        return;
    }
    begin(writer);
    pyr_buffer *part = begin_part(writer);
    for (size_t i = 0; i < location_count; i++) {
        if (locations[i] == 0 || locations[i] > pyr_intern_count(writer->locations)) {
            fail(writer, PYR_EINVAL);
        }
        pyr_wire_append_varint(part, locations[i]);
    }
    if (location_count > 0) {
        end_part(writer, 1);
    }
    part = begin_part(writer);
    for (size_t i = 0; i < writer->type_count; i++) {
        pyr_wire_append_varint(part, (uint64_t)values[i]);
    }
    end_part(writer, 2);
    for (size_t i = 0; i < label_count; i++) {
        append_label(writer, &labels[i]);
    }
    if (is_good(writer)) {
        end(writer, PROFILE_SAMPLE);
        writer->sample_count++;
    }
}

static void send_mapping(pyr_pprof_writer *writer)
{
    pyr_buffer *record = begin(writer);
    pyr_wire_append_number(record, 1, 1); /* id */
    pyr_wire_append_number(record, 5, writer->mapping_file);
    pyr_wire_append_number(record, 7, 1); /* has functions, file names, line numbers: */
    pyr_wire_append_number(record, 8, 1); /* keeps readers from looking for symbols */
    pyr_wire_append_number(record, 9, 1);
    end(writer, PROFILE_MAPPING);
}

static void send_locations(pyr_pprof_writer *writer)
{
    size_t count = pyr_intern_count(writer->locations), length;
    for (size_t i = 0; i < count && is_good(writer); i++) {
        location place;
        memcpy(&place, pyr_intern_get(writer->locations, i, &length), sizeof place);
        pyr_buffer *record = begin(writer);
        pyr_wire_append_number(record, 1, i + 1);
        pyr_wire_append_nonzero(record, 2, writer->mapping_file != 0);
        pyr_wire_append_nonzero(record, 3, place.address);
        pyr_buffer *part = begin_part(writer);
        pyr_wire_append_number(part, 1, place.function);
        pyr_wire_append_nonzero(part, 2, (uint64_t)place.line);
        end_part(writer, 4);
        end(writer, PROFILE_LOCATION);
    }
}

static void send_functions(pyr_pprof_writer *writer)
{
    size_t count = pyr_intern_count(writer->functions), length;
    for (size_t i = 0; i < count && is_good(writer); i++) {
        function what;
        memcpy(&what, pyr_intern_get(writer->functions, i, &length), sizeof what);
        pyr_buffer *record = begin(writer);
        pyr_wire_append_number(record, 1, i + 1);
        pyr_wire_append_nonzero(record, 2, what.name);
        pyr_wire_append_nonzero(record, 3, what.system_name);
        pyr_wire_append_nonzero(record, 4, what.file);
        pyr_wire_append_nonzero(record, 5, (uint64_t)what.start_line);
        end(writer, PROFILE_FUNCTION);
    }
}

static void send_strings(pyr_pprof_writer *writer)
{
    size_t count = pyr_intern_count(writer->strings), length;
    for (size_t i = 0; i < count && is_good(writer); i++) {
        const void *bytes = pyr_intern_get(writer->strings, i, &length);
        send(writer, PROFILE_STRING, bytes, length);
    }
}

static void send_summary(pyr_pprof_writer *writer, const pyr_pprof_summary *summary)
{
    uint64_t default_type = string_of(writer, summary->default_type);
    pyr_wire_append_nonzero(&writer->pending, PROFILE_TIME, (uint64_t)summary->time_ns);
    pyr_wire_append_nonzero(&writer->pending, PROFILE_DURATION, (uint64_t)summary->duration_ns);
    pyr_wire_append_nonzero(&writer->pending, PROFILE_PERIOD, (uint64_t)summary->period);
    pyr_wire_append_nonzero(&writer->pending, PROFILE_DEFAULT_TYPE, default_type);
    if (summary->period_type) {
        send_type(writer, PROFILE_PERIOD_TYPE, summary->period_type, summary->period_unit);
    }
    settle(writer);
}

pyr_status pyr_pprof_writer_finish(pyr_pprof_writer *writer, const pyr_pprof_summary *summary)
{
    if (writer->finished) {
        fail(writer, PYR_EINVAL);
    }
    writer->finished = true;
    if (is_good(writer)) {
        send_summary(writer, summary);
        if (writer->mapping_file != 0) {
            send_mapping(writer);
        }
        send_locations(writer);
        send_functions(writer);
        send_strings(writer); /* last: all the others add to them */
    }
    flush(writer);
    if (is_good(writer)) {
        fail(writer, pyr_compressor_finish(writer->compressor));
    }
    return writer->status;
}
