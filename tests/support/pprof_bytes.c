/* Hand-made and made-up pprof data; see the header. Tests only. */
#include "support/pprof_bytes.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pprof/wire.h"
#include "pprof/writer.h"

void pyr_bytes_numbers(pyr_buffer *out, uint32_t field, const uint64_t *numbers, size_t count)
{
    pyr_buffer body;
    pyr_buffer_init(&body, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        pyr_wire_append_nonzero(&body, (uint32_t)i + 1, numbers[i]);
    }
    pyr_wire_append_bytes(out, field, body.data, body.length);
    pyr_buffer_fini(&body);
}

void pyr_bytes_string(pyr_buffer *out, const char *text)
{
    pyr_wire_append_bytes(out, 6, text, strlen(text));
}

void pyr_bytes_location(pyr_buffer *out, uint64_t id, uint64_t function, uint64_t line)
{
    const uint64_t place[] = {function, line};
    pyr_buffer body;
    pyr_buffer_init(&body, 1 << 20);
    pyr_wire_append_nonzero(&body, 1, id);
    pyr_bytes_numbers(&body, 4, place, 2);
    pyr_wire_append_bytes(out, 4, body.data, body.length);
    pyr_buffer_fini(&body);
}

void pyr_bytes_sample(pyr_buffer *out, uint64_t location, uint64_t value)
{
    pyr_buffer body;
    pyr_buffer_init(&body, 1 << 20);
    pyr_wire_append_number(&body, 1, location);
    pyr_wire_append_number(&body, 2, value);
    pyr_wire_append_bytes(out, 2, body.data, body.length);
    pyr_buffer_fini(&body);
}

void pyr_bytes_tiny(pyr_buffer *out)
{
    static const char *const strings[] = {"", "cpu-time", "nanoseconds", "f", "a.py"};
    static const uint64_t type[] = {1, 2}, function[] = {1, 3, 0, 4};
    pyr_bytes_numbers(out, 1, type, 2);
    pyr_bytes_sample(out, 1, 5);
    pyr_bytes_location(out, 1, 1, 10);
    pyr_bytes_numbers(out, 5, function, 4);
    for (size_t i = 0; i < 5; i++) {
        pyr_bytes_string(out, strings[i]);
    }
}

uint64_t pyr_bytes_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t text(pyr_pprof_writer *writer, const char *bytes)
{
    return pyr_pprof_writer_string(writer, bytes, strlen(bytes));
}

static void random_sample(pyr_pprof_writer *writer, uint64_t *state)
{
    static const char *const names[] = {"main", "Größe.zählen", "λ.<locals>.<lambda>", "f", "g"};
    static const int64_t extremes[] = {0, 1, -1, INT64_MAX, INT64_MIN, 10000000};
    uint64_t stack[40];
    size_t depth = pyr_bytes_next(state) % 40;
    for (size_t i = 0; i < depth; i++) {
        uint64_t r = pyr_bytes_next(state);
        uint64_t function = pyr_pprof_writer_function_as(
            writer, text(writer, names[r % 5]), r & 64 ? text(writer, "system") : 0,
            text(writer, r & 128 ? "a.py" : "/usr/lib/б.py"), (int64_t)(r >> 8 & 3));
        stack[i] = pyr_pprof_writer_location_at(writer, function, (int64_t)(r >> 16 & 7),
                                                r & 256 ? r >> 60 : 0);
    }
    int64_t values[4];
    for (size_t i = 0; i < 4; i++) {
        values[i] = extremes[pyr_bytes_next(state) % 6];
    }
    uint64_t r = pyr_bytes_next(state);
    const pyr_pprof_label labels[] = {
        {text(writer, "thread name"), text(writer, r & 1 ? "worker" : "main"), 0, 0},
        {text(writer, "thread id"), 0, (int64_t)r, 0},
        {text(writer, "bytes"), 0, 0, text(writer, "bytes")},
        {text(writer, "end_timestamp_ns"), 0, (int64_t)(r >> 8 & 15) + 1, 0},
    };
    pyr_pprof_writer_sample(writer, stack, depth, values, labels, r % 5);
}

void pyr_bytes_random(pyr_buffer *out, uint64_t seed, size_t samples, pyr_pprof_compression kind)
{
    pyr_pprof_writer *writer = pyr_pprof_writer_new(out, kind);
    if (!writer) {
        return;
    }
    pyr_pprof_writer_mapping(writer, "/usr/bin/python3");
    pyr_pprof_writer_type(writer, "cpu-time", "nanoseconds");
    pyr_pprof_writer_type(writer, "cpu-samples", "count");
    pyr_pprof_writer_type(writer, "wall-time", "nanoseconds");
    pyr_pprof_writer_type(writer, "alloc-space", "bytes");
    for (size_t i = 0; i < samples; i++) {
        random_sample(writer, &seed);
    }
    pyr_pprof_writer_comment(writer, "made up");
    const pyr_pprof_summary summary = {
        .time_ns = INT64_C(1700000000000000000),
        .duration_ns = INT64_C(60000000000),
        .period_type = "cpu-time",
        .period_unit = "nanoseconds",
        .period = 10000000,
        .default_type = "cpu-time",
    };
    if (pyr_pprof_writer_finish(writer, &summary) != PYR_OK) {
        pyr_buffer_clear(out);
    }
    pyr_pprof_writer_free(writer);
}

static void describe_text(pyr_buffer *out, const pyr_profile *profile, uint32_t index)
{
    pyr_buffer_append(out, profile->strings[index].data, profile->strings[index].length);
    pyr_buffer_text(out, "|");
}

static void describe_sample(pyr_buffer *out, const pyr_profile *profile,
                            const pyr_profile_sample *sample)
{
    pyr_buffer_text(out, "sample");
    for (size_t i = 0; i < profile->type_count; i++) {
        pyr_buffer_format(out, " %" PRId64, profile->values[sample->value_start + i]);
    }
    pyr_buffer_text(out, "\n");
    for (uint32_t i = 0; i < sample->frame_count; i++) {
        const pyr_profile_frame *frame =
            &profile->frames[profile->stack_frames[sample->frame_start + i]];
        const pyr_profile_function *function = &profile->functions[frame->function];
        pyr_buffer_text(out, "  ");
        describe_text(out, profile, function->name);
        describe_text(out, profile, function->system_name);
        describe_text(out, profile, function->file);
        pyr_buffer_format(out, "%" PRId64 " %" PRId64 " %" PRIu64 "\n", function->start_line,
                          frame->line, frame->address);
    }
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const pyr_profile_label *label = &profile->labels[sample->label_start + i];
        pyr_buffer_text(out, "  label ");
        describe_text(out, profile, label->key);
        describe_text(out, profile, label->text);
        pyr_buffer_format(out, "%" PRId64 " ", label->number);
        describe_text(out, profile, label->unit);
        pyr_buffer_text(out, "\n");
    }
}

void pyr_bytes_describe(pyr_buffer *out, const pyr_profile *profile)
{
    for (size_t i = 0; i < profile->type_count; i++) {
        describe_text(out, profile, profile->types[i].type);
        describe_text(out, profile, profile->types[i].unit);
    }
    pyr_buffer_format(out, "\n%" PRId64 " %" PRId64 " %" PRId64 "\n", profile->time_ns,
                      profile->duration_ns, profile->period);
    describe_text(out, profile, profile->period_type.type);
    describe_text(out, profile, profile->period_type.unit);
    describe_text(out, profile, profile->default_type);
    describe_text(out, profile, profile->main_binary);
    for (size_t i = 0; i < profile->comment_count; i++) {
        describe_text(out, profile, profile->comments[i]);
    }
    pyr_buffer_text(out, "\n");
    for (size_t i = 0; i < profile->sample_count; i++) {
        describe_sample(out, profile, &profile->samples[i]);
    }
}

/* Bytes from the start of the mapping to the guard page. */
static size_t room_for(size_t length, size_t page)
{
    return (length + page - 1) / page * page;
}

const uint8_t *pyr_bytes_guard(const void *bytes, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = room_for(length, page);
    uint8_t *map =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + room, page, PROT_NONE) != 0) {
        return NULL;
    }
    if (length > 0) {
        memcpy(map + room - length, bytes, length);
    }
    return map + room - length;
}

void pyr_bytes_unguard(const uint8_t *copy, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = room_for(length, page);
    const uint8_t *map = copy + length - room;
    munmap((void *)(uintptr_t)map, room + page);
}
