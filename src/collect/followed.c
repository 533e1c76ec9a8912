/* Accounts of one thread; see the header. Called under the tick's lock only.
 *
 * CPU: the clock's advance is carried until the thread is seen on a CPU and put there, as much as
 * such a look stands for, because a waiting thread used it before it began to wait. What is carried
 * at the end goes to one of the stacks seen on a CPU, drawn by lot.
 *
 * On-cpu against runnable: a thread seen able to run was running for as much wall time as it used
 * CPU; the rest of that wall time it waited for a CPU.
 */
#include "collect/followed.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"

enum { CPU_TIME, CPU_SAMPLES, WALL_TIME, WALL_SAMPLES }; /* the row of PYR_SAMPLE_KIND_STACK */

void pyr_followed_init(pyr_followed *thread, const pyr_thread_ref *ref, int64_t now_ns)
{
    *thread = (pyr_followed){.ref = *ref,
                             .keeps_account = true,
                             .cpu_ns = -1,
                             .seen_ns = now_ns,
                             .active = true,
                             .spending.random = pyr_hash_u64(ref->native_id, ref->state)};
}

void pyr_followed_fini(pyr_followed *thread)
{
    pyr_stack_plan_fini(&thread->plan);
    pyr_memory_free(thread->stack.frames);
    pyr_memory_free(thread->busy.frames);
    pyr_memory_free(thread->blocker.frames);
    *thread = (pyr_followed){0};
}

static bool is_same(const pyr_kept_stack *kept, const pyr_sight *sight)
{
    return kept->count == sight->count && kept->omitted == sight->omitted &&
           kept->exception == sight->exception && kept->labels == sight->labels &&
           (sight->count == 0 ||
            memcmp(kept->frames, sight->frames, sight->count * sizeof *sight->frames) == 0);
}

static pyr_status keep(pyr_kept_stack *kept, const pyr_sight *sight)
{
    if (sight->count > kept->capacity) {
        pyr_frame *grown = pyr_memory_resize(kept->frames, sight->count, sizeof *grown);
        if (!grown) {
            return PYR_ENOMEM;
        }
        kept->frames = grown;
        kept->capacity = sight->count;
    }
    if (sight->count > 0) {
        memcpy(kept->frames, sight->frames, sight->count * sizeof *sight->frames);
    }
    kept->count = sight->count;
    kept->omitted = sight->omitted;
    kept->exception = sight->exception;
    kept->labels = sight->labels;
    return PYR_OK;
}

/* Thread id, native id and name; their number. */
static uint32_t label_thread(const pyr_thread_ref *ref, uint32_t name, pyr_symbols *symbols,
                             pyr_label *labels)
{
    uint32_t count = 0;
    labels[count++] = (pyr_label){.key = PYR_LABEL_THREAD_ID, .number = (int64_t)ref->ident};
    labels[count++] =
        (pyr_label){.key = PYR_LABEL_THREAD_NATIVE_ID, .number = (int64_t)ref->native_id};
    if (name == 0) { /* too short-lived to be named: its ident, as Datadog does */
        char text[24];
        int length = snprintf(text, sizeof text, "%llu", (unsigned long long)ref->ident);
        name = pyr_symbols_string(symbols, text, length > 0 ? (size_t)length : 0);
    }
    labels[count++] = (pyr_label){.key = PYR_LABEL_THREAD_NAME, .text = name};
    return count;
}

static void give_one_side(pyr_sample_kind kind, const pyr_kept_stack *stack,
                          const pyr_thread_ref *ref, uint32_t name, uint64_t pair, int64_t value,
                          pyr_follow_context *context)
{
    pyr_label labels[4];
    uint32_t count = label_thread(ref, name, context->symbols, labels);
    if (pair != 0) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_PAIR_ID, .number = (int64_t)pair};
    }
    const pyr_sample sample = {.kind = kind,
                               .symbols = context->symbols,
                               .frames = stack->frames,
                               .frame_count = stack->count,
                               .omitted = stack->omitted,
                               .labels = labels,
                               .label_count = count,
                               .values = {value}};
    (void)context->sink.add(context->sink.context, &sample);
}

/* A wait for the GIL, and whoever had it meanwhile: two samples with one pair id. */
static void give_gil_wait(const pyr_followed *thread, int64_t waited_ns,
                          pyr_follow_context *context)
{
    uint64_t pair = 0;
    if (thread->blocker.count > 0) {
        pair = pyr_hash_bytes(thread->stack.frames, thread->stack.count * sizeof(pyr_frame),
                              thread->ref.native_id);
        pair = pyr_hash_bytes(thread->blocker.frames, thread->blocker.count * sizeof(pyr_frame),
                              pair ^ thread->blocker_ref.native_id) >>
                   1 |
               1;
    }
    give_one_side(PYR_SAMPLE_KIND_GIL_WAIT, &thread->stack, &thread->ref, thread->name, pair,
                  waited_ns, context);
    if (pair != 0) {
        give_one_side(PYR_SAMPLE_KIND_GIL_HOLDER, &thread->blocker, &thread->blocker_ref,
                      thread->blocker_name, pair, waited_ns, context);
    }
}

void pyr_followed_blame(pyr_followed *thread, const pyr_followed *holder)
{
    const pyr_sight sight = {.frames = holder->stack.frames,
                             .count = holder->stack.count,
                             .omitted = holder->stack.omitted};
    if (thread->has_run && thread->state == PYR_STATE_GIL_WAIT && holder != thread &&
        holder->has_run && keep(&thread->blocker, &sight) == PYR_OK) {
        thread->blocker_ref = holder->ref;
        thread->blocker_name = holder->name;
    }
}

static void give(const pyr_followed *thread, const pyr_kept_stack *stack, const pyr_state *state,
                 const int64_t values[PYR_LIMIT_VALUES], pyr_follow_context *context)
{
    pyr_label labels[PYR_LABEL_KEYS];
    uint32_t count = label_thread(&thread->ref, thread->name, context->symbols, labels);
    if (state) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_STATE, .text = context->state_names[*state]};
    }
    if (stack->exception != 0) {
        labels[count++] =
            (pyr_label){.key = PYR_LABEL_HANDLING_EXCEPTION, .text = stack->exception};
    }
    if (stack->labels != 0) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_PROGRAM, .text = stack->labels};
    }
    pyr_sample sample = {.kind = PYR_SAMPLE_KIND_STACK,
                         .symbols = context->symbols,
                         .frames = stack->frames,
                         .frame_count = stack->count,
                         .omitted = stack->omitted,
                         .labels = labels,
                         .label_count = count,
                         .end_ns = context->timeline ? thread->seen_ns : 0};
    memcpy(sample.values, values, sizeof sample.values);
    context->cpu_put_ns += values[CPU_TIME];
    (void)context->sink.add(context->sink.context, &sample);
}

static void close_run(pyr_followed *thread, pyr_follow_context *context)
{
    if (thread->has_run &&
        (thread->run_values[WALL_TIME] > 0 || thread->run_values[CPU_TIME] > 0)) {
        give(thread, &thread->stack, &thread->state, thread->run_values, context);
    }
    if (thread->has_run && thread->state == PYR_STATE_GIL_WAIT &&
        thread->run_values[WALL_TIME] > 0) {
        give_gil_wait(thread, thread->run_values[WALL_TIME], context);
    }
    memset(thread->run_values, 0, sizeof thread->run_values);
}

void pyr_followed_extend(pyr_followed *thread, int64_t now_ns, bool looked)
{
    if (!thread->has_run || now_ns <= thread->seen_ns) {
        return;
    }
    int64_t wall = now_ns - thread->seen_ns;
    thread->run_values[WALL_TIME] += wall;
    thread->run_values[WALL_SAMPLES] += looked;
    thread->on_cpu_ns -= thread->state == PYR_STATE_ON_CPU ? wall : 0;
    thread->seen_ns = now_ns;
}

/* Puts CPU of the account on the open run. */
static void spend(pyr_followed *thread, pyr_followed *account, const pyr_sight *sight)
{
    bool is_drawn;
    int64_t taken =
        pyr_spending_take(&account->spending, account->carry_ns, sight->stands_for_ns, &is_drawn);
    account->carry_ns -= taken;
    thread->on_cpu_ns += taken;
    thread->run_values[CPU_TIME] += taken;
    thread->run_values[CPU_SAMPLES]++;
    if (is_drawn && keep(&account->busy, sight) == PYR_OK) { /* else it is the one before */
        account->has_busy = true;
    }
}

pyr_status pyr_followed_see(pyr_followed *thread, pyr_followed *account, const pyr_sight *sight,
                            pyr_follow_context *context)
{
    pyr_followed_extend(thread, sight->since_ns, false);
    pyr_state state = sight->state;
    if (state == PYR_STATE_ON_CPU) {
        int64_t credit = thread->on_cpu_ns + account->carry_ns;
        int64_t wall = sight->now_ns - thread->seen_ns;
        state = 2 * credit >= wall ? PYR_STATE_ON_CPU : PYR_STATE_RUNNABLE;
    }
    bool same = thread->has_run && thread->state == state && is_same(&thread->stack, sight);
    if (!same) {
        close_run(thread, context);
        thread->has_run = false;
        pyr_status status = keep(&thread->stack, sight);
        if (status != PYR_OK) {
            return status;
        }
        thread->state = state;
        thread->has_run = true;
        thread->blocker.count = 0;
    }
    pyr_followed_extend(thread, sight->now_ns, true);
    if (sight->spends) {
        spend(thread, account, sight);
    }
    return PYR_OK;
}

/* Gives all that is carried to the stack drawn by lot. */
static void settle(pyr_followed *thread, pyr_follow_context *context)
{
    if (thread->carry_ns > 0) {
        const int64_t values[PYR_LIMIT_VALUES] = {[CPU_TIME] = thread->carry_ns};
        const pyr_kept_stack unseen = {.frames = &context->unseen, .count = 1};
        const pyr_state state = PYR_STATE_ON_CPU;
        give(thread, thread->has_busy ? &thread->busy : &unseen, thread->has_busy ? &state : NULL,
             values, context);
    }
    pyr_spending_settle(&thread->spending, thread->carry_ns);
    thread->on_cpu_ns += thread->carry_ns;
    thread->carry_ns = 0;
}

void pyr_followed_cut(pyr_followed *thread, pyr_follow_context *context)
{
    close_run(thread, context);
    if (thread->spending.lots_ns > 0) {
        settle(thread, context);
    }
}

void pyr_followed_flush(pyr_followed *thread, pyr_follow_context *context)
{
    close_run(thread, context);
    settle(thread, context);
}

void pyr_followed_forget(pyr_followed *thread)
{
    thread->has_run = false;
    thread->has_busy = false;
    thread->settled = false;
    thread->name = 0;
    thread->stack.count = thread->busy.count = thread->blocker.count = 0;
}
