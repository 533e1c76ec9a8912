/* The reader interface: hands each request to the kind of reader that was opened.
 *
 * Owns nothing; any thread, and hook safe where the kind is (self). All addresses are filtered here
 * and in the batch, so that no kind sees one outside user space.
 */
#include "reader/reader.h"

#include "reader/kind.h"

void pyr_reader_close(pyr_reader *reader)
{
    if (reader) {
        reader->kind->close(reader);
    }
}

void pyr_reader_read_batch(pyr_reader *reader, pyr_batch *batch)
{
    pyr_batch_gather(batch, reader);
}

pyr_status pyr_reader_read(pyr_reader *reader, pyr_addr addr, void *destination, size_t length)
{
    if (length == 0) {
        return PYR_OK;
    }
    if (!pyr_span_is_user(addr, length)) {
        return PYR_EFAULT;
    }
    struct iovec span = {(void *)addr, length};
    struct iovec target = {destination, length};
    ssize_t arrived = reader->kind->transfer(reader, &span, 1, &target);
    return arrived >= 0 && (size_t)arrived == length ? PYR_OK : PYR_EFAULT;
}

pyr_status pyr_reader_read_addr(pyr_reader *reader, pyr_addr addr, pyr_addr *value)
{
    return pyr_reader_read(reader, addr, value, sizeof *value);
}

void pyr_reader_fork_child(pyr_reader *reader)
{
    if (reader->kind->fork_child) {
        reader->kind->fork_child(reader);
    }
}

const char *pyr_reader_method(const pyr_reader *reader)
{
    return reader->kind->method(reader);
}
