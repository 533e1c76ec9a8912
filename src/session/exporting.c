/* Options of exporters; see the header. Stateless; the thread that starts the profiler. */
#include "session/exporting.h"

#include <inttypes.h>
#include <stdio.h>

#include "os/os.h"

static const int64_t SECOND_NS = 1000000000;
static const int64_t MILLISECOND_NS = 1000000;

void pyr_exporting_folder(const char *setting, const char *name, char *folder, size_t size)
{
    char base[PYR_LIMIT_PATH_BYTES / 2];
    if (setting[0] == '/') {
        snprintf(folder, size, "%s", setting);
    } else if (setting[0] != '\0' && pyr_os_working_folder(base, sizeof base) == PYR_OK) {
        snprintf(folder, size, "%s/%s", base, setting);
    } else {
        pyr_os_temporary_folder(base, sizeof base);
        snprintf(folder, size, "%s/%s-%" PRIu64, base, name, pyr_os_user());
    }
}

static pyr_export_identity describe_process(const pyr_settings *settings,
                                            const pyr_identity *identity, const pyr_host *host)
{
    return (pyr_export_identity){
        .service = pyr_settings_text(settings, PYR_SETTING_SERVICE),
        .env = pyr_settings_text(settings, PYR_SETTING_ENV),
        .version = pyr_settings_text(settings, PYR_SETTING_VERSION),
        .tags = pyr_settings_text(settings, PYR_SETTING_TAGS),
        .host = identity->host,
        .runtime_id = identity->runtime_id,
        .process_type = identity->parent_runtime_id[0] != '\0' ? "worker" : "main",
        .python = identity->python,
        .program = host->program,
        .is_module = host->is_module,
        .function = pyr_settings_text(settings, PYR_SETTING_FUNCTION_NAME),
        .pid = identity->pid,
    };
}

void pyr_exporting_options(const pyr_settings *settings, const pyr_identity *identity,
                           const pyr_host *host, pyr_exporting *texts,
                           pyr_exporter_options *options)
{
    const char *prefix = pyr_settings_text(settings, PYR_SETTING_OUTPUT_PPROF);
    pyr_exporting_folder(pyr_settings_text(settings, PYR_SETTING_SPOOL_DIR), "pyrometer-spool",
                         texts->spool_folder, sizeof texts->spool_folder);
    *options = (pyr_exporter_options){
        .output_prefix = prefix[0] != '\0' ? prefix : NULL,
        .output_max_bytes = pyr_settings_integer(settings, PYR_SETTING_OUTPUT_MAX_BYTES),
        .output_max_age_s = pyr_settings_integer(settings, PYR_SETTING_OUTPUT_MAX_AGE) / SECOND_NS,
        .identity = describe_process(settings, identity, host),
        .urls = pyr_settings_text(settings, PYR_SETTING_URL),
        .agent_host = pyr_settings_text(settings, PYR_SETTING_AGENT_HOST),
        .agent_port = pyr_settings_integer(settings, PYR_SETTING_AGENT_PORT),
        .agentless = pyr_settings_bool(settings, PYR_SETTING_AGENTLESS),
        .api_key = pyr_settings_text(settings, PYR_SETTING_API_KEY),
        .site = pyr_settings_text(settings, PYR_SETTING_SITE),
        .intake_url = pyr_settings_text(settings, PYR_SETTING_INTAKE_URL),
        .https_proxy = pyr_settings_text(settings, PYR_SETTING_HTTPS_PROXY),
        .http_headers = pyr_settings_text(settings, PYR_SETTING_HTTP_HEADERS),
        .ca_file = pyr_settings_text(settings, PYR_SETTING_TLS_CA_FILE),
        .external_env = pyr_settings_text(settings, PYR_SETTING_EXTERNAL_ENV),
        .timeout_ns = pyr_settings_integer(settings, PYR_SETTING_API_TIMEOUT_MS) * MILLISECOND_NS,
        .spool_folder = texts->spool_folder,
        .spool_max_bytes = pyr_settings_integer(settings, PYR_SETTING_SPOOL_MAX_BYTES),
        .spool_max_age_ns = pyr_settings_integer(settings, PYR_SETTING_SPOOL_MAX_AGE),
        .code_provenance = pyr_settings_bool(settings, PYR_SETTING_ENABLE_CODE_PROVENANCE),
        .main_package = pyr_settings_text(settings, PYR_SETTING_MAIN_PACKAGE),
        .stdlib = host->stdlib,
        .library_paths = host->library_paths,
        .git_metadata = pyr_settings_bool(settings, PYR_SETTING_GIT_METADATA_ENABLED),
        .git_repository_url = pyr_settings_text(settings, PYR_SETTING_GIT_REPOSITORY_URL),
        .git_commit_sha = pyr_settings_text(settings, PYR_SETTING_GIT_COMMIT_SHA),
    };
}
