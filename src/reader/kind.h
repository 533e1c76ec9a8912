/* What a kind of reader (self, pid, image, recording) gives to the common code. Private to reader/.
 *
 * Each kind embeds a pyr_reader as its first member and fills in one table.
 */
#ifndef PYR_READER_KIND_H
#define PYR_READER_KIND_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "reader/reader.h"

typedef struct pyr_reader_kind {
    /* Copies `count` spans of the target, one behind the other, to `destination`, whose length is
     * the sum of theirs. Returns the bytes that arrived before the first unreadable one, or -1 with
     * errno: EFAULT when there were none, anything else when nothing more can be read at all.
     * count <= PYR_LIMIT_SPANS; every span passed pyr_span_is_user. */
    ssize_t (*transfer)(pyr_reader *reader, const struct iovec *spans, size_t count,
                        const struct iovec *destination);
    const char *(*method)(const pyr_reader *reader);
    void (*fork_child)(pyr_reader *reader); /* NULL: nothing to do */
    void (*close)(pyr_reader *reader);
} pyr_reader_kind;

struct pyr_reader {
    const pyr_reader_kind *kind;
};

/* True for a span within user space. One address beyond it (or a non-canonical one) makes Linux
 * refuse a whole call, so such spans are never handed to the kernel. The last page below the limit
 * can hold no mapping on x86-64. On aarch64 only mappings asked for explicitly lie above 48 bits.
 */
static inline bool pyr_span_is_user(pyr_addr addr, size_t length)
{
#if defined(__x86_64__)
    const pyr_addr limit = ((pyr_addr)1 << 47) - 4096;
#else
    const pyr_addr limit = (pyr_addr)1 << 48;
#endif
    return addr < limit && length <= limit - addr;
}

/* Reads the spans of a batch through reader->kind->transfer; reader/batch.c. */
PYR_HOOK_SAFE void pyr_batch_gather(pyr_batch *batch, pyr_reader *reader);

/* process_vm_readv with one destination: what `pid` uses, and `self` where writev is forbidden. */
ssize_t pyr_transfer_readv(int64_t pid, const struct iovec *spans, size_t count,
                           const struct iovec *destination);

#endif
