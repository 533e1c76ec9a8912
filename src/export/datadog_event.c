/* event.json; see the header. Pure but for allocation; the exporter's thread. */
#include "export/datadog_event.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/utf8.h"

enum {
    TAGS_BYTES = 1 << 16,
    VALUE_BYTES = 1024,
    KEY_BYTES = 200, /* Datadog's limit of a whole tag */
    PROCESS_TAG_BYTES = 100,
    TIME_BYTES = 40,
};

static const int64_t SECOND_NS = 1000000000;

/* --------------------------------------------------------------------------------- tags --- */

/* True when a tag with this key is there already. */
static bool has_key(const pyr_buffer *tags, size_t start, const char *key, size_t length)
{
    const char *text = (const char *)tags->data;
    size_t at = start;
    while (at + length < tags->length) {
        if (memcmp(text + at, key, length) == 0 && text[at + length] == ':') {
            return true;
        }
        const char *comma = memchr(text + at, ',', tags->length - at);
        if (comma == NULL) {
            return false;
        }
        at = (size_t)(comma - text) + 1;
    }
    return false;
}

static void add_span(pyr_buffer *tags, size_t start, const char *key, size_t key_length,
                     const char *value, size_t value_length)
{
    char clean[VALUE_BYTES];
    if (has_key(tags, start, key, key_length)) {
        return;
    }
    size_t length = pyr_utf8_repair(value, value_length, clean, sizeof clean);
    for (size_t index = 0; index < length; index++) {
        if (clean[index] == ',' || iscntrl((unsigned char)clean[index])) {
            clean[index] = '_';
        }
    }
    pyr_buffer_format(tags, "%s%.*s:%s", tags->length > start ? "," : "", (int)key_length, key,
                      clean);
}

/* Adds a tag unless its value is unknown. */
static void add_tag(pyr_buffer *tags, size_t start, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        add_span(tags, start, key, strlen(key), value, strlen(value));
    }
}

/* The user's tags. Blanks part them only where no comma does: as Datadog's libraries read DD_TAGS.
 */
static void add_user_tags(pyr_buffer *tags, size_t start, const char *list, char *bad,
                          size_t bad_size)
{
    const char *separators = strchr(list, ',') != NULL ? "," : " \t\n";
    for (const char *rest = list; *rest != '\0';) {
        rest += strspn(rest, " \t\n,");
        size_t length = strcspn(rest, separators);
        const char *next = rest + length;
        while (length > 0 && isspace((unsigned char)rest[length - 1])) {
            length--;
        }
        const char *colon = memchr(rest, ':', length);
        size_t key = colon != NULL ? (size_t)(colon - rest) : 0;
        if (key > 0 && key < KEY_BYTES && key + 1 < length && pyr_utf8_valid(rest, key) == key) {
            add_span(tags, start, rest, key, colon + 1, length - key - 1);
        } else if (length > 0 && bad != NULL && bad[0] == '\0') {
            pyr_utf8_repair(rest, length, bad, bad_size);
        }
        rest = next;
    }
}

pyr_status pyr_datadog_tags(const pyr_datadog_source *source, pyr_buffer *out, char *bad,
                            size_t bad_size)
{
    const pyr_export_identity *who = &source->identity;
    char pid[24];
    snprintf(pid, sizeof pid, "%" PRId64, who->pid);
    const struct {
        const char *key, *value;
    } own[] = {
        {"env", who->env},
        {"service", who->service},
        {"version", who->version},
        {"language", "python"},
        {"runtime", "CPython"},
        {"runtime-id", who->runtime_id},
        {"runtime_version", who->python},
        {"profiler_version", PYR_VERSION},
        {"process_id", pid},
        {"process_type", who->process_type},
        {"functionname", who->function},
        {"host", source->agentless ? who->host : ""},
        {"container_id", source->agentless ? source->container : ""},
        {"pod_name", source->kubernetes->pod},
        {"kube_namespace", source->kubernetes->name_space},
        {"kube_node", source->kubernetes->node},
        {"git.repository_url", source->git->repository_url},
        {"git.commit.sha", source->git->commit_sha},
        {"python_main_package", source->main_package},
        {"runtime_platform",
#if defined(__x86_64__)
         "x86_64-unknown-linux-gnu"
#elif defined(__aarch64__)
         "aarch64-unknown-linux-gnu"
#else
         ""
#endif
        },
    };
    size_t start = out->length;
    if (bad != NULL && bad_size > 0) {
        bad[0] = '\0';
    }
    for (size_t index = 0; index < sizeof own / sizeof own[0]; index++) {
        add_tag(out, start, own[index].key, own[index].value);
    }
    add_user_tags(out, start, who->tags != NULL ? who->tags : "", bad, bad_size);
    return out->status;
}

/* --------------------------------------------------------------------------- process tags --- */

/* Lower case; what is not a letter, digit or one of / . _ - becomes one '_'; bytes of other scripts
 * stay. Not at the ends. */
static void normalise(const char *text, size_t length, char *out)
{
    size_t used = 0;
    length = length < PROCESS_TAG_BYTES ? length : PROCESS_TAG_BYTES;
    for (size_t index = 0; index < length; index++) {
        unsigned char byte = (unsigned char)text[index];
        bool is_kept = byte >= 0x80 || isalnum(byte) || strchr("/.-", byte) != NULL;
        if (is_kept) {
            out[used++] = (char)(byte < 0x80 ? tolower(byte) : byte);
        } else if (used > 0 && out[used - 1] != '_') {
            out[used++] = '_';
        }
    }
    while (used > 0 && out[used - 1] == '_') {
        used--;
    }
    out[pyr_utf8_valid(out, used)] = '\0';
}

/* The last part of a path. */
static const char *get_base(const char *path, size_t length, size_t *base_length)
{
    const char *slash = memrchr(path, '/', length);
    const char *base = slash != NULL ? slash + 1 : path;
    *base_length = length - (size_t)(base - path);
    return base;
}

static void add_process_tag(pyr_buffer *out, const char *key, const char *text, size_t length)
{
    char value[PROCESS_TAG_BYTES + 1];
    normalise(text, length, value);
    if (value[0] != '\0' && strcmp(value, "bin") != 0 && strcmp(value, "/") != 0) {
        pyr_buffer_format(out, "%s%s:%s", out->length > 0 ? "," : "", key, value);
    }
}

pyr_status pyr_datadog_process_tags(const pyr_datadog_source *source, pyr_buffer *out)
{
    const pyr_export_identity *who = &source->identity;
    const char *program = who->program != NULL ? who->program : "";
    const char *working = source->working_folder != NULL ? source->working_folder : "";
    size_t length;
    const char *name = get_base(program, strlen(program), &length);
    if (!who->is_module) {
        /* The folder of a script without one is where the program was started. */
        size_t folder_length;
        size_t above = name > program ? (size_t)(name - program) - 1 : 0;
        const char *folder = above > 0 ? get_base(program, above, &folder_length)
                                       : get_base(working, strlen(working), &folder_length);
        add_process_tag(out, "entrypoint.basedir", folder, folder_length);
        const char *dot = memrchr(name, '.', length);
        length = dot != NULL && dot > name ? (size_t)(dot - name) : length;
    }
    add_process_tag(out, "entrypoint.name", name, length);
    const char *type = who->is_module ? "module" : "script";
    if (program[0] != '\0') {
        add_process_tag(out, "entrypoint.type", type, strlen(type));
    }
    const char *base = get_base(working, strlen(working), &length);
    add_process_tag(out, "entrypoint.workdir", base, length);
    if (who->service != NULL && who->service[0] != '\0') {
        add_process_tag(out, "svc.user", "true", strlen("true"));
    }
    return out->status;
}

/* ----------------------------------------------------------------------------------- event -- */

static void format_time(int64_t time_ns, char text[TIME_BYTES])
{
    time_t seconds = (time_t)(time_ns / SECOND_NS);
    struct tm fields = {0};
    gmtime_r(&seconds, &fields);
    size_t length = strftime(text, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &fields);
    snprintf(text + length, TIME_BYTES - length, ".%09" PRId64 "Z", time_ns % SECOND_NS);
}

/* A text of the buffer, or null for an empty one; NULL: no memory. */
static json_t *make_text(const pyr_buffer *text)
{
    return text->length > 0 ? json_stringn((const char *)text->data, text->length) : json_null();
}

static json_t *make_value(const pyr_fact *fact)
{
    switch (fact->kind) {
    case PYR_FACT_INTEGER:
        return json_integer(fact->integer);
    case PYR_FACT_REAL:
        return isfinite(fact->real) ? json_real(fact->real) : json_null();
    case PYR_FACT_TEXT:
        break;
    }
    json_t *text = json_string(fact->text);
    return text != NULL ? text : json_null();
}

/* The facts of some sections as "section.key". */
static int add_sections(json_t *object, const pyr_facts *facts, const char *const *sections)
{
    char key[KEY_BYTES];
    int failed = 0;
    for (size_t index = 0; facts != NULL && index < facts->count; index++) {
        const pyr_fact *fact = &facts->rows[index];
        for (const char *const *section = sections; *section != NULL; section++) {
            if (strcmp(fact->section, *section) == 0) {
                snprintf(key, sizeof key, "%s.%s", fact->section, fact->key);
                failed |= json_object_set_new(object, key, make_value(fact));
            }
        }
    }
    return failed;
}

/* Facts that ddtrace tells too, under its names. */
static int add_known(json_t *object, const pyr_export_job *job)
{
    static const struct {
        const char *key, *section, *fact;
        int64_t divisor;
    } KNOWN[] = {
        {"sampling_event_count", "tick", "ticks", 1},
        {"sampling_interval_us", "tick", "interval_ns", 1000},
        {"sample_capture_cpu_time_us", "cost", "sampler_cpu_ns", 1000},
    };
    int failed =
        json_object_set_new(object, "sample_count", json_integer((json_int_t)job->samples));
    for (size_t index = 0; index < sizeof KNOWN / sizeof KNOWN[0]; index++) {
        const pyr_fact *fact =
            job->facts != NULL ? pyr_facts_find(job->facts, KNOWN[index].section, KNOWN[index].fact)
                               : NULL;
        if (fact != NULL && fact->kind == PYR_FACT_INTEGER) {
            failed |= json_object_set_new(object, KNOWN[index].key,
                                          json_integer(fact->integer / KNOWN[index].divisor));
        }
    }
    return failed;
}

/* What the profiler says of itself: its cost and its losses among it. */
static json_t *make_internal(const pyr_export_job *job)
{
    static const char *const sections[] = {"tick",   "cost",     "memory",  "losses",
                                           "reader", "delivery", "sending", NULL};
    json_t *object = json_object();
    if (object != NULL && (add_known(object, job) | add_sections(object, job->facts, sections))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* {"profiler": {"settings": {...}}} with what differs from the defaults. */
static json_t *make_info(const pyr_export_job *job)
{
    json_t *settings = json_object();
    int failed = settings == NULL;
    for (size_t index = 0; job->facts != NULL && index < job->facts->count; index++) {
        const pyr_fact *fact = &job->facts->rows[index];
        if (strcmp(fact->section, "settings") == 0) {
            failed |= json_object_set_new(settings, fact->key, make_value(fact));
        }
    }
    json_t *profiler = json_object();
    json_t *info = json_object();
    failed |= json_object_set_new(profiler, "settings", settings);
    failed |= json_object_set_new(info, "profiler", profiler);
    if (failed) {
        json_decref(info);
        return NULL;
    }
    return info;
}

/* Requests by endpoint, as the program's labels say; null where it says nothing of them. */
static json_t *make_counts(const pyr_facts *facts)
{
    size_t count = facts != NULL ? facts->request_count : 0;
    json_t *counts = count > 0 ? json_object() : json_null();
    int failed = 0;
    for (size_t index = 0; index < count; index++) {
        failed |= json_object_set_new(counts, facts->requests[index].endpoint,
                                      json_integer((json_int_t)facts->requests[index].count));
    }
    if (failed) {
        json_decref(counts);
        return NULL;
    }
    return counts;
}

static int dump(const char *text, size_t length, void *buffer)
{
    return pyr_buffer_append(buffer, text, length) == PYR_OK ? 0 : -1;
}

static int fill(json_t *root, const pyr_datadog_source *source, const pyr_export_job *job,
                const char *const *attachments, pyr_buffer *tags, pyr_buffer *process_tags)
{
    char start[TIME_BYTES], end[TIME_BYTES];
    json_t *names = json_array();
    int failed = names == NULL;
    for (; *attachments != NULL; attachments++) {
        failed |= json_array_append_new(names, json_string(*attachments));
    }
    failed |= pyr_datadog_tags(source, tags, NULL, 0) != PYR_OK;
    failed |= pyr_datadog_process_tags(source, process_tags) != PYR_OK;
    format_time(job->start_ns, start);
    format_time(job->end_ns, end);
    failed |= json_object_set_new(root, "attachments", names);
    failed |= json_object_set_new(root, "tags_profiler", make_text(tags));
    failed |= json_object_set_new(root, "start", json_string(start));
    failed |= json_object_set_new(root, "end", json_string(end));
    failed |= json_object_set_new(root, "family", json_string("python"));
    failed |= json_object_set_new(root, "version", json_string("4"));
    failed |= json_object_set_new(root, "endpoint_counts", make_counts(job->facts));
    failed |= json_object_set_new(root, "process_tags", make_text(process_tags));
    failed |= json_object_set_new(root, "internal", make_internal(job));
    failed |= json_object_set_new(root, "info", make_info(job));
    return failed;
}

pyr_status pyr_datadog_event(const pyr_datadog_source *source, const pyr_export_job *job,
                             const char *const *attachments, pyr_buffer *out)
{
    pyr_buffer tags, process_tags;
    pyr_status status = PYR_ENOMEM;
    json_t *root = json_object();
    pyr_buffer_init(&tags, TAGS_BYTES);
    pyr_buffer_init(&process_tags, TAGS_BYTES);
    if (root != NULL && fill(root, source, job, attachments, &tags, &process_tags) == 0) {
        bool written = json_dump_callback(root, dump, out, JSON_COMPACT) == 0;
        status = written ? PYR_OK : out->status != PYR_OK ? out->status : PYR_ENOMEM;
    }
    json_decref(root);
    pyr_buffer_fini(&tags);
    pyr_buffer_fini(&process_tags);
    return status;
}
