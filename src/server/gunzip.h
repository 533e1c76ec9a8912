/* Gzip's format uncompressed at one go, in a third of zlib's time. Private to server/. */
#ifndef PYR_SERVER_GUNZIP_H
#define PYR_SERVER_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Appends what is in one gzip member to `out`, which must be empty and whose maximum bounds it.
 * False, and nothing is appended: the bytes are of another kind, or several members, or damaged, or
 * too large, or memory is out; pyr_decompress reads them or says which. Any thread. */
bool pyr_gunzip(const void *bytes, size_t length, pyr_buffer *out);

#endif
