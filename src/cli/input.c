/* The profiles that a command was given.
 *
 * Owns files while it reads them, and the profiles until they are merged into one. One thread.
 * Files are read whole into memory, so a file that changes meanwhile cannot hurt; a profile that
 * is merged is freed at once, so that a folder of a day needs no more memory than its sum.
 */
#include "cli/input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "base/memory.h"
#include "cli/message.h"
#include "cli/units.h"
#include "pprof/merge.h"
#include "pprof/parser.h"

enum {
    FOLDER_FILES_MAXIMUM = 100000,
    FILES_MAXIMUM = 1 << 20,
    PATH_BYTES = 4200,
    READ_BYTES = 1 << 20,
    LARGE_BYTES = 1 << 23, /* takes more than a second */
    BATCH = 16,            /* profiles in memory at a time; then they are merged into one */
};

typedef struct loader {
    pyr_input *input;
    pyr_profile *batch[BATCH];
    size_t batch_count;
    pyr_input_form form;
    bool failed; /* not a file's fault: nothing more can be added */
} loader;

/* ------------------------------------------------------------------------------ one file ---- */

/* The whole file. Says on standard error what is wrong with it. */
static int read_file(const char *path, pyr_buffer *bytes)
{
    int code = PYR_EXIT_GOOD;
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0) {
        code = errno == ENOENT
                   ? pyr_message_wrong("there is no file %s; give a profile (*.pprof) or a folder "
                                       "of profiles",
                                       path)
                   : pyr_message_wrong("cannot read %s: %m", path);
        goto out;
    }
    for (;;) {
        if (pyr_buffer_reserve(bytes, READ_BYTES) != PYR_OK) {
            code = bytes->status == PYR_ETOOBIG
                       ? pyr_message_wrong("%s is larger than 1 GiB; read fewer windows at a time",
                                           path)
                       : pyr_message_no_memory();
            goto out;
        }
        ssize_t got = read(file, bytes->data + bytes->length, READ_BYTES);
        if (got == 0) {
            break;
        }
        if (got < 0 && errno != EINTR) {
            code = pyr_message_wrong("cannot read %s: %m", path);
            goto out;
        }
        bytes->length += got > 0 ? (size_t)got : 0;
    }
    if (bytes->length == 0) {
        code = pyr_message_wrong("%s is empty; the profiler writes files whole, so check the disk "
                                 "or the copy",
                                 path);
    }
out:
    if (file >= 0) {
        close(file);
    }
    return code;
}

static int explain(const char *path, pyr_status status, const pyr_parse_error *error, size_t length)
{
    char bytes[PYR_UNITS_BYTES];
    pyr_units_single(bytes, (double)length, "count");
    switch (status) {
    case PYR_EPARTIAL:
        return pyr_message_wrong("cannot read %s: it ends after %s bytes, the file is truncated "
                                 "(%s); the profiler writes files whole, so check the disk or the "
                                 "copy",
                                 path, bytes, error->what);
    case PYR_ETOOBIG:
        return pyr_message_wrong("cannot read %s: %s; read fewer windows at a time", path,
                                 error->what);
    case PYR_ENOMEM:
        return pyr_message_no_memory();
    default:
        return pyr_message_wrong("cannot read %s: %s (at byte %zu of the message); give a pprof "
                                 "file",
                                 path, error->what, error->offset);
    }
}

static int read_profile(const char *path, pyr_profile **profile)
{
    pyr_buffer bytes;
    pyr_parse_error error = {.what = "unknown"};
    pyr_buffer_init(&bytes, PYR_LIMIT_PPROF_BYTES);
    int code = read_file(path, &bytes);
    if (code == PYR_EXIT_GOOD && bytes.length >= LARGE_BYTES) {
        pyr_message_working("reading a large profile");
    }
    if (code == PYR_EXIT_GOOD) {
        pyr_status status =
            pyr_profile_parse(bytes.data, bytes.length, PYR_LIMIT_PPROF_BYTES, profile, &error);
        if (status != PYR_OK) {
            code = explain(path, status, &error, bytes.length);
        }
    }
    pyr_buffer_fini(&bytes);
    return code;
}

/* ------------------------------------------------------------------------------- merging ---- */

static int merge_batch(loader *load)
{
    pyr_profile *merged = NULL;
    pyr_status status = pyr_profile_merge(
        (const pyr_profile *const *)load->batch, load->batch_count,
        load->form != PYR_INPUT_SUMS ? PYR_MERGE_KEEP_TIMESTAMPS : PYR_MERGE_DROP_TIMESTAMPS,
        &merged);
    load->failed = status != PYR_OK;
    if (status == PYR_ENOMEM) {
        return pyr_message_no_memory();
    }
    if (status != PYR_OK) {
        return pyr_message_wrong("the profiles cannot be merged: %s", pyr_status_text(status));
    }
    for (size_t index = 0; index < load->batch_count; index++) {
        pyr_profile_free(load->batch[index]);
    }
    load->batch[0] = merged;
    load->batch_count = 1;
    return PYR_EXIT_GOOD;
}

/* What tells a file from any other; false: it is none, or one that can be read but once. */
static bool identify(const char *path, uint64_t *identity)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return false;
    }
    const uint64_t parts[] = {about.st_dev, about.st_ino};
    *identity = pyr_hash_bytes(parts, sizeof parts, 0);
    return true;
}

static int add_file(loader *load, const char *path)
{
    pyr_profile *profile = NULL;
    uint64_t identity, known;
    bool is_file = identify(path, &identity);
    if (is_file && pyr_map_get(load->input->files, identity, &known)) {
        pyr_message_note("%s was given twice; it counts once", path);
        return PYR_EXIT_GOOD;
    }
    int code = read_profile(path, &profile);
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    if (is_file && pyr_map_put(load->input->files, identity, 0) != PYR_OK) {
        pyr_profile_free(profile);
        load->failed = true;
        return pyr_message_no_memory();
    }
    pyr_background_add(&load->input->background, profile, path);
    load->input->file_count++;
    load->batch[load->batch_count++] = profile;
    return load->batch_count == BATCH ? merge_batch(load) : PYR_EXIT_GOOD;
}

/* ------------------------------------------------------------------------------- folders ---- */

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool is_profile_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".pprof") == 0 && name[0] != '.';
}

/* Appends the names, each with its NUL. */
static int list_folder(const char *path, pyr_buffer *names, size_t *count)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return pyr_message_wrong("cannot read the folder %s: %m", path);
    }
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL && *count < FOLDER_FILES_MAXIMUM) {
        if (is_profile_name(entry->d_name)) {
            pyr_buffer_append(names, entry->d_name, strlen(entry->d_name) + 1);
            *count += 1;
        }
    }
    closedir(folder);
    if (*count == 0) {
        return pyr_message_wrong("the folder %s holds no profiles (*.pprof)", path);
    }
    return names->status == PYR_OK ? PYR_EXIT_GOOD : pyr_message_no_memory();
}

static int add_names(loader *load, const char *path, char **names, size_t count)
{
    int code = PYR_EXIT_GOOD;
    size_t before = load->input->file_count;
    for (size_t index = 0; index < count; index++) {
        char file[PATH_BYTES];
        int length = snprintf(file, sizeof file, "%s/%s", path, names[index]);
        if (length < 0 || length >= (int)sizeof file) {
            return pyr_message_wrong("the path %s/%s is too long", path, names[index]);
        }
        pyr_message_progress("reading profile", index + 1, count);
        code = add_file(load, file);
        if (load->failed) {
            return code;
        }
    }
    /* What could not be read has had its line; the rest of the folder is still worth showing. */
    return load->input->file_count > before ? PYR_EXIT_GOOD : code;
}

static int add_folder(loader *load, const char *path)
{
    pyr_buffer text;
    pyr_buffer_init(&text, (size_t)FOLDER_FILES_MAXIMUM * (NAME_MAX + 1));
    size_t count = 0;
    char **names = NULL;
    int code = list_folder(path, &text, &count);
    if (code == PYR_EXIT_GOOD) {
        names = pyr_memory_new(count, sizeof *names);
        code = names != NULL ? PYR_EXIT_GOOD : pyr_message_no_memory();
    }
    if (code == PYR_EXIT_GOOD) {
        char *name = (char *)text.data;
        for (size_t index = 0; index < count; index++) {
            names[index] = name;
            name += strlen(name) + 1;
        }
        qsort(names, count, sizeof *names, compare_names);
        code = add_names(load, path, names, count);
    }
    pyr_memory_free(names);
    pyr_buffer_fini(&text);
    return code;
}

static int add_path(loader *load, const char *path)
{
    struct stat about;
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    return folder ? add_folder(load, path) : add_file(load, path);
}

/* ------------------------------------------------------------------------ samples without ---- */

static bool grow(void **array, size_t count, size_t size)
{
    void *grown = pyr_memory_resize(*array, count + 1, size);
    if (grown != NULL) {
        *array = grown;
    }
    return grown != NULL;
}

/* Gives samples without a stack a frame of their own: every view then adds up by itself. */
static int name_stackless(pyr_profile *profile)
{
    static const char NAME[] = "<no stack>";
    size_t first = 0;
    while (first < profile->sample_count && profile->samples[first].frame_count > 0) {
        first++;
    }
    if (first == profile->sample_count) {
        return PYR_EXIT_GOOD;
    }
    if (!grow((void **)&profile->strings, profile->string_count, sizeof *profile->strings) ||
        !grow((void **)&profile->functions, profile->function_count, sizeof *profile->functions) ||
        !grow((void **)&profile->frames, profile->frame_count, sizeof *profile->frames) ||
        !grow((void **)&profile->stack_frames, profile->stack_frame_count,
              sizeof *profile->stack_frames)) {
        return pyr_message_no_memory();
    }
    profile->strings[profile->string_count] = (pyr_profile_text){NAME, sizeof NAME - 1};
    profile->functions[profile->function_count] =
        (pyr_profile_function){.name = (uint32_t)profile->string_count};
    profile->frames[profile->frame_count] =
        (pyr_profile_frame){.function = (uint32_t)profile->function_count};
    profile->stack_frames[profile->stack_frame_count] = (uint32_t)profile->frame_count;
    for (size_t index = first; index < profile->sample_count; index++) {
        if (profile->samples[index].frame_count == 0) {
            profile->samples[index].frame_start = (uint32_t)profile->stack_frame_count;
            profile->samples[index].frame_count = 1;
        }
    }
    profile->string_count++;
    profile->function_count++;
    profile->frame_count++;
    profile->stack_frame_count++;
    return PYR_EXIT_GOOD;
}

int pyr_input_open(pyr_input *input, char *const *paths, size_t count, pyr_input_form form)
{
    *input = (pyr_input){0};
    loader load = {.input = input, .form = form};
    input->files = pyr_map_new(FILES_MAXIMUM);
    int code = pyr_background_init(&input->background) == PYR_OK && input->files != NULL
                   ? PYR_EXIT_GOOD
                   : pyr_message_no_memory();
    pyr_message_progress_start();
    for (size_t index = 0; index < count && code == PYR_EXIT_GOOD; index++) {
        pyr_message_progress("reading profile", index + 1, count);
        code = add_path(&load, paths[index]);
    }
    if (code == PYR_EXIT_GOOD) {
        code = merge_batch(&load);
    }
    pyr_message_progress_end();
    if (code == PYR_EXIT_GOOD) {
        input->profile = load.batch[0];
        return form == PYR_INPUT_FAITHFUL ? code : name_stackless(input->profile);
    }
    for (size_t index = 0; index < load.batch_count; index++) {
        pyr_profile_free(load.batch[index]);
    }
    return code;
}

void pyr_input_close(pyr_input *input)
{
    pyr_profile_free(input->profile);
    pyr_map_free(input->files);
    pyr_background_fini(&input->background);
    *input = (pyr_input){0};
}

int pyr_input_spare(const pyr_input *input, const char *path)
{
    uint64_t identity, known;
    if (path != NULL && strcmp(path, "-") != 0 && identify(path, &identity) &&
        pyr_map_get(input->files, identity, &known)) {
        return pyr_message_wrong("%s is one of the profiles that are read; choose another place "
                                 "with -o",
                                 path);
    }
    return PYR_EXIT_GOOD;
}
