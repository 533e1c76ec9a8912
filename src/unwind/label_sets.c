/* Label sets of visited threads; see the header.
 *
 * Owns the table of texts seen so far. Runs on the sampler's thread. What a set says is believed by
 * its hash alone, so a set that died while it was read gives nothing instead of something wrong.
 */
#include "unwind/label_sets.h"

#include "base/map.h"
#include "base/memory.h"

enum {
    TEXTS = 4096, /* remembered */
    WALKS = 3,    /* of a thread that changes its labels meanwhile */
};

struct pyr_label_sets {
    pyr_reader *reader;
    const pyr_layout *layout;
    const pyr_label_source *source;
    pyr_symbols *symbols;
    pyr_context_kinds kinds;
    pyr_map *texts; /* hash of a text -> string */
    uint64_t walks, unread;
};

pyr_label_sets *pyr_label_sets_new(pyr_reader *reader, const pyr_layout *layout,
                                   const pyr_label_source *source, pyr_symbols *symbols)
{
    pyr_label_sets *sets = pyr_memory_new(1, sizeof *sets);
    if (!sets) {
        return NULL;
    }
    *sets =
        (pyr_label_sets){.reader = reader, .layout = layout, .source = source, .symbols = symbols};
    sets->texts = pyr_map_new(TEXTS);
    if (!sets->texts) {
        pyr_label_sets_free(sets);
        return NULL;
    }
    return sets;
}

void pyr_label_sets_free(pyr_label_sets *sets)
{
    if (sets) {
        pyr_map_free(sets->texts);
        pyr_memory_free(sets);
    }
}

void pyr_label_sets_renew(pyr_label_sets *sets, pyr_symbols *symbols)
{
    sets->symbols = symbols;
    pyr_map_clear(sets->texts);
}

static bool read_target(void *context, pyr_addr addr, void *destination, size_t length)
{
    return pyr_reader_read(context, addr, destination, length) == PYR_OK;
}

/* The string of a set's text. False: it is another object by now. */
static bool name_set(pyr_label_sets *sets, const pyr_label_set *set, uint32_t *string)
{
    const pyr_context_fetch fetch = {.read = read_target, .context = sets->reader};
    char text[PYR_LABEL_SET_BYTES];
    uint64_t known;
    *string = 0;
    if (set->addr == 0) {
        return true;
    }
    if (pyr_map_get(sets->texts, set->hash, &known)) {
        *string = (uint32_t)known;
        return true;
    }
    if (pyr_label_set_text(sets->source, set, &fetch, text) != PYR_OK) {
        return false;
    }
    *string = pyr_symbols_string(sets->symbols, text, set->length);
    if (pyr_map_count(sets->texts) >= TEXTS) {
        pyr_map_clear(sets->texts);
    }
    if (*string != 0) { /* else the table of symbols is full, which it counts */
        (void)!pyr_map_put(sets->texts, set->hash, *string);
    }
    return true;
}

static bool check(pyr_label_sets *sets, const pyr_batch *batch, const pyr_snapshot *snapshot,
                  const pyr_stack_plan *plan, pyr_label_set *set)
{
    const uint8_t *copies[PYR_CONTEXT_STEPS];
    for (int i = 0; i < plan->labels.count; i++) {
        copies[i] = pyr_batch_get(batch, snapshot->label_spans + i);
    }
    return pyr_context_path_check(sets->layout, sets->source, &sets->kinds, snapshot->context,
                                  &plan->labels, copies, set) == PYR_OK;
}

pyr_status pyr_label_sets_find(pyr_label_sets *sets, const pyr_batch *batch,
                               const pyr_snapshot *snapshot, pyr_stack_plan *plan, bool last,
                               uint32_t *string)
{
    const pyr_context_fetch fetch = {.read = read_target, .context = sets->reader};
    pyr_label_set set;
    *string = 0;
    if (!pyr_label_source_is_used(sets->source)) {
        return PYR_OK;
    }
    if (snapshot->context_moved && !last) {
        return PYR_ETORN;
    }
    if (check(sets, batch, snapshot, plan, &set) && name_set(sets, &set, string)) {
        return PYR_OK;
    }
    for (int tries = 0; tries < WALKS; tries++) {
        sets->walks++;
        if (pyr_context_walk(sets->layout, sets->source, &sets->kinds, snapshot->context, &fetch,
                             &plan->labels, &set) == PYR_OK &&
            name_set(sets, &set, string)) {
            return last ? PYR_OK : PYR_ETORN;
        }
    }
    plan->labels.count = 0;
    sets->unread += last;
    return last ? PYR_OK : PYR_ETORN;
}

void pyr_label_sets_stats(const pyr_label_sets *sets, uint64_t *walks, uint64_t *unread)
{
    *walks = sets->walks;
    *unread = sets->unread;
}
