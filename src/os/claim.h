/* Files that processes share: private folders, whole reads, and claims that die with their owner.
 *
 * Any thread; not hook safe. Paths are NUL-terminated bytes.
 */
#ifndef PYR_OS_CLAIM_H
#define PYR_OS_CLAIM_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

/* Makes a folder that only this user may enter (mode 0700), and ordinary folders above it. PYR_OK
 * also when it is there already and ours; PYR_EPERM when it is another user's or a link. */
PYR_MUST_USE pyr_status pyr_os_folder_make_private(const char *path);

/* Appends a whole file to `out`, whose maximum bounds it (PYR_ETOOBIG). Never waits: of what is no
 * regular file (a pipe, a device) nothing is read, PYR_EINVAL. Files of /proc are regular. */
PYR_MUST_USE pyr_status pyr_os_file_read(const char *path, pyr_buffer *out);

/* Claims a file for this process and, unless `out` is NULL, appends it whole: no other process gets
 * it until it is released, or this process ends in whatever way. A fork's child does not have it.
 * PYR_EBUSY: another process has it; PYR_ENOENT: it is gone; else as pyr_os_file_read. Two claims
 * of one process do not exclude each other, and closing any descriptor of the file ends both. */
PYR_MUST_USE pyr_status pyr_os_file_claim(const char *path, pyr_buffer *out, int *claim);
void pyr_os_file_release(int claim);

/* Calls `visit` with the name of whatever lies in a folder and has a name that ends with `suffix`;
 * ends early when it returns non-zero. */
PYR_MUST_USE pyr_status pyr_os_folder_names(const char *path, const char *suffix,
                                            int (*visit)(void *context, const char *name),
                                            void *context);

/* Modification time of a file or folder in Unix time, 0 = unknown; and its inode, 0 = unknown. */
int64_t pyr_os_modified_ns(const char *path);
uint64_t pyr_os_inode(const char *path);

/* 1: something listens there now. Never waits: loopback and unix sockets answer at once. */
int pyr_os_listens_unix(const char *path);
int pyr_os_listens_loopback(uint16_t port);

#endif
