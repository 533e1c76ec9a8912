/* pyrometer convert: profiles for other viewers.
 *
 * Owns its input. One thread. The formats are in format_*.c, one file each and one row in the table
 * here.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/formats.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/units.h"
#include "pprof/write.h"

typedef struct format {
    const char *name;
    int (*write)(const pyr_conversion *conversion, FILE *out);
    pyr_input_form form;
    bool binary;
} format;

static const format FORMATS[] = {
    {"collapsed", pyr_format_collapsed, PYR_INPUT_SUMS, false},
    {"speedscope", pyr_format_speedscope, PYR_INPUT_TIMELINE, false},
    {"gecko", pyr_format_gecko, PYR_INPUT_TIMELINE, false},
    {"chrometrace", pyr_format_chrometrace, PYR_INPUT_TIMELINE, false},
    {"pprof", pyr_format_pprof, PYR_INPUT_FAITHFUL, true},
};
enum { FORMAT_COUNT = sizeof FORMATS / sizeof FORMATS[0] };

int pyr_format_pprof(const pyr_conversion *conversion, FILE *out)
{
    pyr_buffer bytes;
    pyr_buffer_init(&bytes, PYR_LIMIT_PPROF_BYTES);
    pyr_profile *profile = conversion->input->profile;
    profile->default_type = profile->types[conversion->selection->type].type;
    int code = PYR_EXIT_GOOD;
    pyr_status status = pyr_profile_write(profile, PYR_PPROF_GZIP, &bytes);
    if (status == PYR_ETOOBIG) {
        code = pyr_message_wrong("the profile would be larger than 1 GiB; convert fewer files");
    } else if (status != PYR_OK) {
        code = pyr_message_no_memory();
    } else {
        fwrite(bytes.data, 1, bytes.length, out);
    }
    pyr_buffer_fini(&bytes);
    return code;
}

int pyr_format_lanes(const pyr_conversion *conversion, pyr_timeline *lanes, size_t *type)
{
    const pyr_profile *profile = conversion->input->profile;
    int wall = pyr_profile_find_type(profile, "wall-time");
    *type = wall >= 0 ? (size_t)wall : conversion->selection->type;
    const char *unit = profile->strings[profile->types[*type].unit].data;
    if (strcmp(unit, "nanoseconds") != 0) {
        return pyr_message_wrong("the profile has no wall-time, and %s is no time: nothing can be "
                                 "laid out along a time axis; use -f speedscope or collapsed",
                                 conversion->selection->type_name);
    }
    if (pyr_timeline_init(lanes, profile, *type) != PYR_OK) {
        return pyr_message_no_memory();
    }
    if (!lanes->measured) {
        pyr_message_note("the samples have no times, so those of a thread stand one after the "
                         "other");
    } else if (lanes->untimed > 0) {
        char text[PYR_UNITS_BYTES];
        pyr_units_single(text, (double)lanes->untimed, unit);
        pyr_message_note("%s in samples without a time are left out", text);
    }
    return PYR_EXIT_GOOD;
}

static const char *format_name(const void *names, size_t index)
{
    return ((const format *)names)[index].name;
}

static const format *find_format(const char *name)
{
    if (name == NULL) {
        pyr_message_wrong("convert needs a format: -f collapsed, speedscope, gecko, chrometrace "
                          "or pprof");
        return NULL;
    }
    for (size_t index = 0; index < FORMAT_COUNT; index++) {
        if (strcmp(FORMATS[index].name, name) == 0) {
            return &FORMATS[index];
        }
    }
    const char *nearest = pyr_nearest(name, FORMAT_COUNT, format_name, FORMATS);
    pyr_message_wrong(
        "there is no format \"%s\"; %s%s", name, nearest != NULL ? "did you mean " : "there are ",
        nearest != NULL ? nearest : "collapsed, speedscope, gecko, chrometrace and pprof");
    return NULL;
}

static int convert(pyr_input *input, const pyr_select_arguments *select, const format *target,
                   pyr_conversion *conversion, const char *out)
{
    pyr_selection selection;
    pyr_output output;
    int code = pyr_select(select, input->profile, &selection);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (selection.parked != 0) {
        char text[PYR_UNITS_BYTES];
        pyr_units_single(text, (double)selection.parked, selection.unit);
        pyr_message_note("left out %s of parked threads (--parked keeps them)", text);
    }
    conversion->input = input;
    conversion->selection = &selection;
    code = pyr_input_spare(input, out);
    code = code == PYR_EXIT_GOOD ? pyr_output_open(&output, out) : code;
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    return pyr_output_close(&output, target->write(conversion, output.file));
}

int pyr_command_convert(int argc, char **argv)
{
    pyr_input input = {0};
    pyr_select_arguments select = {0};
    pyr_conversion conversion = {0};
    const char *name = NULL;
    const char *out = NULL;
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "What to write", NULL},
        {PYR_OPTION_TEXT, 'f', "format", "FORMAT",
         "collapsed, speedscope, gecko (Firefox Profiler), chrometrace or pprof", &name},
        {PYR_OPTION_TEXT, 'o', "output", "OUT", "file to write (default: standard output)", &out},
        PYR_SELECT_TYPE_OPTION(&select),
        {PYR_OPTION_FLAG, 0, "lines", NULL, "frames by line instead of by function",
         &conversion.lines},
        PYR_SELECT_OPTIONS(&select),
    };
    const pyr_usage usage = {
        .command = "convert",
        .operands = "FILE...",
        .about =
            "Writes one or several profiles, added up, for another viewer. collapsed holds "
            "the chosen\nsample type, gecko and chrometrace the timeline, speedscope and pprof "
            "all types.\n",
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
    const format *target = find_format(name);
    if (target == NULL) {
        return PYR_EXIT_WRONG;
    }
    if (target->binary && (out == NULL || strcmp(out, "-") == 0) && isatty(STDOUT_FILENO) == 1) {
        return pyr_message_wrong("pprof is binary and would garble the terminal; name a file "
                                 "with -o");
    }
    const char *slash = strrchr(argv[0], '/');
    conversion.title = slash != NULL && slash[1] != '\0' ? slash + 1 : argv[0];
    select.parked = select.parked || target->binary; /* pprof in, pprof out: nothing is hidden */
    int code = pyr_input_open(&input, argv, count, target->form);
    if (code == PYR_EXIT_GOOD) {
        code = convert(&input, &select, target, &conversion, out);
    }
    pyr_input_close(&input);
    return code;
}
