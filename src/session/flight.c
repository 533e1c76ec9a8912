/* The flight recorder; see the header.
 *
 * Owns a recorder, one thread, and what is in its file. Hooks only add to the recorder, which is
 * memory of the process: nothing of the program ever waits for the file, and a full or broken disk
 * is an error that a write returns, never a signal, as it would be for a mapping of the file.
 */
#include "session/flight.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memory.h"
#include "os/claim.h"
#include "os/os.h"
#include "record/slices.h"
#include "record/window.h"
#include "session/exporting.h"

#define SUFFIX ".flight"

enum {
    SLICE_BYTES = 8 << 20, /* memory for the samples of a slice */
    KEPT = 16,             /* files of processes that are gone */
    LISTED = 4096,
    NAME_BYTES = 64,  /* of a file, with its folder's slash */
    COST_SHARE = 200, /* the thread takes a 200th of a core at most */
};

static const int64_t SLICE_NS = 1000000000;
static const int64_t LONGEST_NS = 2500000000;         /* so that 60 s keep 95 % */
static const int64_t GONE_NS = INT64_C(120000000000); /* without a write: its process is gone */

struct pyr_flight {
    pyr_flight_options options;
    pyr_encode_options encoding;
    uint64_t bytes; /* of the file */
    char path[PYR_LIMIT_PATH_BYTES];
    pyr_recorder *recorder;
    pyr_window *sealed[PYR_FLIGHT_SEALED]; /* oldest first; under the lock of pyr_flight_seal */
    size_t sealed_count;                   /* likewise */
    pthread_t thread;                      /* valid while running; whoever starts and stops */
    bool running;                          /* likewise */
    _Atomic uint32_t stopping;
    _Atomic bool ended;
    _Atomic int64_t delivered_ns;
    _Atomic uint64_t slices, written, failures;
    pyr_facts facts; /* the thread only, as what follows */
    uint64_t sequence;
    size_t end; /* of the last slice in the file */
    bool in_trouble;
};

/* ----------------------------------------------------------------------------------- files --- */

typedef struct listing {
    char names[LISTED][48];
    int64_t modified_ns[LISTED];
    size_t count;
} listing;

static int list_file(void *context, const pyr_os_file *file)
{
    listing *list = context;
    size_t length = strlen(file->name);
    size_t suffix = strlen(SUFFIX);
    if (length < sizeof list->names[0] && length > suffix &&
        strcmp(file->name + length - suffix, SUFFIX) == 0) {
        memcpy(list->names[list->count], file->name, length + 1);
        list->modified_ns[list->count++] = file->modified_ns;
    }
    return list->count == LISTED;
}

/* A recorder that lives writes every second or two, so the time of its file tells. */
static void remove_oldest(const char *folder)
{
    listing *list = pyr_memory_new(1, sizeof *list);
    if (list == NULL || pyr_os_folder_each(folder, "", list_file, list) != PYR_OK) {
        pyr_memory_free(list);
        return;
    }
    int64_t gone_ns = pyr_clock_realtime_ns() - GONE_NS;
    size_t gone = 0;
    for (size_t index = 0; index < list->count; index++) {
        gone += list->modified_ns[index] < gone_ns;
    }
    for (; gone > KEPT; gone--) {
        size_t oldest = 0;
        for (size_t index = 1; index < list->count; index++) {
            oldest = list->modified_ns[index] < list->modified_ns[oldest] ? index : oldest;
        }
        char path[PYR_LIMIT_PATH_BYTES];
        snprintf(path, sizeof path, "%.*s/%s", PYR_LIMIT_PATH_BYTES - NAME_BYTES, folder,
                 list->names[oldest]);
        pyr_os_file_remove(path);
        list->modified_ns[oldest] = INT64_MAX;
    }
    pyr_memory_free(list);
}

void pyr_flight_folder(const pyr_settings *settings, char *folder, size_t size)
{
    pyr_exporting_folder(pyr_settings_text(settings, PYR_SETTING_FLIGHT_RECORDER_DIR),
                         "pyrometer-flight", folder, size);
}

static pyr_status make_file(pyr_flight *flight)
{
    const pyr_flight_options *options = &flight->options;
    const pyr_identity *identity = options->identity;
    char folder[PYR_LIMIT_PATH_BYTES];
    uint8_t head[PYR_SLICES_HEAD_BYTES];
    pyr_flight_folder(options->settings, folder, sizeof folder);
    flight->bytes =
        (uint64_t)pyr_settings_integer(options->settings, PYR_SETTING_FLIGHT_RECORDER_BYTES);
    snprintf(flight->path, sizeof flight->path, "%.*s/%" PRId64 ".%" PRId64 SUFFIX,
             PYR_LIMIT_PATH_BYTES - NAME_BYTES, folder, identity->pid,
             identity->start_ns / 1000000);
    pyr_slices_write_head(&(pyr_slices_head){.bytes = flight->bytes,
                                             .pid = identity->pid,
                                             .start_ns = identity->start_ns},
                          head);
    pyr_status status = pyr_os_folder_make_private(folder);
    if (status == PYR_OK) {
        remove_oldest(folder);
        status = pyr_os_file_write(flight->path, head, sizeof head);
    }
    return status;
}

/* ---------------------------------------------------------------------------------- slices --- */

static void say_trouble(pyr_flight *flight, pyr_status status)
{
    bool trouble = status != PYR_OK;
    if (trouble && !flight->in_trouble) {
        pyr_log_add(PYR_LOG_WARNING, "the flight recorder cannot write to %s: %s", flight->path,
                    pyr_status_text(status));
    }
    flight->in_trouble = trouble;
}

static void write_slice(pyr_flight *flight, const pyr_window *window)
{
    pyr_buffer profile, document, bytes;
    pyr_buffer_init(&profile, flight->bytes);
    pyr_buffer_init(&document, flight->bytes);
    pyr_buffer_init(&bytes, flight->bytes);
    pyr_status status = pyr_encode_pprof(window, &flight->encoding, &profile);
    if (status == PYR_OK) {
        status = pyr_encode_document(window, &flight->facts, &document);
    }
    if (status == PYR_OK) {
        int64_t offset_ns = pyr_window_epoch_offset_ns(window);
        const pyr_slice slice = {
            .sequence = ++flight->sequence,
            .start_ns = pyr_window_start_ns(window) + offset_ns,
            .end_ns = pyr_window_end_ns(window) + offset_ns,
            .delivered_ns = atomic_load(&flight->delivered_ns),
            .profile = profile.data,
            .profile_length = profile.length,
            .document = document.data,
            .document_length = document.length,
        };
        status = pyr_slice_write(&slice, &bytes);
    }
    size_t place =
        status == PYR_OK ? pyr_slices_place(flight->bytes, bytes.length, &flight->end) : 0;
    if (status == PYR_OK && place == 0) {
        status = PYR_ETOOBIG;
    }
    if (status == PYR_OK && !atomic_load(&flight->ended)) {
        status = pyr_os_file_write_at(flight->path, place, bytes.data, bytes.length);
        atomic_fetch_add(&flight->written, status == PYR_OK ? bytes.length : 0);
    }
    if (!atomic_load(&flight->ended)) {
        say_trouble(flight, status);
        atomic_fetch_add(&flight->slices, status == PYR_OK);
        atomic_fetch_add(&flight->failures, status != PYR_OK);
    }
    pyr_buffer_fini(&profile);
    pyr_buffer_fini(&document);
    pyr_buffer_fini(&bytes);
}

static void cut_slice(pyr_flight *flight)
{
    pyr_window *sealed[PYR_FLIGHT_SEALED];
    flight->facts.count = 0;
    size_t count = flight->options.cut(flight->options.context, sealed, &flight->facts);
    for (size_t index = 0; index < count; index++) {
        if (pyr_window_samples(sealed[index]) > 0 && !atomic_load(&flight->ended)) {
            write_slice(flight, sealed[index]);
        }
        pyr_window_free(sealed[index]);
    }
}

static void *run(void *argument)
{
    pyr_flight *flight = argument;
    (void)!pyr_os_own_descriptors();
    int64_t next_ns = pyr_clock_monotonic_ns() + SLICE_NS;
    for (;;) {
        while (!atomic_load(&flight->stopping) && pyr_clock_monotonic_ns() < next_ns) {
            pyr_os_futex_wait(&flight->stopping, 0, next_ns);
        }
        if (atomic_load(&flight->stopping)) {
            return NULL;
        }
        int64_t before_ns = pyr_clock_own_cpu_ns();
        int64_t begun_ns = pyr_clock_monotonic_ns();
        cut_slice(flight);
        int64_t rest_ns = (pyr_clock_own_cpu_ns() - before_ns) * COST_SHARE;
        rest_ns = rest_ns < SLICE_NS ? SLICE_NS : rest_ns > LONGEST_NS ? LONGEST_NS : rest_ns;
        next_ns = begun_ns + rest_ns;
    }
}

/* ------------------------------------------------------------------------------- interface --- */

pyr_flight *pyr_flight_open(const pyr_flight_options *options, pyr_symbols *symbols)
{
    if (!pyr_settings_bool(options->settings, PYR_SETTING_FLIGHT_RECORDER_ENABLED)) {
        return NULL;
    }
    pyr_status status = PYR_ENOMEM;
    pyr_flight *made = pyr_memory_new(1, sizeof *made);
    if (made != NULL) {
        made->options = *options;
        made->recorder = pyr_recorder_new_ranked(SLICE_BYTES, PYR_LOCK_SLICE_LANE, symbols);
        status = made->recorder != NULL ? make_file(made) : PYR_ENOMEM;
    }
    if (status != PYR_OK) {
        pyr_log_add(PYR_LOG_WARNING,
                    "the flight recorder is off: %s: %s; set PYROMETER_FLIGHT_RECORDER_DIR",
                    made != NULL ? made->path : "", pyr_status_text(status));
        pyr_flight_free(made);
        return NULL;
    }
    return made;
}

void pyr_flight_free(pyr_flight *flight)
{
    if (flight != NULL) {
        for (size_t index = 0; index < flight->sealed_count; index++) {
            pyr_window_free(flight->sealed[index]);
        }
        pyr_recorder_free(flight->recorder);
        pyr_memory_free(flight);
    }
}

static pyr_status add(void *context, const pyr_sample *sample)
{
    pyr_flight *flight = context;
    pyr_sink twin = pyr_recorder_sink(flight->recorder);
    (void)twin.add(twin.context, sample); /* its losses are counted in its own windows */
    return flight->options.sink.add(flight->options.sink.context, sample);
}

static void lose(void *context, pyr_loss reason, uint64_t count)
{
    pyr_flight *flight = context;
    pyr_sink twin = pyr_recorder_sink(flight->recorder);
    twin.lose(twin.context, reason, count);
    flight->options.sink.lose(flight->options.sink.context, reason, count);
}

pyr_sink pyr_flight_sink(pyr_flight *flight)
{
    return (pyr_sink){.context = flight, .add = add, .lose = lose};
}

pyr_status pyr_flight_start(pyr_flight *flight, const pyr_encode_options *encoding)
{
    if (flight == NULL) {
        return PYR_OK;
    }
    flight->encoding = *encoding;
    flight->encoding.compression = PYR_PPROF_ZSTD;
    atomic_store(&flight->stopping, 0);
    pyr_status status = pyr_os_thread_start(&flight->thread, "pyrometer-ring", run, flight);
    flight->running = status == PYR_OK;
    return status;
}

void pyr_flight_stop(pyr_flight *flight)
{
    if (pyr_flight_is_running(flight)) {
        flight->running = false;
        atomic_store(&flight->stopping, 1);
        pyr_os_futex_wake(&flight->stopping);
        (void)pthread_join(flight->thread, NULL);
    }
}

bool pyr_flight_is_running(const pyr_flight *flight)
{
    return flight != NULL && flight->running;
}

void pyr_flight_seal(pyr_flight *flight, pyr_symbols *next)
{
    pyr_window *window = NULL;
    if (flight == NULL || pyr_recorder_rotate(flight->recorder, next, &window) != PYR_OK) {
        return; /* where there is no memory, the slice goes on */
    }
    if (flight->sealed_count == PYR_FLIGHT_SEALED) { /* the thread hangs, with the disk */
        atomic_fetch_add(&flight->failures, 1);
        pyr_window_free(flight->sealed[0]);
        flight->sealed_count--;
        memmove(&flight->sealed[0], &flight->sealed[1],
                flight->sealed_count * sizeof flight->sealed[0]);
    }
    flight->sealed[flight->sealed_count++] = window;
}

size_t pyr_flight_take(pyr_flight *flight, pyr_window *windows[PYR_FLIGHT_SEALED])
{
    size_t count = flight->sealed_count;
    memcpy(windows, flight->sealed, count * sizeof windows[0]);
    flight->sealed_count = 0;
    return count;
}

void pyr_flight_delivered(pyr_flight *flight, int64_t end_ns, bool is_last)
{
    if (flight != NULL) {
        atomic_store(&flight->delivered_ns, end_ns);
        if (is_last) {
            pyr_flight_end(flight);
        }
    }
}

void pyr_flight_end(pyr_flight *flight)
{
    if (flight != NULL && !atomic_exchange(&flight->ended, true)) {
        pyr_os_file_remove(flight->path);
    }
}

void pyr_flight_facts(const pyr_flight *flight, pyr_facts *facts)
{
    static const char SECTION[] = "flight_recorder";
    if (flight == NULL) {
        return;
    }
    pyr_facts_add_text(facts, SECTION, "file", flight->path);
    pyr_facts_add_integer(facts, SECTION, "slices", (int64_t)atomic_load(&flight->slices));
    pyr_facts_add_integer(facts, SECTION, "written_bytes", (int64_t)atomic_load(&flight->written));
    pyr_facts_add_integer(facts, SECTION, "failures", (int64_t)atomic_load(&flight->failures));
}

void pyr_flight_prefork(pyr_flight *flight)
{
    if (flight != NULL) {
        pyr_recorder_prefork(flight->recorder);
    }
}

void pyr_flight_postfork_parent(pyr_flight *flight)
{
    if (flight != NULL) {
        pyr_recorder_postfork_parent(flight->recorder);
    }
}

void pyr_flight_postfork_child(pyr_flight *flight)
{
    if (flight == NULL) {
        return;
    }
    pyr_recorder_postfork_child(flight->recorder);
    flight->running = false;
    flight->sealed_count = 0; /* with their memory: the parent's thread may have been freeing one */
}
