/* Batches of spans, and how any kind of reader fills one in as few calls as possible.
 *
 * A call takes a run of spans whose slots in the buffer touch, so that the destination is a single
 * iovec: the kernel pins the pages of each remote iovec, which is what costs in these calls. Slots
 * are 8-aligned; the up to seven bytes between two of them are read as well, which is safe as long
 * as they lie in the page of the span's last byte (else the run ends there).
 *
 * A batch owns its buffer and the iovecs for its calls; one thread at a time. Reading allocates
 * nothing.
 */
#include <errno.h>

#include "base/memory.h"
#include "reader/kind.h"

enum { PAGE_BYTES = 4096, SLOT_ALIGNMENT = 8 };

/* What pyr_batch_new really allocates. */
typedef struct batch_body {
    pyr_batch batch; /* first: pointers to it are pointers to the body */
    void *block;     /* holds the page-aligned buffer */
    struct iovec vectors[PYR_LIMIT_SPANS];
} batch_body;

static size_t slot_size(size_t length)
{
    return (length + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
}

pyr_batch *pyr_batch_new(size_t capacity)
{
    capacity = slot_size(capacity);
    if (capacity == 0 || capacity > INT32_MAX) {
        return NULL;
    }
    batch_body *body = pyr_memory_new(1, sizeof *body);
    if (!body) {
        return NULL;
    }
    body->block = pyr_memory_new(1, capacity + PAGE_BYTES);
    if (!body->block) {
        pyr_memory_free(body);
        return NULL;
    }
    uint8_t *block = body->block;
    size_t past = (uintptr_t)block % PAGE_BYTES;
    body->batch.buffer = past ? block + (PAGE_BYTES - past) : block;
    body->batch.capacity = capacity;
    return &body->batch;
}

void pyr_batch_free(pyr_batch *batch)
{
    if (batch) {
        batch_body *body = (batch_body *)batch;
        pyr_memory_free(body->block);
        pyr_memory_free(body);
    }
}

void pyr_batch_clear(pyr_batch *batch)
{
    batch->used = 0;
    batch->count = 0;
}

int pyr_batch_add(pyr_batch *batch, pyr_addr addr, size_t length)
{
    if (length == 0 || length > batch->capacity - batch->used || batch->count >= PYR_LIMIT_SPANS) {
        return -1;
    }
    batch->spans[batch->count] = (struct pyr_batch_span){
        .addr = addr, .length = (uint32_t)length, .offset = (uint32_t)batch->used, .done = 0};
    batch->used += slot_size(length);
    return (int)batch->count++;
}

const uint8_t *pyr_batch_get(const pyr_batch *batch, int index)
{
    if (index < 0 || (size_t)index >= batch->count) {
        return NULL;
    }
    const struct pyr_batch_span *span = &batch->spans[index];
    return span->done == span->length ? batch->buffer + span->offset : NULL;
}

/* True when the bytes that fill up the span's slot lie in the page of its last byte. */
static bool slot_is_safe(const struct pyr_batch_span *span)
{
    pyr_addr last = span->addr + span->length - 1;
    pyr_addr slot_last = span->addr + slot_size(span->length) - 1;
    return last / PAGE_BYTES == slot_last / PAGE_BYTES;
}

/* Lists a run of spans from `first` in the batch's iovecs; the number of spans, 0 when the first
 * one cannot be read. *length: bytes of the run. */
static size_t list_run(batch_body *body, size_t first, size_t *length)
{
    const pyr_batch *batch = &body->batch;
    size_t count = 0;
    bool open = true;
    *length = 0;
    for (size_t i = first; i < batch->count && open; i++) {
        const struct pyr_batch_span *span = &batch->spans[i];
        if (!pyr_span_is_user(span->addr, span->length)) {
            break;
        }
        open = slot_is_safe(span);
        size_t bytes = open ? slot_size(span->length) : span->length;
        /* An address as iov_base is what the system call is about; it is never dereferenced. */
        body->vectors[count++] = (struct iovec){(void *)span->addr, bytes};
        *length += bytes;
    }
    return count;
}

/* Notes what `arrived` bytes of a run mean for its spans; the span to go on with: the one behind
 * the first that is incomplete. */
static size_t account(batch_body *body, size_t first, size_t count, size_t arrived)
{
    for (size_t i = 0; i < count; i++) {
        struct pyr_batch_span *span = &body->batch.spans[first + i];
        span->done = arrived < span->length ? (uint32_t)arrived : span->length;
        if (arrived < body->vectors[i].iov_len) {
            return first + i + 1;
        }
        arrived -= body->vectors[i].iov_len;
    }
    return first + count;
}

void pyr_batch_gather(pyr_batch *batch, pyr_reader *reader)
{
    batch_body *body = (batch_body *)batch;
    for (size_t i = 0; i < batch->count; i++) {
        batch->spans[i].done = 0;
    }
    size_t next = 0;
    while (next < batch->count) {
        size_t length;
        size_t count = list_run(body, next, &length);
        if (count == 0) {
            next++;
            continue;
        }
        struct iovec destination = {batch->buffer + batch->spans[next].offset, length};
        batch->calls++;
        ssize_t arrived = reader->kind->transfer(reader, body->vectors, count, &destination);
        if (arrived < 0 && errno != EFAULT) {
            return; /* the process is gone, or reading is forbidden by now */
        }
        next = account(body, next, count, arrived < 0 ? 0 : (size_t)arrived);
    }
}
