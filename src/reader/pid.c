/* Reading another process by process_vm_readv, which needs the rights of ptrace but stops nothing.
 *
 * Owns nothing but the pid's number. Any thread.
 */
#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "reader/kind.h"

typedef struct pid_reader {
    pyr_reader reader;
    int64_t pid;
} pid_reader;

ssize_t pyr_transfer_readv(int64_t pid, const struct iovec *spans, size_t count,
                           const struct iovec *destination)
{
    /* No wrapper of libc's: see self.c, which comes here too. */
    return syscall(SYS_process_vm_readv, (long)pid, destination, 1UL, spans, count, 0UL);
}

static ssize_t transfer(pyr_reader *reader, const struct iovec *spans, size_t count,
                        const struct iovec *destination)
{
    return pyr_transfer_readv(((pid_reader *)reader)->pid, spans, count, destination);
}

static const char *method(const pyr_reader *reader)
{
    (void)reader;
    return "process_vm_readv";
}

static void close_pid(pyr_reader *reader)
{
    pyr_memory_free(reader);
}

static const pyr_reader_kind pid_kind = {transfer, method, NULL, close_pid};

pyr_status pyr_reader_open_pid(int64_t pid, pyr_reader **reader)
{
    if (pid <= 0 || pid > INT_MAX) {
        return PYR_ENOENT;
    }
    /* Nothing is mapped at 0, so EFAULT is the answer of a process that we may read. */
    uint8_t byte;
    struct iovec span = {NULL, 1};
    struct iovec destination = {&byte, 1};
    if (pyr_transfer_readv(pid, &span, 1, &destination) < 0 && errno != EFAULT) {
        return errno == ESRCH ? PYR_ENOENT : PYR_EPERM;
    }
    pid_reader *opened = pyr_memory_new(1, sizeof *opened);
    if (!opened) {
        return PYR_ENOMEM;
    }
    opened->reader.kind = &pid_kind;
    opened->pid = pid;
    *reader = &opened->reader;
    return PYR_OK;
}
