/* Chrome trace events.
 *
 * Owns lanes and the calls of one thread while it writes. One thread. Consecutive samples of a
 * thread share the calls that their stacks begin with: such a call is one event from its first
 * sample to its last. That it did not return in between is a guess that sampling cannot check.
 */
#include "cli/formats.h"

#include <string.h>

#include "base/memory.h"
#include "cli/groups.h"
#include "cli/json.h"
#include "cli/message.h"

/* Runs of a thread that are less apart than this touch: the clock's rounding. */
enum { GAP_NS = 1000, TITLE_BYTES = 256, PROCESS = 1 };

typedef struct call { /* one event */
    uint32_t group;
    int64_t start_ns, end_ns;
} call;

typedef struct tracer {
    const pyr_profile *profile;
    pyr_json json;
    pyr_groups groups;
    pyr_timeline lanes;
    call
        *calls; /* of one thread, by start, callers first: viewers nest equal times in that order */
    size_t call_count, call_capacity;
    size_t *open; /* indices of calls that have not ended; the longest stack fits */
    size_t open_count;
    int64_t origin_ns;
    int64_t thread;
} tracer;

static void begin_event(pyr_json *json, const char *phase, const char *name, size_t length,
                        int64_t thread)
{
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "ph", phase);
    pyr_json_text(json, "name", name, length);
    pyr_json_integer(json, "pid", PROCESS);
    pyr_json_integer(json, "tid", thread);
}

static void name_event(tracer *trace, const char *what, const char *name, int64_t thread)
{
    begin_event(&trace->json, "M", what, strlen(what), thread);
    pyr_json_begin(&trace->json, "args", '{');
    pyr_json_string(&trace->json, "name", name);
    pyr_json_end(&trace->json, '}');
    pyr_json_end(&trace->json, '}');
}

static void close_calls(tracer *trace, size_t kept, int64_t end_ns)
{
    while (trace->open_count > kept) {
        trace->calls[trace->open[--trace->open_count]].end_ns = end_ns;
    }
}

static bool open_call(tracer *trace, uint32_t group, int64_t start_ns)
{
    if (trace->call_count == trace->call_capacity) {
        size_t capacity = trace->call_capacity == 0 ? 1024 : trace->call_capacity * 2;
        call *calls = pyr_memory_resize(trace->calls, capacity, sizeof *calls);
        if (calls == NULL) {
            return false;
        }
        trace->calls = calls;
        trace->call_capacity = capacity;
    }
    trace->open[trace->open_count++] = trace->call_count;
    trace->calls[trace->call_count++] = (call){.group = group, .start_ns = start_ns};
    return true;
}

static bool add_run(tracer *trace, const pyr_timeline_run *run)
{
    const pyr_profile_sample *sample = &trace->profile->samples[run->sample];
    const uint32_t *stack = &trace->profile->stack_frames[sample->frame_start];
    size_t depth = sample->frame_count;
    size_t common = 0;
    while (common < trace->open_count && common < depth &&
           trace->calls[trace->open[common]].group ==
               trace->groups.of_frame[stack[depth - 1 - common]]) {
        common++;
    }
    close_calls(trace, common, run->start_ns);
    for (size_t at = common; at < depth; at++) {
        if (!open_call(trace, trace->groups.of_frame[stack[depth - 1 - at]], run->start_ns)) {
            return false;
        }
    }
    return true;
}

static void write_call(tracer *trace, const call *ended)
{
    pyr_json *json = &trace->json;
    const pyr_group *group = &trace->groups.list[ended->group];
    const pyr_profile_text *name = &trace->profile->strings[group->name];
    const pyr_profile_text *file = &trace->profile->strings[group->file];
    bool native = strcmp(file->data, "<native>") == 0;
    begin_event(json, "X", name->data, name->length, trace->thread);
    pyr_json_string(json, "cat", native ? "native" : "python");
    pyr_json_real(json, "ts", (double)(ended->start_ns - trace->origin_ns) / 1000);
    pyr_json_real(json, "dur", (double)(ended->end_ns - ended->start_ns) / 1000);
    pyr_json_begin(json, "args", '{');
    pyr_json_text(json, "file", file->data, file->length);
    if (group->line > 0) {
        pyr_json_integer(json, "line", group->line);
    }
    pyr_json_end(json, '}');
    pyr_json_end(json, '}');
}

static bool write_lane(tracer *trace, const pyr_timeline_lane *lane)
{
    char title[TITLE_BYTES];
    pyr_thread_list_title(trace->profile, &lane->thread, title, sizeof title);
    name_event(trace, "thread_name", title, trace->thread);
    int64_t end_ns = 0;
    trace->call_count = 0;
    for (size_t index = 0; index < lane->count; index++) {
        const pyr_timeline_run *run = &trace->lanes.runs[lane->first + index];
        if (run->start_ns - end_ns > GAP_NS) {
            close_calls(trace, 0, end_ns);
        }
        if (!add_run(trace, run)) {
            return false;
        }
        end_ns = run->end_ns;
    }
    close_calls(trace, 0, end_ns);
    for (size_t index = 0; index < trace->call_count; index++) {
        write_call(trace, &trace->calls[index]);
    }
    return true;
}

/* Times are from the first run on, since microseconds since 1970 do not fit a double well. */
static void find_extent(tracer *trace, size_t *deepest)
{
    trace->origin_ns = INT64_MAX;
    for (size_t index = 0; index < trace->lanes.count; index++) {
        const pyr_timeline_lane *lane = &trace->lanes.list[index];
        for (size_t at = lane->first; at < lane->first + lane->count; at++) {
            const pyr_timeline_run *run = &trace->lanes.runs[at];
            size_t depth = trace->profile->samples[run->sample].frame_count;
            *deepest = depth > *deepest ? depth : *deepest;
            if (run->start_ns < trace->origin_ns) {
                trace->origin_ns = run->start_ns;
            }
        }
    }
}

int pyr_format_chrometrace(const pyr_conversion *conversion, FILE *out)
{
    tracer trace = {.profile = conversion->input->profile, .json = {.out = out}};
    size_t type = 0;
    size_t deepest = 0;
    int code = pyr_format_lanes(conversion, &trace.lanes, &type);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    find_extent(&trace, &deepest);
    trace.open = pyr_memory_new(deepest + 1, sizeof *trace.open);
    if (trace.open == NULL ||
        pyr_groups_init(&trace.groups, trace.profile, conversion->lines) != PYR_OK) {
        code = pyr_message_no_memory();
        goto out;
    }
    pyr_json *json = &trace.json;
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "displayTimeUnit", "ms");
    pyr_json_begin(json, "traceEvents", '[');
    name_event(&trace, "process_name", conversion->title, 0);
    for (size_t index = 0; index < trace.lanes.count; index++) {
        trace.thread = (int64_t)index + 1;
        const pyr_timeline_lane *lane = &trace.lanes.list[index];
        if (lane->count > 0 && !write_lane(&trace, lane)) {
            code = pyr_message_no_memory();
            goto out;
        }
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
    fputc('\n', out);
out:
    pyr_memory_free(trace.calls);
    pyr_memory_free(trace.open);
    pyr_groups_fini(&trace.groups);
    pyr_timeline_fini(&trace.lanes);
    return code;
}
