/* Stacks as text; see the header. Tests only, one thread. */
#include "support/image_stacks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpython/layout.h"
#include "cpython/thread_names.h"
#include "model/symbols.h"
#include "unwind/unwind.h"

enum { THREADS = 64, TEXT_BYTES = 1 << 16, IMAGE_MAX_FRAMES = 64 };

typedef struct thread_text {
    char name[256];
    pyr_buffer text;
} thread_text;

static void write_visit(pyr_symbols *symbols, const pyr_visit *visit, thread_text *thread)
{
    pyr_buffer *out = &thread->text;
    (void)pyr_buffer_format(out, "thread \"%s\"", thread->name);
    if (visit->status != PYR_OK) {
        (void)pyr_buffer_format(out, " %s\n", pyr_status_name(visit->status));
        return;
    }
    if (visit->exception != 0) {
        (void)pyr_buffer_format(out, " handling %s",
                                pyr_symbols_text(symbols, visit->exception, NULL));
    }
    if (visit->omitted != 0) {
        (void)pyr_buffer_format(out, " omitted %" PRIu32, visit->omitted);
    }
    (void)pyr_buffer_text(out, visit->rooted ? "\n" : " no root\n");
    for (uint32_t i = 0; i < visit->count; i++) {
        pyr_function function = pyr_symbols_get(symbols, visit->frames[i].function);
        const char *file = pyr_symbols_text(symbols, function.file, NULL);
        const char *slash = strrchr(file, '/');
        (void)pyr_buffer_format(out, "  %s %s:%" PRIu32 "\n",
                                pyr_symbols_text(symbols, function.name, NULL),
                                slash ? slash + 1 : file, visit->frames[i].line);
    }
}

typedef struct writing {
    pyr_symbols *symbols;
    pyr_thread_names *names;
    thread_text *threads;
    size_t count;
} writing;

static void visited(void *context, const pyr_visit *visit)
{
    writing *self = context;
    thread_text *thread = &self->threads[self->count++];
    size_t length;
    const char *name = pyr_thread_names_get(self->names, visit->ref->ident, &length);
    (void)snprintf(thread->name, sizeof thread->name, "%s", name ? name : "");
    write_visit(self->symbols, visit, thread);
}

static int compare(const void *left, const void *right)
{
    const thread_text *a = left;
    const thread_text *b = right;
    int order = strcmp(a->name, b->name);
    if (order == 0) { /* one thread in two interpreters: the shorter stack is the newer one */
        order = (a->text.length < b->text.length) - (a->text.length > b->text.length);
    }
    return order;
}

pyr_status image_stacks_write(pyr_reader *reader, pyr_addr runtime, uint32_t version,
                              pyr_buffer *out)
{
    static pyr_visit visits[THREADS];
    static pyr_stack_plan plans[THREADS];
    static thread_text texts[THREADS];
    char why[200];
    const pyr_layout *layout = NULL;
    bool changed;
    memset(visits, 0, sizeof visits);
    memset(plans, 0, sizeof plans);
    for (size_t i = 0; i < THREADS; i++) {
        pyr_buffer_init(&texts[i].text, TEXT_BYTES);
    }
    pyr_status status = pyr_layout_discover(reader, runtime, version, &layout, why, sizeof why);
    if (status != PYR_OK) {
        return status;
    }
    pyr_symbols *symbols = pyr_symbols_new();
    pyr_threads *threads = pyr_threads_new(reader, layout, runtime);
    pyr_thread_names *names = pyr_thread_names_new(reader, layout);
    pyr_unwinder *unwinder =
        pyr_unwinder_new(reader, layout, 0, NULL, NULL, symbols, IMAGE_MAX_FRAMES);
    if (!symbols || !threads || !names || !unwinder) {
        status = PYR_ENOMEM;
    }
    if (status == PYR_OK) {
        status = pyr_threads_look(threads, &changed);
    }
    if (status == PYR_OK) {
        status = pyr_threads_update(threads);
    }
    if (status == PYR_OK) {
        status = pyr_thread_names_refresh(names, pyr_threads_main_interpreter(threads));
    }
    if (status == PYR_OK) {
        size_t count = pyr_threads_count(threads);
        writing self = {.symbols = symbols, .names = names, .threads = texts};
        for (size_t i = 0; i < count && i < THREADS; i++) {
            visits[i].ref = pyr_threads_get(threads, i);
            visits[i].plan = &plans[i];
        }
        (void)!pyr_unwinder_visit(unwinder, NULL, NULL, visits, count < THREADS ? count : THREADS,
                                  visited, &self);
        qsort(texts, self.count, sizeof texts[0], compare);
        for (size_t i = 0; i < self.count; i++) {
            (void)pyr_buffer_append(out, texts[i].text.data, texts[i].text.length);
        }
        status = out->status;
    }
    for (size_t i = 0; i < THREADS; i++) {
        pyr_stack_plan_fini(&plans[i]);
        pyr_buffer_fini(&texts[i].text);
    }
    pyr_unwinder_free(unwinder);
    pyr_thread_names_free(names);
    pyr_threads_free(threads);
    pyr_symbols_release(symbols);
    pyr_layout_free(layout);
    return status;
}

uint8_t *image_file_read(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
    }
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = pyr_memory_new((size_t)size + 1, 1); /* a NUL behind, for texts */
    }
    if (bytes && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        pyr_memory_free(bytes);
        bytes = NULL;
    }
    if (file) {
        (void)fclose(file);
    }
    *length = bytes ? (size_t)size : 0;
    return bytes;
}
