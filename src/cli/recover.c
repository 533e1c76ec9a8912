/* pyrometer recover: a profile out of the recording of a process that ended without its last
 * window.
 *
 * Owns the recording and what is parsed of it. One thread. The file comes from a process that died,
 * and a disk that may have died with it: everything in it is hostile (record/slices.c). Slices are
 * profiles, so that what is left to do is merging them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/units.h"
#include "os/claim.h"
#include "pprof/merge.h"
#include "pprof/parser.h"
#include "pprof/write.h"
#include "record/slices.h"
#include "session/settings.h"

enum {
    SLICES = 1 << 16,
    BATCH = 64, /* profiles in memory at a time */
    PATH_BYTES = 4200,
    TOLERANCE_NS = 20000000,
    DAMAGED = 8, /* slices in a row */
};

static const size_t SLICE_PPROF_BYTES = (size_t)1 << 28; /* an uncompressed slice */

typedef struct recovery {
    pyr_buffer file;
    pyr_slice *slices; /* in their order of time; they point into `file` */
    size_t count, broken, unreadable;
    pyr_profile *batch[BATCH];
    size_t batch_count;
    int64_t start_ns, end_ns; /* of what was recovered */
    size_t recovered;
    int64_t delivered_ns; /* as the newest slice knows it */
} recovery;

/* ---------------------------------------------------------------------------------- reading --- */

static int take_slice(void *context, const pyr_slice *slice)
{
    recovery *self = context;
    self->slices[self->count++] = *slice;
    return self->count == SLICES;
}

static int compare(const void *left, const void *right)
{
    const pyr_slice *a = left;
    const pyr_slice *b = right;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Near the end of the file, where the writer turned back early, slices of a lap before the last may
 * be left: what is parted from the rest by a larger gap than damage leaves is not of this time. */
static void forget_older_laps(recovery *self)
{
    size_t first = self->count - 1;
    while (first > 0 &&
           self->slices[first].sequence - self->slices[first - 1].sequence <= DAMAGED + 1) {
        first--;
    }
    self->count -= first;
    memmove(self->slices, self->slices + first, self->count * sizeof *self->slices);
}

static int read_recording(recovery *self, const char *path)
{
    pyr_slices_head head;
    pyr_status status = pyr_os_file_read(path, &self->file);
    if (status == PYR_ETOOBIG) {
        return pyr_message_wrong("%s is larger than 1 GiB, which no recording is", path);
    }
    if (status != PYR_OK) {
        return pyr_message_wrong("cannot read %s: %s", path, pyr_status_text(status));
    }
    status = pyr_slices_read_head(self->file.data, self->file.length, &head);
    if (status != PYR_OK) {
        return pyr_message_wrong(status == PYR_EVERSION
                                     ? "%s was written by another version of pyrometer"
                                     : "%s is no flight recording (*.flight)",
                                 path);
    }
    self->slices = pyr_memory_new(SLICES, sizeof *self->slices);
    if (self->slices == NULL) {
        return pyr_message_no_memory();
    }
    (void)pyr_slices_each(self->file.data, self->file.length, take_slice, self, &self->broken);
    if (self->count == 0) {
        return pyr_message_wrong("%s holds nothing yet: the process ended within the first second",
                                 path);
    }
    qsort(self->slices, self->count, sizeof *self->slices, compare);
    forget_older_laps(self);
    self->delivered_ns = self->slices[self->count - 1].delivered_ns;
    return PYR_EXIT_GOOD;
}

/* ---------------------------------------------------------------------------------- merging --- */

static int merge_batch(recovery *self)
{
    pyr_profile *merged = NULL;
    pyr_status status = pyr_profile_merge((const pyr_profile *const *)self->batch,
                                          self->batch_count, PYR_MERGE_KEEP_TIMESTAMPS, &merged);
    for (size_t index = 0; index < self->batch_count; index++) {
        pyr_profile_free(self->batch[index]);
    }
    self->batch_count = 0;
    if (status == PYR_ENOMEM) {
        return pyr_message_no_memory();
    }
    if (status != PYR_OK) {
        return pyr_message_wrong("the slices cannot be merged: %s", pyr_status_text(status));
    }
    self->batch[self->batch_count++] = merged;
    return PYR_EXIT_GOOD;
}

/* Adds what began at `from_ns` or later. */
static int merge_slices(recovery *self, int64_t from_ns)
{
    int code = PYR_EXIT_GOOD;
    for (size_t index = 0; index < self->count && code == PYR_EXIT_GOOD; index++) {
        const pyr_slice *slice = &self->slices[index];
        pyr_parse_error error;
        if (slice->start_ns < from_ns) {
            continue;
        }
        pyr_status status =
            pyr_profile_parse(slice->profile, slice->profile_length, SLICE_PPROF_BYTES,
                              &self->batch[self->batch_count], &error);
        if (status != PYR_OK) {
            self->unreadable++;
            continue;
        }
        self->start_ns = self->recovered == 0 || slice->start_ns < self->start_ns ? slice->start_ns
                                                                                  : self->start_ns;
        self->end_ns = slice->end_ns > self->end_ns ? slice->end_ns : self->end_ns;
        self->recovered++;
        if (++self->batch_count == BATCH) {
            code = merge_batch(self);
        }
    }
    if (code == PYR_EXIT_GOOD && self->recovered == 0) {
        return pyr_message_wrong(self->unreadable > 0 ? "none of the recording's slices can be read"
                                                      : "nothing of that time is in the recording");
    }
    return code == PYR_EXIT_GOOD ? merge_batch(self) : code;
}

/* --------------------------------------------------------------------------------- writing ---- */

static int write_profile(const recovery *self, const char *path)
{
    pyr_buffer bytes;
    pyr_output output;
    pyr_buffer_init(&bytes, PYR_LIMIT_PPROF_BYTES);
    int code = PYR_EXIT_GOOD;
    if (pyr_profile_write(self->batch[0], PYR_PPROF_GZIP, &bytes) != PYR_OK) {
        code = pyr_message_no_memory();
    } else {
        code = pyr_output_open(&output, path);
        if (code == PYR_EXIT_GOOD) {
            fwrite(bytes.data, 1, bytes.length, output.file);
            code = pyr_output_close(&output, PYR_EXIT_GOOD);
        }
    }
    pyr_buffer_fini(&bytes);
    return code;
}

/* The newest document that can be read, with the window that was recovered. NULL: none. */
static json_t *make_document(const recovery *self)
{
    json_t *root = NULL;
    for (size_t index = self->count; index-- > 0 && root == NULL;) {
        const pyr_slice *slice = &self->slices[index];
        root = json_loadb((const char *)slice->document, slice->document_length, 0, NULL);
        if (!json_is_object(root)) {
            json_decref(root);
            root = NULL;
        }
    }
    if (root == NULL) {
        return NULL;
    }
    json_t *window = json_object_get(root, "window");
    json_object_set_new(window, "start_ns", json_integer(self->start_ns));
    json_object_set_new(window, "end_ns", json_integer(self->end_ns));
    json_object_set_new(window, "samples", json_integer((json_int_t)self->batch[0]->sample_count));
    json_object_set_new(root, "recovery",
                        json_pack("{s:I, s:I, s:I, s:I}", "slices", (json_int_t)self->recovered,
                                  "broken_slices", (json_int_t)(self->broken + self->unreadable),
                                  "recording_end_ns",
                                  (json_int_t)self->slices[self->count - 1].end_ns,
                                  "delivered_until_ns", (json_int_t)self->delivered_ns));
    return root;
}

static int write_document(const recovery *self, const char *profile_path)
{
    char path[PATH_BYTES + sizeof ".json"];
    pyr_output output;
    json_t *root = make_document(self);
    if (root == NULL) {
        pyr_message_note(
            "no document of the recording can be read; the profile has none beside it");
        return PYR_EXIT_GOOD;
    }
    snprintf(path, sizeof path, "%s.json", profile_path);
    int code = pyr_output_open(&output, path);
    if (code == PYR_EXIT_GOOD) {
        json_dumpf(root, output.file, JSON_INDENT(1));
        fputc('\n', output.file);
        code = pyr_output_close(&output, PYR_EXIT_GOOD);
    }
    json_decref(root);
    return code;
}

static void describe(const recovery *self, const char *path)
{
    char length[PYR_UNITS_BYTES];
    pyr_units_single(length, (double)(self->end_ns - self->start_ns), "nanoseconds");
    printf("%s: %s of process time up to the end of the recording, %zu samples\n", path, length,
           self->batch[0]->sample_count);
    if (self->delivered_ns > self->start_ns) {
        pyr_units_single(length, (double)(self->delivered_ns - self->start_ns), "nanoseconds");
        pyr_message_note("the first %s were delivered too; --undelivered leaves them out", length);
    }
    if (self->unreadable > 0) {
        pyr_message_note("%zu slices could not be read", self->unreadable);
    }
}

/* ---------------------------------------------------------------------------------- command --- */

/* From when on, by the options; false: --last is no time. */
static bool choose_start(const recovery *self, const char *last, bool undelivered, int64_t *from_ns)
{
    /* A slice begins just after the window before it ends; clocks are set a little now and then. */
    *from_ns = undelivered ? self->delivered_ns - TOLERANCE_NS : INT64_MIN;
    if (last == NULL) {
        return true;
    }
    const pyr_setting duration = {
        .kind = PYR_SETTING_DURATION, .fallback = "60s", .least = "0s", .most = "3650d"};
    pyr_setting_value value;
    char why[PATH_BYTES];
    if (pyr_setting_parse(&duration, last, &value, why, sizeof why) != PYR_OK) {
        return false;
    }
    int64_t start_ns = self->slices[self->count - 1].end_ns - value.integer;
    *from_ns = start_ns > *from_ns ? start_ns : *from_ns;
    return true;
}

static int recover(recovery *self, const char *path, const char *last, bool undelivered,
                   const char *out)
{
    char made[PATH_BYTES];
    int64_t from_ns;
    int code = read_recording(self, path);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (!choose_start(self, last, undelivered, &from_ns)) {
        return pyr_message_wrong("--last %s: a time is expected, such as 60s or 2m", last);
    }
    if (out == NULL) {
        snprintf(made, sizeof made, "%s.pprof", path);
        out = made;
    }
    code = merge_slices(self, from_ns);
    code = code == PYR_EXIT_GOOD ? write_profile(self, out) : code;
    code = code == PYR_EXIT_GOOD ? write_document(self, out) : code;
    if (code == PYR_EXIT_GOOD) {
        describe(self, out);
    }
    return code;
}

int pyr_command_recover(int argc, char **argv)
{
    recovery self = {0};
    const char *out = NULL;
    const char *last = NULL;
    bool undelivered = false;
    const pyr_option options[] = {
        {PYR_OPTION_TEXT, 'o', "output", "OUT",
         "profile to write; its document is OUT.json (default: FILE.pprof)", &out},
        {PYR_OPTION_TEXT, 0, "last", "TIME", "only the end of the recording, such as 60s", &last},
        {PYR_OPTION_FLAG, 0, "undelivered", NULL, "leave out what was delivered while it ran",
         &undelivered},
    };
    const pyr_usage usage = {
        .command = "recover",
        .operands = "FILE",
        .about = "Makes a profile of the recording (*.flight) that a process has left which ended "
                 "without\ndelivering its last window: killed, crashed, out of memory. See "
                 "PYROMETER_FLIGHT_RECORDER_ENABLED.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .least_operands = 1,
        .most_operands = 1,
    };
    size_t count = 0;
    pyr_parse_result result = pyr_options_parse(&usage, argc, argv, &count);
    if (result != PYR_PARSE_GOOD) {
        return result == PYR_PARSE_HELP ? PYR_EXIT_GOOD : PYR_EXIT_WRONG;
    }
    pyr_buffer_init(&self.file, PYR_LIMIT_SLICES_BYTES);
    int code = recover(&self, argv[0], last, undelivered, out);
    for (size_t index = 0; index < self.batch_count; index++) {
        pyr_profile_free(self.batch[index]);
    }
    pyr_memory_free(self.slices);
    pyr_buffer_fini(&self.file);
    return code;
}
