/* The interface of every exporter, and the table of them. One target is one file and one row. */
#ifndef PYR_EXPORT_EXPORTER_H
#define PYR_EXPORT_EXPORTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "model/facts.h"
#include "pprof/writer.h"

/* Whose profiles these are. Texts are borrowed for as long as an exporter is open; "" or NULL where
 * unknown. */
typedef struct pyr_export_identity {
    const char *service, *env, *version;
    const char *tags; /* "key:value,key:value", as the user wrote it */
    const char *host, *runtime_id;
    const char *process_type; /* "main", "worker" */
    const char *python;       /* "3.13.0" */
    const char *program;      /* the script's path, or the module's name */
    bool is_module;           /* `program` was run by -m */
    const char *function;     /* of a serverless platform */
    int64_t pid;
} pyr_export_identity;

/* An encoded window, borrowed for the call. */
typedef struct pyr_export_job {
    const uint8_t *profile;
    size_t profile_length;
    const uint8_t *document;
    size_t document_length;
    const pyr_facts *facts;   /* what the document says, but for the window itself */
    uint64_t samples;         /* in the profile */
    int64_t start_ns, end_ns; /* Unix time */
    int64_t pid;
    uint64_t sequence;
} pyr_export_job;

/* All texts are borrowed for the call of `open`, but for those of the identity; NULL is as good as
 * "". */
typedef struct pyr_exporter_options {
    const char *output_prefix; /* OUTPUT_PPROF: path prefix; NULL = default folder */
    int64_t output_max_bytes;  /* cap of what is kept under the prefix; 0 = none */
    int64_t output_max_age_s;  /* files older than this are removed; 0 = none */

    pyr_export_identity identity;
    const char *urls;       /* URL: where to send to, parted by commas */
    const char *agent_host; /* AGENT_HOST, with its port */
    int64_t agent_port;
    bool agentless; /* straight to Datadog's intake, with a key */
    const char *api_key, *site, *intake_url;
    const char *https_proxy;  /* for the intake only */
    const char *http_headers; /* "name:value,name:value", added to each request */
    const char *ca_file;
    const char *external_env;
    int64_t timeout_ns; /* of one request */
    const char *spool_folder;
    int64_t spool_max_bytes, spool_max_age_ns;

    bool code_provenance;
    const char *main_package;           /* a distribution that is the user's own code */
    const char *stdlib, *library_paths; /* folders; the latter parted by '\n' */
    bool git_metadata;                  /* ask the working folder's .git for what is not given */
    const char *git_repository_url, *git_commit_sha;

    /* A monotonic time that may come nearer at any moment, when the program ends: whoever waits
     * looks at it. NULL = none. */
    const _Atomic int64_t *hurry_ns;

    /* What pyr_delivery_open says of the targets before this one. */
    size_t targets_open;
    const char *place; /* one of what `places` gave */
} pyr_exporter_options;

enum { PYR_LIMIT_PLACES = 4, PYR_LIMIT_PLACE_BYTES = 512 };

typedef struct pyr_export_places {
    size_t count;
    char texts[PYR_LIMIT_PLACES][PYR_LIMIT_PLACE_BYTES];
} pyr_export_places;

typedef struct pyr_exporter_class {
    const char *name;                  /* "file" */
    pyr_pprof_compression compression; /* what it wants */
    /* `why` gets one sentence that says what to do, on failure. PYR_OK with a `why` that is not
     * empty: it is open, but could not deliver now; each send tries anew. */
    pyr_status (*open)(const pyr_exporter_options *options, void **exporter, char *why,
                       size_t why_size);
    void (*close)(void *exporter);
    /* Delivers one window before the monotonic `deadline_ns`. Never concurrent with itself. Besides
     * PYR_OK and failures after which the window is offered again:
     * PYR_EKEPT: the exporter has it safely on disk, and sends it by itself in a later call;
     * PYR_EREFUSED: nobody will ever take it, and it is dropped;
     * PYR_ENOTSUP: this exporter can do nothing in this process, use another.
     * In all but PYR_OK `why` is one sentence. */
    pyr_status (*send)(void *exporter, const pyr_export_job *job, int64_t deadline_ns, char *why,
                       size_t why_size);
    /* Where it goes, for the start line: "files ./pyrometer-profiles/app.1234.*.pprof". Any thread.
     */
    void (*describe)(void *exporter, char *text, size_t size);

    /* The rest may be NULL. */

    /* Which places the settings ask for, each of which is opened: none, or several. NULL: one. What
     * is wrong with them is a line in the log. */
    void (*places)(const pyr_exporter_options *options, pyr_export_places *places);
    /* Adds what it knows of itself. Any thread. */
    void (*facts)(const void *exporter, pyr_facts *facts);
    bool is_last_resort; /* takes the place of one that said PYR_ENOTSUP */
} pyr_exporter_class;

extern const pyr_exporter_class *const pyr_exporter_classes[];

#endif
