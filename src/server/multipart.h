/* multipart/form-data, as uploaders send it. Pure; bytes are hostile. Private to server/.
 * Source: RFC 7578, RFC 2046 5.1. */
#ifndef PYR_SERVER_MULTIPART_H
#define PYR_SERVER_MULTIPART_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PYR_MULTIPART_NAME_BYTES = 128, PYR_MULTIPART_PARTS = 64 };

typedef struct pyr_multipart {
    const uint8_t *at, *end;
    char boundary[80]; /* with the two dashes in front */
    size_t boundary_length;
    size_t parts;
} pyr_multipart;

typedef struct pyr_part {
    char name[PYR_MULTIPART_NAME_BYTES]; /* "" = none */
    char file_name[PYR_MULTIPART_NAME_BYTES];
    const uint8_t *bytes; /* borrowed from the body */
    size_t length;
} pyr_part;

/* Prepares to read a body of this content type. PYR_EINVAL: it is no multipart/form-data, or has no
 * boundary; PYR_EBAD: no boundary is in the body. */
PYR_MUST_USE pyr_status pyr_multipart_start(pyr_multipart *multipart, const char *content_type,
                                            const void *body, size_t length);

/* The next part. PYR_ENOENT after the last; PYR_EPARTIAL: the body ends too early; PYR_EBAD;
 * PYR_ETOOBIG: too many parts. */
PYR_MUST_USE pyr_status pyr_multipart_next(pyr_multipart *multipart, pyr_part *part);

#endif
