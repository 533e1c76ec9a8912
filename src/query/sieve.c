/* Which samples fulfil a question's conditions; see gather.h.
 *
 * Owns two caches for the book at hand: a verdict for each list of labels, and for each stack the
 * conditions on frames that it, or the stack above it, meets. Both are filled as they are asked
 * for, so a pattern is tried once on each text, not once on each sample.
 */
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "query/gather.h"
#include "store/labels.h"

enum { UNKNOWN, YES, NO };

static const uint32_t KNOWN = UINT32_C(1) << 31; /* PYR_QUESTION_CONDITIONS are below it */

struct pyr_sieve {
    const pyr_question *question;
    int64_t book_id;
    const pyr_book *book;
    uint32_t open;   /* conditions on labels that are left to samples */
    uint32_t frames; /* conditions on frames */
    uint8_t *lists;  /* verdicts */
    size_t list_count;
    uint32_t *stacks; /* conditions met, and KNOWN */
    uint32_t *by_frame;
    size_t stack_count, frame_count;
};

pyr_sieve *pyr_sieve_new(const pyr_question *question)
{
    pyr_sieve *sieve = pyr_memory_new(1, sizeof *sieve);
    if (sieve != NULL) {
        sieve->question = question;
        for (size_t at = 0; at < question->count; at++) {
            if (question->conditions[at].place != PYR_CONDITION_LABEL) {
                sieve->frames |= UINT32_C(1) << at;
            }
        }
    }
    return sieve;
}

void pyr_sieve_free(pyr_sieve *sieve)
{
    if (sieve != NULL) {
        pyr_memory_free(sieve->lists);
        pyr_memory_free(sieve->stacks);
        pyr_memory_free(sieve->by_frame);
        pyr_memory_free(sieve);
    }
}

pyr_status pyr_sieve_start(pyr_sieve *sieve, const pyr_view_row *row, uint32_t open)
{
    pyr_book_counts counts = pyr_book_count(row->book);
    bool same = sieve->book == row->book && sieve->book_id == row->book_id &&
                sieve->list_count == counts.lists && sieve->stack_count == counts.nodes + 1;
    if (!same) {
        pyr_memory_free(sieve->lists);
        pyr_memory_free(sieve->stacks);
        pyr_memory_free(sieve->by_frame);
        sieve->lists = pyr_memory_new(counts.lists + 1, sizeof *sieve->lists);
        sieve->stacks =
            sieve->frames != 0 ? pyr_memory_new(counts.nodes + 1, sizeof *sieve->stacks) : NULL;
        sieve->by_frame =
            sieve->frames != 0 ? pyr_memory_new(counts.frames + 1, sizeof *sieve->by_frame) : NULL;
        sieve->book = row->book;
        sieve->book_id = row->book_id;
        sieve->list_count = counts.lists;
        sieve->stack_count = counts.nodes + 1;
        sieve->frame_count = counts.frames;
        if (sieve->lists == NULL ||
            (sieve->frames != 0 && (sieve->stacks == NULL || sieve->by_frame == NULL))) {
            sieve->book = NULL;
            return PYR_ENOMEM;
        }
    } else if (sieve->open != open) {
        memset(sieve->lists, UNKNOWN, sieve->list_count);
    }
    sieve->open = open;
    return PYR_OK;
}

static bool judge_list(const pyr_sieve *sieve, uint32_t list)
{
    pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(sieve->book, list, pairs);
    for (size_t at = 0; at < sieve->question->count; at++) {
        const pyr_condition *condition = &sieve->question->conditions[at];
        if ((sieve->open & UINT32_C(1) << at) == 0) {
            continue;
        }
        const char *text = "";
        size_t length = 0;
        for (size_t pair = 0; pair < count; pair++) {
            size_t name_length = 0;
            const char *name = pyr_book_text(sieve->book, pairs[pair].key, &name_length);
            if (name_length == strlen(condition->name) &&
                memcmp(name, condition->name, name_length) == 0) {
                text = pyr_book_text(sieve->book, pairs[pair].value, &length);
            }
        }
        if (pyr_condition_matches(condition, text, length) == condition->is_negative) {
            return false;
        }
    }
    return true;
}

static uint32_t judge_frame(pyr_sieve *sieve, uint32_t frame)
{
    if (sieve->by_frame[frame] & KNOWN) {
        return sieve->by_frame[frame];
    }
    uint32_t met = KNOWN;
    pyr_book_function function =
        pyr_book_function_at(sieve->book, pyr_book_frame_at(sieve->book, frame).function);
    for (size_t at = 0; at < sieve->question->count; at++) {
        const pyr_condition *condition = &sieve->question->conditions[at];
        size_t length = 0;
        const char *text = NULL;
        if (condition->place == PYR_CONDITION_FUNCTION) {
            text = pyr_book_text(sieve->book, function.name, &length);
        } else if (condition->place != PYR_CONDITION_LABEL) {
            text = pyr_book_text(sieve->book, function.file, &length);
        }
        if (condition->place == PYR_CONDITION_PACKAGE) {
            text = pyr_package_of(text, length, &length);
        }
        if (text != NULL && pyr_condition_matches(condition, text, length)) {
            met |= UINT32_C(1) << at;
        }
    }
    sieve->by_frame[frame] = met;
    return met;
}

/* Walks up to a stack that is known, then down again; a parent's number is below its child's. */
static uint32_t judge_stack(pyr_sieve *sieve, uint32_t stack)
{
    uint32_t met = KNOWN;
    uint32_t at = stack;
    for (; at != 0 && (sieve->stacks[at] & KNOWN) == 0;
         at = pyr_book_node_at(sieve->book, at).parent) {
        met |= judge_frame(sieve, pyr_book_node_at(sieve->book, at).frame);
    }
    met |= at != 0 ? sieve->stacks[at] : 0;
    sieve->stacks[stack] = met;
    return met;
}

bool pyr_sieve_passes(pyr_sieve *sieve, uint32_t stack, uint32_t list)
{
    if (sieve->open != 0) {
        if (sieve->lists[list] == UNKNOWN) {
            sieve->lists[list] = judge_list(sieve, list) ? YES : NO;
        }
        if (sieve->lists[list] == NO) {
            return false;
        }
    }
    if (sieve->frames == 0) {
        return true;
    }
    uint32_t met = sieve->stacks[stack] & KNOWN ? sieve->stacks[stack] : judge_stack(sieve, stack);
    for (size_t at = 0; at < sieve->question->count; at++) {
        uint32_t bit = UINT32_C(1) << at;
        bool is_negative = sieve->question->conditions[at].is_negative;
        if ((sieve->frames & bit) != 0 && ((met & bit) != 0) == is_negative) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- series and profiles ---- */

typedef struct choosing {
    const pyr_question *question;
    pyr_buffer *ids, *open;
} choosing;

static pyr_status choose(void *context, const pyr_view_series *series)
{
    const choosing *c = context;
    uint32_t open = 0;
    for (size_t at = 0; at < c->question->count; at++) {
        const pyr_condition *condition = &c->question->conditions[at];
        if (condition->place != PYR_CONDITION_LABEL) {
            continue;
        }
        const char *text = series->labels;
        const char *end = text + series->labels_length;
        const char *name = NULL;
        const char *value = NULL;
        bool found = false;
        while (!found && pyr_labels_next(&text, end, &name, &value)) {
            found = strcmp(name, condition->name) == 0;
        }
        if (!found) {
            open |= UINT32_C(1) << at;
        } else if (pyr_condition_matches(condition, value, strlen(value)) ==
                   condition->is_negative) {
            return PYR_OK;
        }
    }
    (void)pyr_buffer_append(c->ids, &series->id, sizeof series->id);
    (void)pyr_buffer_append(c->open, &open, sizeof open);
    return c->ids->status != PYR_OK ? c->ids->status : c->open->status;
}

static const char *service_of(const pyr_question *question)
{
    for (size_t at = 0; at < question->count; at++) {
        const pyr_condition *condition = &question->conditions[at];
        if (strcmp(condition->name, "service") == 0 && !condition->pattern &&
            !condition->is_negative) {
            return condition->value;
        }
    }
    return NULL;
}

pyr_status pyr_question_series(pyr_view *view, const pyr_question *question, pyr_buffer *ids,
                               pyr_buffer *open)
{
    choosing c = {question, ids, open};
    pyr_status status = pyr_view_each_series(view, service_of(question), question->from_ns,
                                             question->until_ns, choose, &c);
    return status == PYR_OK ? pyr_question_verdict(question) : status;
}

typedef struct passing {
    pyr_sieve *sieve;
    const int64_t *series;
    const uint32_t *open;
    pyr_map *places; /* series -> place in the two above */
    pyr_view_visit visit;
    void *context;
} passing;

static pyr_status visit_if_any(void *context, const pyr_view_row *row)
{
    passing *p = context;
    uint64_t place = 0;
    if (!pyr_map_get(p->places, (uint64_t)row->series, &place)) {
        return PYR_OK;
    }
    pyr_status status = pyr_sieve_start(p->sieve, row, p->open[place]);
    const uint32_t *stacks = (const uint32_t *)(const void *)row->block->stacks.data;
    const uint32_t *lists = (const uint32_t *)(const void *)row->block->lists.data;
    bool passes = p->open[place] == 0 && p->sieve->frames == 0; /* also one without any row */
    for (size_t at = 0; status == PYR_OK && !passes && at < row->block->count; at++) {
        passes = pyr_sieve_passes(p->sieve, stacks[at], lists[at]);
    }
    return status == PYR_OK && passes ? p->visit(p->context, row) : status;
}

pyr_status pyr_question_each(pyr_view *view, const pyr_question *question, pyr_view_visit visit,
                             void *context, size_t *damaged)
{
    pyr_buffer ids;
    pyr_buffer open;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    pyr_status status = pyr_question_series(view, question, &ids, &open);
    size_t count = ids.length / sizeof(int64_t);
    passing p = {
        .sieve = pyr_sieve_new(question),
        .series = (const int64_t *)(const void *)ids.data,
        .open = (const uint32_t *)(const void *)open.data,
        .places = pyr_map_new(count + 1),
        .visit = visit,
        .context = context,
    };
    if (status == PYR_OK && (p.sieve == NULL || p.places == NULL)) {
        status = PYR_ENOMEM;
    }
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        status = pyr_map_put(p.places, (uint64_t)p.series[at], at);
    }
    if (status == PYR_OK) {
        status = pyr_view_scan(view, p.series, count, question->from_ns, question->until_ns,
                               PYR_LEVEL_PROFILE, visit_if_any, &p, damaged);
        status = status == PYR_OK ? pyr_question_verdict(question) : status;
    }
    pyr_sieve_free(p.sieve);
    pyr_map_free(p.places);
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    return status;
}
