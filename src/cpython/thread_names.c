/* Thread names by remote reads; see the header.
 *
 * The registry changes while it is read: threads start, end and are renamed. A refresh therefore
 * reads in waves (all entries; then all threads, all name slots, all strings, in batches) and at
 * the end the entries again: if they are the same, each Thread was alive all the time, so its name
 * is its own. If not, it starts again, a few times. A new set of names replaces the old one only
 * when it is complete.
 *
 * Only the way to the registry is remembered, because it is long (all modules by name); the three
 * references that lead to it are compared at each refresh. Where a type keeps `_name` is found once
 * a refresh, so nothing can go stale.
 *
 * Owns its batch and two sets of names. One thread at a time; allocates in new and refresh only.
 */
#include "cpython/thread_names.h"

#include <string.h>

#include "base/buffer.h"
#include "base/load.h"
#include "base/map.h"
#include "base/memory.h"
#include "cpython/dict.h"
#include "cpython/layout_fields.h"
#include "cpython/objects.h"

enum {
    WORD = sizeof(pyr_addr),
    BATCH_BYTES = 1 << 17,
    WAVE = 256,             /* threads of one wave */
    PEEK_BYTES = 128,       /* of a name's str object: nearly always all of it */
    IDENT_DIGITS_BYTES = 8, /* pthread ids take two digits of an int */
    INT_BYTES = 48,
    TRIES = 4,
    LINKS = 3,         /* references from the interpreter to the registry */
    CLASSES = 8,       /* thread classes known at a time; there are hardly ever more */
    OBJECT_BYTES = 64, /* before an object, and its head */
    ENTRIES = 2 * PYR_LIMIT_THREADS, /* of the registry, deleted ones included */
    TEXTS_BYTES = PYR_LIMIT_THREADS * 256,
};

/* Names of one refresh. */
typedef struct name_set {
    pyr_map *by_ident; /* ident -> offset in texts */
    pyr_buffer texts;  /* for each: 4 bytes of length, the text, a NUL */
} name_set;

/* A reference on the way to the registry: this word held this value. */
typedef struct link {
    pyr_addr at;
    pyr_addr value;
} link;

/* One thread of a wave. */
typedef struct thread_entry {
    uint64_t ident;
    pyr_addr thread;
    pyr_addr slot; /* where its _name stands; 0 = `name` is known already */
    pyr_addr name;
} thread_entry;

/* A class of threads, of this refresh. */
typedef struct thread_class {
    pyr_addr type;
    uint64_t flags;
    uint64_t basicsize;
    pyr_addr slot; /* of _name among the values */
    bool has_slot;
} thread_class;

struct pyr_thread_names {
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_batch *batch;
    name_set sets[2];
    int current; /* the set that is given out */
    uint64_t failures;
    link links[LINKS];               /* first value 0: the registry was not found yet */
    pyr_addr interp;                 /* that they start from */
    pyr_addr str_type;               /* a type known to be str */
    pyr_dict_entry *entries, *again; /* first and second reading, `capacity` each */
    size_t capacity;
    thread_class classes[CLASSES];
    size_t class_count; /* known in this refresh */
    /* Of one wave. Not on the stack: a thread of the program that flushes may have little. */
    thread_entry wave[WAVE];
    uint8_t words[WAVE][OBJECT_BYTES];
};

/* -------------------------------------------------------------------------------- life ---- */

void pyr_thread_names_free(pyr_thread_names *names)
{
    if (names) {
        for (int i = 0; i < 2; i++) {
            pyr_map_free(names->sets[i].by_ident);
            pyr_buffer_fini(&names->sets[i].texts);
        }
        pyr_batch_free(names->batch);
        pyr_memory_free(names->entries);
        pyr_memory_free(names->again);
        pyr_memory_free(names);
    }
}

pyr_thread_names *pyr_thread_names_new(pyr_reader *reader, const pyr_layout *layout)
{
    pyr_thread_names *names = pyr_memory_new(1, sizeof *names);
    if (!names) {
        return NULL;
    }
    names->reader = reader;
    names->layout = layout;
    names->batch = pyr_batch_new(BATCH_BYTES);
    bool complete = names->batch != NULL;
    for (int i = 0; i < 2; i++) {
        names->sets[i].by_ident = pyr_map_new(PYR_LIMIT_THREADS);
        pyr_buffer_init(&names->sets[i].texts, TEXTS_BYTES);
        complete = complete && names->sets[i].by_ident;
    }
    if (!complete) {
        pyr_thread_names_free(names);
        return NULL;
    }
    return names;
}

static void set_clear(name_set *set)
{
    pyr_map_clear(set->by_ident);
    pyr_buffer_clear(&set->texts);
}

static pyr_status set_add(name_set *set, uint64_t ident, const char *text, size_t length)
{
    uint32_t bytes = (uint32_t)length;
    size_t offset = set->texts.length;
    (void)pyr_buffer_append(&set->texts, &bytes, sizeof bytes);
    pyr_status status = pyr_buffer_append(&set->texts, text, length + 1); /* errors stick */
    return status == PYR_OK ? pyr_map_put(set->by_ident, ident, offset) : status;
}

/* ---------------------------------------------------------------------- finding the registry ----
 */

/* The value of `name` in the dict at `dict_addr`, and the word that holds it. */
static pyr_status follow(pyr_thread_names *names, pyr_addr dict_addr, const char *name, link *found)
{
    pyr_dict dict;
    uint32_t index;
    pyr_status status = pyr_dict_open(names->reader, names->layout, dict_addr, &dict);
    if (status == PYR_OK) {
        status = pyr_dict_find(names->reader, names->batch, names->layout, &dict, name,
                               &found->value, &index);
    }
    if (status == PYR_OK) {
        found->at = dict.values ? dict.values + (pyr_addr)index * WORD
                                : dict.entries + (pyr_addr)(index + 1) * dict.entry_bytes - WORD;
    }
    return status;
}

static pyr_status find_registry(pyr_thread_names *names, pyr_addr interp)
{
    link *links = names->links;
    pyr_addr module_dict;
    memset(links, 0, sizeof names->links);
    names->interp = interp;
    links[0].at = interp + names->layout->interp_modules;
    pyr_status status = pyr_reader_read_addr(names->reader, links[0].at, &links[0].value);
    if (status == PYR_OK) {
        status = follow(names, links[0].value, "threading", &links[1]);
    }
    if (status == PYR_OK) {
        status = pyr_reader_read_addr(names->reader, links[1].value + names->layout->module_dict,
                                      &module_dict);
    }
    if (status == PYR_OK) {
        status = follow(names, module_dict, "_active", &links[2]);
    }
    if (status != PYR_OK) {
        links[0].value = 0;
    }
    return status;
}

/* True when the remembered way still leads to the registry. */
static bool registry_holds(pyr_thread_names *names, pyr_addr interp)
{
    if (names->links[0].value == 0 || names->interp != interp) {
        return false;
    }
    pyr_batch_clear(names->batch);
    for (int i = 0; i < LINKS; i++) {
        (void)pyr_batch_add(names->batch, names->links[i].at, WORD);
    }
    pyr_reader_read_batch(names->reader, names->batch);
    for (int i = 0; i < LINKS; i++) {
        const uint8_t *word = pyr_batch_get(names->batch, i);
        if (!word || pyr_load_addr(word, 0) != names->links[i].value) {
            return false;
        }
    }
    return true;
}

/* --------------------------------------------------------------------------------- the waves ----
 */

/* First wave: ident and place of each thread. Fills in `threads`; their number. Entries that are
 * deleted or no thread are left out. */
static size_t read_threads(pyr_thread_names *names, const pyr_dict_entry *entries, size_t count,
                           thread_entry *threads)
{
    const pyr_layout *layout = names->layout;
    size_t length = layout->long_digits + IDENT_DIGITS_BYTES;
    size_t live = 0, used = 0;
    pyr_batch_clear(names->batch);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].key != 0 && entries[i].value != 0) {
            (void)pyr_batch_add(names->batch, entries[i].key, length);
            threads[live++] = (thread_entry){.thread = entries[i].value};
        }
    }
    pyr_reader_read_batch(names->reader, names->batch);
    for (size_t i = 0; i < live; i++) {
        const uint8_t *key = pyr_batch_get(names->batch, (int)i);
        uint8_t number[INT_BYTES] = {0}; /* digits that were not read are 0 */
        bool is_negative;
        if (key && length <= sizeof number) {
            memcpy(number, key, length);
            if (pyr_int_decode(layout, number, &threads[i].ident, &is_negative) == PYR_OK &&
                !is_negative) {
                threads[used++] = threads[i];
            }
        }
    }
    return used;
}

/* Where instances of the class at `type` have `_name` among their values. */
static const thread_class *find_class(pyr_thread_names *names, pyr_addr type)
{
    for (size_t i = 0; i < names->class_count; i++) {
        if (names->classes[i].type == type) {
            return &names->classes[i];
        }
    }
    const pyr_layout *layout = names->layout;
    pyr_addr keys, value;
    pyr_dict dict;
    uint32_t index;
    size_t place = names->class_count < CLASSES ? names->class_count++ : CLASSES - 1;
    thread_class *found = &names->classes[place];
    *found = (thread_class){.type = type};
    if (pyr_reader_read(names->reader, type + layout->type_flags, &found->flags, WORD) == PYR_OK &&
        pyr_reader_read(names->reader, type + layout->type_basicsize, &found->basicsize, WORD) ==
            PYR_OK &&
        pyr_reader_read_addr(names->reader, type + layout->type_cached_keys, &keys) == PYR_OK &&
        pyr_dict_open_keys(names->reader, layout, keys, 0, &dict) == PYR_OK &&
        pyr_dict_find(names->reader, names->batch, layout, &dict, "_name", &value, &index) ==
            PYR_OK) {
        found->slot = (pyr_addr)index * WORD;
        found->has_slot = true;
    }
    return found;
}

/* Second wave: where each thread keeps its name. */
static void find_slots(pyr_thread_names *names, thread_entry *threads, size_t count)
{
    const pyr_layout *layout = names->layout;
    uint8_t(*words)[OBJECT_BYTES] = names->words;
    size_t length = PYR_INSTANCE_BEFORE + layout->object_type + WORD;
    pyr_batch_clear(names->batch);
    for (size_t i = 0; i < count; i++) {
        (void)pyr_batch_add(names->batch, threads[i].thread - PYR_INSTANCE_BEFORE, length);
    }
    pyr_reader_read_batch(names->reader, names->batch);
    for (size_t i = 0; i < count; i++) { /* the batch is used again below */
        const uint8_t *bytes = pyr_batch_get(names->batch, (int)i);
        memset(words[i], 0, OBJECT_BYTES);
        if (bytes && length <= OBJECT_BYTES) {
            memcpy(words[i], bytes, length);
        }
    }
    for (size_t i = 0; i < count; i++) {
        pyr_addr dict, values;
        const thread_class *class =
            find_class(names, pyr_load_addr(words[i], PYR_INSTANCE_BEFORE + layout->object_type));
        if (class->has_slot &&
            pyr_instance_locate(layout, threads[i].thread, words[i], class->flags, class->basicsize,
                                &dict, &values) == PYR_OK &&
            dict == 0) {
            threads[i].slot = values + class->slot;
        } else if (pyr_object_attribute(names->reader, names->batch, layout, threads[i].thread,
                                        "_name", &threads[i].name) != PYR_OK) {
            threads[i].name = 0; /* no Thread at all */
        }
    }
}

/* Third wave: which string each name is. */
static void read_slots(pyr_thread_names *names, thread_entry *threads, size_t count)
{
    int spans[WAVE];
    pyr_batch_clear(names->batch);
    for (size_t i = 0; i < count; i++) {
        spans[i] = threads[i].slot ? pyr_batch_add(names->batch, threads[i].slot, WORD) : -1;
    }
    pyr_reader_read_batch(names->reader, names->batch);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *word = pyr_batch_get(names->batch, spans[i]);
        if (word) {
            threads[i].name = pyr_load_addr(word, 0);
        }
    }
}

/* The str object at `name`, of which `bytes` (`length` of them) were read. */
static pyr_status decode_name(pyr_thread_names *names, pyr_addr name, const uint8_t *bytes,
                              size_t length, char *out, size_t size, size_t *used)
{
    const pyr_layout *layout = names->layout;
    pyr_text text;
    if (length < layout->unicode_ascii) {
        return PYR_EFAULT;
    }
    pyr_addr type = pyr_load_addr(bytes, layout->object_type);
    if (type != names->str_type) {
        if (!pyr_type_is_str(names->reader, layout, type)) {
            return PYR_EBAD;
        }
        names->str_type = type;
    }
    pyr_status status = pyr_text_describe(layout, bytes, &text);
    if (status == PYR_OK && text.offset != 0 && text.offset <= length &&
        text.length <= (length - text.offset) / text.kind) {
        *used = pyr_text_decode(bytes + text.offset, text.length, text.kind, out, size);
        return PYR_OK;
    }
    return status == PYR_OK ? pyr_object_text(names->reader, layout, name, out, size, used)
                            : status;
}

/* Fourth wave: the strings, into the set. */
static pyr_status read_names(pyr_thread_names *names, const thread_entry *threads, size_t count,
                             name_set *set)
{
    char text[PYR_LIMIT_NAME_BYTES];
    size_t length;
    int spans[WAVE];
    pyr_batch_clear(names->batch);
    for (size_t i = 0; i < count; i++) {
        spans[i] = pyr_batch_add(names->batch, threads[i].name, PEEK_BYTES);
    }
    pyr_reader_read_batch(names->reader, names->batch);
    for (size_t i = 0; i < count; i++) {
        if (spans[i] < 0) {
            return PYR_ETOOBIG;
        }
        const struct pyr_batch_span *span = &names->batch->spans[spans[i]];
        if (threads[i].name == 0 ||
            decode_name(names, threads[i].name, names->batch->buffer + span->offset, span->done,
                        text, sizeof text, &length) != PYR_OK) {
            continue; /* it died just now, or is no Thread: without a name */
        }
        pyr_status status = set_add(set, threads[i].ident, text, length);
        if (status != PYR_OK) {
            return status;
        }
    }
    return PYR_OK;
}

/* ----------------------------------------------------------------------------------- refresh ----
 */

/* Makes room for `count` entries in both readings. */
static pyr_status reserve(pyr_thread_names *names, size_t count)
{
    if (count > ENTRIES) {
        return PYR_ETOOBIG;
    }
    if (count <= names->capacity) {
        return PYR_OK;
    }
    size_t capacity = count + count / 2;
    pyr_dict_entry *entries = pyr_memory_resize(names->entries, capacity, sizeof *names->entries);
    if (entries) {
        names->entries = entries;
    }
    pyr_dict_entry *again = pyr_memory_resize(names->again, capacity, sizeof *names->again);
    if (again) {
        names->again = again;
    }
    if (!entries || !again) {
        return PYR_ENOMEM;
    }
    names->capacity = capacity;
    return PYR_OK;
}

static pyr_status open_registry(pyr_thread_names *names, pyr_dict *dict)
{
    return pyr_dict_open(names->reader, names->layout, names->links[LINKS - 1].value, dict);
}

/* One try. PYR_ETORN: the registry changed meanwhile. */
static pyr_status read_all(pyr_thread_names *names, name_set *set)
{
    thread_entry *threads = names->wave;
    pyr_dict dict, later;
    set_clear(set);
    pyr_status status = open_registry(names, &dict);
    if (status == PYR_OK) {
        status = reserve(names, dict.count > 0 ? dict.count : 1);
    }
    if (status == PYR_OK) {
        status = pyr_dict_read(names->reader, &dict, 0, dict.count, names->entries);
    }
    for (uint32_t first = 0, count; status == PYR_OK && first < dict.count; first += count) {
        count = dict.count - first < WAVE ? dict.count - first : WAVE;
        size_t found = read_threads(names, names->entries + first, count, threads);
        find_slots(names, threads, found);
        read_slots(names, threads, found);
        status = read_names(names, threads, found, set);
    }
    if (status != PYR_OK) {
        return status;
    }
    if (open_registry(names, &later) != PYR_OK || later.entries != dict.entries ||
        later.count != dict.count ||
        pyr_dict_read(names->reader, &later, 0, later.count, names->again) != PYR_OK ||
        memcmp(names->entries, names->again, dict.count * sizeof *names->entries) != 0) {
        return PYR_ETORN;
    }
    return PYR_OK;
}

pyr_status pyr_thread_names_refresh(pyr_thread_names *names, pyr_addr interp)
{
    pyr_status status = PYR_OK;
    int other = 1 - names->current;
    names->class_count = 0;
    if (!registry_holds(names, interp)) {
        status = find_registry(names, interp);
    }
    if (status == PYR_ENOENT) {
        set_clear(&names->sets[names->current]);
        return status;
    }
    /* A registry that is unreadable or implausible is one that changed while it was read. */
    for (int i = 0; status == PYR_OK && i < TRIES; i++) {
        status = read_all(names, &names->sets[other]);
        if (status == PYR_OK) {
            names->current = other;
            return PYR_OK;
        }
        if (status != PYR_ENOMEM && i + 1 < TRIES) {
            status = PYR_OK;
        }
    }
    names->failures++;
    return status;
}

const char *pyr_thread_names_get(const pyr_thread_names *names, uint64_t ident, size_t *length)
{
    const name_set *set = &names->sets[names->current];
    uint64_t offset;
    if (!pyr_map_get(set->by_ident, ident, &offset)) {
        return NULL;
    }
    *length = pyr_load_u32(set->texts.data, (size_t)offset);
    return (const char *)set->texts.data + offset + sizeof(uint32_t);
}

size_t pyr_thread_names_count(const pyr_thread_names *names)
{
    return pyr_map_count(names->sets[names->current].by_ident);
}

uint64_t pyr_thread_names_failures(const pyr_thread_names *names)
{
    return names->failures;
}
