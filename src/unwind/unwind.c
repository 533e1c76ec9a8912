/* The unwinder: waves of snapshots, then names. See the header.
 *
 * Owns the batches, the table of code objects and scratch frames. Runs on the sampler's thread (or
 * the program that attaches), without the GIL; allocates only for tables that grow. What cannot be
 * proved is dropped and counted, never guessed.
 */
#include "unwind/unwind.h"

#include <string.h>

#include "base/limits.h"
#include "base/load.h"
#include "base/memory.h"
#include "cpython/layout_fields.h"
#include "os/task.h"
#include "unwind/codes.h"
#include "unwind/handled.h"
#include "unwind/label_sets.h"
#include "unwind/native_leaf.h"

enum {
    BATCH_BYTES = 5 << 19,
    SCRATCH_BYTES = 3 << 19,
    LEARN_TRIES = 8,
    BOTH_TRIES = 3,    /* that want every proof of a stack */
    LABEL_TRIES = 8,   /* for labels that belong to the stack exactly */
    PATIENT_TRIES = 4, /* from then on the threads get a moment to move on */
    MOMENT_NS = 20000, /* the first of these moments; they double, LONGEST times */
    LONGEST = 4,
};

static const char CHANGING[] = "<changing frames>";

struct pyr_unwinder {
    pyr_reader *reader;
    const pyr_layout *layout;
    pyr_symbols *symbols;
    pyr_batch *batch;   /* the wave */
    pyr_batch *scratch; /* learning, names */
    pyr_codes *codes;
    pyr_native_leaf *native_leaf;
    pyr_handled *handled;
    pyr_label_sets *label_sets;
    unsigned max_frames;
    pyr_frame changing; /* stands for what moved above callers that did not */
    pyr_raw_frame raw[PYR_LIMIT_FRAMES];
    pyr_frame frames[PYR_LIMIT_FRAMES + 1]; /* one more for the native leaf */
    pyr_unwind_stats stats;
};

pyr_unwinder *pyr_unwinder_new(pyr_reader *reader, const pyr_layout *layout, pyr_addr code_type,
                               const pyr_code_deaths *deaths, const pyr_label_source *labels,
                               pyr_symbols *symbols, unsigned max_frames)
{
    pyr_unwinder *unwinder = pyr_memory_new(1, sizeof *unwinder);
    if (!unwinder) {
        return NULL;
    }
    unwinder->reader = reader;
    unwinder->layout = layout;
    unwinder->symbols = symbols;
    unwinder->max_frames = max_frames < 1                  ? 1
                           : max_frames > PYR_LIMIT_FRAMES ? PYR_LIMIT_FRAMES
                                                           : max_frames;
    unwinder->batch = pyr_batch_new(BATCH_BYTES);
    unwinder->scratch = pyr_batch_new(SCRATCH_BYTES);
    unwinder->codes = pyr_codes_new(reader, layout, code_type, deaths, symbols);
    unwinder->native_leaf = pyr_native_leaf_new(reader, layout, symbols);
    unwinder->handled = pyr_handled_new(reader, layout, symbols);
    unwinder->label_sets = pyr_label_sets_new(reader, layout, labels, symbols);
    if (!unwinder->batch || !unwinder->scratch || !unwinder->codes || !unwinder->native_leaf ||
        !unwinder->handled || !unwinder->label_sets) {
        pyr_unwinder_free(unwinder);
        return NULL;
    }
    unwinder->changing = pyr_unwinder_synthetic(unwinder, CHANGING);
    return unwinder;
}

void pyr_unwinder_free(pyr_unwinder *unwinder)
{
    if (unwinder) {
        pyr_batch_free(unwinder->batch);
        pyr_batch_free(unwinder->scratch);
        pyr_codes_free(unwinder->codes);
        pyr_native_leaf_free(unwinder->native_leaf);
        pyr_handled_free(unwinder->handled);
        pyr_label_sets_free(unwinder->label_sets);
        pyr_memory_free(unwinder);
    }
}

void pyr_unwinder_renew(pyr_unwinder *unwinder, pyr_symbols *symbols)
{
    unwinder->symbols = symbols;
    pyr_codes_renew(unwinder->codes, symbols);
    pyr_native_leaf_renew(unwinder->native_leaf, symbols);
    pyr_handled_renew(unwinder->handled, symbols);
    pyr_label_sets_renew(unwinder->label_sets, symbols);
    unwinder->changing = pyr_unwinder_synthetic(unwinder, CHANGING);
}

pyr_frame pyr_unwinder_synthetic(pyr_unwinder *unwinder, const char *name)
{
    return (pyr_frame){.function =
                           pyr_symbols_function(unwinder->symbols, name, strlen(name), "", 0, 0)};
}

/* Room for the names of this visit; those of the last one stay if they still hold. */
static void prepare_named(const pyr_unwinder *unwinder, pyr_stack_plan *plan, uint32_t count)
{
    if (!pyr_codes_hold(unwinder->codes, plan->named_since)) {
        plan->named_count = 0;
    }
    if (plan->named_capacity < count) {
        void *named = pyr_memory_resize(plan->named, count, sizeof *plan->named);
        if (named) { /* else all are looked up, as ever */
            plan->named = named;
            plan->named_capacity = (uint16_t)count;
        }
    }
    plan->named_since = (pyr_codes_stamp){0}; /* until all are named */
}

/* Names one frame, `depth` frames above the root. */
static pyr_status name_frame(pyr_unwinder *unwinder, const pyr_raw_frame *raw, uint32_t depth,
                             pyr_stack_plan *plan, pyr_named_frame *named)
{
    if (depth < plan->named_count) {
        const pyr_named_frame *last = &plan->named[depth];
        if (last->code == raw->code && last->instr == raw->instr &&
            last->of_generator == raw->of_generator) {
            *named = *last;
            return PYR_OK;
        }
    }
    const pyr_code *code;
    pyr_status status = pyr_codes_resolve(unwinder->codes, raw->code, &code);
    if (status != PYR_OK) {
        return status;
    }
    *named = (pyr_named_frame){
        .code = raw->code,
        .instr = raw->instr,
        .frame = pyr_code_frame(code, raw->instr),
        .of_generator = raw->of_generator,
        .hidden = !raw->of_generator && pyr_code_is_incomplete(code, raw->instr),
    };
    if (depth < plan->named_capacity) {
        plan->named[depth] = *named;
    }
    return PYR_OK;
}

/* Names all frames of a snapshot, behind the first of unwinder->frames, which is left for what
 * comes above them. *leaf_shown: the first of them is the snapshot's first. */
static pyr_status name_all(pyr_unwinder *unwinder, const pyr_snapshot *snapshot,
                           pyr_stack_plan *plan, uint32_t *count, bool *leaf_shown)
{
    *count = 0;
    *leaf_shown = false;
    prepare_named(unwinder, plan, snapshot->count);
    for (uint32_t i = 0; i < snapshot->count; i++) {
        pyr_named_frame named;
        pyr_status status =
            name_frame(unwinder, &snapshot->frames[i], snapshot->count - 1 - i, plan, &named);
        if (status != PYR_OK) {
            return status;
        }
        if (!named.hidden) {
            unwinder->frames[1 + (*count)++] = named.frame;
            *leaf_shown |= i == 0;
        }
    }
    plan->named_count =
        (uint16_t)(snapshot->count < plan->named_capacity ? snapshot->count : plan->named_capacity);
    plan->named_since = pyr_codes_now(unwinder->codes);
    return PYR_OK;
}

/* Puts a frame above those that are named. */
static void put_leaf(pyr_unwinder *unwinder, pyr_frame frame, pyr_visit *visit)
{
    unwinder->frames[0] = frame;
    visit->frames = unwinder->frames;
    visit->count++;
    if (visit->count > unwinder->max_frames) {
        visit->count--;
        visit->omitted++;
    }
}

/* Names the frames of a good snapshot. The batch still holds the copies. */
static pyr_status name_frames(pyr_unwinder *unwinder, const pyr_snapshot *snapshot,
                              pyr_visit *visit)
{
    uint32_t count;
    bool leaf_complete;
    pyr_status named = name_all(unwinder, snapshot, visit->plan, &count, &leaf_complete);
    if (named != PYR_OK) {
        return named;
    }
    visit->frames = unwinder->frames + 1;
    visit->count = count;
    visit->omitted = snapshot->omitted;
    visit->native = NULL;
    visit->still_blank = false;
    visit->leaf_kind = PYR_SITE_OTHER;
    if (snapshot->leaf && snapshot->leaf_stable && leaf_complete) {
        const pyr_code *code;
        pyr_status status = pyr_codes_resolve(unwinder->codes, snapshot->frames[0].code, &code);
        if (status != PYR_OK) {
            return status;
        }
        pyr_native_callee callee;
        pyr_native_leaf_find(unwinder->native_leaf, unwinder->codes, code, snapshot, &callee);
        visit->leaf_kind = callee.site;
        visit->still_blank = callee.still_blank;
        if (callee.name) {
            visit->native = callee.name;
            put_leaf(unwinder, callee.frame, visit);
            unwinder->stats.native_leaves++;
        }
    }
    return PYR_OK;
}

/* After some tries that want both proofs, each in turn: a thread that calls every few nanoseconds
 * seldom stands still, and one that was preempted at a bad moment does not look alive. */
static pyr_snapshot_proof proof_of(uint32_t tries)
{
    return tries <= BOTH_TRIES ? PYR_PROOF_BOTH
           : tries % 2 == 0    ? PYR_PROOF_ALIVE
                               : PYR_PROOF_STILL;
}

/* What a snapshot tells beside the stack. */
static pyr_status note_rest(pyr_unwinder *unwinder, const pyr_snapshot *snapshot, bool last,
                            pyr_visit *visit)
{
    pyr_status status = pyr_label_sets_find(unwinder->label_sets, unwinder->batch, snapshot,
                                            visit->plan, last, &visit->labels);
    if (status != PYR_OK) {
        return status;
    }
    visit->exception = pyr_handled_find(unwinder->handled, unwinder->scratch, snapshot);
    visit->plan->exception = snapshot->exception_info;
    visit->rooted = snapshot->rooted;
    visit->cpu = snapshot->cpu;
    visit->holds_gil = snapshot->holds_gil;
    visit->gil_free = snapshot->gil_free;
    visit->gil_requested = snapshot->gil_requested;
    return PYR_OK;
}

/* A thread that calls all the time is seldom caught with one stack in two copies, and by the next
 * try it may be elsewhere: code that is slow to change would get the time of code that is quick.
 * So the callers that stayed during the first try are kept, and it is what the stack of a later try
 * must stand on. Their labels are those that were copied between: a walk of now would say what is
 * in force after they have returned, which is when they are needed. */
static void keep_callers(pyr_unwinder *unwinder, const pyr_snapshot *snapshot, pyr_visit *visit)
{
    uint32_t shown;
    bool leaf_shown;
    if (name_all(unwinder, snapshot, visit->plan, &shown, &leaf_shown) == PYR_OK &&
        visit->plan->named_count == snapshot->count &&
        note_rest(unwinder, snapshot, false, visit) == PYR_OK) {
        visit->kept = snapshot->count;
        visit->omitted = snapshot->omitted;
    }
}

/* Whether the callers kept from an earlier try are in this one, too. The nearest of them may have
 * gone on to another line. */
static bool stands_on_kept(const pyr_unwinder *unwinder, const pyr_snapshot *snapshot,
                           const pyr_visit *visit)
{
    const pyr_stack_plan *plan = visit->plan;
    if (visit->kept == 0 || snapshot->omitted > 0 || visit->omitted > 0 ||
        !pyr_codes_hold(unwinder->codes, plan->named_since)) {
        return true; /* or it cannot be told */
    }
    bool same = snapshot->count >= visit->kept;
    for (uint32_t depth = 0; depth < visit->kept && same; depth++) {
        const pyr_raw_frame *raw = &snapshot->frames[snapshot->count - 1 - depth];
        const pyr_named_frame *kept = &plan->named[depth];
        same = raw->code == kept->code && raw->of_generator == kept->of_generator &&
               (depth + 1 == visit->kept || raw->instr == kept->instr);
    }
    return same;
}

/* Gives the callers that were kept. PYR_ETORN: there are none whose names still hold. */
static pyr_status give_kept(pyr_unwinder *unwinder, pyr_visit *visit)
{
    const pyr_stack_plan *plan = visit->plan;
    if (visit->kept == 0 || plan->named_count < visit->kept ||
        !pyr_codes_hold(unwinder->codes, plan->named_since)) {
        return PYR_ETORN;
    }
    visit->count = 0;
    for (uint32_t depth = visit->kept; depth-- > 0;) {
        if (!plan->named[depth].hidden) {
            unwinder->frames[1 + visit->count++] = plan->named[depth].frame;
        }
    }
    put_leaf(unwinder, unwinder->changing, visit);
    visit->native = NULL;
    visit->still_blank = false;
    visit->leaf_kind = PYR_SITE_OTHER;
    unwinder->stats.changing++;
    return PYR_OK;
}

/* Judges one thread of the wave: true when it is done with. */
static bool judge(pyr_unwinder *unwinder, pyr_visit *visit, pyr_snapshot_spans spans, bool last)
{
    pyr_snapshot snapshot = {.frames = unwinder->raw,
                             .capacity = unwinder->max_frames,
                             .blank = &visit->plan->blank,
                             .barely_ran = visit->barely_ran};
    pyr_status status = pyr_snapshot_check(unwinder->batch, unwinder->layout, visit->ref,
                                           visit->plan, spans, proof_of(visit->tries), &snapshot);
    if (status == PYR_OK && !stands_on_kept(unwinder, &snapshot, visit)) {
        visit->status = give_kept(unwinder, visit);
        return true;
    }
    if (status == PYR_OK) {
        status = name_frames(unwinder, &snapshot, visit);
        if (status == PYR_ETORN) {
            unwinder->stats.stale++;
        }
        if (status == PYR_OK) {
            status = note_rest(unwinder, &snapshot, visit->tries >= LABEL_TRIES, visit);
        }
    } else if (status == PYR_ETORN && snapshot.count > 0 && visit->kept == 0) {
        keep_callers(unwinder, &snapshot, visit);
    }
    visit->status = status == PYR_EPARTIAL || status == PYR_EBAD ? PYR_ETORN : status;
    if (status == PYR_EPARTIAL && visit->learned < LEARN_TRIES) {
        visit->learned++;
        unwinder->stats.learned++;
        status = pyr_stack_plan_learn(unwinder->reader, unwinder->scratch, unwinder->layout,
                                      visit->ref, visit->plan);
        if (status == PYR_ENOMEM) {
            visit->status = PYR_ENOMEM;
        }
    }
    if (last && visit->status == PYR_ETORN) {
        visit->status = give_kept(unwinder, visit);
    }
    return visit->status != PYR_ETORN;
}

static void finish(pyr_unwinder *unwinder, const pyr_visit *visit,
                   void (*done)(void *context, const pyr_visit *visit), void *context)
{
    unwinder->stats.visits++;
    unwinder->stats.tries += visit->tries;
    unwinder->stats.torn += visit->status == PYR_ETORN;
    unwinder->stats.no_root += visit->status == PYR_OK && !visit->rooted;
    unwinder->stats.unreadable += visit->status == PYR_EFAULT;
    done(context, visit);
}

/* A look at the lists of threads that shares a wave's first call. */
typedef struct list_look {
    pyr_threads *threads; /* NULL once it is made, or not wanted */
    bool *changed;
    pyr_status status;
} list_look;

/* One wave over visits[0 .. count): those that stay torn move to the front; returns how many. */
static size_t wave(pyr_unwinder *unwinder, list_look *look, pyr_visit *visits, size_t count,
                   bool last, void (*done)(void *context, const pyr_visit *visit), void *context)
{
    size_t pending = 0, taken = 0;
    while (taken < count || look->threads) {
        pyr_snapshot_spans spans[PYR_LIMIT_SPANS];
        size_t added = 0;
        pyr_batch_clear(unwinder->batch);
        int looked = look->threads ? pyr_threads_look_add(look->threads, unwinder->batch) : -1;
        while (taken + added < count && added < PYR_LIMIT_SPANS) {
            pyr_visit *visit = &visits[taken + added];
            if (pyr_snapshot_add(unwinder->batch, unwinder->layout, visit->ref, visit->plan,
                                 &spans[added]) != PYR_OK) {
                break;
            }
            added++;
        }
        if (added == 0 && !look->threads) { /* does not fit even alone */
            visits[taken].status = PYR_EFAULT;
            finish(unwinder, &visits[taken++], done, context);
            continue;
        }
        pyr_reader_read_batch(unwinder->reader, unwinder->batch);
        if (look->threads) {
            look->status =
                pyr_threads_look_take(look->threads, unwinder->batch, looked, look->changed);
            look->threads = NULL;
            if (look->status != PYR_OK) {
                return 0;
            }
        }
        for (size_t i = 0; i < added; i++) {
            pyr_visit visit = visits[taken + i];
            visit.tries++;
            if (judge(unwinder, &visit, spans[i], last) || last) {
                finish(unwinder, &visit, done, context);
            } else {
                visits[pending++] = visit;
            }
        }
        taken += added;
    }
    return pending;
}

pyr_status pyr_unwinder_visit(pyr_unwinder *unwinder, pyr_threads *looked, bool *changed,
                              pyr_visit *visits, size_t count,
                              void (*done)(void *context, const pyr_visit *visit), void *context)
{
    list_look look = {.threads = looked, .changed = changed, .status = PYR_OK};
    pyr_codes_new_tick(unwinder->codes);
    for (size_t i = 0; i < count; i++) {
        visits[i].tries = visits[i].learned = visits[i].kept = 0;
    }
    for (unsigned attempt = 0; attempt < PYR_LIMIT_TRIES && (count > 0 || look.threads);
         attempt++) {
        if (attempt >= PATIENT_TRIES) {
            /* We may have preempted it between two stores that belong together, as a yield makes:
             * then no try succeeds before it runs again. */
            unsigned doubled = attempt - PATIENT_TRIES;
            pyr_os_sleep((int64_t)MOMENT_NS << (doubled < LONGEST ? doubled : LONGEST));
        }
        if (attempt > 0) {
            pyr_codes_new_tick(unwinder->codes);
        }
        count = wave(unwinder, &look, visits, count, attempt == PYR_LIMIT_TRIES - 1, done, context);
    }
    return look.status;
}

void pyr_unwinder_stats(const pyr_unwinder *unwinder, pyr_unwind_stats *stats)
{
    *stats = unwinder->stats;
    stats->calls = unwinder->batch->calls + unwinder->scratch->calls;
    pyr_label_sets_stats(unwinder->label_sets, &stats->label_walks, &stats->label_unread);
}
