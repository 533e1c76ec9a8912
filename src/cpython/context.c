/* Contexts, their tries, and our label sets in them; see the header.
 *
 * Offsets of contexts and tries are the same on all supported versions; the extension's tests walk
 * tries of every shape on each of them (versions.md). Stateless but for the learned types, which
 * the caller owns. Every walk is bounded by the depth that 32 bits of hash allow.
 */
#include "cpython/context.h"

#include <string.h>

#include "base/load.h"
#include "base/map.h"
#include "cpython/layout_fields.h"

enum {
    CONTEXT_VARS = 24, /* PyContext.ctx_vars */
    TRIE_ROOT = 16,    /* PyHamtObject.h_root */
    BITMAP_BITS = 24,  /* PyHamtNode_Bitmap.b_bitmap */
    PAIRS = 32,        /* of bitmap and collision nodes: key and value, or NULL and a child */
    PAIR_BYTES = 16,
    COLLISION_SIZE = 16, /* ob_size: pairs times two */
    COLLISIONS = 16,     /* pairs looked at, at most */
    ARRAY_CHILDREN = 16, /* 32 of them */
    LEVEL_BITS = 5,
    LAST_SHIFT = 30,
    TYPE_NAME_BYTES = 24,
};

static bool copy_own(void *context, pyr_addr addr, void *destination, size_t length)
{
    (void)context;
    memcpy(destination, (const void *)addr, length);
    return true;
}

const pyr_context_fetch pyr_context_own_memory = {.read = copy_own};

uint32_t pyr_context_hash(int64_t hash)
{
    uint32_t folded = (uint32_t)(uint64_t)hash ^ (uint32_t)((uint64_t)hash >> 32);
    return folded == UINT32_MAX ? UINT32_MAX - 1 : folded;
}

/* Where a walk stands: what `addr` is, and how much of the hash is used up. */
typedef enum place { AT_CONTEXT, AT_TRIE, AT_NODE, AT_VALUE, AT_END } place;

typedef struct walk {
    const pyr_layout *layout;
    const pyr_label_source *source;
    const pyr_context_kinds *kinds;
    pyr_addr variable;
    place at;
    pyr_addr addr;
    unsigned shift;
    pyr_label_set set;
} walk;

static walk begin(const pyr_layout *layout, const pyr_label_source *source,
                  const pyr_context_kinds *kinds, pyr_addr context)
{
    return (walk){.layout = layout,
                  .source = source,
                  .kinds = kinds,
                  .variable = atomic_load_explicit(
                      &((pyr_label_source *)(uintptr_t)source)->variable, memory_order_acquire),
                  .at = context != 0 ? AT_CONTEXT : AT_END,
                  .addr = context};
}

static void go(walk *self, place at, pyr_addr addr)
{
    self->at = addr != 0 ? at : AT_END;
    self->addr = addr;
}

/* To a pair's value if its key is the variable, or to the child in its place. */
static void take_pair(walk *self, const uint8_t *pair)
{
    pyr_addr key = pyr_load_addr(pair, 0);
    if (key == 0) {
        self->shift += LEVEL_BITS;
        go(self, AT_NODE, pyr_load_addr(pair, sizeof key));
    } else {
        go(self, key == self->variable ? AT_VALUE : AT_END, pyr_load_addr(pair, sizeof key));
    }
}

/* How many bytes of a node are needed, from what stands in its first PAIRS bytes; 0: no node. */
static size_t node_bytes(const walk *self, const uint8_t *node)
{
    pyr_addr type = pyr_load_addr(node, self->layout->object_type);
    /* Below the last level only collisions are, which have no slots. */
    unsigned slot = self->shift <= LAST_SHIFT ? self->source->hash >> self->shift & 31 : 0;
    if (type == 0 || self->shift > LAST_SHIFT + LEVEL_BITS) {
        return 0;
    }
    if (type == self->kinds->bitmap && self->shift <= LAST_SHIFT) {
        uint32_t bits = pyr_load_u32(node, BITMAP_BITS);
        uint32_t bit = UINT32_C(1) << slot;
        unsigned index = (unsigned)__builtin_popcount(bits & (bit - 1));
        return bits & bit ? PAIRS + (index + 1) * (size_t)PAIR_BYTES : PAIRS;
    }
    if (type == self->kinds->array && self->shift <= LAST_SHIFT) {
        return ARRAY_CHILDREN + (slot + 1) * sizeof(pyr_addr);
    }
    if (type == self->kinds->collision) {
        uint64_t pairs = pyr_load_u64(node, COLLISION_SIZE) / 2;
        return PAIRS + (size_t)(pairs < COLLISIONS ? pairs : COLLISIONS) * PAIR_BYTES;
    }
    return 0;
}

/* One node further; `node` has at least node_bytes bytes. */
static void leave_node(walk *self, const uint8_t *node, size_t bytes)
{
    pyr_addr type = pyr_load_addr(node, self->layout->object_type);
    if (type == self->kinds->array) {
        self->shift += LEVEL_BITS;
        go(self, AT_NODE, pyr_load_addr(node, bytes - sizeof(pyr_addr)));
    } else if (bytes == PAIRS) {
        go(self, AT_END, 0);
    } else if (type == self->kinds->bitmap) {
        take_pair(self, node + bytes - PAIR_BYTES);
    } else {
        size_t at = PAIRS;
        while (at < bytes && pyr_load_addr(node, at) != self->variable) {
            at += PAIR_BYTES;
        }
        go(self, AT_VALUE, at < bytes ? pyr_load_addr(node, at + sizeof(pyr_addr)) : 0);
    }
}

/* Bytes of the step that the walk stands at, as far as they are known without reading it. */
static size_t least_bytes(const walk *self)
{
    return self->at == AT_CONTEXT ? CONTEXT_VARS + sizeof(pyr_addr)
           : self->at == AT_TRIE  ? TRIE_ROOT + sizeof(pyr_addr)
           : self->at == AT_NODE  ? PAIRS
                                  : PYR_LABEL_SET_TEXT_AT;
}

/* One step over its copy of `length` bytes. PYR_EPARTIAL: more bytes are needed (*wanted);
 * PYR_EBAD: it is not what it should be. */
static pyr_status step(walk *self, const uint8_t *bytes, size_t length, size_t *wanted)
{
    *wanted = least_bytes(self);
    if (length < *wanted) {
        return PYR_EPARTIAL;
    }
    switch (self->at) {
    case AT_CONTEXT:
        go(self, AT_TRIE, pyr_load_addr(bytes, CONTEXT_VARS));
        return self->addr != 0 ? PYR_OK : PYR_EBAD;
    case AT_TRIE:
        go(self, AT_NODE, pyr_load_addr(bytes, TRIE_ROOT));
        return self->addr != 0 ? PYR_OK : PYR_EBAD;
    case AT_NODE:
        *wanted = node_bytes(self, bytes);
        if (*wanted == 0) {
            return PYR_EBAD;
        }
        if (length < *wanted) {
            return PYR_EPARTIAL;
        }
        leave_node(self, bytes, *wanted);
        return PYR_OK;
    default:
        if (pyr_load_addr(bytes, self->layout->object_type) == self->source->set_type) {
            self->set = (pyr_label_set){.addr = self->addr,
                                        .hash = pyr_load_u64(bytes, PYR_LABEL_SET_HASH_AT),
                                        .length = pyr_load_u32(bytes, PYR_LABEL_SET_LENGTH_AT)};
            if (self->set.length > PYR_LABEL_SET_BYTES) {
                return PYR_EBAD;
            }
        } /* else it is None: all labels have ended */
        if (self->set.length == 0) {
            self->set.addr = 0;
        }
        go(self, AT_END, 0);
        return PYR_OK;
    }
}

/* Learns what type a node has, by its name. Hook safe if `fetch` is. */
static bool learn_kind(pyr_context_kinds *kinds, const pyr_layout *layout,
                       const pyr_context_fetch *fetch, const uint8_t *node)
{
    static const char BITMAP[] = "hamt_bitmap_node", ARRAY[] = "hamt_array_node",
                      COLLISION[] = "hamt_collision_node";
    pyr_addr type = pyr_load_addr(node, layout->object_type), at;
    char name[TYPE_NAME_BYTES];
    if (type == 0) {
        return false;
    }
    if (type == kinds->bitmap || type == kinds->array || type == kinds->collision) {
        return true;
    }
    /* No further than the shortest of them reaches, before it is known that there is more. */
    if (!fetch->read(fetch->context, type + layout->type_name, &at, sizeof at) || at == 0 ||
        !fetch->read(fetch->context, at, name, sizeof ARRAY)) {
        return false;
    }
    if (memcmp(name, ARRAY, sizeof ARRAY) == 0) {
        kinds->array = type;
    } else if (memcmp(name, BITMAP, sizeof ARRAY) == 0 &&
               fetch->read(fetch->context, at, name, sizeof BITMAP) &&
               memcmp(name, BITMAP, sizeof BITMAP) == 0) {
        kinds->bitmap = type;
    } else if (memcmp(name, COLLISION, sizeof ARRAY) == 0 &&
               fetch->read(fetch->context, at, name, sizeof COLLISION) &&
               memcmp(name, COLLISION, sizeof COLLISION) == 0) {
        kinds->collision = type;
    } else {
        return false;
    }
    return true;
}

pyr_status pyr_context_walk(const pyr_layout *layout, const pyr_label_source *source,
                            pyr_context_kinds *kinds, pyr_addr context,
                            const pyr_context_fetch *fetch, pyr_context_path *path,
                            pyr_label_set *set)
{
    /* The largest node: a bitmap of 32 pairs. */
    uint8_t bytes[PAIRS + 32 * PAIR_BYTES];
    walk self = begin(layout, source, kinds, context);
    path->count = 0;
    *set = (pyr_label_set){0};
    while (self.at != AT_END) {
        if (path->count == PYR_CONTEXT_STEPS) {
            return PYR_EBAD;
        }
        pyr_addr addr = self.addr;
        size_t length = least_bytes(&self), wanted = length;
        pyr_status status = PYR_EPARTIAL;
        for (int tries = 0; tries < 2 && status == PYR_EPARTIAL; tries++) {
            length = wanted;
            if (!fetch->read(fetch->context, addr, bytes, length)) {
                return PYR_EFAULT;
            }
            if (self.at == AT_NODE && tries == 0 && !learn_kind(kinds, layout, fetch, bytes)) {
                return PYR_EBAD;
            }
            status = step(&self, bytes, length, &wanted);
        }
        if (status != PYR_OK) {
            return PYR_EBAD;
        }
        path->steps[path->count++] =
            (struct pyr_context_step){.addr = addr, .length = (uint32_t)length};
    }
    *set = self.set;
    return PYR_OK;
}

pyr_status pyr_context_path_check(const pyr_layout *layout, const pyr_label_source *source,
                                  const pyr_context_kinds *kinds, pyr_addr context,
                                  const pyr_context_path *path,
                                  const uint8_t *const copies[PYR_CONTEXT_STEPS],
                                  pyr_label_set *set)
{
    walk self = begin(layout, source, kinds, context);
    unsigned at = 0;
    *set = (pyr_label_set){0};
    for (; self.at != AT_END; at++) {
        size_t wanted;
        if (at == path->count || path->steps[at].addr != self.addr || !copies[at] ||
            step(&self, copies[at], path->steps[at].length, &wanted) != PYR_OK) {
            return PYR_EPARTIAL;
        }
    }
    *set = self.set;
    return PYR_OK;
}

pyr_status pyr_label_set_text(const pyr_label_source *source, const pyr_label_set *set,
                              const pyr_context_fetch *fetch, char text[PYR_LABEL_SET_BYTES])
{
    if (set->length > PYR_LABEL_SET_BYTES ||
        !fetch->read(fetch->context, set->addr + PYR_LABEL_SET_TEXT_AT, text, set->length)) {
        return PYR_EFAULT;
    }
    return pyr_hash_bytes(text, set->length, source->seed) == set->hash ? PYR_OK : PYR_EBAD;
}
