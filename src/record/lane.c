/* Lanes; see the header. Writers hold the lane's lock, so nothing here is concurrent but the claim
 * of blocks. Never allocates, waits, or calls the system.
 *
 * Entries are looked up by their bytes:
 *   segment  up to eight frames and the place of the segment nearer the root. Stacks are cut from
 *            the root, so stacks with the same callers share all segments but the last.
 *   labels   a label set.
 *   cell     (stack, labels, kind) of samples without end time, whose values add up in place.
 * Samples with an end time are a stream of varints in strips: flags, stack, labels, time since the
 * sample before, and the values that are not 0.
 */
#include "record/lane.h"

#include <string.h>

#include "base/map.h"

enum {
    SEGMENT_FRAMES = 8,
    SEGMENTS = (PYR_LIMIT_FRAMES + SEGMENT_FRAMES - 1) / SEGMENT_FRAMES,
#ifdef PYR_HOSTILE
    FIRST_INDEX = 4,
    STRIP_BYTES = 128,
#else
    FIRST_INDEX = 1 << 10, /* slots; it doubles when half full */
    STRIP_BYTES = 4096,
#endif
    HAS_VALUE = 1, /* flags of a sample: a bit a value, then the kind */
};

typedef enum entry_kind { ENTRY_SEGMENT = 1, ENTRY_LABELS, ENTRY_CELL } entry_kind;

typedef struct entry {
    uint32_t hash;
    uint16_t key_bytes; /* of what follows: that is compared */
    uint8_t kind;
    uint8_t count; /* frames of a segment, labels of a set */
} entry;

typedef struct segment {
    uint32_t parent;  /* place of the segment nearer the root */
    uint32_t omitted; /* of the segment at the root */
    pyr_frame frames[SEGMENT_FRAMES];
} segment;

typedef struct cell {
    uint32_t stack, labels, kind, unused; /* the key */
    int64_t values[PYR_LIMIT_VALUES];
    uint64_t older; /* place of the cell before */
} cell;

typedef struct strip {
    uint32_t next; /* place */
    uint32_t used; /* bytes of samples */
    uint8_t bytes[STRIP_BYTES - 8];
} strip;

_Static_assert(sizeof(entry) % PYR_SPACE_UNIT == 0, "entries keep what follows them aligned");
_Static_assert(sizeof(pyr_label) == 16, "label sets are compared by their bytes: no padding");
_Static_assert(PYR_SAMPLE_KINDS << PYR_LIMIT_VALUES <= 1 << 14, "flags are at most two bytes");

static void *at(const pyr_space *space, uint32_t place)
{
    return space->bytes + (size_t)place * PYR_SPACE_UNIT;
}

/* -------------------------------------------------------------------------------- writing ---- */

/* A place for `bytes`, which are 0; or 0 when the space is full. */
static uint32_t reserve(pyr_lane *lane, pyr_space *space, size_t bytes)
{
    size_t units = (bytes + PYR_SPACE_UNIT - 1) / PYR_SPACE_UNIT;
    if (units > lane->free_end - lane->free) {
        size_t blocks = (bytes + PYR_SPACE_BLOCK - 1) / PYR_SPACE_BLOCK * PYR_SPACE_BLOCK;
        size_t start = atomic_load_explicit(&space->claimed, memory_order_relaxed);
        do {
            if (blocks > space->size - start) {
                return 0;
            }
        } while (!atomic_compare_exchange_weak_explicit(
            &space->claimed, &start, start + blocks, memory_order_relaxed, memory_order_relaxed));
        if (lane->free_end != start / PYR_SPACE_UNIT) { /* else the claim continues the last one */
            lane->free = (uint32_t)(start / PYR_SPACE_UNIT);
        }
        lane->free_end = (uint32_t)((start + blocks) / PYR_SPACE_UNIT);
    }
    uint32_t place = lane->free;
    lane->free += (uint32_t)units;
    return place;
}

/* Doubles the index. The old one is left behind: all of them together are twice the last. */
static pyr_status grow_index(pyr_lane *lane, pyr_space *space)
{
    uint32_t size = lane->index_size ? lane->index_size * 2 : FIRST_INDEX;
    uint32_t place = reserve(lane, space, size * sizeof(uint32_t));
    if (place == 0) {
        return PYR_ETOOBIG;
    }
    uint32_t *slots = at(space, place);
    const uint32_t *old = at(space, lane->index);
    for (uint32_t i = 0; i < lane->index_size; i++) {
        if (old[i] != 0) {
            uint32_t slot = ((const entry *)at(space, old[i]))->hash & (size - 1);
            while (slots[slot] != 0) {
                slot = (slot + 1) & (size - 1);
            }
            slots[slot] = old[i];
        }
    }
    lane->index = place;
    lane->index_size = size;
    return PYR_OK;
}

/* The slot that holds the entry with this key, or the empty one where it belongs. */
static uint32_t *find_slot(const pyr_lane *lane, const pyr_space *space, const entry *wanted,
                           const void *key)
{
    uint32_t *slots = at(space, lane->index);
    uint32_t slot = wanted->hash & (lane->index_size - 1);
    for (; slots[slot] != 0; slot = (slot + 1) & (lane->index_size - 1)) {
        const entry *known = at(space, slots[slot]);
        if (memcmp(known, wanted, sizeof *wanted) == 0 &&
            memcmp(known + 1, key, wanted->key_bytes) == 0) {
            break;
        }
    }
    return &slots[slot];
}

/* The place of the entry with this key, written now if it is new (then with `payload` zero bytes
 * behind the key); 0 when the space is full. */
static uint32_t intern(pyr_lane *lane, pyr_space *space, entry wanted, const void *key,
                       size_t payload)
{
    wanted.hash = (uint32_t)pyr_hash_bytes(key, wanted.key_bytes, lane->seed + wanted.kind);
    if (lane->index_size == 0 && grow_index(lane, space) != PYR_OK) {
        return 0;
    }
    uint32_t *slot = find_slot(lane, space, &wanted, key);
    if (*slot != 0) {
        return *slot;
    }
    if (lane->entry_count >= lane->index_size / 2) {
        if (grow_index(lane, space) == PYR_OK) {
            slot = find_slot(lane, space, &wanted, key);
        } else if (lane->entry_count >= lane->index_size / 4 * 3) {
            return 0; /* in a space that is nearly full the index may be so, too, but not quite */
        }
    }
    uint32_t place = reserve(lane, space, sizeof wanted + wanted.key_bytes + payload);
    if (place != 0) {
        entry *written = at(space, place);
        *written = wanted;
        memcpy(written + 1, key, wanted.key_bytes);
        *slot = place;
        lane->entry_count++;
    }
    return place;
}

/* The place of a stack's leaf segment; 0 with PYR_OK is the empty stack. */
static pyr_status intern_stack(pyr_lane *lane, pyr_space *space, const pyr_sample *sample,
                               uint32_t *place)
{
    uint32_t frames = sample->frame_count;
    uint32_t omitted = sample->omitted;
    if (frames > PYR_LIMIT_FRAMES) {
        omitted += frames - PYR_LIMIT_FRAMES;
        frames = PYR_LIMIT_FRAMES;
    }
    *place = 0;
    while (frames > 0 || omitted > 0) {
        uint32_t count = frames < SEGMENT_FRAMES ? frames : SEGMENT_FRAMES;
        segment key = {.parent = *place, .omitted = omitted};
        frames -= count;
        if (count > 0) {
            memcpy(key.frames, sample->frames + frames, count * sizeof key.frames[0]);
        }
        entry wanted = {
            .key_bytes = (uint16_t)(offsetof(segment, frames) + count * sizeof key.frames[0]),
            .kind = ENTRY_SEGMENT,
            .count = (uint8_t)count,
        };
        *place = intern(lane, space, wanted, &key, 0);
        if (*place == 0) {
            return PYR_ETOOBIG;
        }
        omitted = 0;
    }
    return PYR_OK;
}

static pyr_status intern_labels(pyr_lane *lane, pyr_space *space, const pyr_sample *sample,
                                uint32_t *place)
{
    pyr_label labels[PYR_LIMIT_LABELS];
    uint32_t count =
        sample->label_count < PYR_LIMIT_LABELS ? sample->label_count : PYR_LIMIT_LABELS;
    *place = 0;
    if (count == 0) {
        return PYR_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        const pyr_label *from = &sample->labels[i];
        /* Only the half that counts, so that equal sets have equal bytes. */
        int numeric = pyr_label_is_number(from->key);
        labels[i] = (pyr_label){
            .key = from->key,
            .text = numeric ? 0 : from->text,
            .number = numeric ? from->number : 0,
        };
    }
    entry wanted = {
        .key_bytes = (uint16_t)(count * sizeof labels[0]),
        .kind = ENTRY_LABELS,
        .count = (uint8_t)count,
    };
    *place = intern(lane, space, wanted, labels, 0);
    return *place ? PYR_OK : PYR_ETOOBIG;
}

static pyr_status add_to_cell(pyr_lane *lane, pyr_space *space, const pyr_sample *sample,
                              uint32_t stack, uint32_t labels)
{
    uint32_t entries_before = lane->entry_count;
    cell key = {.stack = stack, .labels = labels, .kind = sample->kind};
    entry wanted = {.key_bytes = offsetof(cell, values), .kind = ENTRY_CELL};
    uint32_t place = intern(lane, space, wanted, &key, sizeof key - offsetof(cell, values));
    if (place == 0) {
        return PYR_ETOOBIG;
    }
    cell *found = (cell *)((entry *)at(space, place) + 1);
    if (lane->entry_count != entries_before) {
        found->older = lane->last_cell;
        lane->last_cell = place;
        lane->sample_count++;
    }
    for (size_t i = 0; i < PYR_LIMIT_VALUES; i++) {
        /* Sums beyond 63 bits would wrap; nanoseconds do so after 292 years. */
        found->values[i] = (int64_t)((uint64_t)found->values[i] + (uint64_t)sample->values[i]);
    }
    return PYR_OK;
}

static uint8_t *put_varint(uint8_t *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *to++ = (uint8_t)(value | 0x80);
    }
    *to++ = (uint8_t)value;
    return to;
}

static pyr_status append_to_strip(pyr_lane *lane, pyr_space *space, const pyr_sample *sample,
                                  uint32_t stack, uint32_t labels)
{
    strip *current = lane->strip ? at(space, lane->strip) : NULL;
    if (!current || sizeof current->bytes - current->used < PYR_LANE_SAMPLE_BYTES) {
        uint32_t place = reserve(lane, space, sizeof *current);
        if (place == 0) {
            return PYR_ETOOBIG;
        }
        if (current) {
            current->next = place;
        } else {
            lane->first_strip = place;
        }
        lane->strip = place;
        current = at(space, place);
    }
    uint64_t flags = (uint64_t)sample->kind << PYR_LIMIT_VALUES;
    for (size_t i = 0; i < PYR_LIMIT_VALUES; i++) {
        flags |= sample->values[i] != 0 ? (uint64_t)HAS_VALUE << i : 0;
    }
    int64_t step = (int64_t)((uint64_t)sample->end_ns - (uint64_t)lane->last_end_ns);
    lane->last_end_ns = sample->end_ns;
    uint8_t *to = put_varint(current->bytes + current->used, flags);
    to = put_varint(to, stack);
    to = put_varint(to, labels);
    to = put_varint(to, (uint64_t)step << 1 ^ (uint64_t)(step >> 63)); /* zigzag: small if near 0 */
    for (size_t i = 0; i < PYR_LIMIT_VALUES; i++) {
        if (sample->values[i] != 0) {
            to = put_varint(to, (uint64_t)sample->values[i]);
        }
    }
    current->used = (uint32_t)(to - current->bytes);
    lane->sample_count++;
    return PYR_OK;
}

void pyr_lane_init(pyr_lane *lane, uint64_t seed)
{
    *lane = (pyr_lane){.seed = seed};
}

pyr_status pyr_lane_add(pyr_lane *lane, pyr_space *space, const pyr_sample *sample)
{
    if ((unsigned)sample->kind >= PYR_SAMPLE_KINDS) {
        return PYR_EINVAL;
    }
    uint32_t stack, labels;
    pyr_status status = intern_stack(lane, space, sample, &stack);
    if (status == PYR_OK) {
        status = intern_labels(lane, space, sample, &labels);
    }
    if (status == PYR_OK) {
        status = sample->end_ns == 0 ? add_to_cell(lane, space, sample, stack, labels)
                                     : append_to_strip(lane, space, sample, stack, labels);
    }
    return status;
}

/* -------------------------------------------------------------------------------- reading ---- */

static const uint8_t *get_varint(const uint8_t *from, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0;; shift += 7) {
        *value |= (uint64_t)(*from & 0x7F) << shift;
        if (*from++ < 0x80) {
            return from;
        }
    }
}

/* Room for what a sample borrows. */
typedef struct borrowed {
    pyr_sample sample;
    pyr_frame frames[SEGMENTS * SEGMENT_FRAMES];
} borrowed;

static int visit_sample(const pyr_space *space, borrowed *scratch, uint32_t stack, uint32_t labels,
                        int (*visit)(void *context, const pyr_sample *sample), void *context)
{
    pyr_sample *sample = &scratch->sample;
    sample->frames = scratch->frames;
    sample->frame_count = 0;
    sample->omitted = 0;
    while (stack != 0) {
        const entry *found = at(space, stack);
        const segment *part = (const segment *)(found + 1);
        memcpy(scratch->frames + sample->frame_count, part->frames,
               found->count * sizeof part->frames[0]);
        sample->frame_count += found->count;
        sample->omitted = part->omitted;
        stack = part->parent;
    }
    sample->labels = NULL;
    sample->label_count = 0;
    if (labels != 0) {
        const entry *found = at(space, labels);
        sample->labels = (const pyr_label *)(found + 1);
        sample->label_count = found->count;
    }
    return visit(context, sample);
}

int pyr_lane_each(const pyr_lane *lane, const pyr_space *space,
                  int (*visit)(void *context, const pyr_sample *sample), void *context)
{
    borrowed scratch;
    pyr_sample *sample = &scratch.sample;
    int ended = 0;
    for (uint32_t place = lane->last_cell; place != 0 && !ended;) {
        const cell *found = (const cell *)((const entry *)at(space, place) + 1);
        sample->kind = (pyr_sample_kind)found->kind;
        memcpy(sample->values, found->values, sizeof sample->values);
        sample->end_ns = 0;
        ended = visit_sample(space, &scratch, found->stack, found->labels, visit, context);
        place = (uint32_t)found->older;
    }
    int64_t end_ns = 0;
    for (uint32_t place = lane->first_strip; place != 0 && !ended;) {
        const strip *current = at(space, place);
        const uint8_t *from = current->bytes;
        while (from < current->bytes + current->used && !ended) {
            uint64_t flags, stack, labels, step;
            from = get_varint(from, &flags);
            from = get_varint(from, &stack);
            from = get_varint(from, &labels);
            from = get_varint(from, &step);
            end_ns = (int64_t)((uint64_t)end_ns + ((step >> 1) ^ (~(step & 1) + 1)));
            sample->kind = (pyr_sample_kind)(flags >> PYR_LIMIT_VALUES);
            for (size_t i = 0; i < PYR_LIMIT_VALUES; i++) {
                uint64_t value = 0;
                if (flags >> i & HAS_VALUE) {
                    from = get_varint(from, &value);
                }
                sample->values[i] = (int64_t)value;
            }
            sample->end_ns = end_ns;
            ended =
                visit_sample(space, &scratch, (uint32_t)stack, (uint32_t)labels, visit, context);
        }
        place = current->next;
    }
    return ended;
}
