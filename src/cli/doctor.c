/* pyrometer doctor: why might a profile be empty? One line a check.
 *
 *     tell    prints a verdict: ok, note (worth knowing), problem
 *     check_  each looks at one thing; all run, in the order in which they matter
 *
 * Owns nothing beyond its run. It looks at this machine, at the settings and, given a pid, at that
 * process through /proc; it asks receivers for an answer, sends no profile and no key, and leaves
 * nothing behind. It never touches the memory of another process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/applied.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/suspect.h"
#include "export/address.h"
#include "export/exporter.h"
#include "export/http.h"
#include "export/profile_files.h"
#include "os/os.h"
#include "os/task.h"
#include "reader/reader.h"
#include "session/exporting.h"
#include "session/flight.h"
#include "session/identity.h"

enum { TEXT_BYTES = 1024, SLICE_KERNEL_MAJOR = 6, SLICE_KERNEL_MINOR = 12 };

static const int64_t ASK_NS = 2000000000; /* one receiver */
static const int64_t SLICE_NS = 100000;

typedef enum verdict { OK, NOTE, PROBLEM } verdict;

typedef struct report {
    pyr_applied applied;
    pyr_suspect suspect; /* the process looked at, if any */
    int64_t pid;         /* 0 = none */
    bool as_json;
    pyr_json json;
    size_t problems;
} report;

static void tell(report *to, const char *check, verdict what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(report *to, const char *check, verdict what, const char *format, ...)
{
    static const char *const WORDS[] = {"ok", "note", "problem"};
    char text[TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    to->problems += what == PROBLEM;
    if (to->as_json) {
        pyr_json_begin(&to->json, NULL, '{');
        pyr_json_string(&to->json, "check", check);
        pyr_json_string(&to->json, "verdict", WORDS[what]);
        pyr_json_string(&to->json, "text", text);
        pyr_json_end(&to->json, '}');
        return;
    }
    for (char *at = text; *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at;
    }
    printf("%-8s %-9s %s\n", WORDS[what], check, text);
}

/* -------------------------------------------------------------------------------- settings */

static void check_settings(report *to)
{
    const pyr_applied *applied = &to->applied;
    if (!pyr_settings_bool(&applied->settings, PYR_SETTING_ENABLED)) {
        tell(to, "switch", PROBLEM, "the profiler is switched off by %s",
             pyr_applied_source(applied, PYR_SETTING_ENABLED));
    } else {
        tell(to, "switch", OK, "nothing switches the profiler off");
    }
    if (!pyr_settings_bool(&applied->settings, PYR_SETTING_STACK_ENABLED)) {
        tell(to, "switch", PROBLEM,
             "%s switches off the stack collector: no CPU or wall time is measured",
             pyr_applied_source(applied, PYR_SETTING_STACK_ENABLED));
    }
    double share = pyr_settings_real(&applied->settings, PYR_SETTING_PROCESS_PCT);
    if (share < 100) {
        tell(to, "switch", share > 0 ? NOTE : PROBLEM, "%s leaves out %g %% of the processes",
             pyr_applied_source(applied, PYR_SETTING_PROCESS_PCT), 100 - share);
    }
    size_t problems = to->problems;
    for (size_t index = 0; index < applied->problem_count; index++) {
        const char *text = applied->problems[index];
        tell(to, "settings", strstr(text, PYR_SETTINGS_NO_EFFECT) != NULL ? NOTE : PROBLEM, "%s",
             text);
    }
    if (to->problems == problems) {
        tell(to, "settings", OK, "every setting is understood");
    }
    if (pyr_settings_text(&applied->settings, PYR_SETTING_SERVICE)[0] == '\0') {
        tell(to, "settings", NOTE,
             "no service has been named: set PYROMETER_SERVICE or DD_SERVICE");
    }
}

/* ------------------------------------------------------------------------- Python, machine */

static void check_python(report *to)
{
    const pyr_applied *applied = &to->applied;
    if (!applied->has_entry) {
        tell(to, "python", NOTE,
             "started without Python: call `python -m pyrometer doctor` with "
             "the Python of the program");
        return;
    }
    if (applied->core[0] != '\0') {
        tell(to, "python", PROBLEM, "the profiler does not load in Python %s: %s", applied->python,
             applied->core);
    } else {
        tell(to, "python", OK, "the profiler loads in Python %s", applied->python);
    }
    tell(to, "python", OK, "no collector of this version needs an id of sys.monitoring");
    if (applied->others[0] != '\0') {
        tell(to, "others", NOTE, "other profilers are installed: %s; one at a time is enough",
             applied->others);
    }
}

static void check_machine(report *to)
{
    pyr_reader *reader = NULL;
    pyr_status status = pyr_reader_open_self(&reader);
    if (status == PYR_OK) {
        tell(to, "memory", OK, "memory can be read without risk here (%s)",
             pyr_reader_method(reader));
        pyr_reader_close(reader);
    } else {
        tell(to, "memory", PROBLEM,
             "the system calls process_vm_readv and process_vm_writev are refused (%s): allow one "
             "of them in the sandbox's seccomp profile",
             pyr_status_text(status));
    }
    struct utsname kernel;
    char *rest = NULL;
    long major = uname(&kernel) == 0 ? strtol(kernel.release, &rest, 10) : 0;
    long minor = rest != NULL && *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    bool has_slices =
        major > SLICE_KERNEL_MAJOR || (major == SLICE_KERNEL_MAJOR && minor >= SLICE_KERNEL_MINOR);
    if (has_slices && pyr_os_prefer_short_slice(SLICE_NS) == PYR_OK) {
        tell(to, "kernel", OK, "Linux %ld.%ld gives the sampler short slices", major, minor);
    } else {
        tell(to, "kernel", NOTE,
             "Linux %ld.%ld gives the sampler no short slices: on a saturated machine it may wake "
             "late; each window says how late",
             major, minor);
    }
    double cores = pyr_os_cpu_quota();
    if (cores > 0) {
        tell(to, "quota", NOTE,
             "the control group has %g cores; sampling keeps to %g %% of what that gives", cores,
             pyr_settings_real(&to->applied.settings, PYR_SETTING_OVERHEAD_PCT));
    } else {
        tell(to, "quota", OK, "the control group has no CPU quota");
    }
}

/* --------------------------------------------------------------------------------- targets */

/* Whether files could be made in the folder, or in the nearest one above it that exists. */
static void check_folder(report *to, const char *what, const char *folder)
{
    char path[PYR_LIMIT_PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder);
    while (path[0] != '\0' && !pyr_os_folder_exists(path)) {
        if (access(path, F_OK) == 0) {
            tell(to, "files", PROBLEM, "%s %s cannot be written: %s is no folder", what, folder,
                 path);
            return;
        }
        char *slash = strrchr(path, '/');
        slash = slash == NULL ? path : slash;
        *slash = '\0';
    }
    const char *checked = path[0] != '\0' ? path : "/";
    pyr_status status = pyr_os_folder_check(checked);
    if (status == PYR_OK) {
        tell(to, "files", OK, "%s %s can be written", what, folder);
    } else {
        tell(to, "files", PROBLEM, "%s %s cannot be written: %s: %s", what, folder, checked,
             pyr_status_text(status));
    }
}

static void check_files(report *to, const char *prefix)
{
    char folder[PYR_LIMIT_PATH_BYTES];
    char name[PYR_PROFILE_NAME_BYTES];
    if (prefix == NULL) {
        tell(to, "target", OK,
             "profiles go to files: pyrometer-profiles/ in the program's working folder, else in "
             "the temporary one");
        pyr_os_temporary_folder(folder, sizeof folder);
        check_folder(to, "the temporary folder", folder);
        return;
    }
    pyr_status status = pyr_profile_files_resolve(prefix, folder, name);
    if (status == PYR_OK) {
        check_folder(to, "the folder of profiles", folder);
    } else {
        tell(to, "files", PROBLEM, "the prefix %s cannot be used: %s", prefix,
             pyr_status_text(status));
    }
}

/* `place` may begin with words about it; the address is its last. */
static void check_receiver(report *to, const pyr_exporter_options *options, const char *place)
{
    pyr_address address;
    pyr_http_answer answer;
    char url[PYR_LIMIT_URL_BYTES + 8];
    char why[TEXT_BYTES] = "";
    const char *space = strrchr(place, ' ');
    const char *text = space != NULL ? space + 1 : place;
    pyr_status status = pyr_address_parse(text, &address);
    if (status != PYR_OK) {
        pyr_address_explain(text, status, why, sizeof why);
        tell(to, "target", PROBLEM, "%s", why);
        return;
    }
    if (pyr_http_load(why, sizeof why) != PYR_OK) {
        tell(to, "target", PROBLEM, "%s", why);
        return;
    }
    snprintf(url, sizeof url, "%s/", address.base);
    bool is_intake = options->agentless && space != NULL;
    const pyr_http_request request = {
        .url = url,
        .socket_path = address.socket[0] != '\0' ? address.socket : NULL,
        .proxy = is_intake ? options->https_proxy : NULL,
        .ca_file = options->ca_file,
        .deadline_ns = pyr_clock_monotonic_ns() + ASK_NS,
    };
    if (pyr_http_send(&request, &answer) == PYR_OK) {
        tell(to, "target", OK, "%s answers", text);
    } else {
        tell(to, "target", PROBLEM, "%s does not answer: %s", text,
             answer.text[0] != '\0' ? answer.text : "time is up");
    }
}

static void check_targets(report *to)
{
    const pyr_settings *settings = &to->applied.settings;
    const pyr_host host = {.python = ""};
    pyr_identity identity;
    pyr_exporting texts;
    pyr_exporter_options options;
    pyr_export_places places = {.count = 0};
    pyr_identity_make(&identity, "", "");
    pyr_exporting_options(settings, &identity, &host, &texts, &options);
    for (size_t row = 0; pyr_exporter_classes[row] != NULL; row++) {
        if (pyr_exporter_classes[row]->places == NULL ||
            pyr_exporter_classes[row]->is_last_resort) {
            continue; /* files are looked at below */
        }
        pyr_exporter_classes[row]->places(&options, &places);
        for (size_t index = 0; index < places.count; index++) {
            check_receiver(to, &options, places.texts[index]);
        }
    }
    if (options.agentless && options.api_key[0] == '\0') {
        tell(to, "target", PROBLEM, "AGENTLESS needs a key: set PYROMETER_API_KEY or DD_API_KEY");
    }
    if (places.count > 0 && options.spool_max_bytes > 0) {
        check_folder(to, "the folder of waiting uploads", options.spool_folder);
    }
    if (places.count == 0 || options.output_prefix != NULL) {
        check_files(to, options.output_prefix);
    }
}

static void check_flight(report *to)
{
    const pyr_settings *settings = &to->applied.settings;
    char folder[PYR_LIMIT_PATH_BYTES];
    if (pyr_settings_bool(settings, PYR_SETTING_FLIGHT_RECORDER_ENABLED)) {
        pyr_flight_folder(settings, folder, sizeof folder);
        check_folder(to, "the folder of recordings", folder);
    }
}

/* --------------------------------------------------------------------------------- process */

static void check_process(report *to)
{
    const pyr_suspect *suspect = &to->suspect;
    tell(to, "process", NOTE, "%d is %s; what its program sets by itself is not seen from here",
         (int)to->pid, suspect->executable);
    if (suspect->is_running) {
        tell(to, "process", OK, "the profiler's threads run in it");
    } else if (suspect->has_core) {
        tell(to, "process", PROBLEM,
             "the profiler is loaded and does not run: it was stopped, or its log says why (logger "
             "\"pyrometer\")");
    } else {
        tell(to, "process", PROBLEM,
             "the profiler was never started in it: start the program with "
             "`pyrometer run`, or `import pyrometer.auto`");
    }
    if (suspect->seccomp_filters) {
        tell(to, "memory", NOTE,
             "a seccomp filter is on in it: it may refuse to read memory, "
             "which the program's log would say");
    }
    if (suspect->others[0] != '\0') {
        tell(to, "others", NOTE, "other profilers are loaded in it: %s", suspect->others);
    }
}

static void run_checks(report *to)
{
    if (to->as_json) {
        to->json = (pyr_json){.out = stdout};
        pyr_json_begin(&to->json, NULL, '{');
        pyr_json_begin(&to->json, "checks", '[');
    }
    if (to->pid > 0) {
        check_process(to);
    }
    check_settings(to);
    check_python(to);
    check_machine(to);
    check_targets(to);
    check_flight(to);
    if (to->as_json) {
        pyr_json_end(&to->json, ']');
        pyr_json_integer(&to->json, "problems", (int64_t)to->problems);
        pyr_json_end(&to->json, '}');
        putchar('\n');
    } else {
        printf("\n%zu problem%s\n", to->problems, to->problems == 1 ? "" : "s");
    }
}

/* 0: it is no pid. */
static int64_t read_pid(const char *text)
{
    char *end = NULL;
    errno = 0;
    long pid = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && pid > 0 && pid <= INT32_MAX ? pid : 0;
}

int pyr_command_doctor(int argc, char **argv)
{
    static report to; /* too large for a stack */
    const pyr_option options[] = {
        {PYR_OPTION_HEADING, 0, NULL, NULL, "Output", NULL},
        {PYR_OPTION_FLAG, 0, "json", NULL, "as JSON", &to.as_json},
    };
    const pyr_usage usage = {
        .command = "doctor",
        .operands = "[PID]",
        .about = "Looks for what might leave a profile empty: here, or with the settings and the "
                 "state of the\nprocess PID. Exit code 1 if there is a problem.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .most_operands = 1,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    char *const *environment = environ;
    if (count == 1) {
        to.pid = read_pid(argv[0]);
        if (to.pid == 0) {
            return pyr_message_wrong("\"%s\" is no process id", argv[0]);
        }
        if (pyr_suspect_open(&to.suspect, to.pid) != PYR_OK) {
            return pyr_message_wrong("process %s cannot be looked at: %m; run doctor as its user, "
                                     "in its container",
                                     argv[0]);
        }
        environment = to.suspect.environment;
        if (chdir(to.suspect.folder) != 0) { /* what its relative paths start from */
            return pyr_message_wrong("%s cannot be entered: %m; run doctor as its user, in its "
                                     "container",
                                     to.suspect.folder);
        }
    }
    pyr_applied_read(&to.applied, environment);
    run_checks(&to);
    pyr_applied_fini(&to.applied);
    pyr_suspect_close(&to.suspect);
    return to.problems > 0 ? PYR_EXIT_FINDING : PYR_EXIT_GOOD;
}
