/* Folded lines through the streaming writer; see the header. Stateless. */
#include "server/folded.h"

#include <string.h>

#include "pprof/writer.h"

enum { FRAMES = 1024 };

static const int64_t SECOND_NS = 1000000000;

/* The number at the end of a line, and where the stack before it ends. */
static bool read_count(const char *line, size_t length, size_t *stack, int64_t *count)
{
    size_t at = length;
    while (at > 0 && line[at - 1] >= '0' && line[at - 1] <= '9') {
        at--;
    }
    if (at == length || length - at > 15 || at == 0 || line[at - 1] != ' ') {
        return false;
    }
    *count = 0;
    for (size_t digit = at; digit < length; digit++) {
        *count = *count * 10 + (line[digit] - '0');
    }
    *stack = at - 1;
    return true;
}

static bool write_line(pyr_pprof_writer *writer, const char *line, size_t length, int64_t period)
{
    uint64_t locations[FRAMES];
    size_t count = 0;
    size_t end = 0;
    int64_t looks = 0;
    if (!read_count(line, length, &end, &looks)) {
        return false;
    }
    while (count < FRAMES) { /* from the leaf */
        const char *part = end > 0 ? memrchr(line, ';', end) : NULL;
        size_t start = part != NULL ? (size_t)(part - line) + 1 : 0;
        uint64_t name = pyr_pprof_writer_string(writer, line + start, end - start);
        locations[count++] =
            pyr_pprof_writer_location(writer, pyr_pprof_writer_function(writer, name, 0, 0), 0);
        if (part == NULL) {
            break;
        }
        end = start - 1;
    }
    int64_t values[2] = {looks, 0}; /* the second only where that type was declared */
    if (__builtin_mul_overflow(looks, period, &values[1])) {
        values[1] = INT64_MAX;
    }
    pyr_pprof_writer_sample(writer, locations, count, values, NULL, 0);
    return true;
}

pyr_status pyr_folded_to_pprof(const char *text, size_t length, int64_t rate, bool is_cpu,
                               pyr_buffer *out)
{
    pyr_pprof_writer *writer = pyr_pprof_writer_new(out, PYR_PPROF_RAW);
    int64_t period = SECOND_NS / (rate > 0 && rate <= SECOND_NS ? rate : 100);
    if (writer == NULL) {
        return PYR_ENOMEM;
    }
    pyr_pprof_writer_type(writer, "samples", "count");
    if (is_cpu) {
        pyr_pprof_writer_type(writer, "cpu", "nanoseconds");
    }
    pyr_status status = PYR_OK;
    const char *end = text + length;
    while (text < end && status == PYR_OK) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop != NULL ? stop : end;
        size_t used = (size_t)(stop - text);
        used -= used > 0 && text[used - 1] == '\r' ? 1 : 0;
        if (used > 0 && !write_line(writer, text, used, period)) {
            status = PYR_EBAD;
        }
        text = stop + 1;
    }
    const pyr_pprof_summary summary = {
        .period_type = is_cpu ? "cpu" : NULL,
        .period_unit = is_cpu ? "nanoseconds" : NULL,
        .period = is_cpu ? period : 0,
    };
    if (status == PYR_OK) {
        status = pyr_pprof_writer_finish(writer, &summary);
    }
    pyr_pprof_writer_free(writer);
    return status;
}
