/* The memory collector: who allocates, and what stays alive.
 *
 * Owns the reading of thread names; allocations come from the sampler of this process
 * (heap_account.h), which hooks feed. Has no thread: everything happens in hooks, and when a window
 * is gathered. Calls come from the composition root, one at a time.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "collect/collector.h"
#include "collect/heap_account.h"
#include "collect/heap_live.h"
#include "collect/heap_pace.h"
#include "collect/heap_trend.h"
#include "collect/memory_account.h"
#include "collect/memory_host.h"
#include "collect/native_hooks.h"
#include "collect/native_names.h"
#include "cpython/thread_names.h"
#include "unwind/own_stack.h"
#include "unwind/threads.h"

enum {
    INTERPRETERS = 64, /* whose threads get names */
    ALLOCATORS = 24,   /* of the interpreter */
};

typedef struct memory_collector {
    pyr_collect_context context;
    pyr_threads *threads;
    pyr_thread_names *names;
    pyr_heap_trends *trends;            /* in the names of the current table */
    pyr_native_names *functions;        /* likewise; NULL: the native heap is off */
    pyr_native_stacks *stacks;          /* of C code; likewise */
    uint32_t domains[PYR_HEAP_DOMAINS]; /* strings of the symbol table */
    bool is_running;
    bool has_said_live; /* since the last rotation: a second time would count twice */
    bool has_warned;
    double alloc_bytes, alloc_count; /* given out since the last facts with reset */
    pyr_heap_stats reported;         /* at the last facts with reset */
    pyr_heap_stats told;             /* when losses were told last */
    pyr_malloc_answer malloc_answer;
} memory_collector;

static void name_domains(memory_collector *memory)
{
    static const char *const names[PYR_HEAP_DOMAINS] = {
        [PYR_HEAP_OBJ] = "obj",
        [PYR_HEAP_MEM] = "mem",
        [PYR_HEAP_RAW] = "raw",
        [PYR_HEAP_NATIVE] = "native",
    };
    for (size_t domain = 0; domain < PYR_HEAP_DOMAINS; domain++) {
        memory->domains[domain] =
            pyr_symbols_string(memory->context.symbols, names[domain], strlen(names[domain]));
    }
}

static void destroy(void *collector)
{
    memory_collector *memory = collector;
    if (memory) {
        pyr_native_hooks_close(memory);
        pyr_heap_close(memory);
        pyr_native_names_free(memory->functions);
        pyr_native_stacks_free(memory->stacks);
        pyr_heap_trends_free(memory->trends);
        pyr_thread_names_free(memory->names);
        pyr_threads_free(memory->threads);
        pyr_memory_free(memory);
    }
}

/* What the native heap needs. */
static pyr_status make_native(memory_collector *memory)
{
    uintptr_t interpreter = 0;
    if (!memory->context.native_heap_enabled) {
        return PYR_OK;
    }
    (void)memory->context.memory_host->allocators(&interpreter, 1);
    memory->functions = pyr_native_names_new();
    memory->stacks = pyr_native_stacks_new(memory->context.reader, interpreter);
    return memory->functions && memory->stacks ? PYR_OK : PYR_ENOMEM;
}

static pyr_status create(const pyr_collect_context *context, void **collector, char *why,
                         size_t why_size)
{
    if (!context->memory_host) {
        snprintf(why, why_size, "there are no allocators to hook");
        return PYR_ENOTSUP;
    }
    memory_collector *memory = pyr_memory_new(1, sizeof *memory);
    if (!memory) {
        return PYR_ENOMEM;
    }
    memory->context = *context;
    memory->threads = pyr_threads_new(context->reader, context->layout, context->runtime);
    memory->names = pyr_thread_names_new(context->reader, context->layout);
    memory->trends = pyr_heap_trends_new();
    if (!memory->threads || !memory->names || !memory->trends || make_native(memory) != PYR_OK ||
        pyr_heap_open(memory, context, memory->stacks) != PYR_OK) {
        destroy(memory);
        return PYR_ENOMEM;
    }
    name_domains(memory);
    *collector = memory;
    return PYR_OK;
}

static void hook_libraries(memory_collector *memory)
{
    uintptr_t allocators[ALLOCATORS];
    if (memory->functions) {
        size_t count = memory->context.memory_host->allocators(allocators, ALLOCATORS);
        pyr_native_hooks_open(memory, memory->stacks, allocators, count);
    }
}

static pyr_status start(void *collector)
{
    memory_collector *memory = collector;
    pyr_status status = memory->context.memory_host->install();
    if (status == PYR_OK) {
        pyr_own_stacks_tend(memory->context.own_stacks);
        pyr_heap_start(memory);
        pyr_heap_get_stats(&memory->told); /* what others lost before is none of ours */
        hook_libraries(memory);
        memory->is_running = true;
    }
    return status;
}

/* ----------------------------------------------------------------------------------- names ---- */

static void name_thread(void *context, pyr_heap_thread *thread)
{
    memory_collector *memory = context;
    size_t length;
    const char *name = pyr_thread_names_get(memory->names, thread->ident, &length);
    if (name && length > 0) {
        thread->name = pyr_symbols_string(memory->context.symbols, name, length);
        thread->is_named = true;
    }
}

/* Threads that have ended keep the name they had. */
static void name_threads(memory_collector *memory)
{
    pyr_addr named[INTERPRETERS];
    size_t count = 0;
    bool changed;
    pyr_status status = pyr_threads_look(memory->threads, &changed);
    if (status == PYR_OK && changed) {
        status = pyr_threads_update(memory->threads);
    }
    for (size_t i = 0; status != PYR_ECLOSED && i < pyr_threads_count(memory->threads); i++) {
        pyr_addr interpreter = pyr_threads_get(memory->threads, i)->interpreter;
        bool done = count == INTERPRETERS;
        for (size_t k = 0; k < count && !done; k++) {
            done = named[k] == interpreter;
        }
        if (!done) {
            named[count++] = interpreter;
            if (pyr_thread_names_refresh(memory->names, interpreter) == PYR_OK) {
                pyr_heap_each_thread(memory, name_thread, memory);
            }
        }
    }
}

/* The address that a frame of a site stands for; 0: it is none of C code, which are on top. */
static uintptr_t native_address(const pyr_heap_visit *found, uint32_t at)
{
    return at < found->frame_count ? pyr_native_frame_address(found->frames[at]) : 0;
}

static void want_functions(void *context, pyr_heap_visit *found)
{
    memory_collector *memory = context;
    uintptr_t address;
    for (uint32_t at = 0; (address = native_address(found, at)) != 0; at++) {
        if (address != PYR_NATIVE_STACK_UNKNOWN) {
            pyr_native_names_want(memory->functions, address);
        }
    }
}

static void name_functions(memory_collector *memory)
{
    if (memory->functions) {
        pyr_native_hooks_look();
        pyr_native_names_begin(memory->functions);
        pyr_heap_each(memory, false, want_functions, memory);
        pyr_native_names_find(memory->functions, memory->context.symbols);
    }
}

/* A sample since the names were looked for, or one too many, is in C code of no name. */
static uint32_t name_address(const memory_collector *memory, uintptr_t address)
{
    static const char unknown[] = "[C code]", file[] = "<native>";
    uint32_t function = pyr_native_names_get(memory->functions, address);
    return function != 0 ? function
                         : pyr_symbols_function(memory->context.symbols, unknown,
                                                sizeof unknown - 1, file, sizeof file - 1, 0);
}

/* Whether a function has no name of its own, only its library's. */
static bool is_nameless(const memory_collector *memory, uint32_t function)
{
    pyr_function told = pyr_symbols_get(memory->context.symbols, function);
    return pyr_symbols_text(memory->context.symbols, told.name, NULL)[0] == '[';
}

/* Names the frames of C code. Nameless ones of a library, one behind the other, are one frame. */
static void name_callers(const memory_collector *memory, pyr_heap_visit *found)
{
    uint32_t at = 0, kept = 0;
    uintptr_t address;
    for (; (address = native_address(found, at)) != 0; at++) {
        uint32_t function = name_address(memory, address);
        bool is_more = kept > 0 && found->frames[kept - 1].function == function &&
                       is_nameless(memory, function);
        if (!is_more) {
            found->frames[kept++] = (pyr_frame){.function = function};
        }
    }
    memmove(&found->frames[kept], &found->frames[at],
            (found->frame_count - at) * sizeof found->frames[0]);
    found->frame_count -= at - kept;
}

/* --------------------------------------------------------------------------------- samples ---- */

static int64_t whole(double value)
{
    return value > 0 ? (int64_t)(value + 0.5) : 0;
}

static void give_site(void *context, pyr_heap_visit *found)
{
    memory_collector *memory = context;
    const pyr_heap_site *site = found->site;
    name_callers(memory, found);
    pyr_label labels[5];
    uint32_t count = 0;
    if (found->thread) {
        labels[count++] =
            (pyr_label){.key = PYR_LABEL_THREAD_ID, .number = (int64_t)found->thread->ident};
        labels[count++] = (pyr_label){.key = PYR_LABEL_THREAD_NATIVE_ID,
                                      .number = (int64_t)found->thread->native_id};
        /* 0 = not told yet: the encoder may know it by then. */
        labels[count++] = (pyr_label){.key = PYR_LABEL_THREAD_NAME, .text = found->thread->name};
    }
    if (site->labels != 0) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_PROGRAM, .text = site->labels};
    }
    labels[count++] =
        (pyr_label){.key = PYR_LABEL_ALLOCATOR_DOMAIN, .text = memory->domains[site->domain]};
    pyr_sample sample = {
        .symbols = memory->context.symbols,
        .kind = PYR_SAMPLE_KIND_MEMORY,
        .frames = found->frames,
        .frame_count = found->frame_count,
        .omitted = found->omitted,
        .labels = labels,
        .label_count = count,
        .values = {whole(site->alloc_bytes), whole(site->alloc_count)},
    };
    memory->alloc_bytes += site->alloc_bytes;
    memory->alloc_count += site->alloc_count;
    if (!memory->has_said_live) {
        sample.values[2] = whole(site->live_bytes);
        sample.values[3] = whole(site->live_count);
        const pyr_heap_part part = {
            .frames = found->frames,
            .frame_count = found->frame_count,
            .omitted = found->omitted,
            .bytes = site->live_bytes,
            .variance = site->live_variance,
            .by_age = site->live_by_age,
        };
        pyr_heap_trends_add(memory->trends, &part);
    }
    (void)memory->context.sink.add(memory->context.sink.context, &sample);
}

static void lose(const memory_collector *memory, pyr_loss reason, uint64_t count)
{
    if (count > 0) {
        memory->context.sink.lose(memory->context.sink.context, reason, count);
    }
}

/* Into the window that is open: so before it is sealed, which facts are too late for. */
static void tell_losses(memory_collector *memory)
{
    pyr_heap_stats now;
    pyr_heap_get_stats(&now);
    lose(memory, PYR_LOSS_MISSED_ALLOCATION, now.missed - memory->told.missed);
    lose(memory, PYR_LOSS_MISSED_BLOCK, now.misplaced - memory->told.misplaced);
    memory->told = now;
}

static void flush(void *collector)
{
    memory_collector *memory = collector;
    name_threads(memory);
    name_functions(memory);
    if (!memory->has_said_live) {
        pyr_heap_trends_begin(memory->trends);
    }
    pyr_heap_each(memory, true, give_site, memory);
    if (!memory->has_said_live) {
        pyr_heap_trends_end(memory->trends, pyr_clock_monotonic_ns());
    }
    memory->has_said_live = true;
    tell_losses(memory);
    memory->context.memory_host->look_after();
    pyr_own_stacks_tend(memory->context.own_stacks);
}

static void stop(void *collector)
{
    memory_collector *memory = collector;
    if (memory->is_running) {
        memory->is_running = false;
        pyr_heap_stop(memory);
        flush(memory);
    }
}

static void renew_symbols(void *collector, pyr_symbols *symbols)
{
    memory_collector *memory = collector;
    pyr_heap_renew(memory, symbols);
    if (memory->functions) {
        pyr_native_names_clear(memory->functions);
    }
    memory->context.symbols = symbols;
    pyr_heap_trends_clear(memory->trends); /* it knows stacks by their ids */
    name_domains(memory);
}

/* ----------------------------------------------------------------------------------- facts ---- */

typedef struct sums {
    double bytes, count, small, native, alloc_bytes, alloc_count;
} sums;

static void add_site(void *context, pyr_heap_visit *found)
{
    sums *live = context;
    live->bytes += found->site->live_bytes;
    live->count += found->site->live_count;
    live->small += found->site->live_small;
    live->native += found->site->domain == PYR_HEAP_NATIVE ? found->site->live_bytes : 0;
    live->alloc_bytes += found->site->alloc_bytes;
    live->alloc_count += found->site->alloc_count;
}

static void warn_if_pushed(memory_collector *memory, const pyr_heap_stats *now)
{
    if (now->is_pushed && !memory->has_warned) {
        memory->has_warned = true;
        pyr_log_add(PYR_LOG_WARNING,
                    "HEAP_SAMPLE_SIZE is too small for what this program allocates: with it there "
                    "would be more than %d samples a second, so the distance is larger",
                    PYR_HEAP_EVENTS_PER_S);
    }
}

/* A function of the symbol table, as texts. */
static void describe(const memory_collector *memory, pyr_frame frame, char *name, char *file,
                     size_t size)
{
    pyr_function function = pyr_symbols_get(memory->context.symbols, frame.function);
    snprintf(name, size, "%s", pyr_symbols_text(memory->context.symbols, function.name, NULL));
    snprintf(file, size, "%s", pyr_symbols_text(memory->context.symbols, function.file, NULL));
}

/* The sites that surely grow; with the live heap switched off nothing is known. */
static void find_leaks(const memory_collector *memory, pyr_facts *rows)
{
    pyr_heap_trend ranked[PYR_LIMIT_LEAK_SITES];
    size_t count = memory->context.heap_enabled
                       ? pyr_heap_trends_rank(memory->trends, ranked, PYR_LIMIT_LEAK_SITES)
                       : 0;
    rows->leak_count = count;
    for (size_t at = 0; at < count; at++) {
        const pyr_heap_trend *trend = &ranked[at];
        pyr_leak_site *site = &rows->leaks[at];
        char name[PYR_LIMIT_LEAK_TEXT] = "", file[PYR_LIMIT_LEAK_TEXT] = "";
        *site = (pyr_leak_site){
            .line = trend->leaf.line,
            .windows = trend->windows,
            .is_suspect = trend->is_suspect,
            .live_bytes = trend->bytes,
            .standard_error = sqrt(trend->variance),
            .growth = trend->growth,
            .growth_error = trend->growth_error,
            .confidence = trend->confidence,
        };
        memcpy(site->live_by_age, trend->by_age, sizeof site->live_by_age);
        describe(memory, trend->leaf, site->function, site->file, sizeof site->function);
        if (trend->caller.function != 0) {
            describe(memory, trend->caller, name, file, sizeof name);
            int written = snprintf(site->caller, sizeof site->caller, "%.*s (%.*s:%u)", 64, name,
                                   100, file, (unsigned)trend->caller.line);
            (void)written; /* what is too long is cut */
        }
    }
}

static void add_native_facts(const memory_collector *memory, const pyr_heap_stats *now,
                             pyr_facts *rows)
{
    pyr_native_hook_stats hooks;
    if (memory->functions) {
        pyr_native_hooks_get_stats(&hooks);
        pyr_facts_add_integer(rows, "heap", "native_slots", (int64_t)hooks.exchanged);
        pyr_facts_add_integer(rows, "heap", "native_slots_refused", (int64_t)hooks.refused);
        pyr_facts_add_integer(rows, "heap", "native_frees_unseen", (int64_t)now->unseen_frees);
    }
}

static void facts(void *collector, pyr_facts *rows, pyr_facts_occasion occasion)
{
    bool reset = occasion != PYR_FACTS_SO_FAR;
    static const char section[] = "heap";
    memory_collector *memory = collector;
    pyr_heap_stats now;
    sums live = {0};
    pyr_heap_each(memory, false, add_site, &live);
    pyr_heap_get_stats(&now);
    const pyr_heap_stats *old = &memory->reported;
    pyr_facts_add_integer(rows, section, "live_bytes", whole(live.bytes));
    pyr_facts_add_integer(rows, section, "live_count", whole(live.count));
    pyr_facts_add_integer(rows, section, "live_bytes_standard_error",
                          (int64_t)sqrt(now.live_variance));
    pyr_facts_add_integer(rows, section, "live_samples", (int64_t)now.live);
    pyr_facts_add_integer(rows, section, "sites", (int64_t)now.sites);
    pyr_facts_add_integer(rows, section, "allocated_bytes",
                          whole(memory->alloc_bytes + (reset ? 0 : live.alloc_bytes)));
    pyr_facts_add_integer(rows, section, "allocated_count",
                          whole(memory->alloc_count + (reset ? 0 : live.alloc_count)));
    pyr_facts_add_integer(rows, section, "tables_bytes",
                          (int64_t)(pyr_heap_live_memory() + pyr_heap_sites_memory() +
                                    (memory->stacks ? pyr_native_stacks_memory() : 0)));
    pyr_facts_add_integer(rows, section, "sampled", (int64_t)(now.events - old->events));
    pyr_facts_add_integer(rows, section, "sample_distance_bytes", (int64_t)now.distance);
    pyr_facts_add_integer(rows, section, "live_sample_distance_bytes", (int64_t)now.live_distance);
    add_native_facts(memory, &now, rows);
    warn_if_pushed(memory, &now);
    find_leaks(memory, rows);
    const pyr_memory_known known = {
        .python_live = live.bytes - live.native,
        .native_live = memory->functions ? live.native : -1.0,
        .small_live = live.small,
        .arenas = memory->context.memory_host->arenas(),
    };
    pyr_memory_account(&known, occasion != PYR_FACTS_OF_HELD_WINDOW, &memory->malloc_answer, rows);
    if (reset) {
        memory->alloc_bytes = memory->alloc_count = 0;
        memory->reported = now;
        memory->has_said_live = false;
    }
}

/* ------------------------------------------------------------------------------------ fork ---- */

static void prefork(void *collector)
{
    memory_collector *memory = collector;
    pyr_heap_prefork();
    pyr_native_hooks_prefork();
    if (memory->stacks) {
        pyr_native_stacks_prefork(memory->stacks);
    }
}

static void postfork_parent(void *collector)
{
    memory_collector *memory = collector;
    if (memory->stacks) {
        pyr_native_stacks_postfork_parent(memory->stacks);
    }
    pyr_native_hooks_postfork_parent();
    pyr_heap_postfork_parent();
}

static void postfork_child(void *collector)
{
    memory_collector *memory = collector;
    memory->is_running = false;
    if (memory->stacks) {
        pyr_native_stacks_postfork_child(memory->stacks);
    }
    pyr_native_hooks_postfork_child();
    pyr_heap_postfork_child();
}

const pyr_collector_class pyr_memory_collector = {
    .name = "memory",
    .setting = "MEMORY_ENABLED",
    .kinds = PYR_SAMPLE_KIND_BIT(MEMORY),
    .create = create,
    .destroy = destroy,
    .start = start,
    .stop = stop,
    .flush = flush,
    .renew_symbols = renew_symbols,
    .facts = facts,
    .prefork = prefork,
    .postfork_parent = postfork_parent,
    .postfork_child = postfork_child,
};
