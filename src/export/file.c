/* The file exporter: a window becomes `<prefix>.<pid>.<sequence>.pprof` (gzip) and its `.json`.
 *
 * Files are written under a hidden temporary name in the same folder and then given the next free
 * sequence, never over another file, so that a reader sees whole profiles only and a restarted
 * container (pid 1 again) overwrites nothing. Without a prefix the target is a folder below the
 * working folder, else below the temporary one; a prefix that somebody asked for is never
 * replaced by another place. The folder is made again when it is gone; each window tries anew.
 *
 * Owned by the exporter's thread, but for describe, which any thread may call.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/memory.h"
#include "export/exporter.h"
#include "export/profile_files.h"
#include "os/os.h"

#define DEFAULT_FOLDER "pyrometer-profiles"

enum {
    PLACES = 3,
    FILE_PATH_BYTES = PYR_LIMIT_PATH_BYTES + PYR_PROFILE_NAME_BYTES + 64,
    NAME_TRIES = 1000, /* names that others took between our look and our claim */
};

typedef struct file_exporter {
    char places[PLACES][PYR_LIMIT_PATH_BYTES]; /* folders, the best first; never changed */
    size_t place_count;
    atomic_size_t place; /* the one in use */
    char name[PYR_PROFILE_NAME_BYTES];
    int64_t max_bytes, max_age_s;
    int64_t pid; /* whose sequence is known, in which place; 0 = nobody's */
    size_t pid_place;
    uint64_t next_sequence;
} file_exporter;

/* ----------------------------------------------------------------------------------- opening ---
 */

/* What an engineer can do about it. */
static void explain(const char *folder, pyr_status status, char *why, size_t why_size)
{
    static const char other[] = "or set PYROMETER_OUTPUT_PPROF to a prefix elsewhere";
    switch (status) {
    case PYR_EPERM:
        snprintf(why, why_size, "%s cannot be written to: make it writable for this user, %s",
                 folder, other);
        break;
    case PYR_ENOSPC:
        snprintf(why, why_size,
                 "no space is left for profiles in %s: free some, lower "
                 "PYROMETER_OUTPUT_MAX_BYTES, %s",
                 folder, other);
        break;
    case PYR_EEXIST:
        snprintf(why, why_size, "%s is in the way, it is no folder: move it, %s", folder, other);
        break;
    default:
        snprintf(why, why_size, "%s cannot be used for profiles (%s): check the path, %s", folder,
                 pyr_status_text(status), other);
        break;
    }
}

/* Folders for those who named none. A folder in the shared temporary one must be our own: with
 * another's, that user could read or remove what we write. */
static void find_default_places(file_exporter *exporter)
{
    char base[PYR_LIMIT_PATH_BYTES - 64];
    if (pyr_os_working_folder(base, sizeof base) == PYR_OK) {
        snprintf(exporter->places[exporter->place_count++], PYR_LIMIT_PATH_BYTES,
                 "%s/" DEFAULT_FOLDER, strcmp(base, "/") == 0 ? "" : base);
    }
    pyr_os_temporary_folder(base, sizeof base);
    snprintf(exporter->places[exporter->place_count++], PYR_LIMIT_PATH_BYTES, "%s/" DEFAULT_FOLDER,
             base);
    snprintf(exporter->places[exporter->place_count++], PYR_LIMIT_PATH_BYTES,
             "%s/" DEFAULT_FOLDER "-%" PRIu64, base, pyr_os_user());
    memcpy(exporter->name, "profile", sizeof "profile");
}

/* Makes the folder of a place where needed; PYR_OK: files can be made there. */
static pyr_status prepare(const file_exporter *exporter, size_t place)
{
    const char *folder = exporter->places[place];
    pyr_status status = pyr_os_folder_make(folder);
    if (status == PYR_OK) {
        status = pyr_os_folder_check(folder);
    }
    if (status == PYR_OK && place > 0 && !pyr_os_folder_is_own(folder)) {
        status = PYR_EPERM;
    }
    return status;
}

static void close_file(void *exporter)
{
    pyr_memory_free(exporter);
}

static pyr_status open_file(const pyr_exporter_options *options, void **exporter, char *why,
                            size_t why_size)
{
    file_exporter *made = pyr_memory_new(1, sizeof *made);
    if (!made) {
        snprintf(why, why_size, "out of memory");
        return PYR_ENOMEM;
    }
    made->max_bytes = options->output_max_bytes;
    made->max_age_s = options->output_max_age_s;
    if (options->output_prefix) {
        pyr_status status =
            pyr_profile_files_resolve(options->output_prefix, made->places[0], made->name);
        if (status != PYR_OK) {
            explain(options->output_prefix, status, why, why_size);
            close_file(made);
            return status;
        }
        made->place_count = 1;
    } else {
        find_default_places(made);
    }
    /* Whoever can be told now should not wait a window for it. It may also mend itself. */
    pyr_status status = PYR_EPERM;
    size_t place = 0;
    while (place < made->place_count && (status = prepare(made, place)) != PYR_OK) {
        place++;
    }
    if (status != PYR_OK) {
        place = 0;
        explain(made->places[place], status, why, why_size);
    }
    atomic_store(&made->place, place);
    *exporter = made;
    return PYR_OK;
}

/* ----------------------------------------------------------------------------------- sending ---
 */

/* Writes bytes under a new hidden name. */
static pyr_status write_hidden(const char *folder, const uint8_t *bytes, size_t length, char *path,
                               size_t size)
{
    pyr_status status = PYR_EEXIST;
    for (int i = 0; i < NAME_TRIES && status == PYR_EEXIST; i++) {
        pyr_profile_files_temporary(folder, path, size);
        status = pyr_os_file_write(path, bytes, length);
    }
    return status;
}

/* Gives the finished files their names. */
static pyr_status publish(file_exporter *exporter, size_t place, int64_t pid, const char *profile,
                          const char *document)
{
    const char *folder = exporter->places[place];
    char path[FILE_PATH_BYTES];
    pyr_status status = PYR_OK;
    if (exporter->pid != pid || exporter->pid_place != place) {
        uint64_t highest = 0;
        status = pyr_profile_files_highest(folder, exporter->name, (uint64_t)pid, &highest);
        exporter->pid = pid;
        exporter->pid_place = place;
        exporter->next_sequence = highest + 1;
    }
    for (int i = 0; i < NAME_TRIES && status == PYR_OK; i++) {
        uint64_t sequence = exporter->next_sequence++;
        snprintf(path, sizeof path, "%s/%s.%" PRId64 ".%" PRIu64 ".pprof", folder, exporter->name,
                 pid, sequence);
        pyr_status published = pyr_os_file_publish(profile, path);
        if (published == PYR_EEXIST) {
            continue; /* another container with our pid, or an older one's */
        }
        status = published;
        if (status == PYR_OK) {
            size_t length = strlen(path);
            snprintf(path + length, sizeof path - length, ".json");
            if (pyr_os_file_publish(document, path) != PYR_OK) {
                pyr_os_file_remove(document); /* a profile without it stays meaningful */
            }
            pyr_profile_files_prune(folder, exporter->name, exporter->max_bytes,
                                    exporter->max_age_s, (uint64_t)pid, sequence);
        }
        return status;
    }
    return status != PYR_OK ? status : PYR_EEXIST;
}

static pyr_status deliver(file_exporter *exporter, size_t place, const pyr_export_job *job)
{
    char profile[FILE_PATH_BYTES], document[FILE_PATH_BYTES];
    const char *folder = exporter->places[place];
    pyr_status status = prepare(exporter, place);
    if (status != PYR_OK) {
        return status;
    }
    status = write_hidden(folder, job->profile, job->profile_length, profile, sizeof profile);
    if (status != PYR_OK) {
        return status;
    }
    status = write_hidden(folder, job->document, job->document_length, document, sizeof document);
    if (status == PYR_OK) {
        status = publish(exporter, place, job->pid, profile, document);
        if (status != PYR_OK) {
            pyr_os_file_remove(document);
        }
    }
    if (status != PYR_OK) {
        pyr_os_file_remove(profile);
    }
    return status;
}

static pyr_status send_file(void *context, const pyr_export_job *job, int64_t deadline_ns,
                            char *why, size_t why_size)
{
    file_exporter *exporter = context;
    (void)deadline_ns; /* no write to a disk can be interrupted; who waits has a deadline instead */
    pyr_status first = PYR_OK;
    for (size_t place = 0; place < exporter->place_count; place++) {
        pyr_status status = deliver(exporter, place, job);
        if (status == PYR_OK) {
            atomic_store(&exporter->place, place);
            return PYR_OK;
        }
        if (place == 0) {
            first = status;
        }
    }
    explain(exporter->places[0], first, why, why_size);
    return first;
}

static void describe_file(void *context, char *text, size_t size)
{
    file_exporter *exporter = context;
    snprintf(text, size, "files %s/%s.%" PRId64 ".*.pprof",
             exporter->places[atomic_load(&exporter->place)], exporter->name, pyr_os_process());
}

/* Files are for who asked for them, and for who has nowhere else to send to. */
static void choose_files(const pyr_exporter_options *options, pyr_export_places *places)
{
    places->count = options->output_prefix != NULL || options->targets_open == 0;
}

const pyr_exporter_class pyr_exporter_file = {
    .name = "file",
    .compression = PYR_PPROF_GZIP,
    .open = open_file,
    .close = close_file,
    .send = send_file,
    .describe = describe_file,
    .places = choose_files,
    .is_last_resort = true,
};
