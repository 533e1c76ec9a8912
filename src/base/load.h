/* Reads numbers out of copied bytes, by memcpy: alignment and type never matter. Hook safe. */
#ifndef PYR_BASE_LOAD_H
#define PYR_BASE_LOAD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pyr_load_u64(const uint8_t *bytes, size_t offset)
{
    uint64_t value;
    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

static inline uint32_t pyr_load_u32(const uint8_t *bytes, size_t offset)
{
    uint32_t value;
    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

static inline int32_t pyr_load_i32(const uint8_t *bytes, size_t offset)
{
    return (int32_t)pyr_load_u32(bytes, offset);
}

/* One remote pointer. */
static inline uintptr_t pyr_load_addr(const uint8_t *bytes, size_t offset)
{
    uintptr_t value;
    memcpy(&value, bytes + offset, sizeof value);
    return value;
}

#endif
