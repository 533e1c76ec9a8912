/* Code provenance; see the header.
 *
 * Owns nothing. Files are anybody's: sizes and numbers are bounded, and what does not look as it
 * should is left out.
 */
#include "export/provenance.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/limits.h"
#include "base/map.h"
#include "os/claim.h"
#include "os/os.h"

enum {
    DISTRIBUTIONS = 4096,
    PATHS = 64, /* of one distribution */
    METADATA_BYTES = 1 << 20,
    RECORD_BYTES = 1 << 23,
    NAME_BYTES = 256,
    PATH_BYTES = PYR_LIMIT_PATH_BYTES,
};

static const int64_t CACHE_AGE_NS = INT64_C(604800000000000); /* a week; then it is made again */

/* Modules of the standard library that live in the interpreter, by the names in their code. */
static const char *const FROZEN[] = {
    "<frozen _collections_abc>",
    "<frozen _frozen_importlib>",
    "<frozen _frozen_importlib_external>",
    "<frozen _sitebuiltins>",
    "<frozen abc>",
    "<frozen codecs>",
    "<frozen genericpath>",
    "<frozen getpath>",
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
    "<frozen importlib.machinery>",
    "<frozen importlib.util>",
    "<frozen io>",
    "<frozen ntpath>",
    "<frozen os>",
    "<frozen posixpath>",
    "<frozen runpy>",
    "<frozen site>",
    "<frozen stat>",
    "<frozen zipimport>",
};

typedef struct making {
    const pyr_provenance_options *options;
    json_t *libraries;
    char folder[PATH_BYTES]; /* of the library paths, the one being read */
    size_t distributions;
    bool failed; /* no memory */
} making;

/* -------------------------------------------------------------------------------- RECORD --- */

typedef struct span {
    const char *text;
    size_t length;
} span;

static bool is_below(span path, span folder)
{
    return path.length > folder.length && path.text[folder.length] == '/' &&
           memcmp(path.text, folder.text, folder.length) == 0;
}

/* The next path of a RECORD (lines "path,hash,size"), or false at its end. */
static bool next_path(const char **rest, span *path)
{
    while (**rest != '\0') {
        const char *line = *rest;
        size_t line_length = strcspn(line, "\n");
        *rest = line + line_length + (line[line_length] == '\n' ? 1 : 0);
        *path = (span){line, strcspn(line, ",\r\n")};
        bool is_outside = line[0] == '/' || line[0] == '"' || strncmp(line, "..", 2) == 0;
        if (path->length > 0 && !is_outside) {
            return true;
        }
    }
    return false;
}

/* Adds a package unless it lies in one that is there; those that lie in it go. */
static size_t add_package(span *packages, size_t count, span package)
{
    size_t kept = 0;
    for (size_t index = 0; index < count; index++) {
        if (is_below(package, packages[index])) {
            return count;
        }
    }
    for (size_t index = 0; index < count; index++) {
        if (!is_below(packages[index], package)) {
            packages[kept++] = packages[index];
        }
    }
    if (kept < PATHS) {
        packages[kept++] = package;
    }
    return kept;
}

void pyr_provenance_paths(const char *record,
                          void (*add)(void *context, const char *path, size_t length),
                          void *context)
{
    span packages[PATHS];
    span path;
    size_t count = 0;
    const char *rest = record;
    while (next_path(&rest, &path)) {
        if (pyr_ends_with(path.text, path.length, "/__init__.py")) {
            path.length -= strlen("/__init__.py");
            count = add_package(packages, count, path);
        }
    }
    for (size_t index = 0; index < count; index++) {
        add(context, packages[index].text, packages[index].length);
    }
    rest = record;
    while (count < PATHS && next_path(&rest, &path)) {
        bool is_inside = memmem(path.text, path.length, "__pycache__/", 12) != NULL;
        for (size_t index = 0; index < count && !is_inside; index++) {
            is_inside = is_below(path, packages[index]);
        }
        if (!is_inside && (pyr_ends_with(path.text, path.length, ".py") ||
                           pyr_ends_with(path.text, path.length, ".so"))) {
            add(context, path.text, path.length);
            count++;
            packages[count - 1] = path; /* counted, and no folder of anything */
        }
    }
}

/* -------------------------------------------------------------------------- distributions --- */

static void append(making *state, json_t *array, json_t *value)
{
    state->failed |= json_array_append_new(array, value) != 0;
}

typedef struct path_list {
    making *state;
    json_t *paths;
} path_list;

static void add_path(void *context, const char *path, size_t length)
{
    path_list *list = context;
    char full[2 * PATH_BYTES];
    int written = snprintf(full, sizeof full, "%s/%.*s", list->state->folder, (int)length, path);
    if (written > 0 && (size_t)written < sizeof full) {
        json_t *text = json_string(full);
        if (text != NULL) { /* NULL: not UTF-8 */
            append(list->state, list->paths, text);
        }
    }
}

/* Names of top_level.txt, one a line: what older installers left instead of a RECORD. */
static void add_top_level(path_list *list, const char *text)
{
    char path[2 * PATH_BYTES];
    for (size_t count = 0; *text != '\0' && count < PATHS; count++) {
        int length = (int)strcspn(text, "\r\n");
        snprintf(path, sizeof path, "%s/%.*s", list->state->folder, length, text);
        if (length > 0 && pyr_os_folder_exists(path)) {
            add_path(list, text, (size_t)length);
        } else if (length > 0) {
            snprintf(path, sizeof path, "%.*s.py", length, text);
            add_path(list, path, strlen(path));
        }
        text += length;
        text += strspn(text, "\r\n");
    }
}

/* Reads a file of the distribution as a text; NULL: it is not there. The caller frees. */
static char *read_part(const making *state, const char *name, const char *part, size_t maximum,
                       pyr_buffer *buffer)
{
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s/%s", state->folder, name, part);
    pyr_buffer_init(buffer, maximum);
    if (pyr_os_file_read(path, buffer) != PYR_OK || pyr_buffer_append(buffer, "", 1) != PYR_OK) {
        return NULL;
    }
    return (char *)buffer->data;
}

/* The value of a header of METADATA, which ends at the first empty line. */
static void take_header(const char *metadata, const char *key, char *value)
{
    size_t key_length = strlen(key);
    for (const char *line = metadata; *line != '\0' && *line != '\n' && *line != '\r';) {
        size_t length = strcspn(line, "\n");
        if (strncasecmp(line, key, key_length) == 0) {
            const char *text = line + key_length + strspn(line + key_length, " \t");
            snprintf(value, NAME_BYTES, "%.*s", (int)strcspn(text, "\r\n"), text);
            return;
        }
        line += length + (line[length] == '\n' ? 1 : 0);
    }
}

/* Case and the kind of dash mean nothing in a distribution's name. */
static bool is_same_name(const char *left, const char *right)
{
    for (; *left != '\0' && *right != '\0'; left++, right++) {
        bool dashes = strchr("-_.", *left) != NULL && strchr("-_.", *right) != NULL;
        if (!dashes && strncasecmp(left, right, 1) != 0) {
            return false;
        }
    }
    return *left == *right;
}

/* Installed from a folder: the user's own code, not a library that was fetched. The key that says
 * so is looked for as text: nothing else in this small file can hold it in quotes. */
static bool is_from_folder(const making *state, const char *name)
{
    pyr_buffer buffer;
    const char *text = read_part(state, name, "direct_url.json", METADATA_BYTES, &buffer);
    bool found = text != NULL && strstr(text, "\"dir_info\"") != NULL;
    pyr_buffer_fini(&buffer);
    return found;
}

/* Takes `paths`. A name that is not UTF-8 leaves the library out. */
static void add_library(making *state, const char *kind, const char *name, const char *version,
                        json_t *paths)
{
    json_t *library = json_pack("{s:s,s:s,s:s}", "kind", kind, "name", name, "version", version);
    if (json_object_set_new(library, "paths", paths) == 0) {
        append(state, state->libraries, library);
    } else {
        json_decref(library);
    }
}

/* One *.dist-info or *.egg-info folder. */
static int add_distribution(void *context, const char *folder)
{
    making *state = context;
    char name[NAME_BYTES] = "", version[NAME_BYTES] = "";
    pyr_buffer metadata, record, top_level;
    json_t *paths = json_array();
    if (paths == NULL || state->distributions++ == DISTRIBUTIONS) {
        state->failed |= paths == NULL;
        json_decref(paths);
        return 1;
    }
    bool is_egg = strcmp(folder + strlen(folder) - strlen(".egg-info"), ".egg-info") == 0;
    const char *text =
        read_part(state, folder, is_egg ? "PKG-INFO" : "METADATA", METADATA_BYTES, &metadata);
    if (text != NULL) {
        take_header(text, "Name:", name);
        take_header(text, "Version:", version);
    }
    path_list list = {state, paths};
    text = read_part(state, folder, "RECORD", RECORD_BYTES, &record);
    if (text != NULL) {
        pyr_provenance_paths(text, add_path, &list);
    }
    text = read_part(state, folder, "top_level.txt", METADATA_BYTES, &top_level);
    if (text != NULL && json_array_size(paths) == 0) {
        add_top_level(&list, text);
    }
    if (name[0] != '\0' && json_array_size(paths) > 0) {
        bool is_own = (state->options->main_package[0] != '\0' &&
                       is_same_name(name, state->options->main_package)) ||
                      is_from_folder(state, folder);
        add_library(state, is_own ? "" : "library", name, version, paths);
    } else {
        json_decref(paths);
    }
    pyr_buffer_fini(&metadata);
    pyr_buffer_fini(&record);
    pyr_buffer_fini(&top_level);
    return 0;
}

/* -------------------------------------------------------------------------------- the whole - */

static void add_interpreter(making *state)
{
    json_t *stdlib = json_array();
    state->failed |= stdlib == NULL;
    if (state->options->stdlib[0] != '\0') {
        append(state, stdlib, json_string(state->options->stdlib));
    }
    for (size_t index = 0; index < sizeof FROZEN / sizeof FROZEN[0]; index++) {
        append(state, stdlib, json_string(FROZEN[index]));
    }
    add_library(state, "standard library", "stdlib", state->options->python, stdlib);
    add_library(state, "library", "native", "", json_pack("[s]", "<native>"));
}

/* Calls `use` for each library folder. */
static void each_folder(const pyr_provenance_options *options,
                        void (*use)(void *context, const char *folder), void *context)
{
    char folder[PATH_BYTES];
    for (const char *rest = options->library_paths; *rest != '\0';) {
        size_t length = strcspn(rest, "\n");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, rest, length);
            folder[length] = '\0';
            use(context, folder);
        }
        rest += length + (rest[length] == '\n' ? 1 : 0);
    }
}

static void add_folder(void *context, const char *folder)
{
    making *state = context;
    snprintf(state->folder, sizeof state->folder, "%s", folder);
    (void)!pyr_os_folder_names(folder, ".dist-info", add_distribution, state);
    (void)!pyr_os_folder_names(folder, ".egg-info", add_distribution, state);
}

static int dump(const char *text, size_t length, void *buffer)
{
    return pyr_buffer_append(buffer, text, length) == PYR_OK ? 0 : -1;
}

pyr_status pyr_provenance_make(const pyr_provenance_options *options, pyr_buffer *out)
{
    making state = {.options = options, .libraries = json_array()};
    json_t *root = json_object();
    state.failed = root == NULL || state.libraries == NULL;
    add_interpreter(&state);
    each_folder(options, add_folder, &state);
    /* The list belongs to the root from here on. */
    state.failed |= json_object_set_new(root, "v1", state.libraries) != 0;
    pyr_status status = PYR_ENOMEM;
    if (!state.failed) {
        status = json_dump_callback(root, dump, out, JSON_COMPACT) == 0 ? PYR_OK
                 : out->status != PYR_OK                                ? out->status
                                                                        : PYR_ENOMEM;
    }
    json_decref(root);
    return status;
}

/* -------------------------------------------------------------------------------- the cache - */

static void add_to_key(void *context, const char *text)
{
    uint64_t *key = context;
    *key = pyr_hash_bytes(text, strlen(text), *key);
}

/* The order of a folder's names means nothing. */
static int add_name_to_key(void *context, const char *name)
{
    uint64_t *key = context;
    *key += pyr_hash_bytes(name, strlen(name), 1);
    return 0;
}

/* By what is installed, not by the folder's time: the script's own folder, where programs write, is
 * among them. An upgrade changes the names, which hold versions. */
static void add_folder_to_key(void *context, const char *folder)
{
    uint64_t names = 0;
    (void)!pyr_os_folder_names(folder, ".dist-info", add_name_to_key, &names);
    (void)!pyr_os_folder_names(folder, ".egg-info", add_name_to_key, &names);
    if (names != 0) {
        add_to_key(context, folder);
        *(uint64_t *)context = pyr_hash_u64(names, *(uint64_t *)context);
    }
}

static int remove_old(void *context, const pyr_os_file *file)
{
    const char *cache = context;
    char path[PATH_BYTES + 64];
    if (file->modified_ns < pyr_clock_realtime_ns() - CACHE_AGE_NS) {
        snprintf(path, sizeof path, "%s/%s", cache, file->name);
        pyr_os_file_remove(path);
    }
    return 0;
}

pyr_status pyr_provenance_get(const pyr_provenance_options *options, const char *cache,
                              pyr_buffer *out)
{
    char path[PATH_BYTES + 64], hidden[PATH_BYTES + 64];
    uint64_t key = 1; /* of this format */
    add_to_key(&key, PYR_VERSION);
    add_to_key(&key, options->python);
    add_to_key(&key, options->main_package);
    add_to_key(&key, options->stdlib);
    each_folder(options, add_folder_to_key, &key);
    snprintf(path, sizeof path, "%s/provenance-%016" PRIx64 ".json", cache, key);
    bool has_cache = cache[0] != '\0' && pyr_os_folder_make_private(cache) == PYR_OK;
    if (has_cache && pyr_os_file_read(path, out) == PYR_OK && out->length > 0) {
        return PYR_OK;
    }
    pyr_buffer_clear(out);
    pyr_status status = pyr_provenance_make(options, out);
    if (status == PYR_OK && has_cache) {
        char folder[PATH_BYTES];
        snprintf(folder, sizeof folder, "%s", cache);
        (void)!pyr_os_folder_each(cache, "provenance-", remove_old, folder);
        snprintf(hidden, sizeof hidden, "%s/.provenance-%016" PRIx64, cache, pyr_hash_seed());
        /* Without it the next process makes its own. */
        if (pyr_os_file_write(hidden, out->data, out->length) == PYR_OK &&
            pyr_os_file_publish(hidden, path) != PYR_OK) {
            pyr_os_file_remove(hidden);
        }
    }
    return status;
}
