/* Bytes out of a process: many spans in one call, gathered into one buffer, never a fault.
 *
 * A batch lists spans of the target and where each lands in the batch's own buffer (spans lie one
 * behind the other). One call reads them in order, so a batch that lists the same memory twice
 * gets two copies at two moments: that is how a consistent stack is proved. A span that cannot be
 * read is marked and does not spoil the others. A batch belongs to one thread at a time.
 *
 * `self` is process_vm_writev turned round: the spans are the local side (the kernel reads them by
 * copy_from_user, which cannot fault us), our buffer is the remote side. `pid` is
 * process_vm_readv, `image` a recorded memory image.
 */
#ifndef PYR_READER_READER_H
#define PYR_READER_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

typedef uintptr_t pyr_addr; /* an address in the target; never a pointer */

typedef struct pyr_reader pyr_reader; /* opaque */

typedef struct pyr_batch {
    uint8_t *buffer; /* capacity bytes, page aligned, owned by the batch */
    size_t capacity; /* bytes */
    size_t used;     /* bytes asked for */
    size_t count;    /* spans */
    uint64_t calls;  /* system calls made for it so far */
    struct pyr_batch_span {
        pyr_addr addr;
        uint32_t length;
        uint32_t offset; /* into buffer */
        uint32_t done;   /* bytes that arrived: length, or less where memory ends */
    } spans[PYR_LIMIT_SPANS];
} pyr_batch;

/* A batch with room for `capacity` bytes; NULL when out of memory. */
pyr_batch *pyr_batch_new(size_t capacity);
void pyr_batch_free(pyr_batch *batch);

/* Empties it: no spans. */
PYR_HOOK_SAFE void pyr_batch_clear(pyr_batch *batch);

/* Adds a span; its index, or -1 when spans or buffer are full or length is 0. The address may be
 * anything. Offsets are kept 8-aligned. */
PYR_HOOK_SAFE int pyr_batch_add(pyr_batch *batch, pyr_addr addr, size_t length);

/* The bytes of span `index`, or NULL when not all of them arrived. Valid until the next clear. */
const uint8_t *pyr_batch_get(const pyr_batch *batch, int index);

/* Memory of the own process. PYR_OK, PYR_EPERM (a sandbox forbids both system calls),
 * PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_reader_open_self(pyr_reader **reader);

/* Memory of process `pid`. PYR_EPERM, PYR_ENOENT, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_reader_open_pid(int64_t pid, pyr_reader **reader);

/* A recorded image (format: reader/image.h). The bytes are borrowed until close. PYR_EBAD. */
PYR_MUST_USE pyr_status pyr_reader_open_image(const uint8_t *image, size_t length,
                                              pyr_reader **reader);

void pyr_reader_close(pyr_reader *reader);

/* Reads all spans of the batch, in order. Never fails as a whole: each span tells its `done`. */
PYR_HOOK_SAFE void pyr_reader_read_batch(pyr_reader *reader, pyr_batch *batch);

/* Reads exactly `length` bytes into `destination`: PYR_OK or PYR_EFAULT (contents undefined). */
PYR_MUST_USE pyr_status pyr_reader_read(pyr_reader *reader, pyr_addr addr, void *destination,
                                        size_t length);

/* Reads one pointer-sized word. */
PYR_MUST_USE pyr_status pyr_reader_read_addr(pyr_reader *reader, pyr_addr addr, pyr_addr *value);

/* After a fork, in the child: the reader of `self` must learn its new pid. Hook safe. */
void pyr_reader_fork_child(pyr_reader *reader);

/* How `self` reads: "process_vm_writev" or "process_vm_readv"; others their own. Static text. */
const char *pyr_reader_method(const pyr_reader *reader);

#endif
