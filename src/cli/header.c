/* The facts on top of every view.
 *
 * Owns nothing. One thread. Losses and notes are always shown: a number without them may mislead.
 */
#include "cli/header.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "cli/display.h"
#include "cli/units.h"

enum { SHOWN_PROCESSES = 3, SHOWN_NOTES = 20, LINE_BYTES_MAXIMUM = 1 << 20, NS = 1000000000 };

void pyr_header_time(char text[PYR_HEADER_TIME_BYTES], int64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / NS);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL ||
        strftime(text, PYR_HEADER_TIME_BYTES, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        snprintf(text, PYR_HEADER_TIME_BYTES, "%" PRId64 " ns", unix_ns);
    }
}

/* "Label      text" with what comes from files made clean. */
static void print_fact(FILE *out, const char *label, const char *text)
{
    pyr_buffer line;
    pyr_buffer_init(&line, LINE_BYTES_MAXIMUM);
    pyr_display_clean(&line, text, strlen(text));
    fprintf(out, "%-10s ", label);
    pyr_display_write(&line, out);
    fputc('\n', out);
    pyr_buffer_fini(&line);
}

static void print_list(FILE *out, const char *label, json_t *list, size_t shown)
{
    size_t index = 0;
    json_t *text = NULL;
    json_array_foreach(list, index, text)
    {
        if (index < shown) {
            print_fact(out, label, json_string_value(text));
        }
    }
    if (json_array_size(list) > shown) {
        fprintf(out, "%-10s and %zu more\n", label, json_array_size(list) - shown);
    }
}

static void print_window(FILE *out, const pyr_input *input)
{
    const pyr_profile *profile = input->profile;
    char start[PYR_HEADER_TIME_BYTES] = "";
    char duration[PYR_UNITS_BYTES] = "";
    if (profile->time_ns != 0) {
        pyr_header_time(start, profile->time_ns);
    }
    if (profile->duration_ns > 0) {
        pyr_units_single(duration, (double)profile->duration_ns, "nanoseconds");
    }
    fprintf(out, "%-10s %zu file%s%s%s%s%s\n", "Profile", input->file_count,
            input->file_count == 1 ? "" : "s", start[0] != '\0' ? ", from " : "", start,
            duration[0] != '\0' ? ", " : "", duration);
}

static void print_shown(FILE *out, const pyr_input *input, const pyr_selection *selection)
{
    char value[PYR_UNITS_BYTES];
    pyr_units_single(value, (double)selection->kept, selection->unit);
    fprintf(out, "%-10s %s, %s", "Shown", selection->type_name, value);
    int64_t duration = input->profile->duration_ns;
    if (strcmp(selection->type_name, "cpu-time") == 0 && duration > 0) {
        fprintf(out, " (%.1f %% of one core)", 100.0 * (double)selection->kept / (double)duration);
    }
    if (selection->samples >= 0) {
        pyr_units_single(value, (double)selection->samples, "count");
        fprintf(out, ", in %s sample%s", value, selection->samples == 1 ? "" : "s");
    }
    fputc('\n', out);
    if (selection->left_out != 0) {
        pyr_units_single(value, (double)selection->left_out, selection->unit);
        fprintf(out, "%-10s %s by the filters given\n", "Left out", value);
    }
    if (selection->parked != 0) {
        pyr_units_single(value, (double)selection->parked, selection->unit);
        fprintf(out, "%-10s %s of parked threads, which wait for work (--parked shows them)\n",
                "Left out", value);
    }
}

static void print_losses(FILE *out, const pyr_background *background)
{
    const char *reason = NULL;
    json_t *count = NULL;
    json_object_foreach(background->losses, reason, count)
    {
        char line[512];
        char number[PYR_UNITS_BYTES];
        pyr_units_single(number, (double)json_integer_value(count), "count");
        snprintf(line, sizeof line, "%s %s", number, reason);
        print_fact(out, "Lost", line);
    }
}

void pyr_header_print(FILE *out, const pyr_input *input, const pyr_selection *selection)
{
    print_list(out, "Process", input->background.processes, SHOWN_PROCESSES);
    print_window(out, input);
    print_shown(out, input, selection);
    print_losses(out, &input->background);
    print_list(out, "Note", input->background.notes, SHOWN_NOTES);
    fputc('\n', out);
}

static void json_list(pyr_json *json, const char *key, json_t *list)
{
    size_t index = 0;
    json_t *text = NULL;
    pyr_json_begin(json, key, '[');
    json_array_foreach(list, index, text)
    {
        pyr_json_string(json, NULL, json_string_value(text));
    }
    pyr_json_end(json, ']');
}

void pyr_header_json(pyr_json *json, const pyr_input *input, const pyr_selection *selection)
{
    const char *reason = NULL;
    json_t *count = NULL;
    json_list(json, "processes", input->background.processes);
    pyr_json_integer(json, "files", (int64_t)input->file_count);
    pyr_json_integer(json, "time_ns", input->profile->time_ns);
    pyr_json_integer(json, "duration_ns", input->profile->duration_ns);
    pyr_json_string(json, "type", selection->type_name);
    pyr_json_string(json, "unit", selection->unit);
    pyr_json_integer(json, "total", selection->kept);
    if (selection->samples >= 0) {
        pyr_json_integer(json, "samples", selection->samples);
    } else {
        pyr_json_null(json, "samples");
    }
    pyr_json_begin(json, "left_out", '{');
    pyr_json_integer(json, "filtered", selection->left_out);
    pyr_json_integer(json, "parked", selection->parked);
    pyr_json_end(json, '}');
    pyr_json_begin(json, "losses", '[');
    json_object_foreach(input->background.losses, reason, count)
    {
        pyr_json_begin(json, NULL, '{');
        pyr_json_string(json, "reason", reason);
        pyr_json_integer(json, "count", json_integer_value(count));
        pyr_json_end(json, '}');
    }
    pyr_json_end(json, ']');
    json_list(json, "notes", input->background.notes);
}
