/* The tree of stacks; see the header.
 *
 * A node is (parent, function, line) and is found by its hash; the parent is nearer the root. A
 * node lives while it is held or has children. The root end of a stack that was cut is a node of
 * its own, with the number of omitted frames in place of a line. Owns reserved address space: nodes
 * are touched as they are used. Never allocates but in new.
 */
#include "collect/heap_stacks.h"

#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "collect/native_names.h"
#include "os/os.h"

enum { BUCKETS = PYR_HEAP_NODES };

static const uint32_t OMITTED = UINT32_MAX; /* in place of a function */

typedef struct node {
    uint32_t parent; /* 0 = none */
    uint32_t function, line;
    uint32_t held; /* holds and children; 0 = free */
    uint32_t next; /* in its bucket, or of the free ones */
} node;

typedef struct space {
    node nodes[PYR_HEAP_NODES]; /* node 0 is none */
    uint32_t buckets[BUCKETS];
} space;

/* A stack with its nodes, root at the end of the arrays. */
typedef struct path {
    uint32_t count; /* 0 = none */
    uint32_t omitted;
    uint32_t root; /* the node of the cut */
    pyr_frame frames[PYR_LIMIT_FRAMES];
    uint32_t nodes[PYR_LIMIT_FRAMES];
} path;

struct pyr_heap_stacks {
    space *space;
    uint64_t seed;
    uint32_t used; /* nodes from the start that were ever used */
    uint32_t free; /* first of the free ones among them */
    uint32_t count;
    path last; /* the stack held last, as long as no node was freed since */
};

pyr_heap_stacks *pyr_heap_stacks_new(void)
{
    pyr_heap_stacks *stacks = pyr_memory_new(1, sizeof *stacks);
    if (!stacks) {
        return NULL;
    }
    stacks->seed = pyr_hash_seed();
    stacks->space = pyr_os_reserve(sizeof *stacks->space);
    if (!stacks->space) {
        pyr_memory_free(stacks);
        return NULL;
    }
    stacks->used = 1;
    return stacks;
}

void pyr_heap_stacks_free(pyr_heap_stacks *stacks)
{
    if (stacks) {
        pyr_os_release(stacks->space, sizeof *stacks->space);
        pyr_memory_free(stacks);
    }
}

static uint32_t *bucket_of(const pyr_heap_stacks *stacks, uint32_t parent, uint32_t function,
                           uint32_t line)
{
    uint64_t hash = pyr_hash_u64((uint64_t)function << 32 | line, stacks->seed + parent);
    return &stacks->space->buckets[hash % BUCKETS];
}

/* The child of `parent`, made where it is new; 0: no room. */
static uint32_t get_child(pyr_heap_stacks *stacks, uint32_t parent, uint32_t function,
                          uint32_t line)
{
    node *nodes = stacks->space->nodes;
    uint32_t *bucket = bucket_of(stacks, parent, function, line);
    for (uint32_t at = *bucket; at != 0; at = nodes[at].next) {
        if (nodes[at].parent == parent && nodes[at].function == function &&
            nodes[at].line == line) {
            return at;
        }
    }
    uint32_t made = stacks->free;
    if (made != 0) {
        stacks->free = nodes[made].next;
    } else if (stacks->used < PYR_HEAP_NODES) {
        made = stacks->used++;
    } else {
        return 0;
    }
    nodes[made] = (node){parent, function, line, 0, *bucket};
    nodes[parent].held++; /* also of node 0, where it means nothing */
    *bucket = made;
    stacks->count++;
    return made;
}

/* Frees a node that nothing holds, and those above it that only it held. */
static void free_from(pyr_heap_stacks *stacks, uint32_t at)
{
    node *nodes = stacks->space->nodes;
    while (at != 0 && nodes[at].held == 0) {
        stacks->last.count = 0;
        uint32_t parent = nodes[at].parent;
        uint32_t *link = bucket_of(stacks, parent, nodes[at].function, nodes[at].line);
        while (*link != at) {
            link = &nodes[*link].next;
        }
        *link = nodes[at].next;
        nodes[at].next = stacks->free;
        stacks->free = at;
        stacks->count--;
        nodes[parent].held--;
        at = parent;
    }
}

/* How many frames, from the root on, are those of the stack held last. */
static uint32_t count_same(const path *last, const pyr_frame *frames, uint32_t count)
{
    const pyr_frame *known = last->frames + PYR_LIMIT_FRAMES, *fresh = frames + count;
    const pyr_frame *end = fresh - (count < last->count ? count : last->count);
    while (fresh > end && known[-1].line == fresh[-1].line &&
           known[-1].function == fresh[-1].function) {
        known--;
        fresh--;
    }
    return (uint32_t)(frames + count - fresh);
}

/* From stack to stack little changes but at the leaf: the nodes of the part that is the same are
 * those of the stack before. */
uint32_t pyr_heap_stacks_hold(pyr_heap_stacks *stacks, const pyr_frame *frames, uint32_t count,
                              uint32_t omitted)
{
    path *last = &stacks->last;
    if (last->count == 0 || last->omitted != omitted) {
        last->count = 0;
        last->omitted = omitted;
        last->root = get_child(stacks, 0, OMITTED, omitted);
    }
    uint32_t same = count_same(last, frames, count);
    uint32_t at = same > 0 ? last->nodes[PYR_LIMIT_FRAMES - same] : last->root;
    for (uint32_t i = same + 1; at != 0 && i <= count; i++) {
        pyr_frame frame = frames[count - i];
        uint32_t child = get_child(stacks, at, frame.function, frame.line);
        if (child == 0) {
            free_from(stacks, at);
        }
        at = last->nodes[PYR_LIMIT_FRAMES - i] = child;
        last->frames[PYR_LIMIT_FRAMES - i] = frame;
    }
    last->count = at != 0 ? count : 0;
    if (at != 0) {
        stacks->space->nodes[at].held++;
    }
    return at;
}

void pyr_heap_stacks_release(pyr_heap_stacks *stacks, uint32_t at)
{
    if (at != 0 && stacks->space->nodes[at].held > 0) {
        stacks->space->nodes[at].held--;
        free_from(stacks, at);
    }
}

uint32_t pyr_heap_stacks_get(const pyr_heap_stacks *stacks, uint32_t at,
                             pyr_frame frames[PYR_LIMIT_FRAMES], uint32_t *omitted)
{
    const node *nodes = stacks->space->nodes;
    uint32_t count = 0;
    *omitted = 0;
    for (; at != 0 && nodes[at].function != OMITTED && count < PYR_LIMIT_FRAMES;
         at = nodes[at].parent) {
        frames[count++] = (pyr_frame){.function = nodes[at].function, .line = nodes[at].line};
    }
    if (at != 0 && nodes[at].function == OMITTED) {
        *omitted = nodes[at].line;
    }
    return count;
}

static uint32_t renamed(const pyr_symbols *from, pyr_symbols *to, uint32_t function)
{
    pyr_function old = pyr_symbols_get(from, function);
    size_t name_length, file_length;
    const char *name = pyr_symbols_text(from, old.name, &name_length);
    const char *file = pyr_symbols_text(from, old.file, &file_length);
    return pyr_symbols_function(to, name, name_length, file, file_length, old.first_line);
}

void pyr_heap_stacks_renew(pyr_heap_stacks *stacks, const pyr_symbols *from, pyr_symbols *to)
{
    node *nodes = stacks->space->nodes;
    memset(stacks->space->buckets, 0, sizeof stacks->space->buckets);
    stacks->last.count = 0;
    for (uint32_t at = 1; at < stacks->used; at++) {
        if (nodes[at].held == 0) {
            continue; /* a free one: its link is that of the free ones */
        }
        pyr_frame frame = {.function = nodes[at].function, .line = nodes[at].line};
        if (nodes[at].function != OMITTED && pyr_native_frame_address(frame) == 0) {
            nodes[at].function = renamed(from, to, nodes[at].function);
        }
        uint32_t *bucket = bucket_of(stacks, nodes[at].parent, nodes[at].function, nodes[at].line);
        nodes[at].next = *bucket;
        *bucket = at;
    }
}

void pyr_heap_stacks_clear(pyr_heap_stacks *stacks)
{
    pyr_os_discard(stacks->space, sizeof *stacks->space);
    stacks->used = 1;
    stacks->free = 0;
    stacks->count = 0;
    stacks->last.count = 0;
}

size_t pyr_heap_stacks_memory(void)
{
    return sizeof(space);
}

size_t pyr_heap_stacks_count(const pyr_heap_stacks *stacks)
{
    return stacks->count;
}
