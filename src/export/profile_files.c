/* Names and number of profile files; see the header. Stateless; the exporter's thread. */
#include "export/profile_files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/os.h"

#define TEMPORARY_PREFIX ".pyrometer-"
#define TEMPORARY_SUFFIX ".tmp"
#define DEFAULT_NAME "profile"

enum {
    FILES = 1 << 16,           /* looked at in one round; the next round sees the rest */
    UNFINISHED_SECONDS = 3600, /* no writer takes so long */
    FULL_NAME_BYTES = NAME_MAX + 1,
};

static const int64_t SECOND_NS = 1000000000;

/* --------------------------------------------------------------------------------- prefixes --- */

/* The absolute form of a prefix. */
static pyr_status expand(const char *prefix, char *path, size_t size)
{
    char working[PYR_LIMIT_PATH_BYTES];
    const char *start = "", *separator = "", *rest = prefix;
    if (prefix[0] == '~' && (prefix[1] == '/' || prefix[1] == '\0')) {
        start = getenv("HOME");
        if (!start || start[0] != '/') {
            return PYR_ENOENT;
        }
        rest = prefix + 1;
    } else if (prefix[0] != '/') {
        pyr_status status = pyr_os_working_folder(working, sizeof working);
        if (status != PYR_OK) {
            return status;
        }
        start = working;
        separator = "/";
    }
    int length = snprintf(path, size, "%s%s%s", start, separator, rest);
    return length < 0 || (size_t)length >= size ? PYR_ETOOBIG : PYR_OK;
}

pyr_status pyr_profile_files_resolve(const char *prefix, char folder[PYR_LIMIT_PATH_BYTES],
                                     char name[PYR_PROFILE_NAME_BYTES])
{
    char path[PYR_LIMIT_PATH_BYTES];
    pyr_status status = expand(prefix, path, sizeof path);
    if (status != PYR_OK) {
        return status;
    }
    const char *last = strrchr(path, '/') + 1;
    size_t folder_length = (size_t)(last - path);
    if (*last == '\0' || pyr_os_folder_exists(path)) {
        folder_length = strlen(path);
        last = DEFAULT_NAME;
    }
    while (folder_length > 1 && path[folder_length - 1] == '/') {
        folder_length--;
    }
    if (strlen(last) >= PYR_PROFILE_NAME_BYTES) {
        return PYR_ETOOBIG;
    }
    memcpy(name, last, strlen(last) + 1);
    memcpy(folder, path, folder_length);
    folder[folder_length] = '\0';
    return PYR_OK;
}

/* ------------------------------------------------------------------------------------ names --- */

/* Digits and then a point; what follows it, or NULL. */
static const char *parse_number(const char *text, uint64_t *number)
{
    *number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, digit, number)) {
            return NULL;
        }
    }
    return at > text && *at == '.' ? at + 1 : NULL;
}

int pyr_profile_files_parse(const char *file, const char *name, uint64_t *pid, uint64_t *sequence)
{
    size_t name_length = strlen(name);
    if (strncmp(file, name, name_length) != 0 || file[name_length] != '.') {
        return 0;
    }
    const char *rest = parse_number(file + name_length + 1, pid);
    rest = rest ? parse_number(rest, sequence) : NULL;
    return rest && (strcmp(rest, "pprof") == 0 || strcmp(rest, "pprof.json") == 0);
}

static int is_temporary(const char *file)
{
    size_t length = strlen(file), suffix = sizeof TEMPORARY_SUFFIX - 1;
    size_t prefix = sizeof TEMPORARY_PREFIX - 1;
    return length == prefix + 16 + suffix && strncmp(file, TEMPORARY_PREFIX, prefix) == 0 &&
           strspn(file + prefix, "0123456789abcdef") == 16 &&
           strcmp(file + prefix + 16, TEMPORARY_SUFFIX) == 0;
}

void pyr_profile_files_temporary(const char *folder, char *path, size_t size)
{
    snprintf(path, size, "%s/" TEMPORARY_PREFIX "%016" PRIx64 TEMPORARY_SUFFIX, folder,
             pyr_hash_seed());
}

typedef struct highest {
    const char *name;
    uint64_t pid, sequence;
} highest;

static int note_highest(void *context, const pyr_os_file *file)
{
    highest *most = context;
    uint64_t pid, sequence;
    if (pyr_profile_files_parse(file->name, most->name, &pid, &sequence) && pid == most->pid &&
        sequence > most->sequence) {
        most->sequence = sequence;
    }
    return 0;
}

pyr_status pyr_profile_files_highest(const char *folder, const char *name, uint64_t pid,
                                     uint64_t *sequence)
{
    highest most = {.name = name, .pid = pid};
    pyr_status status = pyr_os_folder_each(folder, name, note_highest, &most);
    *sequence = most.sequence;
    return status;
}

/* ---------------------------------------------------------------------------------- pruning --- */

typedef struct kept {
    int64_t modified_ns, bytes;
    char *file; /* name, owned */
} kept;

typedef struct pruning {
    const char *name;
    uint64_t pid, sequence;
    kept *files;
    size_t count, capacity;
    int64_t bytes; /* of all files of the name */
} pruning;

static int note_file(void *context, const pyr_os_file *file)
{
    pruning *all = context;
    uint64_t pid, sequence;
    if (!pyr_profile_files_parse(file->name, all->name, &pid, &sequence)) {
        return 0;
    }
    all->bytes += file->bytes;
    if (pid == all->pid && sequence == all->sequence) {
        return 0;
    }
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? all->capacity * 2 : 64;
        kept *files =
            capacity <= FILES ? pyr_memory_resize(all->files, capacity, sizeof *files) : NULL;
        if (!files) {
            return 0; /* it stays for the next round */
        }
        all->files = files;
        all->capacity = capacity;
    }
    size_t length = strlen(file->name);
    char *copy = pyr_memory_new(length + 1, 1);
    if (copy) {
        memcpy(copy, file->name, length);
        all->files[all->count++] = (kept){file->modified_ns, file->bytes, copy};
    }
    return 0;
}

static int compare_age(const void *left, const void *right)
{
    const kept *a = left, *b = right;
    if (a->modified_ns != b->modified_ns) {
        return a->modified_ns < b->modified_ns ? -1 : 1;
    }
    return strcmp(a->file, b->file);
}

static void remove_file(const char *folder, const char *file)
{
    char path[PYR_LIMIT_PATH_BYTES + FULL_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    pyr_os_file_remove(path); /* somebody else may have been quicker */
}

static int remove_unfinished(void *context, const pyr_os_file *file)
{
    const char *folder = context;
    int64_t age_ns = pyr_clock_realtime_ns() - file->modified_ns;
    if (is_temporary(file->name) && age_ns > UNFINISHED_SECONDS * SECOND_NS) {
        remove_file(folder, file->name);
    }
    return 0;
}

void pyr_profile_files_prune(const char *folder, const char *name, int64_t max_bytes,
                             int64_t max_age_s, uint64_t pid, uint64_t sequence)
{
    (void)!pyr_os_folder_each(folder, TEMPORARY_PREFIX, remove_unfinished,
                              (void *)(uintptr_t)folder);
    if (max_bytes <= 0 && max_age_s <= 0) {
        return;
    }
    pruning all = {.name = name, .pid = pid, .sequence = sequence};
    (void)!pyr_os_folder_each(folder, name, note_file, &all);
    if (all.count > 0) {
        qsort(all.files, all.count, sizeof all.files[0], compare_age);
    }
    int64_t now_ns = pyr_clock_realtime_ns();
    for (size_t i = 0; i < all.count; i++) {
        const kept *file = &all.files[i];
        int too_old = max_age_s > 0 && (now_ns - file->modified_ns) / SECOND_NS > max_age_s;
        int too_much = max_bytes > 0 && all.bytes > max_bytes;
        if (too_old || too_much) {
            remove_file(folder, file->file);
            all.bytes -= file->bytes;
        }
    }
    for (size_t i = 0; i < all.count; i++) {
        pyr_memory_free(all.files[i].file);
    }
    pyr_memory_free(all.files);
}
