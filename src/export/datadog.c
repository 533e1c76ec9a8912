/* The exporter to Datadog's intake: through an Agent, a server of our own that speaks the same, or
 * straight to the intake with a key.
 *
 *     places  which receivers the settings ask for, or what is found on this machine
 *     send    first: load libcurl, see who answers, learn where the process runs
 *             body: event.json, code-provenance.json, pyrometer.json (ours only), profile.pprof
 *             outbox: sends it, or keeps it on disk
 *
 * All that costs time happens at the first send, on the exporter's thread; opening takes
 * microseconds. Owns its texts and the outbox. Format: libdatadog, libdd-profiling/src/exporter.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "export/address.h"
#include "export/datadog_event.h"
#include "export/exporter.h"
#include "export/http.h"
#include "export/multipart.h"
#include "export/outbox.h"
#include "export/provenance.h"
#include "export/recompress.h"
#include "export/surroundings.h"
#include "os/claim.h"
#include "os/os.h"

#define AGENT_PATH "/profiling/v1/input"
#define INTAKE_PATH "/api/v2/profile"
#define AGENT_SOCKET "/var/run/datadog/apm.socket"
#define OWN_SERVER "http://127.0.0.1:4077"
#define INTAKE_MARK "intake " /* of a place, before its address */
#define FOUND_MARK "found "   /* of a place that nobody asked for */

enum {
    OWN_SERVER_PORT = 4077,
    BODY_BYTES = 16 << 20, /* more the intake does not take */
    EVENT_BYTES = 1 << 20,
    HEADERS_BYTES = 1 << 12,
    TEXT_BYTES = 512,
    PATHS_BYTES = 1 << 16,
};

static const int64_t ASK_NS = 1000000000;      /* whose server it is */
static const int64_t ASK_FOUND_NS = 200000000; /* ... that nobody asked for */

typedef struct texts { /* what must outlive `open` */
    char main_package[TEXT_BYTES], external_env[TEXT_BYTES], stdlib[PYR_LIMIT_PATH_BYTES];
    char library_paths[PATHS_BYTES], spool_folder[PYR_LIMIT_PATH_BYTES];
    char working_folder[PYR_LIMIT_PATH_BYTES];
} texts;

typedef struct datadog {
    pyr_address address;
    bool is_intake, is_found;
    bool code_provenance, git_metadata;
    texts texts;
    pyr_outbox *outbox;
    pyr_datadog_source source;
    pyr_kubernetes kubernetes;
    pyr_git git;
    char container[PYR_LIMIT_CONTAINER_ID], entity[PYR_LIMIT_CONTAINER_ID];
    pyr_buffer provenance; /* compressed; empty = none */
    bool knows_surroundings, knows_receiver;
    _Atomic bool is_own_server;
} datadog;

/* ---------------------------------------------------------------------------------- places --- */

static void add_place(pyr_export_places *places, const char *mark, const char *url, size_t length)
{
    if (length == 0) {
        return;
    }
    if (places->count == PYR_LIMIT_PLACES) {
        pyr_log_add(PYR_LOG_WARNING, "only the first %d addresses to send to are used",
                    PYR_LIMIT_PLACES);
        return;
    }
    snprintf(places->texts[places->count++], PYR_LIMIT_PLACE_BYTES, "%s%.*s", mark, (int)length,
             url);
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Without a setting: the Agent's socket, else our own server, if they are there. A prefix for files
 * is such a setting. */
static void find_places(const pyr_exporter_options *options, pyr_export_places *places)
{
    if (is_set(options->output_prefix)) {
        return;
    }
    if (pyr_os_listens_unix(AGENT_SOCKET)) {
        add_place(places, "", AGENT_SOCKET, strlen(AGENT_SOCKET));
    } else if (pyr_os_listens_loopback(OWN_SERVER_PORT)) {
        add_place(places, FOUND_MARK, OWN_SERVER, strlen(OWN_SERVER));
    }
}

static void choose_places(const pyr_exporter_options *options, pyr_export_places *places)
{
    char text[PYR_LIMIT_PLACE_BYTES];
    places->count = 0;
    if (options->agentless && is_set(options->api_key)) {
        const char *intake = options->intake_url;
        if (!is_set(intake)) {
            snprintf(text, sizeof text, "https://intake.profile.%s", options->site);
            intake = text;
        }
        add_place(places, INTAKE_MARK, intake, strlen(intake));
        return;
    }
    if (options->agentless) {
        pyr_log_add(PYR_LOG_WARNING, "profiles cannot go straight to Datadog without a key: set "
                                     "PYROMETER_API_KEY or DD_API_KEY");
    }
    if (is_set(options->urls)) {
        size_t length;
        const char *rest = options->urls;
        const char *url = pyr_address_next(&rest, &length);
        for (; length > 0; url = pyr_address_next(&rest, &length)) {
            add_place(places, "", url, length);
        }
    } else if (is_set(options->agent_host)) {
        const char *host = options->agent_host;
        bool is_ipv6 = strchr(host, ':') != NULL && host[0] != '[';
        snprintf(text, sizeof text, is_ipv6 ? "http://[%s]:%d" : "http://%s:%d", host,
                 (int)options->agent_port);
        add_place(places, "", text, strlen(text));
    } else {
        find_places(options, places);
    }
}

/* ----------------------------------------------------------------------------------- opening ---
 */

static void copy(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text != NULL ? text : "");
}

static void close_datadog(void *exporter)
{
    datadog *made = exporter;
    if (made != NULL) {
        pyr_outbox_free(made->outbox);
        pyr_buffer_fini(&made->provenance);
        pyr_memory_free(made);
    }
}

static bool take_mark(const char **place, const char *mark)
{
    size_t length = strlen(mark);
    if (strncmp(*place, mark, length) != 0) {
        return false;
    }
    *place += length;
    return true;
}

static void take_options(datadog *made, const pyr_exporter_options *options)
{
    texts *kept = &made->texts;
    made->code_provenance = options->code_provenance;
    made->git_metadata = options->git_metadata;
    copy(kept->main_package, sizeof kept->main_package, options->main_package);
    copy(kept->external_env, sizeof kept->external_env, options->external_env);
    copy(kept->stdlib, sizeof kept->stdlib, options->stdlib);
    copy(kept->library_paths, sizeof kept->library_paths, options->library_paths);
    copy(kept->spool_folder, sizeof kept->spool_folder, options->spool_folder);
    copy(made->git.repository_url, sizeof made->git.repository_url, options->git_repository_url);
    copy(made->git.commit_sha, sizeof made->git.commit_sha, options->git_commit_sha);
    if (pyr_os_working_folder(kept->working_folder, sizeof kept->working_folder) != PYR_OK) {
        kept->working_folder[0] = '\0';
    }
    pyr_kubernetes_find(options->identity.host != NULL ? options->identity.host : "",
                        &made->kubernetes);
    made->source = (pyr_datadog_source){
        .identity = options->identity,
        .container = made->container,
        .kubernetes = &made->kubernetes,
        .git = &made->git,
        .main_package = kept->main_package,
        .working_folder = kept->working_folder,
        .agentless = made->is_intake,
    };
}

/* A tag that cannot be sent is said once, when it can still be mended. */
static void warn_of_tags(const datadog *made)
{
    char bad[TEXT_BYTES];
    pyr_buffer tags;
    pyr_buffer_init(&tags, PATHS_BYTES);
    if (pyr_datadog_tags(&made->source, &tags, bad, sizeof bad) == PYR_OK && bad[0] != '\0') {
        pyr_log_add(PYR_LOG_WARNING, "the tag \"%.80s\" is left out: name:value is expected", bad);
    }
    pyr_buffer_fini(&tags);
}

static pyr_status open_datadog(const pyr_exporter_options *options, void **exporter, char *why,
                               size_t why_size)
{
    pyr_status status = PYR_ENOMEM;
    char key_header[TEXT_BYTES] = "";
    const char *place = options->place != NULL ? options->place : "";
    snprintf(why, why_size, "out of memory");
    datadog *made = pyr_memory_new(1, sizeof *made);
    if (made == NULL) {
        return PYR_ENOMEM;
    }
    pyr_buffer_init(&made->provenance, BODY_BYTES);
    made->is_intake = take_mark(&place, INTAKE_MARK);
    made->is_found = take_mark(&place, FOUND_MARK);
    status = pyr_address_parse(place, &made->address);
    if (status != PYR_OK) {
        pyr_address_explain(place, status, why, why_size);
        goto out;
    }
    take_options(made, options);
    if (made->is_intake) {
        snprintf(key_header, sizeof key_header, "DD-API-KEY: %s\n", options->api_key);
    }
    status = PYR_ENOMEM;
    made->outbox = pyr_outbox_new(&made->address, made->is_intake ? INTAKE_PATH : AGENT_PATH,
                                  key_header, made->is_intake, options);
    if (made->outbox == NULL) {
        goto out;
    }
    if (options->targets_open == 0) {
        warn_of_tags(made);
    }
    why[0] = '\0';
    *exporter = made;
    status = PYR_OK;
out:
    if (status != PYR_OK) {
        close_datadog(made);
    }
    return status;
}

/* ---------------------------------------------------------------------------- surroundings --- */

static void make_provenance(datadog *made)
{
    const texts *kept = &made->texts;
    const pyr_provenance_options options = {
        .python = made->source.identity.python != NULL ? made->source.identity.python : "",
        .stdlib = kept->stdlib,
        .library_paths = kept->library_paths,
        .main_package = kept->main_package,
    };
    pyr_buffer text;
    pyr_buffer_init(&text, PYR_LIMIT_PROVENANCE_BYTES);
    pyr_status status = pyr_provenance_get(&options, kept->spool_folder, &text);
    if (status != PYR_OK || pyr_recompress(text.data, text.length, text.length, PYR_PPROF_ZSTD,
                                           &made->provenance) != PYR_OK) {
        pyr_buffer_fini(&made->provenance); /* a profile without it stays meaningful */
    }
    pyr_buffer_fini(&text);
}

static void learn_surroundings(datadog *made)
{
    if (made->knows_surroundings) {
        return;
    }
    made->knows_surroundings = true;
    pyr_entity_id(made->container, made->entity);
    if (made->git_metadata &&
        (made->git.repository_url[0] == '\0' || made->git.commit_sha[0] == '\0')) {
        pyr_git found;
        pyr_git_find(made->texts.working_folder, &found);
        if (made->git.repository_url[0] == '\0') {
            copy(made->git.repository_url, sizeof made->git.repository_url, found.repository_url);
        }
        if (made->git.commit_sha[0] == '\0') {
            copy(made->git.commit_sha, sizeof made->git.commit_sha, found.commit_sha);
        }
    }
    if (made->code_provenance) {
        make_provenance(made);
    }
}

/* Our own server gets more than Datadog's intake does. PYR_ENOTSUP: what was found on its port is
 * something else. */
static pyr_status learn_receiver(datadog *made, int64_t deadline_ns, char *why, size_t why_size)
{
    bool is_own = false;
    if (made->knows_receiver || made->is_intake) {
        return PYR_OK;
    }
    pyr_status status = pyr_outbox_ask(
        made->outbox, "/healthz", made->is_found ? ASK_FOUND_NS : ASK_NS, deadline_ns, &is_own);
    if (made->is_found && !is_own) {
        snprintf(why, why_size, "no `pyrometer serve` answers at " OWN_SERVER);
        return PYR_ENOTSUP;
    }
    made->knows_receiver = status == PYR_OK;
    atomic_store(&made->is_own_server, is_own);
    return PYR_OK;
}

/* ----------------------------------------------------------------------------------- sending ---
 */

/* Header lines of the request; no secrets, since they are kept on disk with it. */
static pyr_status make_headers(const datadog *made, const char *boundary, pyr_buffer *out)
{
    pyr_buffer_format(out,
                      "DD-EVP-ORIGIN: pyrometer\nDD-EVP-ORIGIN-VERSION: " PYR_VERSION
                      "\nContent-Type: multipart/form-data; boundary=%s\n",
                      boundary);
    if (made->container[0] != '\0') {
        pyr_buffer_format(out, "datadog-container-id: %s\n", made->container);
    }
    if (made->entity[0] != '\0') {
        pyr_buffer_format(out, "datadog-entity-id: %s\n", made->entity);
    }
    const char *external_env = made->texts.external_env;
    if (external_env[0] != '\0' && external_env[strcspn(external_env, "\r\n")] == '\0') {
        pyr_buffer_format(out, "datadog-external-env: %s\n", external_env);
    }
    return pyr_buffer_append(out, "", 1);
}

static pyr_status make_body(const datadog *made, const pyr_export_job *job, const char *boundary,
                            pyr_buffer *out)
{
    const char *attachments[4] = {NULL};
    size_t count = 0;
    bool is_own = atomic_load(&made->is_own_server);
    pyr_buffer event;
    pyr_buffer_init(&event, EVENT_BYTES);
    if (made->provenance.length > 0) {
        attachments[count++] = "code-provenance.json";
    }
    if (is_own) {
        attachments[count++] = "pyrometer.json";
    }
    attachments[count] = "profile.pprof";
    pyr_status status = pyr_datadog_event(&made->source, job, attachments, &event);
    if (status == PYR_OK) {
        pyr_multipart_add(out, boundary, "event", "event.json", "application/json", event.data,
                          event.length);
        if (made->provenance.length > 0) {
            pyr_multipart_add(out, boundary, "code-provenance.json", "code-provenance.json", NULL,
                              made->provenance.data, made->provenance.length);
        }
        if (is_own) {
            pyr_multipart_add(out, boundary, "pyrometer.json", "pyrometer.json", "application/json",
                              job->document, job->document_length);
        }
        pyr_multipart_add(out, boundary, "profile.pprof", "profile.pprof", NULL, job->profile,
                          job->profile_length);
        pyr_multipart_end(out, boundary);
        status = out->status;
    }
    pyr_buffer_fini(&event);
    return status;
}

static pyr_status send_datadog(void *exporter, const pyr_export_job *job, int64_t deadline_ns,
                               char *why, size_t why_size)
{
    datadog *made = exporter;
    char boundary[PYR_LIMIT_BOUNDARY];
    pyr_buffer headers, body;
    pyr_status status = pyr_http_load(why, why_size);
    if (status == PYR_OK) {
        status = learn_receiver(made, deadline_ns, why, why_size);
    }
    if (status != PYR_OK) {
        return status;
    }
    learn_surroundings(made);
    pyr_buffer_init(&headers, HEADERS_BYTES);
    pyr_buffer_init(&body, BODY_BYTES);
    pyr_multipart_boundary(boundary);
    status = make_headers(made, boundary, &headers);
    if (status == PYR_OK) {
        status = make_body(made, job, boundary, &body);
    }
    if (status == PYR_OK) {
        status = pyr_outbox_send(made->outbox, job->end_ns, (const char *)headers.data, &body,
                                 deadline_ns, why, why_size);
    } else if (status == PYR_ETOOBIG) {
        snprintf(why, why_size,
                 "a profile of %zu bytes is more than the intake takes: shorten "
                 "PYROMETER_UPLOAD_INTERVAL",
                 job->profile_length);
        status = PYR_EREFUSED;
    }
    pyr_buffer_fini(&headers);
    pyr_buffer_fini(&body);
    return status;
}

static void describe_datadog(void *exporter, char *text, size_t size)
{
    const datadog *made = exporter;
    const char *name = made->is_intake                     ? "Datadog"
                       : atomic_load(&made->is_own_server) ? "pyrometer serve"
                       : made->is_found                    ? "pyrometer serve (else files)"
                                                           : "the Datadog Agent";
    if (made->address.socket[0] != '\0') {
        snprintf(text, size, "%s at unix://%s", name, made->address.socket);
    } else {
        snprintf(text, size, "%s at %s", name, made->address.base);
    }
}

static void add_facts(const void *exporter, pyr_facts *facts)
{
    pyr_outbox_facts(((const datadog *)exporter)->outbox, facts);
}

extern const pyr_exporter_class pyr_exporter_datadog;

const pyr_exporter_class pyr_exporter_datadog = {
    .name = "datadog",
    .compression = PYR_PPROF_ZSTD,
    .open = open_datadog,
    .close = close_datadog,
    .send = send_datadog,
    .describe = describe_datadog,
    .places = choose_places,
    .facts = add_facts,
};
