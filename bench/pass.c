/* Allocators that do nothing but pass on to those below: what any hook at all costs. Loaded by
 * bench/hooks.py, which fills `below` first; one set of functions each for RAW, MEM and OBJ. */
#include <stddef.h>

typedef struct allocator { /* PyMemAllocatorEx */
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t each);
    void *(*realloc)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block);
} allocator;

allocator below[3];

#define DEFINE(domain)                                                                             \
    static void *malloc_##domain(void *context, size_t size)                                       \
    {                                                                                              \
        return below[domain].malloc(context, size);                                                \
    }                                                                                              \
    static void *calloc_##domain(void *context, size_t count, size_t each)                         \
    {                                                                                              \
        return below[domain].calloc(context, count, each);                                         \
    }                                                                                              \
    static void *realloc_##domain(void *context, void *block, size_t size)                         \
    {                                                                                              \
        return below[domain].realloc(context, block, size);                                        \
    }                                                                                              \
    static void free_##domain(void *context, void *block)                                          \
    {                                                                                              \
        below[domain].free(context, block);                                                        \
    }

DEFINE(0)
DEFINE(1)
DEFINE(2)

#define FUNCTIONS(domain)                                                                          \
    {                                                                                              \
        NULL, malloc_##domain, calloc_##domain, realloc_##domain, free_##domain                    \
    }

allocator passing[3] = {FUNCTIONS(0), FUNCTIONS(1), FUNCTIONS(2)};
