/* A body of multipart/form-data (RFC 7578), as libdatadog writes it. Pure but for allocation. */
#ifndef PYR_EXPORT_MULTIPART_H
#define PYR_EXPORT_MULTIPART_H

#include <stddef.h>

#include "base/buffer.h"

enum { PYR_LIMIT_BOUNDARY = 64 };

/* A boundary that no part contains, but for a chance of 2^-192. */
void pyr_multipart_boundary(char boundary[PYR_LIMIT_BOUNDARY]);

/* Appends a part whose name is its file name, but for `name`; `type` NULL: none is said. Errors
 * stick in the buffer. Names are ours: no quotes or line ends in them. */
void pyr_multipart_add(pyr_buffer *body, const char *boundary, const char *name,
                       const char *file_name, const char *type, const void *bytes, size_t length);

/* Appends the end. */
void pyr_multipart_end(pyr_buffer *body, const char *boundary);

#endif
