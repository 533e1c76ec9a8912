/* Another process as /proc shows it; see the header. One thread; it opens and closes files of
 * /proc, and never the process's memory. */
#include "cli/suspect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"

enum { PATH_BYTES = 64, TEXT_BYTES = 16 << 20, STEP_BYTES = 1 << 16 };

/* The whole file /proc/PID/`name`, ended by a NUL; the caller frees it. NULL: errno says why. */
static char *read_text(int64_t pid, const char *name, size_t *length)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return NULL;
    }
    pyr_buffer text;
    pyr_buffer_init(&text, TEXT_BYTES);
    ssize_t got = 1;
    while (got > 0 && pyr_buffer_reserve(&text, STEP_BYTES) == PYR_OK) {
        got = read(file, text.data + text.length, STEP_BYTES);
        text.length += got > 0 ? (size_t)got : 0;
    }
    int error = errno;
    close(file);
    if (got < 0 || pyr_buffer_append(&text, "", 1) != PYR_OK) {
        pyr_buffer_fini(&text);
        errno = got < 0 ? error : ENOMEM;
        return NULL;
    }
    *length = text.length - 1;
    size_t all = 0;
    return (char *)pyr_buffer_take(&text, &all);
}

static void split_environment(pyr_suspect *suspect, size_t length)
{
    size_t count = 0;
    for (char *at = suspect->environment_text;
         at < suspect->environment_text + length && count < PYR_LIMIT_SUSPECT_VARIABLES;
         at += strlen(at) + 1) {
        suspect->environment[count++] = at;
    }
    suspect->environment[count] = NULL;
}

static void find_code(pyr_suspect *suspect, const char *maps)
{
    static const char *const OTHERS[][2] = {
        {"ddtrace", "/ddtrace/internal/datadog/profiling/"},
        {"pyroscope", "/pyroscope"},
        {"memray", "/memray/"},
        {"scalene", "/scalene/"},
        {"yappi", "/_yappi"},
    };
    suspect->has_core = strstr(maps, "/pyrometer/_native.") != NULL;
    for (size_t row = 0; row < sizeof OTHERS / sizeof OTHERS[0]; row++) {
        size_t used = strlen(suspect->others);
        if (strstr(maps, OTHERS[row][1]) != NULL) {
            snprintf(suspect->others + used, sizeof suspect->others - used, "%s%s",
                     used > 0 ? ", " : "", OTHERS[row][0]);
        }
    }
}

/* Our threads, by the name of the one that every collector needs. */
static bool has_our_threads(int64_t pid)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    bool found = false;
    const struct dirent *task;
    while (tasks != NULL && !found && (task = readdir(tasks)) != NULL) {
        char name[PATH_BYTES + 32];
        size_t length = 0;
        snprintf(name, sizeof name, "task/%.20s/comm", task->d_name);
        char *text = task->d_name[0] != '.' ? read_text(pid, name, &length) : NULL;
        found = text != NULL && strcmp(text, "pyr-export\n") == 0;
        pyr_memory_free(text);
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return found;
}

pyr_status pyr_suspect_open(pyr_suspect *suspect, int64_t pid)
{
    *suspect = (pyr_suspect){.environment = {NULL}};
    char path[PATH_BYTES];
    size_t length = 0;
    suspect->environment_text = read_text(pid, "environ", &length);
    if (suspect->environment_text == NULL) {
        return PYR_ENOENT;
    }
    split_environment(suspect, length);
    char *maps = read_text(pid, "maps", &length);
    char *status = read_text(pid, "status", &length);
    find_code(suspect, maps != NULL ? maps : "");
    suspect->seccomp_filters = status != NULL && strstr(status, "\nSeccomp:\t2\n") != NULL;
    suspect->is_running = has_our_threads(pid);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    snprintf(suspect->folder, sizeof suspect->folder, "/proc/%d/cwd", (int)pid);
    ssize_t got = readlink(path, suspect->executable, sizeof suspect->executable - 1);
    suspect->executable[got > 0 ? got : 0] = '\0';
    pyr_memory_free(maps);
    pyr_memory_free(status);
    return PYR_OK;
}

void pyr_suspect_close(pyr_suspect *suspect)
{
    pyr_memory_free(suspect->environment_text);
    suspect->environment_text = NULL;
}
