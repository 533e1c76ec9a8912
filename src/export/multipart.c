/* Multipart bodies; see the header. Not libcurl's: a body is also what waits on disk, and libcurl's
 * writer gives each part a content type that Datadog's own libraries leave out. */
#include "export/multipart.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/map.h"

void pyr_multipart_boundary(char boundary[PYR_LIMIT_BOUNDARY])
{
    snprintf(boundary, PYR_LIMIT_BOUNDARY, "pyrometer-%016" PRIx64 "%016" PRIx64 "%016" PRIx64,
             pyr_hash_seed(), pyr_hash_seed(), pyr_hash_seed());
}

void pyr_multipart_add(pyr_buffer *body, const char *boundary, const char *name,
                       const char *file_name, const char *type, const void *bytes, size_t length)
{
    pyr_buffer_format(body,
                      "--%s\r\n"
                      "Content-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\n",
                      boundary, name, file_name);
    if (type != NULL) {
        pyr_buffer_format(body, "Content-Type: %s\r\n", type);
    }
    pyr_buffer_text(body, "\r\n");
    pyr_buffer_append(body, bytes, length);
    pyr_buffer_text(body, "\r\n");
}

void pyr_multipart_end(pyr_buffer *body, const char *boundary)
{
    pyr_buffer_format(body, "--%s--\r\n", boundary);
}
