/* pyrometer flamegraph: a page with the profile in it, one file that opens anywhere.
 *
 * Owns its input and the tables of the document while it writes. One thread. The document's format
 * is ui/flamegraph/profile.schema.json. All sample types, threads and states go in: the page
 * chooses among them, so --parked is always on here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/page.h"
#include "cli/pairs.h"
#include "cli/select.h"
#include "cli/thread_list.h"
#include "cli/units.h"

enum { PATH_BYTES = 4200, NOTE_BYTES = 512 };

/* Samples that are equal for the page: same stack, thread and state. */
typedef struct document {
    const pyr_input *input;
    const pyr_selection *selection;
    pyr_thread_list threads;
    pyr_pairs *stacks;  /* (parent + 1, frame) */
    pyr_pairs *states;  /* (string, 0) */
    pyr_pairs *places;  /* (stack, thread) */
    pyr_pairs *samples; /* (place, state + 1) */
    int64_t *values;    /* type_count a sample */
    size_t negative;    /* samples left out: a page cannot show what is less than nothing */
} document;

static pyr_status add_stack(document *page, const pyr_profile_sample *sample, uint32_t *stack)
{
    const pyr_profile *profile = page->input->profile;
    uint32_t parent = 0;
    for (uint32_t at = sample->frame_count; at > 0; at--) {
        uint32_t frame = profile->stack_frames[sample->frame_start + at - 1];
        pyr_status status = pyr_pairs_add(page->stacks, parent, frame, stack);
        if (status != PYR_OK) {
            return status;
        }
        parent = *stack + 1;
    }
    return PYR_OK;
}

static pyr_status add_state(document *page, const pyr_profile_sample *sample, uint32_t *state)
{
    const pyr_profile_label *label = pyr_profile_find_label(page->input->profile, sample, "state");
    *state = 0;
    if (label == NULL || label->text == 0) {
        return PYR_OK;
    }
    pyr_status status = pyr_pairs_add(page->states, label->text, 0, state);
    *state += 1;
    return status;
}

static pyr_status add_sample(document *page, size_t index)
{
    const pyr_profile *profile = page->input->profile;
    const pyr_profile_sample *sample = &profile->samples[index];
    uint32_t stack = 0;
    uint32_t state = 0;
    uint32_t place = 0;
    uint32_t number = 0;
    pyr_status status = add_stack(page, sample, &stack);
    if (status == PYR_OK) {
        status = add_state(page, sample, &state);
    }
    if (status == PYR_OK) {
        status = pyr_pairs_add(page->places, stack, page->threads.of_sample[index], &place);
    }
    if (status == PYR_OK) {
        status = pyr_pairs_add(page->samples, place, state, &number);
    }
    for (size_t type = 0; status == PYR_OK && type < profile->type_count; type++) {
        pyr_units_add(&page->values[number * profile->type_count + type],
                      profile->values[sample->value_start + type]);
    }
    return status;
}

static pyr_status document_init(document *page, const pyr_input *input,
                                const pyr_selection *selection)
{
    const pyr_profile *profile = input->profile;
    *page = (document){.input = input, .selection = selection};
    pyr_status status = pyr_thread_list_init(&page->threads, profile);
    if (status != PYR_OK) {
        return status;
    }
    page->stacks = pyr_pairs_new();
    page->states = pyr_pairs_new();
    page->places = pyr_pairs_new();
    page->samples = pyr_pairs_new();
    /* At most one a sample of the profile. */
    page->values =
        pyr_memory_new(profile->sample_count * profile->type_count + 1, sizeof *page->values);
    if (page->stacks == NULL || page->states == NULL || page->places == NULL ||
        page->samples == NULL || page->values == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const int64_t *values = &profile->values[profile->samples[index].value_start];
        bool negative = false;
        bool any = false;
        for (size_t type = 0; type < profile->type_count; type++) {
            negative = negative || values[type] < 0;
            any = any || values[type] != 0;
        }
        page->negative += negative;
        if (any && !negative) {
            status = add_sample(page, index);
        }
    }
    return status;
}

static void document_fini(document *page)
{
    pyr_thread_list_fini(&page->threads);
    pyr_pairs_free(page->stacks);
    pyr_pairs_free(page->states);
    pyr_pairs_free(page->places);
    pyr_pairs_free(page->samples);
    pyr_memory_free(page->values);
}

/* ------------------------------------------------------------------------------- writing ---- */

static void write_numbers(pyr_json *json, const int64_t *numbers, size_t count)
{
    pyr_json_begin(json, NULL, '[');
    for (size_t index = 0; index < count; index++) {
        pyr_json_integer(json, NULL, numbers[index]);
    }
    pyr_json_end(json, ']');
}

static int64_t line_number(int64_t line)
{
    return line > 0 ? line : 0;
}

static void write_tables(pyr_json *json, const pyr_profile *profile)
{
    pyr_json_begin(json, "types", '[');
    for (size_t index = 0; index < profile->type_count; index++) {
        const pyr_profile_text *type = &profile->strings[profile->types[index].type];
        const pyr_profile_text *unit = &profile->strings[profile->types[index].unit];
        pyr_json_begin(json, NULL, '{');
        pyr_json_text(json, "type", type->data, type->length);
        pyr_json_text(json, "unit", unit->data, unit->length);
        pyr_json_end(json, '}');
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "strings", '[');
    for (size_t index = 0; index < profile->string_count; index++) {
        pyr_json_text(json, NULL, profile->strings[index].data, profile->strings[index].length);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "functions", '[');
    for (size_t index = 0; index < profile->function_count; index++) {
        const pyr_profile_function *function = &profile->functions[index];
        write_numbers(
            json,
            (const int64_t[]){function->name, function->file, line_number(function->start_line)},
            3);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "frames", '[');
    for (size_t index = 0; index < profile->frame_count; index++) {
        const pyr_profile_frame *frame = &profile->frames[index];
        write_numbers(json, (const int64_t[]){frame->function, line_number(frame->line)}, 2);
    }
    pyr_json_end(json, ']');
}

static void write_samples(pyr_json *json, const document *page)
{
    size_t types = page->input->profile->type_count;
    pyr_json_begin(json, "stacks", '[');
    for (size_t index = 0; index < pyr_pairs_count(page->stacks); index++) {
        pyr_pair stack = pyr_pairs_at(page->stacks, index);
        write_numbers(json, (const int64_t[]){(int64_t)stack.first - 1, stack.second}, 2);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "threads", '[');
    for (size_t index = 0; index < page->threads.count; index++) {
        const pyr_thread *thread = &page->threads.list[index];
        write_numbers(json, (const int64_t[]){thread->name, thread->native_id}, 2);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "states", '[');
    for (size_t index = 0; index < pyr_pairs_count(page->states); index++) {
        pyr_json_integer(json, NULL, pyr_pairs_at(page->states, index).first);
    }
    pyr_json_end(json, ']');
    pyr_json_begin(json, "samples", '[');
    for (size_t index = 0; index < pyr_pairs_count(page->samples); index++) {
        pyr_pair sample = pyr_pairs_at(page->samples, index);
        pyr_pair place = pyr_pairs_at(page->places, sample.first);
        pyr_json_begin(json, NULL, '[');
        pyr_json_integer(json, NULL, place.first);
        pyr_json_integer(json, NULL, place.second);
        pyr_json_integer(json, NULL, (int64_t)sample.second - 1);
        write_numbers(json, &page->values[index * types], types);
        pyr_json_end(json, ']');
    }
    pyr_json_end(json, ']');
}

static void write_notes(pyr_json *json, const document *page)
{
    const pyr_background *background = &page->input->background;
    const char *reason = NULL;
    json_t *value = NULL;
    size_t index = 0;
    char note[NOTE_BYTES];
    pyr_json_begin(json, "notes", '[');
    json_object_foreach(background->losses, reason, value)
    {
        char count[PYR_UNITS_BYTES];
        pyr_units_single(count, (double)json_integer_value(value), "count");
        snprintf(note, sizeof note, "Lost: %s %.400s", count, reason);
        pyr_json_string(json, NULL, note);
    }
    json_array_foreach(background->notes, index, value)
    {
        pyr_json_string(json, NULL, json_string_value(value));
    }
    if (page->selection->left_out != 0) {
        char left_out[PYR_UNITS_BYTES];
        pyr_units_single(left_out, (double)page->selection->left_out, page->selection->unit);
        snprintf(note, sizeof note, "The page was made with filters, which left out %s of %.200s.",
                 left_out, page->selection->type_name);
        pyr_json_string(json, NULL, note);
    }
    if (page->negative > 0) {
        snprintf(note, sizeof note, "%zu samples with negative values are left out.",
                 page->negative);
        pyr_json_string(json, NULL, note);
    }
    pyr_json_end(json, ']');
}

static void write_rows(pyr_json *json, const pyr_background *background)
{
    const char *label = NULL;
    json_t *value = NULL;
    size_t index = 0;
    pyr_json_begin(json, "rows", '[');
    bool several = json_array_size(background->processes) > 1; /* a single one is the title */
    json_array_foreach(background->processes, index, value)
    {
        if (!several) {
            break;
        }
        pyr_json_begin(json, NULL, '[');
        pyr_json_string(json, NULL, "process");
        pyr_json_string(json, NULL, json_string_value(value));
        pyr_json_end(json, ']');
    }
    json_object_foreach(background->rows, label, value)
    {
        pyr_json_begin(json, NULL, '[');
        pyr_json_string(json, NULL, label);
        pyr_json_string(json, NULL, json_string_value(value));
        pyr_json_end(json, ']');
    }
    pyr_json_end(json, ']');
}

static void write_document(FILE *out, const document *page, const char *title)
{
    const pyr_profile *profile = page->input->profile;
    pyr_json json = {.out = out, .in_page = true};
    char start[PYR_UNITS_BYTES];
    snprintf(start, sizeof start, "%" PRId64, profile->time_ns > 0 ? profile->time_ns : 0);
    pyr_json_begin(&json, NULL, '{');
    pyr_json_string(&json, "title", title);
    pyr_json_string(&json, "start_ns", start);
    pyr_json_integer(&json, "duration_ns", profile->duration_ns > 0 ? profile->duration_ns : 0);
    pyr_json_integer(&json, "default", (int64_t)page->selection->type);
    write_tables(&json, profile);
    write_samples(&json, page);
    write_notes(&json, page);
    write_rows(&json, &page->input->background);
    pyr_json_end(&json, '}');
}

static int write_page(const document *page, const char *path, const char *title)
{
    const char *before = NULL;
    const char *after = NULL;
    size_t before_length = 0;
    size_t after_length = 0;
    pyr_output output;
    pyr_page_parts(&before, &before_length, &after, &after_length);
    if (after == NULL) {
        return pyr_message_wrong("this build has no flame graph page; build it again with "
                                 "ui/dist/flamegraph.html in place");
    }
    int code = pyr_output_open(&output, path);
    if (code == PYR_EXIT_GOOD) {
        fwrite(before, 1, before_length, output.file);
        write_document(output.file, page, title);
        fwrite(after, 1, after_length, output.file);
        code = pyr_output_close(&output, code);
    }
    if (code == PYR_EXIT_GOOD && output.path != NULL) {
        pyr_message_note("wrote %s; open it in a browser", output.path);
    }
    return code;
}

/* ------------------------------------------------------------------------------ the rest ---- */

/* "x.pprof" -> "x.html", "folder/" -> "folder.html". */
static void default_path(const char *input, char path[PATH_BYTES])
{
    size_t length = strlen(input);
    while (length > 1 && input[length - 1] == '/') {
        length--;
    }
    static const char SUFFIX[] = ".pprof";
    size_t suffix = sizeof SUFFIX - 1;
    if (length > suffix && memcmp(input + length - suffix, SUFFIX, suffix) == 0) {
        length -= suffix;
    }
    bool nameless = length == 0 || input[length - 1] == '.' || input[length - 1] == '/';
    snprintf(path, PATH_BYTES, "%.*s%s", nameless ? 0 : (int)length, input,
             nameless ? "flamegraph.html" : ".html");
}

static const char *title_of(const pyr_input *input, const char *path)
{
    const char *process = json_string_value(json_array_get(input->background.processes, 0));
    const char *slash = strrchr(path, '/');
    return process != NULL ? process : slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static int make_page(pyr_input *input, const pyr_select_arguments *select, const char *first,
                     const char *out)
{
    pyr_selection selection;
    document page;
    char path[PATH_BYTES];
    int code = pyr_select(select, input->profile, &selection);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (out == NULL) {
        default_path(first, path);
    }
    code =
        document_init(&page, input, &selection) == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
    if (code == PYR_EXIT_GOOD) {
        code = write_page(&page, out != NULL ? out : path, title_of(input, first));
    }
    document_fini(&page);
    return code;
}

int pyr_command_flamegraph(int argc, char **argv)
{
    pyr_input input = {0};
    pyr_select_arguments select = {0};
    const char *out = NULL;
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "The page", NULL},
        {PYR_OPTION_TEXT, 'o', "output", "PAGE",
         "file to write (default: FILE.html; - = standard "
         "output)",
         &out},
        PYR_SELECT_TYPE_OPTION(&select),
        PYR_SELECT_OPTIONS(&select),
    };
    const pyr_usage usage = {
        .command = "flamegraph",
        .operands = "FILE...",
        .about = "Makes a flame graph page of one or several profiles: one file with everything in "
                 "it.\nAll sample types, threads and states go in; the page chooses among them. "
                 "Parked threads\nare in the page too, and hidden until asked for.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = SIZE_MAX,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    select.parked = true;
    int code = pyr_input_open(&input, argv, count, PYR_INPUT_SUMS);
    code = code == PYR_EXIT_GOOD ? pyr_input_spare(&input, out) : code;
    if (code == PYR_EXIT_GOOD) {
        code = make_page(&input, &select, argv[0], out);
    }
    pyr_input_close(&input);
    return code;
}
