/* Reads pprof from untrusted bytes. Pure but for allocation; one thread a call.
 * Rules: google/pprof profile.proto and Profile.CheckValid (profile/profile.go). */
#ifndef PYR_PPROF_PARSER_H
#define PYR_PPROF_PARSER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef struct pyr_parse_error {
    const char *what; /* what is wrong, in words an engineer can act on; static storage */
    size_t offset;    /* byte of the uncompressed message where it was noticed */
} pyr_parse_error;

/* Parses raw, gzip or zstd bytes (told apart by magic number). `max_bytes` bounds the uncompressed
 * size. PYR_OK gives a profile that the caller frees with pyr_profile_free. Otherwise *profile is
 * NULL, `error` is filled, and the status says which kind: PYR_EPARTIAL (ends too early),
 * PYR_EBAD, PYR_ETOOBIG, PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_profile_parse(const uint8_t *bytes, size_t length, size_t max_bytes,
                                          pyr_profile **profile, pyr_parse_error *error);

#endif
