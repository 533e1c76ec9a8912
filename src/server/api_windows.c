/* Answers made of single profiles: the samples of one over time, wait pairs, a profile as it was
 * sent, documents and what profiling itself costs; see api.h. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "pprof/write.h"
#include "query/answer.h"
#include "query/gather.h"
#include "query/moments.h"
#include "query/recall.h"
#include "server/api.h"
#include "server/own_cost.h"
#include "store/labels.h"

enum { PROFILES = 1000, WINDOWS = 200, PAIRED = 500, ROWS = 100, DOCUMENT_BYTES = 16 << 20 };

/* ---------------------------------------------------------------------- profiles in a list ---- */

/* One of them; the book and block of the store's row are gone by then. */
typedef struct listed {
    int64_t profile, series, start_ns, end_ns, samples, bytes;
} listed;

/* The newest profiles that a question is about: while they are found a heap, the oldest on top. */
typedef struct newest {
    listed list[PROFILES];
    size_t count, most, all, damaged;
} newest;

static void sink(newest *n, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < n->count; child++) {
            least = n->list[child].start_ns < n->list[least].start_ns ? child : least;
        }
        if (least == at) {
            return;
        }
        listed moved = n->list[at];
        n->list[at] = n->list[least];
        n->list[least] = moved;
        at = least;
    }
}

static pyr_status note_profile(void *context, const pyr_view_row *row)
{
    newest *n = context;
    const listed found = {row->profile, row->series,           row->start_ns,
                          row->end_ns,  (int64_t)row->samples, row->bytes};
    n->all++;
    if (n->count < n->most) {
        n->list[n->count++] = found;
        for (size_t at = n->count / 2; n->count == n->most && at-- > 0;) {
            sink(n, at);
        }
    } else if (n->list[0].start_ns < found.start_ns) {
        n->list[0] = found;
        sink(n, 0);
    }
    return PYR_OK;
}

static int compare_listed(const void *a, const void *b)
{
    const listed *left = a;
    const listed *right = b;
    return left->start_ns != right->start_ns
               ? (left->start_ns < right->start_ns ? 1 : -1)
               : (left->profile < right->profile) - (left->profile > right->profile);
}

/* PYR_ENOENT: none. The newest stand first. */
static pyr_status find_newest(pyr_view *view, const pyr_question *question, newest *n)
{
    pyr_status status = pyr_question_each(view, question, note_profile, n, &n->damaged);
    qsort(n->list, n->count, sizeof *n->list, compare_listed);
    return status == PYR_OK && n->count == 0 ? PYR_ENOENT : status;
}

typedef struct series_writing {
    pyr_answer *answer;
    const newest *of;
} series_writing;

static pyr_status write_series(void *context, const pyr_view_series *series)
{
    const series_writing *w = context;
    const char *at = series->labels;
    const char *name = NULL;
    const char *value = NULL;
    bool is_listed = false;
    for (size_t row = 0; row < w->of->count && !is_listed; row++) {
        is_listed = w->of->list[row].series == series->id;
    }
    if (!is_listed) {
        return PYR_OK;
    }
    pyr_answer_begin(w->answer, NULL, '{');
    pyr_answer_integer(w->answer, "series", series->id);
    pyr_answer_begin(w->answer, "labels", '[');
    while (pyr_labels_next(&at, series->labels + series->labels_length, &name, &value)) {
        pyr_answer_begin(w->answer, NULL, '[');
        pyr_answer_string(w->answer, NULL, name);
        pyr_answer_string(w->answer, NULL, value);
        pyr_answer_end(w->answer, ']');
    }
    pyr_answer_end(w->answer, ']');
    pyr_answer_end(w->answer, '}');
    return PYR_OK;
}

static void write_listed(pyr_answer *answer, const listed *row)
{
    pyr_answer_begin(answer, NULL, '{');
    pyr_answer_integer(answer, "profile", row->profile);
    pyr_answer_integer(answer, "series", row->series);
    pyr_answer_big(answer, "start_ns", row->start_ns);
    pyr_answer_big(answer, "end_ns", row->end_ns);
    pyr_answer_integer(answer, "samples", row->samples);
    pyr_answer_integer(answer, "bytes", row->bytes);
    pyr_answer_end(answer, '}');
}

void pyr_api_profiles(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    newest *n = pyr_memory_new(1, sizeof *n);
    pyr_answer answer = {.out = &request->answer};
    pyr_status status = n != NULL ? PYR_OK : PYR_ENOMEM;
    if (status == PYR_OK) {
        n->most = PROFILES;
        status = find_newest(view, &question, n);
        status = status == PYR_ENOENT ? PYR_OK : status;
    }
    if (status == PYR_OK) {
        series_writing writing = {&answer, n};
        pyr_answer_begin(&answer, NULL, '{');
        pyr_answer_begin(&answer, "profiles", '[');
        for (size_t at = 0; at < n->count; at++) {
            write_listed(&answer, &n->list[at]);
        }
        pyr_answer_end(&answer, ']');
        pyr_answer_begin(&answer, "series", '[');
        status = pyr_view_each_series(view, NULL, question.from_ns, question.until_ns, write_series,
                                      &writing);
        pyr_answer_end(&answer, ']');
        pyr_answer_integer(&answer, "count", (int64_t)n->all);
        pyr_answer_boolean(&answer, "has_more", n->all > n->count);
        pyr_answer_integer(&answer, "damaged", (int64_t)n->damaged);
        pyr_answer_end(&answer, '}');
    }
    pyr_memory_free(n);
    pyr_question_fini(&question);
    pyr_api_finish(request, status);
}

/* ------------------------------------------------------------------------------ one profile ----
 */

static pyr_profile *recall(pyr_view *view, pyr_request *request)
{
    pyr_profile *profile = NULL;
    const char *text = pyr_request_argument(request, "profile");
    pyr_status status =
        text != NULL ? pyr_recall(view, strtoll(text, NULL, 10), &profile) : PYR_ENOENT;
    if (status == PYR_ENOENT) {
        pyr_request_refuse(request, 404, "there is no such profile: /api/profiles lists them");
    } else if (status != PYR_OK) {
        pyr_api_fail(request, status);
    }
    return profile;
}

void pyr_api_timeline(pyr_worker *worker, pyr_request *request)
{
    const char *by = pyr_request_argument(request, "by");
    pyr_view *view = pyr_worker_view(worker, request);
    pyr_profile *profile = view != NULL ? recall(view, request) : NULL;
    if (profile == NULL) {
        return;
    }
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_big(&answer, "start_ns", profile->time_ns);
    pyr_answer_integer(&answer, "duration_ns", profile->duration_ns);
    pyr_status status = pyr_lanes_write(&answer, profile, by != NULL ? by : "thread name");
    pyr_answer_end(&answer, '}');
    pyr_profile_free(profile);
    if (status == PYR_ENOENT) {
        pyr_buffer_clear(&request->answer);
        pyr_request_refuse(request, 404, "the samples of this profile have no moments");
    } else {
        pyr_api_finish(request, status);
    }
}

void pyr_api_pprof_one(pyr_view *view, pyr_request *request)
{
    pyr_profile *profile = recall(view, request);
    if (profile == NULL) {
        return;
    }
    pyr_status status = pyr_profile_write(profile, PYR_PPROF_GZIP, &request->answer);
    pyr_profile_free(profile);
    if (status == PYR_OK) {
        pyr_request_answer(request, 200, "application/octet-stream");
    } else {
        pyr_api_finish(request, status);
    }
}

/* ------------------------------------------------------------------------------------ pairs ----
 */

static pyr_status add_pairs(pyr_view *view, const newest *n, pyr_pair_table *table)
{
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < n->count && status == PYR_OK; at++) {
        pyr_profile *profile = NULL;
        status = pyr_recall(view, n->list[at].profile, &profile);
        if (status == PYR_OK) {
            status = pyr_pair_table_add(table, profile);
        }
        pyr_profile_free(profile);
        status = status == PYR_EBAD ? PYR_OK : status;
    }
    return status;
}

void pyr_api_pairs(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    newest *n = pyr_memory_new(1, sizeof *n);
    pyr_pair_table *table = pyr_pair_table_new();
    pyr_status status = n != NULL && table != NULL ? PYR_OK : PYR_ENOMEM;
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    if (status == PYR_OK) {
        n->most = PAIRED;
        status = find_newest(view, &question, n);
    }
    if (status == PYR_OK) {
        status = add_pairs(view, n, table);
    }
    if (status == PYR_OK) {
        pyr_answer_integer(&answer, "profiles", (int64_t)n->count);
        pyr_answer_boolean(&answer, "has_more", n->all > n->count);
        status = pyr_pair_table_write(table, &answer, "pairs", ROWS);
    }
    pyr_answer_end(&answer, '}');
    pyr_pair_table_free(table);
    pyr_memory_free(n);
    pyr_question_fini(&question);
    pyr_api_finish(request, status);
}

/* -------------------------------------------------------------------------------- documents ----
 */

void pyr_api_window(pyr_worker *worker, pyr_request *request)
{
    const char *text = pyr_request_argument(request, "profile");
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL) {
        return;
    }
    pyr_status status = text != NULL
                            ? pyr_view_document(view, strtoll(text, NULL, 10), &request->answer)
                            : PYR_ENOENT;
    if (status == PYR_OK) {
        pyr_request_answer(request, 200, PYR_API_JSON);
    } else if (status == PYR_ENOENT) {
        pyr_request_refuse(request, 404, "there is no such profile, or it came without a document");
    } else {
        pyr_api_fail(request, status);
    }
}

static void write_document(pyr_answer *answer, const char *key, const pyr_buffer *text)
{
    /* It was checked to be JSON when it came in. */
    pyr_answer_begin(answer, NULL, '{');
    pyr_answer_integer(answer, "profile", strtoll(key, NULL, 10));
    if (answer->needs_comma) {
        (void)pyr_buffer_append(answer->out, ",", 1);
    }
    (void)pyr_buffer_text(answer->out, "\"document\":");
    (void)pyr_buffer_append(answer->out, text->data, text->length);
    answer->needs_comma = true;
    pyr_answer_end(answer, '}');
}

static void write_cost(pyr_answer *answer, const pyr_own_cost *cost)
{
    pyr_answer_begin(answer, "cost", '{');
    pyr_answer_real(answer, "windows", cost->windows);
    pyr_answer_real(answer, "cpu_ns", cost->cpu_ns);
    pyr_answer_real(answer, "window_ns", cost->window_ns);
    pyr_answer_real(answer, "share_of_a_core",
                    cost->window_ns > 0 ? cost->cpu_ns / cost->window_ns : 0);
    pyr_answer_real(answer, "most_bytes", cost->bytes);
    pyr_answer_begin(answer, "lost_by_kind", '{');
    double lost = 0;
    for (size_t kind = 0; kind < PYR_OWN_LOSSES; kind++) {
        lost += cost->lost[kind];
        if (cost->lost[kind] > 0) {
            pyr_answer_real(answer, pyr_own_cost_loss(kind), cost->lost[kind]);
        }
    }
    pyr_answer_end(answer, '}');
    pyr_answer_real(answer, "lost", lost);
    pyr_answer_end(answer, '}');
}

void pyr_api_windows(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    pyr_buffer text;
    pyr_own_cost cost = {0};
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    newest *n = pyr_memory_new(1, sizeof *n);
    pyr_status status = n != NULL ? PYR_OK : PYR_ENOMEM;
    pyr_buffer_init(&text, DOCUMENT_BYTES);
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_begin(&answer, "windows", '[');
    if (status == PYR_OK) {
        n->most = WINDOWS;
        status = find_newest(view, &question, n);
    }
    for (size_t at = 0; status == PYR_OK && at < n->count; at++) {
        char number[32];
        pyr_buffer_clear(&text);
        pyr_status found = pyr_view_document(view, n->list[at].profile, &text);
        if (found == PYR_OK) {
            (void)snprintf(number, sizeof number, "%lld", (long long)n->list[at].profile);
            write_document(&answer, number, &text);
            json_t *document = json_loadb((const char *)text.data, text.length, 0, NULL);
            pyr_own_cost_add_document(&cost, document);
            json_decref(document);
        } else if (found == PYR_ENOMEM) {
            status = found;
        }
    }
    pyr_answer_end(&answer, ']');
    write_cost(&answer, &cost);
    pyr_answer_boolean(&answer, "has_more", n != NULL && n->all > n->count);
    pyr_answer_end(&answer, '}');
    pyr_buffer_fini(&text);
    pyr_memory_free(n);
    pyr_question_fini(&question);
    pyr_api_finish(request, status);
}
