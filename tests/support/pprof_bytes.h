/* Hand-made pprof messages and made-up profiles for the tests of src/pprof. */
#ifndef PYR_SUPPORT_PPROF_BYTES_H
#define PYR_SUPPORT_PPROF_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "pprof/compress.h"
#include "pprof/profile.h"

/* Appends a message of the profile whose fields 1, 2, ... are `count` numbers; 0 is left out. */
void pyr_bytes_numbers(pyr_buffer *out, uint32_t field, const uint64_t *numbers, size_t count);

/* Appends an entry of the string table. */
void pyr_bytes_string(pyr_buffer *out, const char *text);

/* Appends a location of one line. */
void pyr_bytes_location(pyr_buffer *out, uint64_t id, uint64_t function, uint64_t line);

/* Appends a sample of one location and one value, no labels. */
void pyr_bytes_sample(pyr_buffer *out, uint64_t location, uint64_t value);

/* Appends the smallest whole profile: strings "", "cpu-time", "nanoseconds", "f", "a.py"; function
 * f of a.py (id 1); location line 10 of it (id 1); one sample of value 5. */
void pyr_bytes_tiny(pyr_buffer *out);

/* Appends a profile of `samples` samples made from `seed`: four types, labels of all sorts,
 * recursion, negative and huge values, names that are not ASCII. */
void pyr_bytes_random(pyr_buffer *out, uint64_t seed, size_t samples, pyr_pprof_compression kind);

/* Appends a text that says all a profile means, and nothing of its indices: equal profiles give
 * equal texts. */
void pyr_bytes_describe(pyr_buffer *out, const pyr_profile *profile);

/* The next number of a small generator. */
uint64_t pyr_bytes_next(uint64_t *state);

/* A copy of bytes that ends where reading on faults; NULL when the system refuses. */
const uint8_t *pyr_bytes_guard(const void *bytes, size_t length);

/* Gives back what pyr_bytes_guard made. */
void pyr_bytes_unguard(const uint8_t *copy, size_t length);

#endif
