/* Processed profile of the Firefox Profiler, version 57 (its readers upgrade older versions).
 *
 * Owns lanes and one thread's tables at a time while it writes. One thread. A run is one sample
 * whose weight is its length, so call trees add up to time; a run of nothing marks each gap. The
 * thread's states are interval markers. Tables are columns, as the format has them.
 */
#include "cli/formats.h"

#include <string.h>

#include "base/memory.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/pairs.h"

enum {
    VERSION = 57,       /* of the processed format */
    GECKO_VERSION = 31, /* of the format it would have come from */
    GAP_NS = 1000,      /* as in chrometrace */
    INTERVAL_MS = 10,   /* what the viewer takes for one sample where nothing else is said */
    PHASE_INTERVAL = 1, /* a marker with start and end */
    TITLE_BYTES = 256,
    CATEGORY_OTHER = 0,
    CATEGORY_PYTHON = 1,
    CATEGORY_NATIVE = 2,
};

typedef struct point { /* a row of the samples table */
    int64_t time_ns, length_ns;
    int64_t stack;  /* -1 = nothing */
    int64_t cpu_ns; /* used since the point before */
} point;

typedef struct mark { /* a row of the markers table */
    uint32_t name;
    int64_t start_ns, end_ns;
} mark;

typedef struct gecko {
    const pyr_profile *profile;
    const pyr_conversion *conversion;
    pyr_json json;
    pyr_timeline lanes;
    int cpu_type; /* -1 = none */
    int64_t origin_ns;
    /* of the thread being written */
    pyr_pairs *stacks;    /* (prefix + 1, local frame) */
    pyr_pairs *frames;    /* (frame of the profile, local function) */
    pyr_pairs *functions; /* (function of the profile, 0) */
    point *points;
    mark *marks;
    size_t point_count, mark_count;
} gecko;

/* ------------------------------------------------------------------------- one thread's data ----
 */

static pyr_status add_stack(gecko *target, const pyr_profile_sample *sample, int64_t *stack)
{
    uint32_t prefix = 0;
    for (uint32_t at = sample->frame_count; at > 0; at--) {
        uint32_t frame = target->profile->stack_frames[sample->frame_start + at - 1];
        uint32_t local = 0;
        uint32_t node = 0;
        uint32_t function = 0;
        pyr_status status =
            pyr_pairs_add(target->functions, target->profile->frames[frame].function, 0, &function);
        if (status == PYR_OK) {
            status = pyr_pairs_add(target->frames, frame, function, &local);
        }
        if (status == PYR_OK) {
            status = pyr_pairs_add(target->stacks, prefix, local, &node);
        }
        if (status != PYR_OK) {
            return status;
        }
        prefix = node + 1;
    }
    *stack = (int64_t)prefix - 1;
    return PYR_OK;
}

/* A state that goes on over several runs is one marker. */
static void add_state(gecko *target, const pyr_timeline_run *run)
{
    const pyr_profile_label *label =
        pyr_profile_find_label(target->profile, &target->profile->samples[run->sample], "state");
    if (label == NULL || label->text == 0) {
        return;
    }
    mark *last = target->mark_count > 0 ? &target->marks[target->mark_count - 1] : NULL;
    if (last != NULL && last->name == label->text && run->start_ns - last->end_ns <= GAP_NS) {
        last->end_ns = run->end_ns;
    } else {
        target->marks[target->mark_count++] = (mark){label->text, run->start_ns, run->end_ns};
    }
}

static pyr_status collect(gecko *target, const pyr_timeline_lane *lane)
{
    int64_t end_ns = 0;
    int64_t cpu_ns = 0;
    target->point_count = 0;
    target->mark_count = 0;
    for (size_t index = 0; index < lane->count; index++) {
        const pyr_timeline_run *run = &target->lanes.runs[lane->first + index];
        const pyr_profile_sample *sample = &target->profile->samples[run->sample];
        if (index > 0 && run->start_ns - end_ns > GAP_NS) {
            target->points[target->point_count++] = (point){end_ns, 0, -1, cpu_ns};
            cpu_ns = 0;
        }
        point added = {
            .time_ns = run->start_ns, .length_ns = run->end_ns - run->start_ns, .cpu_ns = cpu_ns};
        pyr_status status = add_stack(target, sample, &added.stack);
        if (status != PYR_OK) {
            return status;
        }
        target->points[target->point_count++] = added;
        add_state(target, run);
        end_ns = run->end_ns;
        cpu_ns = target->cpu_type >= 0
                     ? target->profile->values[sample->value_start + (size_t)target->cpu_type]
                     : 0;
    }
    target->points[target->point_count++] = (point){end_ns, 0, -1, cpu_ns};
    return PYR_OK;
}

/* ------------------------------------------------------------------------------- writing ---- */

/* A column of `count` rows with one value; NULL = null. */
static void constant_column(pyr_json *json, const char *key, size_t count, const int64_t *value)
{
    pyr_json_begin(json, key, '[');
    for (size_t index = 0; index < count; index++) {
        if (value != NULL) {
            pyr_json_integer(json, NULL, *value);
        } else {
            pyr_json_null(json, NULL);
        }
    }
    pyr_json_end(json, ']');
}

static void boolean_column(pyr_json *json, const char *key, size_t count, bool value)
{
    pyr_json_begin(json, key, '[');
    for (size_t index = 0; index < count; index++) {
        pyr_json_boolean(json, NULL, value);
    }
    pyr_json_end(json, ']');
}

static void known_or_null(pyr_json *json, int64_t value, bool known)
{
    if (known) {
        pyr_json_integer(json, NULL, value);
    } else {
        pyr_json_null(json, NULL);
    }
}

static double milliseconds(const gecko *target, int64_t time_ns)
{
    return (double)(time_ns - target->origin_ns) / 1e6;
}

static void write_stacks(gecko *target)
{
    pyr_json *json = &target->json;
    size_t count = pyr_pairs_count(target->stacks);
    pyr_json_begin(json, "stackTable", '{');
    pyr_json_integer(json, "length", (int64_t)count);
    pyr_json_begin(json, "prefix", '[');
    for (size_t index = 0; index < count; index++) {
        uint32_t prefix = pyr_pairs_at(target->stacks, index).first;
        known_or_null(json, (int64_t)prefix - 1, prefix > 0);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "frame", '[');
    for (size_t index = 0; index < count; index++) {
        pyr_json_integer(json, NULL, pyr_pairs_at(target->stacks, index).second);
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
}

static const pyr_profile_function *function_of(const gecko *target, size_t frame)
{
    uint32_t index = pyr_pairs_at(target->frames, frame).first;
    return &target->profile->functions[target->profile->frames[index].function];
}

static void write_frames(gecko *target)
{
    static const int64_t NONE = -1;
    static const int64_t ZERO = 0;
    pyr_json *json = &target->json;
    const pyr_profile *profile = target->profile;
    size_t count = pyr_pairs_count(target->frames);
    pyr_json_begin(json, "frameTable", '{');
    pyr_json_integer(json, "length", (int64_t)count);
    constant_column(json, "address", count, &NONE);
    constant_column(json, "inlineDepth", count, &ZERO);
    pyr_json_begin(json, "category", '[');
    for (size_t index = 0; index < count; index++) {
        const char *file = profile->strings[function_of(target, index)->file].data;
        pyr_json_integer(json, NULL,
                         strcmp(file, "<native>") == 0 ? CATEGORY_NATIVE
                         : file[0] == '\0'             ? CATEGORY_OTHER
                                                       : CATEGORY_PYTHON);
    }
    pyr_json_end(json, ']');
    constant_column(json, "subcategory", count, &ZERO);
    pyr_json_begin(json, "func", '[');
    for (size_t index = 0; index < count; index++) {
        pyr_json_integer(json, NULL, pyr_pairs_at(target->frames, index).second);
    }
    pyr_json_end(json, ']');
    constant_column(json, "nativeSymbol", count, NULL);
    constant_column(json, "innerWindowID", count, NULL);
    pyr_json_begin(json, "line", '[');
    for (size_t index = 0; index < count; index++) {
        int64_t line = profile->frames[pyr_pairs_at(target->frames, index).first].line;
        known_or_null(json, line, line > 0);
    }
    pyr_json_end(json, ']');
    constant_column(json, "column", count, NULL);
    pyr_json_end(json, '}');
}

static void write_functions(gecko *target)
{
    static const int64_t NONE = -1;
    pyr_json *json = &target->json;
    const pyr_profile *profile = target->profile;
    size_t count = pyr_pairs_count(target->functions);
    pyr_json_begin(json, "funcTable", '{');
    pyr_json_integer(json, "length", (int64_t)count);
    pyr_json_begin(json, "name", '[');
    for (size_t index = 0; index < count; index++) {
        uint32_t function = pyr_pairs_at(target->functions, index).first;
        pyr_json_integer(json, NULL, profile->functions[function].name);
    }
    pyr_json_end(json, ']');
    boolean_column(json, "isJS", count, false);
    boolean_column(json, "relevantForJS", count, false);
    constant_column(json, "resource", count, &NONE);
    pyr_json_begin(json, "fileName", '[');
    for (size_t index = 0; index < count; index++) {
        uint32_t file = profile->functions[pyr_pairs_at(target->functions, index).first].file;
        known_or_null(json, file, file != 0);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "lineNumber", '[');
    for (size_t index = 0; index < count; index++) {
        int64_t line = profile->functions[pyr_pairs_at(target->functions, index).first].start_line;
        known_or_null(json, line, line > 0);
    }
    pyr_json_end(json, ']');
    constant_column(json, "columnNumber", count, NULL);
    pyr_json_end(json, '}');
}

static void write_samples(gecko *target)
{
    pyr_json *json = &target->json;
    pyr_json_begin(json, "samples", '{');
    pyr_json_integer(json, "length", (int64_t)target->point_count);
    pyr_json_string(json, "weightType", "tracing-ms");
    pyr_json_begin(json, "stack", '[');
    for (size_t index = 0; index < target->point_count; index++) {
        known_or_null(json, target->points[index].stack, target->points[index].stack >= 0);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "time", '[');
    for (size_t index = 0; index < target->point_count; index++) {
        pyr_json_real(json, NULL, milliseconds(target, target->points[index].time_ns));
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "weight", '[');
    for (size_t index = 0; index < target->point_count; index++) {
        pyr_json_real(json, NULL, (double)target->points[index].length_ns / 1e6);
    }
    pyr_json_end(json, ']');
    if (target->cpu_type >= 0) {
        pyr_json_begin(json, "threadCPUDelta", '[');
        for (size_t index = 0; index < target->point_count; index++) {
            pyr_json_real(json, NULL, (double)target->points[index].cpu_ns / 1e3);
        }
        pyr_json_end(json, ']');
    }
    pyr_json_end(json, '}');
}

static void write_markers(gecko *target)
{
    static const int64_t INTERVAL = PHASE_INTERVAL;
    static const int64_t OTHER = CATEGORY_OTHER;
    pyr_json *json = &target->json;
    pyr_json_begin(json, "markers", '{');
    pyr_json_integer(json, "length", (int64_t)target->mark_count);
    constant_column(json, "data", target->mark_count, NULL);
    constant_column(json, "phase", target->mark_count, &INTERVAL);
    constant_column(json, "category", target->mark_count, &OTHER);
    pyr_json_begin(json, "name", '[');
    for (size_t index = 0; index < target->mark_count; index++) {
        pyr_json_integer(json, NULL, target->marks[index].name);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "startTime", '[');
    for (size_t index = 0; index < target->mark_count; index++) {
        pyr_json_real(json, NULL, milliseconds(target, target->marks[index].start_ns));
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "endTime", '[');
    for (size_t index = 0; index < target->mark_count; index++) {
        pyr_json_real(json, NULL, milliseconds(target, target->marks[index].end_ns));
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
}

/* Tables that the format wants and we have nothing for. */
static void write_empty_table(pyr_json *json, const char *key, const char *const *columns)
{
    pyr_json_begin(json, key, '{');
    pyr_json_integer(json, "length", 0);
    for (; *columns != NULL; columns++) {
        constant_column(json, *columns, 0, NULL);
    }
    pyr_json_end(json, '}');
}

static void write_thread(gecko *target, const pyr_timeline_lane *lane, size_t number)
{
    static const char *const RESOURCES[] = {"lib", "name", "host", "type", NULL};
    static const char *const SYMBOLS[] = {"libIndex", "address", "name", "functionSize", NULL};
    pyr_json *json = &target->json;
    char title[TITLE_BYTES];
    pyr_thread_list_title(target->profile, &lane->thread, title, sizeof title);
    const char *name = target->profile->strings[lane->thread.name].data;
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "processType", "default");
    pyr_json_string(json, "processName", target->conversion->title);
    pyr_json_integer(json, "processStartupTime", 0);
    pyr_json_null(json, "processShutdownTime");
    pyr_json_integer(json, "registerTime", 0);
    pyr_json_null(json, "unregisterTime");
    constant_column(json, "pausedRanges", 0, NULL);
    pyr_json_string(json, "name", title);
    pyr_json_boolean(json, "isMainThread", strcmp(name, "MainThread") == 0);
    pyr_json_string(json, "pid", "1");
    pyr_json_integer(json, "tid",
                     lane->thread.native_id != 0 ? lane->thread.native_id : (int64_t)number);
    write_samples(target);
    write_markers(target);
    write_stacks(target);
    write_frames(target);
    write_functions(target);
    write_empty_table(json, "resourceTable", RESOURCES);
    write_empty_table(json, "nativeSymbols", SYMBOLS);
    pyr_json_end(json, '}');
}

static int write_lane(gecko *target, const pyr_timeline_lane *lane, size_t number)
{
    target->stacks = pyr_pairs_new();
    target->frames = pyr_pairs_new();
    target->functions = pyr_pairs_new();
    target->points = pyr_memory_new(2 * lane->count + 1, sizeof *target->points);
    target->marks = pyr_memory_new(lane->count, sizeof *target->marks);
    int code = PYR_EXIT_GOOD;
    if (target->stacks == NULL || target->frames == NULL || target->functions == NULL ||
        target->points == NULL || target->marks == NULL || collect(target, lane) != PYR_OK) {
        code = pyr_message_no_memory();
    } else {
        write_thread(target, lane, number);
    }
    pyr_pairs_free(target->stacks);
    pyr_pairs_free(target->frames);
    pyr_pairs_free(target->functions);
    pyr_memory_free(target->points);
    pyr_memory_free(target->marks);
    return code;
}

static void write_category(pyr_json *json, const char *name, const char *colour)
{
    pyr_json_begin(json, NULL, '{');
    pyr_json_string(json, "name", name);
    pyr_json_string(json, "color", colour);
    pyr_json_begin(json, "subcategories", '[');
    pyr_json_string(json, NULL, "Other");
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
}

static void write_meta(gecko *target)
{
    static const char *const EXTENSIONS[] = {"id", "name", "baseURL", NULL};
    pyr_json *json = &target->json;
    pyr_json_begin(json, "meta", '{');
    pyr_json_integer(json, "version", GECKO_VERSION);
    pyr_json_integer(json, "preprocessedProfileVersion", VERSION);
    pyr_json_integer(json, "interval", INTERVAL_MS);
    pyr_json_real(json, "startTime", (double)target->origin_ns / 1e6);
    pyr_json_integer(json, "processType", 0);
    pyr_json_string(json, "product", target->conversion->title);
    pyr_json_string(json, "importedFrom", "pyrometer " PYR_VERSION);
    pyr_json_integer(json, "stackwalk", 1);
    pyr_json_boolean(json, "symbolicated", true);
    pyr_json_boolean(json, "sourceCodeIsNotOnSearchfox", true);
    pyr_json_boolean(json, "usesOnlyOneStackType", true);
    constant_column(json, "markerSchema", 0, NULL);
    write_empty_table(json, "extensions", EXTENSIONS);
    pyr_json_begin(json, "sampleUnits", '{');
    pyr_json_string(json, "time", "ms");
    pyr_json_string(json, "eventDelay", "ms");
    pyr_json_string(json, "threadCPUDelta", "µs");
    pyr_json_end(json, '}');
    pyr_json_begin(json, "categories", '[');
    write_category(json, "Other", "grey");
    write_category(json, "Python", "yellow");
    write_category(json, "Native", "blue");
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
}

static void find_origin(gecko *target)
{
    target->origin_ns = INT64_MAX;
    for (size_t index = 0; index < target->lanes.count; index++) {
        const pyr_timeline_lane *lane = &target->lanes.list[index];
        if (lane->count > 0 && target->lanes.runs[lane->first].start_ns < target->origin_ns) {
            target->origin_ns = target->lanes.runs[lane->first].start_ns;
        }
    }
    if (target->origin_ns == INT64_MAX) {
        target->origin_ns = 0;
    }
}

int pyr_format_gecko(const pyr_conversion *conversion, FILE *out)
{
    size_t type = 0;
    gecko target = {
        .profile = conversion->input->profile, .conversion = conversion, .json = {.out = out}};
    target.cpu_type = pyr_profile_find_type(target.profile, "cpu-time");
    int code = pyr_format_lanes(conversion, &target.lanes, &type);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    pyr_json *json = &target.json;
    find_origin(&target);
    pyr_json_begin(json, NULL, '{');
    write_meta(&target);
    constant_column(json, "libs", 0, NULL);
    constant_column(json, "pages", 0, NULL);
    pyr_json_begin(json, "shared", '{');
    pyr_json_begin(json, "stringArray", '[');
    for (size_t index = 0; index < target.profile->string_count; index++) {
        const pyr_profile_text *text = &target.profile->strings[index];
        pyr_json_text(json, NULL, text->data, text->length);
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
    pyr_json_begin(json, "threads", '[');
    for (size_t index = 0; index < target.lanes.count && code == PYR_EXIT_GOOD; index++) {
        if (target.lanes.list[index].count > 0) {
            code = write_lane(&target, &target.lanes.list[index], index + 1);
        }
    }
    pyr_json_end(json, ']');
    pyr_json_end(json, '}');
    fputc('\n', out);
    pyr_timeline_fini(&target.lanes);
    return code;
}
