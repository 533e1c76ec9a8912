/* Open files of /proc; see the header.
 *
 * A slot holds one file of one task; which slot is given by the task, and a newcomer takes its
 * place. A file of a task that has ended answers ESRCH even when its number is in use again, so a
 * slot never tells of another task.
 */
#include "os/task_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "os/os.h"

enum { SLOTS = 64 };

typedef enum file_kind { FILE_SYSCALL, FILE_SCHED, FILE_KINDS } file_kind;

static const char *const file_names[FILE_KINDS] = {"syscall", "sched"};

struct pyr_task_files {
    int folder; /* /proc/self/task, -1 = nothing is held */
    struct slot {
        int64_t task;   /* 0 = empty */
        int descriptor; /* when not empty */
    } slots[FILE_KINDS][SLOTS];
};

pyr_task_files *pyr_task_files_new(void)
{
    pyr_task_files *files = pyr_memory_new(1, sizeof *files);
    if (files) {
        files->folder = -1;
    }
    return files;
}

void pyr_task_files_free(pyr_task_files *files)
{
    pyr_memory_free(files);
}

pyr_status pyr_task_files_begin(pyr_task_files *files)
{
    *files = (pyr_task_files){.folder = -1};
    if (pyr_os_own_descriptors() == PYR_OK) {
        files->folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return files->folder >= 0 ? PYR_OK : PYR_ENOTSUP;
}

uint64_t pyr_task_files_count(pyr_task_files *files)
{
    struct stat folder;
    return files->folder >= 0 && fstat(files->folder, &folder) == 0
               ? pyr_task_parse_links((uint64_t)folder.st_nlink)
               : pyr_os_task_count();
}

static void empty(struct slot *slot)
{
    if (slot->task != 0) {
        (void)close(slot->descriptor);
        slot->task = 0;
    }
}

/* The beginning of a file into `text`, NUL-terminated; its length, -1 = not known. */
static ssize_t read_file(pyr_task_files *files, file_kind kind, int64_t task, char *text,
                         size_t size)
{
    struct slot *slot = &files->slots[kind][(uint64_t)task % SLOTS];
    if (slot->task != task) {
        char path[48];
        (void)snprintf(path, sizeof path, "%lld/%s", (long long)task, file_names[kind]);
        empty(slot);
        slot->descriptor = openat(files->folder, path, O_RDONLY | O_CLOEXEC);
        if (slot->descriptor < 0) {
            return -1;
        }
        slot->task = task;
    }
    ssize_t length = pread(slot->descriptor, text, size - 1, 0);
    if (length <= 0) {
        empty(slot);
        return -1;
    }
    text[length] = '\0';
    return length;
}

pyr_task_wait pyr_task_files_wait(pyr_task_files *files, int64_t task, uintptr_t *futex)
{
    if (files->folder < 0) {
        return pyr_os_task_wait(task, futex);
    }
    char text[128];
    ssize_t length = read_file(files, FILE_SYSCALL, task, text, sizeof text);
    *futex = 0;
    return length > 0 ? pyr_task_parse_wait(text, (size_t)length, futex) : PYR_TASK_UNKNOWN;
}

int64_t pyr_task_files_ran_ns(pyr_task_files *files, int64_t task)
{
    if (files->folder < 0) {
        return pyr_os_task_ran_ns(task);
    }
    char text[512];
    ssize_t length = read_file(files, FILE_SCHED, task, text, sizeof text);
    return length > 0 ? pyr_task_parse_ran(text, (size_t)length) : -1;
}
