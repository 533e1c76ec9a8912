/* Where a process runs; see the header. Stateless.
 *
 * What is read here may have been written by anybody: every file has a largest size, and what is
 * not of the expected form is left out.
 */
#include "export/surroundings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "os/claim.h"
#include "os/os.h"

enum {
    SMALL_FILE_BYTES = 1 << 16,
    PACKED_REFS_BYTES = 1 << 24,
    FOLDERS_ABOVE = 32, /* looked at for a .git */
    SHA_DIGITS = 40,
    LONG_SHA_DIGITS = 64,
};

/* Of the file system's inodes: the first cgroup namespace of a machine, that is, no container. */
static const uint64_t HOST_NAMESPACE = 0xEFFFFFFB;

/* Reads a small file as a text; NULL: it is not there. The caller frees the buffer. */
static char *read_text(const char *path, size_t maximum, pyr_buffer *buffer)
{
    pyr_buffer_init(buffer, maximum);
    if (pyr_os_file_read(path, buffer) != PYR_OK || pyr_buffer_append(buffer, "", 1) != PYR_OK) {
        return NULL;
    }
    return (char *)buffer->data;
}

/* -------------------------------------------------------------------------------- container */

static size_t count_hex(const char *text)
{
    return strspn(text, "0123456789abcdefABCDEF");
}

/* Length of a container's id at the beginning of the text, 0: none. */
static size_t match_id(const char *text)
{
    static const size_t uuid[] = {8, 4, 4, 4};
    size_t digits = count_hex(text);
    if (digits == 64) {
        return digits;
    }
    if (digits == 32 && text[32] == '-' && isdigit((unsigned char)text[33])) {
        return 33 + strspn(text + 33, "0123456789");
    }
    size_t length = 0;
    for (size_t group = 0; group < sizeof uuid / sizeof uuid[0]; group++) {
        if (count_hex(text + length) != uuid[group]) {
            return 0;
        }
        length += uuid[group];
        if (text[length] != '-' && text[length] != '_') {
            return 0;
        }
        length++;
    }
    digits = count_hex(text + length);
    return digits == 12 || digits == 4 ? length + digits : 0; /* 4: Cloud Foundry */
}

void pyr_container_id(const char *cgroup, char id[PYR_LIMIT_CONTAINER_ID])
{
    id[0] = '\0';
    for (const char *line = cgroup; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        const char *name = end;
        while (name > line && name[-1] != '/') {
            name--;
        }
        /* docker-<id>.scope, cri-containerd-<id>.scope, <id> */
        for (const char *at = name; name > line && at < end; at++) {
            size_t length = at == name || !isxdigit((unsigned char)at[-1]) ? match_id(at) : 0;
            if (length > 0 && length < PYR_LIMIT_CONTAINER_ID &&
                (at + length == end || strncmp(at + length, ".scope", strlen(".scope")) == 0)) {
                memcpy(id, at, length);
                id[length] = '\0';
                return;
            }
        }
        line = end + (*end == '\n' ? 1 : 0);
    }
}

pyr_status pyr_cgroup_folder(const char *cgroup, char *folder, size_t size)
{
    pyr_status status = PYR_ENOENT;
    for (const char *line = cgroup; *line != '\0';) {
        int length = (int)strcspn(line, "\n");
        const char *controllers = strchr(line, ':');
        const char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path != NULL && path < line + length) {
            int path_length = (int)(line + length - (path + 1));
            if (path == controllers + 1 && status != PYR_OK) {
                snprintf(folder, size, "/sys/fs/cgroup%.*s", path_length, path + 1);
                status = PYR_OK;
            } else if (strncmp(controllers, ":memory:", strlen(":memory:")) == 0) {
                snprintf(folder, size, "/sys/fs/cgroup/memory%.*s", path_length, path + 1);
                return PYR_OK;
            }
        }
        line += length + (line[length] == '\n' ? 1 : 0);
    }
    return status;
}

void pyr_entity_id(char container[PYR_LIMIT_CONTAINER_ID], char entity[PYR_LIMIT_CONTAINER_ID])
{
    char folder[PYR_LIMIT_PATH_BYTES];
    pyr_buffer buffer;
    container[0] = entity[0] = '\0';
    const char *cgroup = read_text("/proc/self/cgroup", SMALL_FILE_BYTES, &buffer);
    if (cgroup != NULL) {
        pyr_container_id(cgroup, container);
        if (container[0] != '\0') {
            snprintf(entity, PYR_LIMIT_CONTAINER_ID, "ci-%.*s", PYR_LIMIT_CONTAINER_ID - 4,
                     container);
        } else if (pyr_os_inode("/proc/self/ns/cgroup") != HOST_NAMESPACE &&
                   pyr_cgroup_folder(cgroup, folder, sizeof folder) == PYR_OK) {
            uint64_t inode = pyr_os_inode(folder);
            if (inode > 2) { /* smaller ones are roots of file systems */
                snprintf(entity, PYR_LIMIT_CONTAINER_ID, "in-%" PRIu64, inode);
            }
        }
    }
    pyr_buffer_fini(&buffer);
}

/* ------------------------------------------------------------------------------- kubernetes */

static void take_variable(const char *first, const char *second, char *text, size_t size)
{
    const char *value = getenv(first);
    value = value != NULL && *value != '\0' ? value : getenv(second);
    snprintf(text, size, "%s", value != NULL ? value : "");
}

void pyr_kubernetes_find(const char *host, pyr_kubernetes *kubernetes)
{
    *kubernetes = (pyr_kubernetes){0};
    if (getenv("KUBERNETES_SERVICE_HOST") == NULL) {
        return;
    }
    take_variable("POD_NAME", "DD_POD_NAME", kubernetes->pod, sizeof kubernetes->pod);
    take_variable("POD_NAMESPACE", "DD_POD_NAMESPACE", kubernetes->name_space,
                  sizeof kubernetes->name_space);
    take_variable("NODE_NAME", "DD_NODE_NAME", kubernetes->node, sizeof kubernetes->node);
    if (kubernetes->pod[0] == '\0') {
        snprintf(kubernetes->pod, sizeof kubernetes->pod, "%s", host);
    }
    if (kubernetes->name_space[0] == '\0') {
        pyr_buffer buffer;
        const char *text = read_text("/var/run/secrets/kubernetes.io/serviceaccount/namespace",
                                     sizeof kubernetes->name_space, &buffer);
        if (text != NULL) {
            snprintf(kubernetes->name_space, sizeof kubernetes->name_space, "%.*s",
                     (int)strcspn(text, "\r\n"), text);
        }
        pyr_buffer_fini(&buffer);
    }
}

/* -------------------------------------------------------------------------------------- git */

void pyr_git_clean_url(const char *url, char *clean, size_t size)
{
    const char *scheme = strstr(url, "://");
    const char *host = scheme != NULL ? scheme + 3 : url;
    size_t authority = strcspn(host, "/");
    const char *at = scheme != NULL ? memrchr(host, '@', authority) : NULL;
    snprintf(clean, size, "%.*s%s", (int)(host - url), url, at != NULL ? at + 1 : host);
}

/* The value of "key = value", if `line` is that. */
static const char *match_key(const char *line, const char *key)
{
    line += strspn(line, " \t");
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0) {
        return NULL;
    }
    line += length + strspn(line + length, " \t");
    return *line == '=' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

static void find_remote(const char *common, pyr_git *git)
{
    char path[2 * PYR_LIMIT_PATH_BYTES];
    pyr_buffer buffer;
    snprintf(path, sizeof path, "%s/config", common);
    char *text = read_text(path, SMALL_FILE_BYTES, &buffer);
    bool is_origin = false;
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = line + strcspn(line, "\r\n");
        char *next = *end != '\0' ? end + 1 : end;
        *end = '\0';
        const char *value = is_origin ? match_key(line, "url") : NULL;
        if (line[0] == '[') {
            is_origin = strncmp(line, "[remote \"origin\"]", strlen("[remote \"origin\"]")) == 0;
        } else if (value != NULL) {
            pyr_git_clean_url(value, git->repository_url, sizeof git->repository_url);
            break;
        }
        line = next;
    }
    pyr_buffer_fini(&buffer);
}

/* Takes the commit at the beginning of a text. */
static bool take_sha(const char *text, pyr_git *git)
{
    size_t digits = count_hex(text);
    if (digits != SHA_DIGITS && digits != LONG_SHA_DIGITS) {
        return false;
    }
    memcpy(git->commit_sha, text, digits);
    git->commit_sha[digits] = '\0';
    return true;
}

/* A reference among the packed ones: lines "<sha> <reference>". */
static void find_packed(const char *common, const char *reference, pyr_git *git)
{
    char path[2 * PYR_LIMIT_PATH_BYTES];
    char pattern[PYR_LIMIT_PATH_BYTES];
    pyr_buffer buffer;
    snprintf(path, sizeof path, "%s/packed-refs", common);
    snprintf(pattern, sizeof pattern, " %s\n", reference);
    const char *text = read_text(path, PACKED_REFS_BYTES, &buffer);
    const char *at = text != NULL ? strstr(text, pattern) : NULL;
    if (at != NULL) {
        const char *line = at;
        while (line > text && line[-1] != '\n') {
            line--;
        }
        take_sha(line, git);
    }
    pyr_buffer_fini(&buffer);
}

/* `folder`: with HEAD in it; `common`: with the references, the same but for worktrees. */
static void find_commit(const char *folder, const char *common, pyr_git *git)
{
    char path[2 * PYR_LIMIT_PATH_BYTES];
    pyr_buffer head, reference;
    snprintf(path, sizeof path, "%s/HEAD", folder);
    char *text = read_text(path, SMALL_FILE_BYTES, &head);
    pyr_buffer_init(&reference, 0);
    if (text != NULL && !take_sha(text, git) && strncmp(text, "ref: ", strlen("ref: ")) == 0) {
        char *name = text + strlen("ref: ");
        name[strcspn(name, "\r\n")] = '\0';
        if (strlen(name) < PYR_LIMIT_PATH_BYTES / 2 && strstr(name, "..") == NULL) {
            snprintf(path, sizeof path, "%s/%s", common, name);
            const char *sha = read_text(path, SMALL_FILE_BYTES, &reference);
            if (sha == NULL || !take_sha(sha, git)) {
                find_packed(common, name, git);
            }
        }
    }
    pyr_buffer_fini(&head);
    pyr_buffer_fini(&reference);
}

/* Reads a file that names a folder: `prefix`, then a path, relative to `base` or absolute. */
static bool follow(const char *file, const char *prefix, const char *base, char *folder,
                   size_t size)
{
    pyr_buffer buffer;
    char *text = read_text(file, SMALL_FILE_BYTES, &buffer);
    bool found = text != NULL && strncmp(text, prefix, strlen(prefix)) == 0;
    if (found) {
        char *path = text + strlen(prefix);
        path[strcspn(path, "\r\n")] = '\0';
        int written = snprintf(folder, size, "%s%s%s", path[0] == '/' ? "" : base,
                               path[0] == '/' ? "" : "/", path);
        found = written > 0 && (size_t)written < size;
    }
    pyr_buffer_fini(&buffer);
    return found;
}

void pyr_git_find(const char *folder, pyr_git *git)
{
    char above[PYR_LIMIT_PATH_BYTES];
    char found[PYR_LIMIT_PATH_BYTES + 8];
    char common[PYR_LIMIT_PATH_BYTES + 8];
    char file[2 * PYR_LIMIT_PATH_BYTES];
    *git = (pyr_git){0};
    snprintf(above, sizeof above, "%s", folder);
    for (int levels = 0; levels < FOLDERS_ABOVE; levels++) {
        snprintf(found, sizeof found, "%s/.git", above);
        snprintf(file, sizeof file, "%s/HEAD", found);
        if (pyr_os_inode(file) != 0 || follow(found, "gitdir: ", above, found, sizeof found)) {
            snprintf(common, sizeof common, "%s", found);
            snprintf(file, sizeof file, "%s/commondir", found);
            (void)follow(file, "", found, common, sizeof common); /* worktrees have it */
            find_commit(found, common, git);
            find_remote(common, git);
            return;
        }
        char *slash = strrchr(above, '/');
        if (slash == NULL || slash == above) {
            return;
        }
        *slash = '\0';
    }
}
