/* Answers made of what a question gathers: flame tree, top, totals, time series, differences, the
 * page's document, pprof; see api.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pprof/intern.h"
#include "pprof/write.h"
#include "query/answer.h"
#include "query/call_graph.h"
#include "query/call_tree.h"
#include "query/costs.h"
#include "query/document.h"
#include "query/gather.h"
#include "query/requests.h"
#include "query/trend.h"
#include "server/api.h"

enum { NODES = 10000, NODES_MOST = 1000000, ROWS = 100, ROWS_MOST = 100000, POINTS = 60 };

static const double Z_95 = 1.959964;

/* What every view is made of; `good` false: the request was refused. */
typedef struct looking {
    pyr_question question;
    pyr_gathered gathered;
    bool good;
} looking;

static looking look(pyr_worker *worker, pyr_request *request, const char *prefix,
                    pyr_gather_labels labels, bool one_type)
{
    looking l = {0};
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, prefix, &l.question)) {
        return l;
    }
    if (one_type && !pyr_api_type(view, request, &l.question)) {
        pyr_question_fini(&l.question);
        return l;
    }
    pyr_status status = pyr_gather(view, &l.question, labels, &l.gathered);
    pyr_view_end(view);
    l.good = status == PYR_OK;
    if (!l.good) {
        pyr_api_fail(request, status);
        pyr_gathered_fini(&l.gathered);
        pyr_question_fini(&l.question);
    }
    return l;
}

static void unlook(looking *l)
{
    pyr_gathered_fini(&l->gathered);
    pyr_question_fini(&l->question);
}

static size_t read_count(const pyr_request *request, const char *name, size_t usual, size_t most)
{
    const char *text = pyr_request_argument(request, name);
    long long number = text != NULL ? strtoll(text, NULL, 10) : (long long)usual;
    return number <= 0 ? usual : (size_t)number > most ? most : (size_t)number;
}

static const char *unit_of(const pyr_gathered *gathered)
{
    const pyr_profile *profile = gathered->profile;
    return profile->strings[profile->types[0].unit].data;
}

static void write_head(pyr_answer *answer, const looking *l)
{
    const pyr_gathered *gathered = &l->gathered;
    pyr_answer_string(answer, "type", l->question.type);
    pyr_answer_string(answer, "unit", unit_of(gathered));
    pyr_answer_big(answer, "from_ns", l->question.from_ns);
    pyr_answer_big(answer, "until_ns", l->question.until_ns);
    pyr_answer_integer(answer, "series", (int64_t)gathered->series);
    pyr_answer_integer(answer, "samples", (int64_t)gathered->samples);
    pyr_answer_real(answer, "seconds", gathered->seconds);
    pyr_answer_integer(answer, "damaged", (int64_t)gathered->damaged);
    pyr_answer_boolean(answer, "has_more", gathered->has_more);
}

/* --------------------------------------------------------------------------- flame and top ---- */

static void write_text(pyr_answer *answer, const char *key, const pyr_profile_text *text)
{
    pyr_answer_text(answer, key, text->data, text->length);
}

void pyr_api_flame(pyr_worker *worker, pyr_request *request)
{
    looking l = look(worker, request, "", PYR_GATHER_STACKS, true);
    pyr_call_tree tree = {0};
    if (!l.good) {
        return;
    }
    const pyr_profile *profile = l.gathered.profile;
    pyr_status status =
        pyr_call_tree_init(&tree, &l.gathered, 0, read_count(request, "nodes", NODES, NODES_MOST));
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    write_head(&answer, &l);
    pyr_answer_integer(&answer, "total", status == PYR_OK ? tree.nodes[0].total : 0);
    pyr_answer_integer(&answer, "cut", tree.cut);
    pyr_answer_begin(&answer, "nodes", '[');
    for (size_t at = 1; at < tree.count && status == PYR_OK; at++) {
        const pyr_call_node *node = &tree.nodes[at];
        const pyr_profile_function *function = &profile->functions[node->function];
        pyr_answer_begin(&answer, NULL, '[');
        pyr_answer_integer(&answer, NULL, node->parent);
        write_text(&answer, NULL, &profile->strings[function->name]);
        write_text(&answer, NULL, &profile->strings[function->file]);
        pyr_answer_integer(&answer, NULL, node->self);
        pyr_answer_integer(&answer, NULL, node->total);
        pyr_answer_end(&answer, ']');
    }
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_call_tree_fini(&tree);
    unlook(&l);
    pyr_api_finish(request, status);
}

static void write_function(pyr_answer *answer, const pyr_profile *profile, uint32_t function)
{
    write_text(answer, NULL, &profile->strings[profile->functions[function].name]);
    write_text(answer, NULL, &profile->strings[profile->functions[function].file]);
}

void pyr_api_graph(pyr_worker *worker, pyr_request *request)
{
    looking l = look(worker, request, "", PYR_GATHER_STACKS, true);
    pyr_call_graph graph = {0};
    if (!l.good) {
        return;
    }
    pyr_status status = pyr_call_graph_init(&graph, &l.gathered, 0);
    size_t most = read_count(request, "limit", NODES, NODES_MOST);
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    write_head(&answer, &l);
    pyr_answer_integer(&answer, "count", (int64_t)graph.count);
    pyr_answer_begin(&answer, "edges", '[');
    for (size_t at = 0; at < graph.count && at < most; at++) {
        pyr_answer_begin(&answer, NULL, '[');
        write_function(&answer, l.gathered.profile, graph.edges[at].caller);
        write_function(&answer, l.gathered.profile, graph.edges[at].callee);
        pyr_answer_integer(&answer, NULL, graph.edges[at].value);
        pyr_answer_end(&answer, ']');
    }
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_call_graph_fini(&graph);
    unlook(&l);
    pyr_api_finish(request, status);
}

static bool read_group(pyr_request *request, pyr_cost_group *group)
{
    static const char *const NAMES[] = {"function", "line", "file", "package"};
    const char *by = pyr_request_argument(request, "by");
    *group = PYR_COST_FUNCTION;
    for (size_t at = 0; by != NULL && at < sizeof NAMES / sizeof NAMES[0]; at++) {
        if (strcmp(by, NAMES[at]) == 0) {
            *group = (pyr_cost_group)at;
            return true;
        }
    }
    if (by != NULL) {
        pyr_request_refuse(request, 400, "by is function, line, file or package");
    }
    return by == NULL;
}

static void write_margin(pyr_answer *answer, const char *key, double square)
{
    pyr_answer_real(answer, key, square >= 0 ? Z_95 * sqrt(square) : NAN);
}

static void write_cost(pyr_answer *answer, const pyr_cost *cost)
{
    pyr_answer_begin(answer, NULL, '{');
    pyr_answer_text(answer, "name", cost->name, cost->name_length);
    pyr_answer_text(answer, "file", cost->file, cost->file_length);
    pyr_answer_integer(answer, "line", cost->line);
    pyr_answer_integer(answer, "self", cost->self);
    pyr_answer_integer(answer, "total", cost->total);
    write_margin(answer, "self_margin", cost->self_square);
    write_margin(answer, "total_margin", cost->total_square);
    pyr_answer_end(answer, '}');
}

void pyr_api_top(pyr_worker *worker, pyr_request *request)
{
    pyr_cost_group group = PYR_COST_FUNCTION;
    const char *order = pyr_request_argument(request, "order");
    if (!read_group(request, &group)) {
        return;
    }
    looking l = look(worker, request, "", PYR_GATHER_STACKS, true);
    pyr_cost_table table = {0};
    if (!l.good) {
        return;
    }
    pyr_status status = pyr_cost_table_init(&table, &l.gathered, 0, group);
    pyr_cost_table_sort(&table, order != NULL && strcmp(order, "self") == 0);
    size_t most = read_count(request, "limit", ROWS, ROWS_MOST);
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    write_head(&answer, &l);
    pyr_answer_integer(&answer, "total", table.whole);
    pyr_answer_integer(&answer, "count", (int64_t)table.count);
    pyr_answer_begin(&answer, "rows", '[');
    for (size_t at = 0; at < table.count && at < most; at++) {
        if (table.list[at].total != 0) {
            write_cost(&answer, &table.list[at]);
        }
    }
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_cost_table_fini(&table);
    unlook(&l);
    pyr_api_finish(request, status);
}

/* ---------------------------------------------------------------------------- over the time ----
 */

static int64_t nice_step(int64_t range_ns)
{
    static const int64_t SECONDS[] = {1,   5,   10,   15,   30,    60,    120,
                                      300, 600, 1800, 3600, 10800, 21600, 86400};
    for (size_t at = 0; at < sizeof SECONDS / sizeof SECONDS[0]; at++) {
        int64_t step = SECONDS[at] * INT64_C(1000000000);
        if (range_ns / step <= POINTS) {
            return step;
        }
    }
    return range_ns / POINTS + 1;
}

static bool read_step(pyr_request *request, pyr_question *question, int64_t *step_ns)
{
    const char *text = pyr_request_argument(request, "step");
    *step_ns = nice_step(question->until_ns - question->from_ns);
    if (text != NULL && pyr_span_parse(text, step_ns) != PYR_OK) {
        pyr_request_refuse(request, 400, "step=%.40s is no span: write 15s, 5m, 1h", text);
        return false;
    }
    return true;
}

static void write_lines(pyr_answer *answer, const pyr_trend *trend, size_t most)
{
    pyr_answer_begin(answer, "lines", '[');
    for (size_t at = 0; at < trend->count && at < most; at++) {
        const pyr_trend_line *line = &trend->lines[at];
        pyr_answer_begin(answer, NULL, '{');
        pyr_answer_text(answer, "name", line->name, line->name_length);
        pyr_answer_integer(answer, "sum", line->sum);
        pyr_answer_begin(answer, "values", '[');
        for (size_t step = 0; step < trend->steps; step++) {
            pyr_answer_integer(answer, NULL, line->values[step]);
        }
        pyr_answer_end(answer, ']');
        pyr_answer_end(answer, '}');
    }
    pyr_answer_end(answer, ']');
}

/* `one_step`: the sum of the whole time, as /api/totals wants it. */
static void answer_lines(pyr_worker *worker, pyr_request *request, bool one_step)
{
    pyr_question question;
    pyr_trend trend = {0};
    int64_t step_ns = 0;
    const char *by = pyr_request_argument(request, "by");
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    bool good = read_step(request, &question, &step_ns) && pyr_api_type(view, request, &question);
    if (!good) {
        pyr_question_fini(&question);
        return;
    }
    if (one_step) {
        step_ns = question.until_ns - question.from_ns;
    } else {
        question.from_ns = question.from_ns / step_ns * step_ns; /* steps lie the same every time */
    }
    pyr_status status = pyr_trend_init(&trend, view, &question, step_ns, by);
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_string(&answer, "type", question.type);
    pyr_answer_string(&answer, "unit", trend.unit);
    pyr_answer_big(&answer, "from_ns", question.from_ns);
    pyr_answer_big(&answer, "until_ns", question.until_ns);
    pyr_answer_big(&answer, "step_ns", step_ns);
    pyr_answer_integer(&answer, "steps", (int64_t)trend.steps);
    pyr_answer_integer(&answer, "damaged", (int64_t)trend.damaged);
    pyr_answer_integer(&answer, "count", (int64_t)trend.count);
    if (status == PYR_OK) {
        write_lines(&answer, &trend, read_count(request, "limit", ROWS, PYR_TREND_LINES));
    }
    pyr_answer_end(&answer, '}');
    pyr_trend_fini(&trend);
    pyr_question_fini(&question);
    if (status == PYR_EINVAL) {
        pyr_buffer_clear(&request->answer);
        pyr_request_refuse(request, 400, "more than %d steps: choose a longer step",
                           PYR_TREND_STEPS);
    } else {
        pyr_api_finish(request, status);
    }
}

void pyr_api_series(pyr_worker *worker, pyr_request *request)
{
    answer_lines(worker, request, false);
}

void pyr_api_totals(pyr_worker *worker, pyr_request *request)
{
    answer_lines(worker, request, true);
}

/* ------------------------------------------------------------------------------ difference ---- */

static void write_change(pyr_answer *answer, const char *key, const pyr_change *change)
{
    pyr_answer_begin(answer, key, '{');
    pyr_answer_real(answer, "before", change->before);
    pyr_answer_real(answer, "after", change->after);
    pyr_answer_real(answer, "change", change->change);
    pyr_answer_real(answer, "margin", change->margin);
    pyr_answer_real(answer, "doubt", change->doubt);
    pyr_answer_boolean(answer, "is_significant", change->is_significant);
    pyr_answer_end(answer, '}');
}

static void write_comparison(pyr_answer *answer, const pyr_comparison *comparison, size_t most,
                             bool worse_only)
{
    pyr_answer_begin(answer, "rows", '[');
    for (size_t at = 0, written = 0; at < comparison->count && written < most; at++) {
        const pyr_comparison_row *row = &comparison->list[at];
        const pyr_cost *cost = row->after != NULL ? row->after : row->before;
        if (worse_only && !(row->total.is_significant && row->total.change > 0)) {
            continue;
        }
        if (row->total.before == 0 && row->total.after == 0) {
            continue;
        }
        pyr_answer_begin(answer, NULL, '{');
        pyr_answer_text(answer, "name", cost->name, cost->name_length);
        pyr_answer_text(answer, "file", cost->file, cost->file_length);
        pyr_answer_integer(answer, "line", cost->line);
        write_change(answer, "self", &row->self);
        write_change(answer, "total", &row->total);
        pyr_answer_end(answer, '}');
        written++;
    }
    pyr_answer_end(answer, ']');
}

/* What the values of one side of a comparison are divided by. */
typedef struct side {
    looking looking;
    int64_t requests;
} side;

static void write_side(pyr_answer *answer, const char *key, const side *of)
{
    pyr_answer_begin(answer, key, '{');
    write_head(answer, &of->looking);
    pyr_answer_integer(answer, "requests", of->requests);
    pyr_answer_end(answer, '}');
}

static side look_at_side(pyr_worker *worker, pyr_request *request, const char *prefix)
{
    side of = {.looking = look(worker, request, prefix, PYR_GATHER_STACKS, true)};
    if (!of.looking.good) {
        return of;
    }
    pyr_view *view = pyr_worker_view(worker, request);
    pyr_status status =
        view != NULL ? pyr_requests_count(view, &of.looking.question, &of.requests) : PYR_OK;
    if (view != NULL) {
        pyr_view_end(view);
    }
    if (view == NULL || status != PYR_OK) {
        pyr_api_fail(request, status);
        unlook(&of.looking);
        of.looking.good = false;
    }
    return of;
}

static bool read_per(pyr_request *request, bool *per_request)
{
    const char *per = pyr_request_argument(request, "per");
    *per_request = per != NULL && strcmp(per, "request") == 0;
    if (per != NULL && !*per_request && strcmp(per, "second") != 0) {
        pyr_request_refuse(request, 400, "per is second or request");
        return false;
    }
    return true;
}

static pyr_status answer_diff(pyr_request *request, const side *before, const side *after,
                              pyr_cost_group group, bool per_request)
{
    const pyr_gathered *of_before = &before->looking.gathered;
    const pyr_gathered *of_after = &after->looking.gathered;
    double before_units = per_request ? (double)before->requests : of_before->seconds;
    double after_units = per_request ? (double)after->requests : of_after->seconds;
    const char *per = per_request ? "request" : before_units > 0 && after_units > 0 ? "second" : "";

    pyr_cost_table a = {0};
    pyr_cost_table b = {0};
    pyr_comparison comparison = {0};
    const char *only = pyr_request_argument(request, "only");
    pyr_status status = pyr_cost_table_init(&a, of_before, 0, group);
    if (status == PYR_OK) {
        status = pyr_cost_table_init(&b, of_after, 0, group);
    }
    if (status == PYR_OK) {
        status = pyr_comparison_init(&comparison, &a, before_units, &b, after_units);
    }
    if (status == PYR_OK) {
        pyr_answer answer = {.out = &request->answer};
        pyr_answer_begin(&answer, NULL, '{');
        pyr_answer_string(&answer, "type", after->looking.question.type);
        pyr_answer_string(&answer, "unit", unit_of(of_after));
        pyr_answer_string(&answer, "per", per);
        write_side(&answer, "before", before);
        write_side(&answer, "after", after);
        write_change(&answer, "whole", &comparison.whole);
        pyr_answer_integer(&answer, "count", (int64_t)comparison.count);
        write_comparison(&answer, &comparison, read_count(request, "limit", ROWS, ROWS_MOST),
                         only != NULL && strcmp(only, "worse") == 0);
        pyr_answer_end(&answer, '}');
    }
    pyr_comparison_fini(&comparison);
    pyr_cost_table_fini(&a);
    pyr_cost_table_fini(&b);
    return status;
}

void pyr_api_diff(pyr_worker *worker, pyr_request *request)
{
    pyr_cost_group group = PYR_COST_FUNCTION;
    bool per_request = false;
    if (!read_group(request, &group) || !read_per(request, &per_request)) {
        return;
    }
    if (pyr_request_argument(request, "before_from") == NULL &&
        pyr_request_argument(request, "before_version") == NULL &&
        pyr_request_argument(request, "before_where") == NULL) {
        pyr_request_refuse(request, 400,
                           "say what to compare with: before_from and before_until, "
                           "before_version, before_where");
        return;
    }
    side after = look_at_side(worker, request, "");
    if (!after.looking.good) {
        return;
    }
    side before = look_at_side(worker, request, "before_");
    if (before.looking.good) {
        if (per_request && (before.requests == 0 || after.requests == 0)) {
            pyr_request_refuse(request, 404, "no profile %s tells how many requests were served",
                               after.requests == 0 ? "of this side" : "of the time before");
        } else {
            pyr_api_finish(request, answer_diff(request, &before, &after, group, per_request));
        }
        unlook(&before.looking);
    }
    unlook(&after.looking);
}

/* -------------------------------------------------------------------------- page and pprof ---- */

void pyr_api_document(pyr_worker *worker, pyr_request *request)
{
    looking l = look(worker, request, "", PYR_GATHER_LABELS, false);
    if (!l.good) {
        return;
    }
    const char *service = pyr_request_argument(request, "service");
    pyr_answer answer = {.out = &request->answer};
    pyr_status status =
        pyr_document_write(&answer, &l.gathered, service != NULL ? service : "all services");
    unlook(&l);
    pyr_api_finish(request, status);
}

void pyr_api_pprof(pyr_worker *worker, pyr_request *request)
{
    if (pyr_request_argument(request, "profile") != NULL) {
        pyr_view *view = pyr_worker_view(worker, request);
        if (view != NULL) {
            pyr_api_pprof_one(view, request);
        }
        return;
    }
    looking l = look(worker, request, "", PYR_GATHER_LABELS, false);
    if (!l.good) {
        return;
    }
    pyr_status status = pyr_profile_write(l.gathered.profile, PYR_PPROF_GZIP, &request->answer);
    unlook(&l);
    if (status == PYR_OK) {
        pyr_request_answer(request, 200, "application/octet-stream");
    } else {
        pyr_api_finish(request, status);
    }
}
