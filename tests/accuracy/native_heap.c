/* A C library of a program, for the tests of the native heap: it allocates in every way there is,
 * and says how much it asked for. Loaded through ctypes; knows nothing of the profiler.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

/* A kept block, linked; `size` is the whole of it. */
typedef struct block {
    struct block *next;
    size_t size;
    int is_mapped;
} block;

typedef enum way {
    BY_MALLOC,
    BY_CALLOC,
    BY_REALLOC,
    BY_REALLOCARRAY,
    BY_POSIX_MEMALIGN,
    BY_ALIGNED_ALLOC,
    BY_MEMALIGN,
    BY_MMAP,
    WAYS
} way;

static __attribute__((noinline)) void *allocate(way by, size_t size)
{
    void *made = NULL;
    switch (by) {
    case BY_CALLOC:
        return calloc(size / 8, 8);
    case BY_REALLOC:
        return realloc(NULL, size);
    case BY_REALLOCARRAY:
        return reallocarray(NULL, size / 8, 8);
    case BY_POSIX_MEMALIGN:
        return posix_memalign(&made, 64, size) == 0 ? made : NULL;
    case BY_ALIGNED_ALLOC:
        return aligned_alloc(64, size);
    case BY_MEMALIGN:
        return memalign(64, size);
    case BY_MMAP:
        made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return made != MAP_FAILED ? made : NULL;
    default:
        return malloc(size);
    }
}

static void release(block *one)
{
    if (one->is_mapped) {
        munmap(one, one->size);
    } else {
        free(one);
    }
}

/* Makes `count` blocks of `size` bytes (a multiple of 64), and returns the list of them. */
block *keep(int by, long count, size_t size)
{
    block *all = NULL;
    for (long i = 0; i < count; i++) {
        block *one = allocate((way)by, size);
        *one = (block){all, size, by == BY_MMAP};
        all = one;
    }
    return all;
}

void drop(block *all)
{
    while (all != NULL) {
        block *next = all->next;
        release(all);
        all = next;
    }
}

/* Gives back mappings with sizes that end within their last page. */
void drop_rounded(block *all)
{
    while (all != NULL) {
        block *next = all->next;
        munmap(all, all->size - 4000);
        all = next;
    }
}

/* Makes and releases. */
void churn(int by, long count, size_t size)
{
    for (long i = 0; i < count; i++) {
        drop(keep(by, 1, size));
    }
}

/* One block that grows in steps; returns it, `size` bytes large. */
block *grow(size_t step, size_t size)
{
    block *one = NULL;
    for (size_t now = step; now <= size; now += step) {
        one = realloc(one, now);
        *one = (block){NULL, now, 0};
    }
    return one;
}

/* A mapping with both ends cut off; `size` bytes are left. */
block *cut(size_t size)
{
    uint8_t *whole = allocate(BY_MMAP, 3 * size);
    munmap(whole, size);
    munmap(whole + 2 * size, size);
    block *one = (block *)(whole + size);
    *one = (block){NULL, size, 1};
    return one;
}

/* A function pointer taken before anybody could exchange anything: its calls are seen by nobody. */
static void (*unseen_free)(void *);

__attribute__((constructor)) static void take_address(void)
{
    unseen_free = (void (*)(void *))(uintptr_t)dlsym(RTLD_DEFAULT, "free");
}

void drop_unseen(block *all)
{
    while (all != NULL) {
        block *next = all->next;
        unseen_free(all);
        all = next;
    }
}

typedef struct job {
    long count;
    size_t size;
    block *kept;
} job;

static void *work(void *argument)
{
    job *todo = argument;
    todo->kept = keep(BY_MALLOC, todo->count, todo->size);
    return NULL;
}

/* The same as keep, in a thread that Python knows nothing of. */
block *keep_in_a_thread(long count, size_t size)
{
    job todo = {count, size, NULL};
    pthread_t thread;
    pthread_create(&thread, NULL, work, &todo);
    pthread_join(thread, NULL);
    return todo.kept;
}

/* The table through which this library calls others, and as much of what stands before it: both
 * kinds of slots. */
extern uintptr_t _GLOBAL_OFFSET_TABLE_[] __attribute__((visibility("hidden")));

void read_slots(uintptr_t *words, long count)
{
    for (long i = 0; i < count; i++) {
        words[i] = _GLOBAL_OFFSET_TABLE_[i - count / 2];
    }
}
