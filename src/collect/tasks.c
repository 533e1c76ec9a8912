/* Accounts of tasks that are not Python threads; see the header.
 *
 * Owns the CPU clocks of the last account. A task of ours is known by its name. Kernel ids are
 * reused: a clock that went back belongs to a new task.
 */
#include "collect/tasks.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/task.h"

enum { TASKS = 4096 };

struct pyr_tasks {
    pyr_map *before; /* kernel id -> CPU ns */
    int64_t listed[TASKS];
    int64_t clocks[TASKS]; /* here, since a thread of the program that stops us may have little
                              stack */
    int64_t process_ns;
    int64_t own_ns;
    size_t count; /* of listed, in pyr_tasks_new */
};

static size_t list(pyr_tasks *tasks)
{
    size_t count = pyr_os_tasks(tasks->listed, TASKS);
    return count < TASKS ? count : TASKS;
}

pyr_tasks *pyr_tasks_new(void)
{
    pyr_tasks *tasks = pyr_memory_new(1, sizeof *tasks);
    if (!tasks) {
        return NULL;
    }
    tasks->before = pyr_map_new(TASKS);
    if (!tasks->before) {
        pyr_memory_free(tasks);
        return NULL;
    }
    tasks->count = list(tasks);
    for (size_t i = 0; i < tasks->count; i++) {
        int64_t cpu = pyr_clock_thread_cpu_ns(tasks->listed[i]);
        if (cpu >= 0) {
            (void)!pyr_map_put(tasks->before, (uint64_t)tasks->listed[i], (uint64_t)cpu);
        }
    }
    tasks->process_ns = pyr_clock_process_cpu_ns();
    return tasks;
}

void pyr_tasks_free(pyr_tasks *tasks)
{
    if (tasks) {
        pyr_map_free(tasks->before);
        pyr_memory_free(tasks);
    }
}

int64_t pyr_tasks_before(const pyr_tasks *tasks, int64_t native_id)
{
    uint64_t cpu = 0;
    (void)pyr_map_get(tasks->before, (uint64_t)native_id, &cpu);
    return (int64_t)cpu;
}

/* The names given to pyr_os_thread_start: the collectors' and the scheduler's. */
static bool is_own(const char *name)
{
    return strncmp(name, "pyrometer-", 10) == 0 || strcmp(name, "pyr-export") == 0;
}

static void give(pyr_follow_context *context, const char *frame_name, const char *thread_name,
                 int64_t native_id, int64_t cpu_ns, int64_t now_ns)
{
    pyr_frame frame = {.function = pyr_symbols_function(context->symbols, frame_name,
                                                        strlen(frame_name), "", 0, 0)};
    pyr_label labels[2];
    uint32_t count = 0;
    if (native_id != 0) {
        labels[count++] = (pyr_label){.key = PYR_LABEL_THREAD_NATIVE_ID, .number = native_id};
        labels[count++] = (pyr_label){
            .key = PYR_LABEL_THREAD_NAME,
            .text = pyr_symbols_string(context->symbols, thread_name, strlen(thread_name))};
    }
    pyr_sample sample = {.kind = PYR_SAMPLE_KIND_STACK,
                         .symbols = context->symbols,
                         .frames = &frame,
                         .frame_count = 1,
                         .labels = labels,
                         .label_count = count,
                         .values = {cpu_ns},
                         .end_ns = context->timeline ? now_ns : 0};
    context->cpu_put_ns += cpu_ns;
    (void)context->sink.add(context->sink.context, &sample);
}

void pyr_tasks_give_past(const pyr_tasks *tasks, int64_t now_ns, pyr_follow_context *context)
{
    int64_t rest_ns = tasks->process_ns;
    for (size_t i = 0; i < tasks->count; i++) {
        int64_t used_ns = pyr_tasks_before(tasks, tasks->listed[i]);
        if (used_ns > 0) {
            char name[16];
            pyr_os_task_name(tasks->listed[i], name);
            give(context, is_own(name) ? "<profiler>" : "<CPU before the first look>", name,
                 tasks->listed[i], used_ns, now_ns);
            rest_ns -= used_ns;
        }
    }
    if (rest_ns > 0) {
        give(context, "<short-lived threads>", "", 0, rest_ns, now_ns);
    }
    context->cpu_put_ns = 0; /* all of it is before what is accounted from now on */
}

void pyr_tasks_account(pyr_tasks *tasks, bool (*is_followed)(const void *owner, int64_t native_id),
                       const void *owner, int64_t now_ns, pyr_follow_context *context)
{
    size_t count = list(tasks);
    int64_t *clocks = tasks->clocks;
    tasks->own_ns = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t task = tasks->listed[i];
        clocks[i] = pyr_clock_thread_cpu_ns(task);
        int64_t before = pyr_tasks_before(tasks, task);
        int64_t used = clocks[i] >= before ? clocks[i] - before : clocks[i];
        if (used <= 0 || is_followed(owner, task)) {
            continue;
        }
        char name[16];
        pyr_os_task_name(task, name);
        bool own = is_own(name);
        tasks->own_ns += own ? used : 0;
        give(context, own ? "<profiler>" : "<native threads>", name, task, used, now_ns);
    }
    pyr_map_clear(tasks->before);
    for (size_t i = 0; i < count; i++) {
        if (clocks[i] >= 0) {
            (void)!pyr_map_put(tasks->before, (uint64_t)tasks->listed[i], (uint64_t)clocks[i]);
        }
    }
    int64_t process = pyr_clock_process_cpu_ns();
    int64_t missing = process - tasks->process_ns - context->cpu_put_ns;
    if (missing > 0) {
        give(context, "<short-lived threads>", "", 0, missing, now_ns);
    }
    /* Clocks read one after the other may say a little too much: the next window gets it back. */
    tasks->process_ns = process;
    context->cpu_put_ns = missing < 0 ? -missing : 0;
}

int64_t pyr_tasks_own_ns(const pyr_tasks *tasks)
{
    return tasks->own_ns;
}
