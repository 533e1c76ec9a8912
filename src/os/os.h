/* What the core asks of the operating system: threads, waiting, address space, files.
 *
 * One implementation a platform (os_linux.c); no logic above it knows the platform. Functions are
 * for any thread and not hook safe, except where marked. Paths are NUL-terminated bytes.
 */
#ifndef PYR_OS_OS_H
#define PYR_OS_OS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ------------------------------------------------------------------------------- threads ---- */

enum { PYR_OS_STACK_BYTES = 256 * 1024 }; /* of our threads, whatever `ulimit -s` says */

/* Starts a thread that blocks every signal, so that no handler of the program ever runs on it and
 * no write of it raises SIGPIPE or SIGXFSZ. `name` has at most 15 bytes. The caller later joins or
 * detaches it. PYR_ETHREAD. */
PYR_MUST_USE pyr_status pyr_os_thread_start(pthread_t *thread, const char *name,
                                            void *(*run)(void *context), void *context);

/* When such a thread last ended, monotonic; 0 = none has. The kernel counts it for a while more,
 * also after it was joined: some microseconds, or until it has got a CPU once more. */
int64_t pyr_os_thread_last_end_ns(void);

/* Gives the calling thread descriptors of its own, with /dev/null as 0 to 2: what it opens from now
 * on is not inherited by a fork's child, nor closed when the program closes all that it finds. A
 * record lock that it takes is its own too. PYR_ENOTSUP: the kernel has no such call (before 5.9)
 * or a sandbox forbids it, and nothing has changed. */
PYR_MUST_USE pyr_status pyr_os_own_descriptors(void);

/* This process, and the user it acts for. Hook safe. */
PYR_HOOK_SAFE int64_t pyr_os_process(void);
PYR_HOOK_SAFE uint64_t pyr_os_user(void);

/* When this process started, in ticks since the machine did: with the pid it names one process. 0:
 * unknown. Three system calls. */
uint64_t pyr_os_process_birth(void);

/* ------------------------------------------------------------------------------- waiting ---- */

/* Sleeps while *word is `expected`, at most until the monotonic `deadline_ns`. May return early
 * without a reason: the caller looks at the word again. Wait-free when the word differs. */
PYR_HOOK_SAFE void pyr_os_futex_wait(_Atomic uint32_t *word, uint32_t expected,
                                     int64_t deadline_ns);

/* Wakes all who wait for the word. The word need not exist any more. */
PYR_HOOK_SAFE void pyr_os_futex_wake(_Atomic uint32_t *word);

/* --------------------------------------------------------------------------------- clocks ---- */

/* Reading the CPU clock of the process adds up all its threads, 0.1 us each, unless somebody has
 * armed a timer on it: from then on the kernel keeps the sum. Arms one that never fires. The
 * handle, -1 when refused. Not inherited by a fork's child. One system call more in each direction.
 */
int pyr_os_process_clock_open(void);

/* Gives it back; -1 is nothing. */
void pyr_os_process_clock_close(int handle);

/* ------------------------------------------------------------------------- address space ---- */

/* Most address space that this process may have (RLIMIT_AS); SIZE_MAX: no limit. Any thread. */
size_t pyr_os_address_space(void);

/* Address space of `bytes` zero bytes, page aligned, without memory until touched, small pages
 * only. NULL: refused. */
void *pyr_os_reserve(size_t bytes);
void pyr_os_release(void *space, size_t bytes);

/* Gives the memory back and keeps the address space: it reads as zeros again. */
PYR_HOOK_SAFE void pyr_os_discard(void *space, size_t bytes);

/* The pages lose what they share with a file or another process, and read as zeros: memory of this
 * process alone. Nobody may write to them meanwhile. */
PYR_HOOK_SAFE void pyr_os_make_own(void *space, size_t bytes);

/* True: the page at this address is in no mapping of this process. */
int pyr_os_is_unmapped(const void *address);

/* True: no such process is there (any more), as this one sees processes. */
int pyr_os_process_is_gone(int64_t pid);

/* --------------------------------------------------------------------------------- files ---- */

/* True: a folder of a file system whose files are memory (tmpfs). */
int pyr_os_is_memory(const char *path);

/* Maps a file of this user, shared, for reading and writing, in place of the pages at `space`. On
 * failure these stay what they were. Safe only where writing to the file cannot fail: see
 * pyr_os_is_memory. PYR_EBAD: it is shorter, or no regular file. */
PYR_MUST_USE pyr_status pyr_os_file_map(const char *path, void *space, size_t bytes);

/* Makes a folder (mode 0755 less the umask) and the folders above it. PYR_OK also when it is
 * there already. */
PYR_MUST_USE pyr_status pyr_os_folder_make(const char *path);

/* PYR_OK: files can be made in this existing folder; else why not. */
PYR_MUST_USE pyr_status pyr_os_folder_check(const char *path);

/* True when `path` is a folder. */
int pyr_os_folder_exists(const char *path);

/* True when `path` is a folder of this user, and no link to one. */
int pyr_os_folder_is_own(const char *path);

/* Writes a new file (mode 0644 less the umask). PYR_EEXIST, PYR_ENOSPC, PYR_EPERM ...; on failure
 * no file remains. */
PYR_MUST_USE pyr_status pyr_os_file_write(const char *path, const void *bytes, size_t length);

/* Writes into an existing file of this user (never through a link), from `offset` on. PYR_ENOENT,
 * PYR_ENOSPC ...; a part may be written then. */
PYR_MUST_USE pyr_status pyr_os_file_write_at(const char *path, uint64_t offset, const void *bytes,
                                             size_t length);

/* Gives the file its final name, atomically and never over another file: PYR_EEXIST. Also on file
 * systems without hard links or without such a rename. On failure `from` remains. */
PYR_MUST_USE pyr_status pyr_os_file_publish(const char *from, const char *to);

/* Removes a file; PYR_ENOENT when somebody else did. */
PYR_HOOK_SAFE pyr_status pyr_os_file_remove(const char *path);

typedef struct pyr_os_file {
    const char *name; /* without folder */
    int64_t bytes;
    int64_t modified_ns; /* Unix time */
} pyr_os_file;

/* Calls `visit` for each regular file of a folder (symbolic links are none) whose name begins with
 * `prefix`; ends early when it returns non-zero. */
PYR_MUST_USE pyr_status pyr_os_folder_each(const char *path, const char *prefix,
                                           int (*visit)(void *context, const pyr_os_file *file),
                                           void *context);

/* The absolute path of the working folder; PYR_ENOENT when it was deleted. */
PYR_MUST_USE pyr_status pyr_os_working_folder(char *path, size_t size);

/* TMPDIR, else /tmp. */
void pyr_os_temporary_folder(char *path, size_t size);

#endif
