/* Settings: one table says everything about each, and the parser knows only the table.
 *
 * A setting NAME is the variable PYROMETER_NAME, the keyword argument `name` of Profiler, and its
 * aliases. Later sources win: default, file, environment (PYROMETER before its aliases, in their
 * order), keyword arguments. A malformed or out-of-range value is one warning and leaves what was
 * there. Two settings differ: ENABLED stays false wherever that was said, and TAGS add up, key by
 * key. One thread at a time; the functions allocate but touch no globals.
 */
#ifndef PYR_SESSION_SETTINGS_H
#define PYR_SESSION_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "model/facts.h"

#define PYR_SETTING_PREFIX "PYROMETER_"

/* Name, kind, default, least and most (as texts of the same kind; "" for texts and booleans),
 * aliases (variables, parted by spaces), what it is for. */
#define PYR_SETTING_MAP(X)                                                                         \
    X(ENABLED, BOOL, "true", "", "", "DD_PROFILING_ENABLED",                                       \
      "Whether the profiler may run in this process; false means that nothing at all happens, "    \
      "and "                                                                                       \
      "wins wherever it is said.")                                                                 \
    X(CONFIG_FILE, TEXT, "", "", "", "",                                                           \
      "A TOML file of settings, `name = value`, names in lower case without the prefix; the "      \
      "environment wins over it.")                                                                 \
    X(PROCESS_PCT, PERCENT, "100", "0", "100", "DD_PROFILING_CAPTURE_PCT",                         \
      "Share of the processes that are profiled, chosen by a hash of host, pid and start time. "   \
      "(ddtrace uses the alias for its locks only.)")                                              \
    X(STACK_ENABLED, BOOL, "true", "", "", "DD_PROFILING_STACK_ENABLED",                           \
      "The stack collector: CPU and wall time of every thread.")                                   \
    X(SAMPLING_INTERVAL, DURATION, "10ms", "1ms", "1s", "DD_PROFILING_SAMPLING_INTERVAL",          \
      "Mean time between two looks at the threads; stretched to keep within OVERHEAD_PCT.")        \
    X(OVERHEAD_PCT, PERCENT, "1", "0.01", "100",                                                   \
      "_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_TARGET_OVERHEAD DD_PROFILING_MAX_TIME_USAGE_PCT",     \
      "Most CPU that sampling may use, in percent of one core, of the container's CPU quota or "   \
      "of the program's own CPU, whichever is largest.")                                           \
    X(MAX_FRAMES, INTEGER, "64", "1", "599", "DD_PROFILING_MAX_FRAMES",                            \
      "Most frames of one stack, counted from the leaf; the rest becomes one "                     \
      "`<N frames omitted>`.")                                                                     \
    X(TIMELINE_ENABLED, BOOL, "true", "", "", "DD_PROFILING_TIMELINE_ENABLED",                     \
      "Samples carry the time of their end, so that viewers can draw a timeline.")                 \
    X(MEMORY_ENABLED, BOOL, "true", "", "", "DD_PROFILING_MEMORY_ENABLED",                         \
      "The memory collector: allocations.")                                                        \
    X(HEAP_ENABLED, BOOL, "true", "", "", "DD_PROFILING_HEAP_ENABLED",                             \
      "The live heap, measured by the memory collector.")                                          \
    X(NATIVE_HEAP_ENABLED, BOOL, "false", "", "",                                                  \
      "DD_PROFILING_NATIVE_HEAP_ENABLED DD_HEAP_SAMPLING_ENABLED",                                 \
      "What C libraries allocate by malloc, mmap and their kin, measured by the memory "           \
      "collector. While it runs, their calls of these go through hooks.")                          \
    X(HEAP_SAMPLE_SIZE, BYTES, "0", "0", "1GiB",                                                   \
      "DD_PROFILING_HEAP_SAMPLE_SIZE DD_PROFILING_SAMPLE_SIZE",                                    \
      "Mean distance of two sampled allocations in bytes; never so small that it breaks the "      \
      "budget of events. 0: it adapts.")                                                           \
    X(LOCK_ENABLED, BOOL, "true", "", "", "DD_PROFILING_LOCK_ENABLED",                             \
      "The lock collector: waits for locks, and who held them.")                                   \
    X(LOCK_EXCLUDE_MODULES, LIST, "", "", "", "DD_PROFILING_LOCK_EXCLUDE_MODULES",                 \
      "Modules that take locks which are left out.")                                               \
    X(EXCEPTION_ENABLED, BOOL, "true", "", "", "DD_PROFILING_EXCEPTION_ENABLED",                   \
      "The exception collector: what is raised, where, and whether it is caught. Needs "           \
      "sys.monitoring; without it the label `handling exception` says what is being handled.")     \
    X(EXCEPTION_SAMPLING_INTERVAL, INTEGER, "100", "1", "1000000",                                 \
      "DD_PROFILING_EXCEPTION_SAMPLING_INTERVAL",                                                  \
      "Mean number of exceptions between two whose stack is taken. The first 64 of a window all "  \
      "have theirs taken; beyond a thousand a second the mean grows.")                             \
    X(EXCEPTION_COLLECT_MESSAGE, BOOL, "false", "", "",                                            \
      "DD_PROFILING_EXCEPTION_COLLECT_MESSAGE DD_PROFILING_COLLECT_MESSAGE",                       \
      "Exceptions keep their message, 128 characters of the first text they were made with, "      \
      "which "                                                                                     \
      "may hold what nobody should read.")                                                         \
    X(GC_ENABLED, BOOL, "true", "", "", "",                                                        \
      "The collector of pauses: how long garbage collections take, and what sets them off.")       \
    X(PYTORCH_ENABLED, BOOL, "false", "", "", "DD_PROFILING_PYTORCH_ENABLED",                      \
      "The PyTorch collector: operators on CPU and GPU.")                                          \
    X(PYTORCH_EVENTS_LIMIT, INTEGER, "1000000", "1", "100000000",                                  \
      "DD_PROFILING_PYTORCH_EVENTS_LIMIT DD_PROFILING_EVENTS_LIMIT",                               \
      "Most events of PyTorch in a window.")                                                       \
    X(UPLOAD_INTERVAL, DURATION, "60s", "1s", "1h", "DD_PROFILING_UPLOAD_INTERVAL",                \
      "Length of a window: how often a profile is written.")                                       \
    X(OUTPUT_PPROF, TEXT, "", "", "", "DD_PROFILING_OUTPUT_PPROF",                                 \
      "Prefix of the files: `<prefix>.<pid>.<sequence>.pprof`, or a folder. Default: "             \
      "`pyrometer-profiles/` in the working folder, else in the temporary folder.")                \
    X(OUTPUT_MAX_BYTES, BYTES, "512MiB", "0", "1024TiB", "",                                       \
      "Most bytes of profiles kept under one prefix; the oldest go first. 0: no limit.")           \
    X(OUTPUT_MAX_AGE, DURATION, "0s", "0s", "3650d", "",                                           \
      "Profiles older than this are removed. 0: none is.")                                         \
    X(FLIGHT_RECORDER_ENABLED, BOOL, "false", "", "", "",                                          \
      "Keep the last minutes in a file that outlives any end of the process, for "                 \
      "`pyrometer recover`.")                                                                      \
    X(FLIGHT_RECORDER_BYTES, BYTES, "8MiB", "1MiB", "1GiB", "",                                    \
      "Size of that file; the oldest seconds go.")                                                 \
    X(FLIGHT_RECORDER_DIR, TEXT, "", "", "", "",                                                   \
      "Its folder; processes may share it. Default: `pyrometer-flight-<user id>` in the "          \
      "temporary folder.")                                                                         \
    X(EXIT_TIMEOUT, DURATION, "1s", "0s", "60s", "",                                               \
      "Longest time that the end of the program may be delayed to deliver the last window.")       \
    X(SUBPROCESSES, BOOL, "false", "", "", "",                                                     \
      "`pyrometer run` also profiles the Python programs that the program starts.")                \
    X(TAKEOVER, LIST, "", "", "", "",                                                              \
      "Profilers whose place is taken where the program starts them: `ddtrace`, `pyroscope`. "     \
      "`pyrometer run` takes that of ddtrace by itself.")                                          \
    X(CONTROL_ENABLED, BOOL, "true", "", "", "",                                                   \
      "Whether `pyrometer ctl` can ask and steer the profiler, over a socket that only the "       \
      "process's owner can use.")                                                                  \
    X(URL, LIST, "", "", "", "DD_TRACE_AGENT_URL",                                                 \
      "Where profiles are sent: `http://host:8126`, `https://...`, `unix:///path`; several, "      \
      "parted "                                                                                    \
      "by commas, all get them. Default: the Datadog Agent's socket or a local `pyrometer serve` " \
      "if one is there, else files.")                                                              \
    X(AGENT_HOST, TEXT, "", "", "", "DD_AGENT_HOST",                                               \
      "Host of the Datadog Agent, where URL is not set.")                                          \
    X(AGENT_PORT, INTEGER, "8126", "1", "65535", "DD_TRACE_AGENT_PORT DD_AGENT_PORT",              \
      "Its port, with AGENT_HOST.")                                                                \
    X(AGENTLESS, BOOL, "false", "", "", "DD_PROFILING_AGENTLESS",                                  \
      "Send straight to Datadog's intake, with API_KEY, instead of to an Agent.")                  \
    X(API_KEY, SECRET, "", "", "", "DD_API_KEY", "Datadog's key, for AGENTLESS.")                  \
    X(SITE, TEXT, "datadoghq.com", "", "", "DD_SITE", "Datadog's site, for AGENTLESS.")            \
    X(INTAKE_URL, TEXT, "", "", "", "", "Another intake than that of SITE.")                       \
    X(HTTPS_PROXY, TEXT, "", "", "", "DD_PROXY_HTTPS HTTPS_PROXY https_proxy",                     \
      "Proxy on the way to Datadog's intake; an Agent is always spoken to directly.")              \
    X(HTTP_HEADERS, SECRET, "", "", "", "",                                                        \
      "More headers of each upload: `name:value,name:value`.")                                     \
    X(TLS_CA_FILE, TEXT, "", "", "", "SSL_CERT_FILE",                                              \
      "Certificates to trust instead of the system's.")                                            \
    X(API_TIMEOUT_MS, INTEGER, "10000", "1", "600000", "DD_PROFILING_API_TIMEOUT_MS",              \
      "Longest time of one upload, in milliseconds.")                                              \
    X(SPOOL_DIR, TEXT, "", "", "", "",                                                             \
      "Folder for uploads that have to wait; processes may share it. Default: "                    \
      "`pyrometer-spool-<user id>` in the temporary folder.")                                      \
    X(SPOOL_MAX_BYTES, BYTES, "256MiB", "0", "1024TiB", "",                                        \
      "Most bytes of uploads that wait; the oldest go. 0: nothing is kept on disk.")               \
    X(SPOOL_MAX_AGE, DURATION, "24h", "1s", "3650d", "", "How long an upload may wait.")           \
    X(ENABLE_CODE_PROVENANCE, BOOL, "true", "", "", "DD_PROFILING_ENABLE_CODE_PROVENANCE",         \
      "Uploads say which code is the standard library's, a distribution's, or yours.")             \
    X(MAIN_PACKAGE, TEXT, "", "", "", "DD_MAIN_PACKAGE",                                           \
      "An installed distribution that is your own code.")                                          \
    X(GIT_METADATA_ENABLED, BOOL, "true", "", "", "DD_TRACE_GIT_METADATA_ENABLED",                 \
      "Look up commit and repository in the working folder's `.git`, where they are not set.")     \
    X(GIT_REPOSITORY_URL, TEXT, "", "", "", "DD_GIT_REPOSITORY_URL",                               \
      "Address of the source repository.")                                                         \
    X(GIT_COMMIT_SHA, TEXT, "", "", "", "DD_GIT_COMMIT_SHA", "Commit that is running.")            \
    X(EXTERNAL_ENV, TEXT, "", "", "", "DD_EXTERNAL_ENV",                                           \
      "What Datadog's admission controller says of the container.")                                \
    X(SERVICE, TEXT, "", "", "", "DD_SERVICE OTEL_SERVICE_NAME",                                   \
      "Name of the service, part of every window's identity.")                                     \
    X(ENV, TEXT, "", "", "", "DD_ENV", "Name of the environment, for example `production`.")       \
    X(VERSION, TEXT, "", "", "", "DD_VERSION", "Version of the service.")                          \
    X(TAGS, LIST, "", "", "", "DD_PROFILING_TAGS DD_TAGS",                                         \
      "More about the process: `key:value,key:value`. Those of all sources are taken; of one key " \
      "the first counts.")                                                                         \
    X(FUNCTION_NAME, TEXT, "", "", "", "AWS_LAMBDA_FUNCTION_NAME",                                 \
      "Name of the serverless function: a window then takes UPLOAD_INTERVAL in which the process " \
      "ran, not counting while it was frozen.")

typedef enum pyr_setting_id {
#define PYR_SETTING_ENUM(name, ...) PYR_SETTING_##name,
    PYR_SETTING_MAP(PYR_SETTING_ENUM)
#undef PYR_SETTING_ENUM
        PYR_SETTINGS
} pyr_setting_id;

typedef enum pyr_setting_kind {
    PYR_SETTING_BOOL,     /* 1 true yes on auto, 0 false no off; any case */
    PYR_SETTING_DURATION, /* ns; units ns us ms s m h d, seconds without one */
    PYR_SETTING_BYTES,    /* units B KB MB GB TB (1000), KiB MiB GiB TiB or K M G T (1024) */
    PYR_SETTING_PERCENT,  /* a % sign may follow */
    PYR_SETTING_INTEGER,
    PYR_SETTING_TEXT,   /* any bytes */
    PYR_SETTING_LIST,   /* texts parted by commas */
    PYR_SETTING_SECRET, /* a text that is shown to nobody */
} pyr_setting_kind;

typedef struct pyr_setting {
    const char *name; /* "SAMPLING_INTERVAL" */
    pyr_setting_kind kind;
    const char *fallback, *least, *most;
    const char *aliases;
    const char *help;
} pyr_setting;

enum { PYR_LIMIT_SETTING_BYTES = 4096, PYR_LIMIT_SETTING_SOURCE = 64 };

/* A value of any kind; which member counts follows from the kind. */
typedef struct pyr_setting_value {
    int64_t integer; /* BOOL 0 or 1, DURATION ns, BYTES, INTEGER */
    double real;     /* PERCENT */
} pyr_setting_value;

typedef struct pyr_settings {
    struct pyr_setting_state {
        pyr_setting_value value;
        char *text;                            /* as given, owned; NULL: the default */
        char source[PYR_LIMIT_SETTING_SOURCE]; /* the variable, "argument", or "" for the default */
    } states[PYR_SETTINGS];
} pyr_settings;

/* Where warnings go: one line each, without a newline. */
typedef struct pyr_settings_warn {
    void (*line)(void *context, const char *text);
    void *context;
} pyr_settings_warn;

/* The row of the table. */
const pyr_setting *pyr_setting_get(pyr_setting_id id);

/* The setting called `name` (without prefix, any case), or -1. */
int pyr_setting_find(const char *name);

/* Pure: reads one value. PYR_EBAD (not of this kind), PYR_ETOOBIG (out of range or too long);
 * `why` says what is expected. TEXT and LIST only have their length checked. */
PYR_MUST_USE pyr_status pyr_setting_parse(const pyr_setting *setting, const char *text,
                                          pyr_setting_value *value, char *why, size_t why_size);

/* All defaults. */
void pyr_settings_init(pyr_settings *settings);
void pyr_settings_fini(pyr_settings *settings);

/* A copy with its own texts, in storage not initialised before. PYR_ENOMEM: `copy` is empty. */
PYR_MUST_USE pyr_status pyr_settings_copy(pyr_settings *copy, const pyr_settings *settings);

/* The source of what a file sets. */
#define PYR_SETTINGS_FILE "config file"

/* Stands in each warning that is no mistake: of what was understood and does nothing. */
#define PYR_SETTINGS_NO_EFFECT " has no effect: "

/* Takes what `environment` (as environ, ended by NULL) sets, and warns of wrong values, of
 * PYROMETER_ and DD_PROFILING_ variables that do not exist, and of those that have no effect. */
void pyr_settings_read(pyr_settings *settings, char *const *environment, pyr_settings_warn warn);

/* Sets one value from its text; `source` is kept for the user. A wrong value is one warning, as is
 * an unknown name in pyr_settings_set_named. */
void pyr_settings_set(pyr_settings *settings, pyr_setting_id id, const char *text,
                      const char *source, pyr_settings_warn warn);
void pyr_settings_set_named(pyr_settings *settings, const char *name, const char *text,
                            const char *source, pyr_settings_warn warn);

bool pyr_settings_bool(const pyr_settings *settings, pyr_setting_id id);
int64_t pyr_settings_integer(const pyr_settings *settings, pyr_setting_id id);
double pyr_settings_real(const pyr_settings *settings, pyr_setting_id id);
/* The text as given, or the default; never NULL. */
const char *pyr_settings_text(const pyr_settings *settings, pyr_setting_id id);

/* Why this version does nothing with the setting, or NULL: it has its effect. */
const char *pyr_setting_without_effect(pyr_setting_id id);

/* One line for each setting that asks for something which this version does not have. Called after
 * the last source was read. */
void pyr_settings_warn_of_effects(const pyr_settings *settings, pyr_settings_warn warn);

/* The value as anybody may see it: "***" for a secret, no user and password in URLs. */
enum { PYR_LIMIT_SHOWN_BYTES = PYR_LIMIT_SETTING_BYTES + 64 };
void pyr_settings_show(const pyr_settings *settings, pyr_setting_id id,
                       char shown[PYR_LIMIT_SHOWN_BYTES]);

/* Adds a row a setting that was set: section "settings" its text, and with `sources` section
 * "settings from" where it was set. */
void pyr_settings_facts(const pyr_settings *settings, pyr_facts *facts, bool sources);

/* Appends the settings page of the user guide (Markdown). */
PYR_MUST_USE pyr_status pyr_settings_document(pyr_buffer *out);

#endif
