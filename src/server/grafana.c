/* The part of Pyroscope's query API that Grafana's data source calls, as Connect's calls
 * (connect.h), and the older /pyroscope/render; see api.h.
 *
 * Profile types are written TYPE:TYPE:UNIT:TYPE:UNIT; of one that is asked for, the second part is
 * the sample type. "service" goes by "service_name" there.
 */
#include <pyroscope.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "query/answer.h"
#include "query/call_tree.h"
#include "query/gather.h"
#include "query/trend.h"
#include "server/api.h"
#include "server/connect.h"
#include "store/labels.h"

enum { NODES = 8192, NODES_MOST = 1000000, LINES = 100 };

static const int64_t MS_NS = 1000000;
static const int64_t SECOND_NS = 1000000000;
static const int64_t HOUR_NS = INT64_C(3600000000000);

/* ------------------------------------------------------------------------------- the question ----
 */

/* One call: its question as the store takes it, too. */
typedef struct asking {
    pyr_connect call;
    pyr_question question;
    pyr_view *view;
} asking;

static void read_type(pyr_question *question, const char *id)
{
    const char *colon = strchr(id, ':');
    const char *type = colon != NULL ? colon + 1 : id;
    size_t length = strcspn(type, ":{");
    if (length < sizeof question->type) {
        memcpy(question->type, type, length);
        question->type[length] = '\0';
    }
}

static bool add_selector(pyr_request *request, pyr_question *question, const char *selector)
{
    char why[PYR_QUESTION_WHY_BYTES];
    if (pyr_question_selector(question, selector, why, sizeof why) != PYR_OK) {
        pyr_request_refuse(request, 400, "%s", why);
        return false;
    }
    return true;
}

/* What the messages have in common: times, a type, selectors. */
static bool read_question(asking *a)
{
    pyr_question *question = &a->question;
    int64_t now_ns = pyr_clock_realtime_ns();
    int64_t start_ms = pyr_connect_integer(&a->call, "start");
    int64_t end_ms = pyr_connect_integer(&a->call, "end");
    const int64_t most_ms = INT64_MAX / MS_NS;
    question->from_ns = start_ms > 0 && start_ms <= most_ms ? start_ms * MS_NS : now_ns - HOUR_NS;
    question->until_ns = end_ms > 0 && end_ms <= most_ms ? end_ms * MS_NS : now_ns;
    if (question->from_ns >= question->until_ns) {
        pyr_request_refuse(a->call.request, 400, "start must be before end");
        return false;
    }
    read_type(question, pyr_connect_string(&a->call, "profile_typeID"));
    const char *selector = pyr_connect_string(&a->call, "label_selector");
    bool good = selector[0] == '\0' || add_selector(a->call.request, question, selector);
    size_t count = 0;
    char *const *matchers = pyr_connect_strings(&a->call, "matchers", &count);
    for (size_t at = 0; good && at < count; at++) {
        good = add_selector(a->call.request, question, matchers[at]);
    }
    return good;
}

/* NULL: refused. End it either way. */
static ProtobufCMessage *start(asking *a, pyr_worker *worker, pyr_request *request,
                               const ProtobufCMessageDescriptor *descriptor)
{
    pyr_question_init(&a->question);
    bool good = pyr_connect_start(&a->call, request, descriptor);
    a->view = good ? pyr_worker_view(worker, request) : NULL;
    return a->view != NULL && read_question(a) ? a->call.question : NULL;
}

/* Answers, and gives everything back. */
static void finish(asking *a, pyr_status status, const ProtobufCMessage *answer)
{
    if (status == PYR_OK && answer != NULL) {
        pyr_connect_answer(&a->call, answer);
    } else {
        pyr_api_fail(a->call.request, status);
    }
    pyr_question_fini(&a->question);
    pyr_connect_end(&a->call);
}

/* ------------------------------------------------------------------------- types and labels ----
 */

/* What a list of an answer is made of while it is found. */
typedef struct listing {
    asking *a;
    pyr_buffer list;                 /* of pointers */
    size_t wanted_count;             /* names of labels; 0: all */
    char *const *wanted;             /* borrowed from the question */
    const pyr_buffer *chosen_series; /* int64_t */
} listing;

static void start_list(listing *l, asking *a)
{
    *l = (listing){.a = a};
    pyr_buffer_init(&l->list, SIZE_MAX / 2);
}

static void add_type(void *context, const char *type, size_t type_length, const char *unit,
                     size_t unit_length)
{
    listing *l = context;
    pyr_connect *call = &l->a->call;
    char id[6 * PYR_QUESTION_NAME_BYTES];
    Pyr__Connect__Type *made = pyr_connect_add(call, &l->list, &pyr__connect__type__descriptor);
    if (made == NULL) {
        return;
    }
    int length = snprintf(id, sizeof id, "%.*s:%.*s:%.*s:%.*s:%.*s", (int)type_length, type,
                          (int)type_length, type, (int)unit_length, unit, (int)type_length, type,
                          (int)unit_length, unit);
    size_t used = (size_t)length < sizeof id ? (size_t)length : sizeof id - 1;
    made->id = pyr_connect_text(call, id, used);
    made->name = made->sample_type = made->period_type = pyr_connect_text(call, type, type_length);
    made->sample_unit = made->period_unit = pyr_connect_text(call, unit, unit_length);
}

void pyr_grafana_types(pyr_worker *worker, pyr_request *request)
{
    asking a;
    listing l;
    Pyr__Connect__TypesAnswer answer = PYR__CONNECT__TYPES_ANSWER__INIT;
    pyr_status status = PYR_OK;
    start_list(&l, &a);
    if (start(&a, worker, request, &pyr__connect__types_question__descriptor) != NULL) {
        status = pyr_api_each_type(a.view, &a.question, add_type, &l);
        answer.profile_types = pyr_connect_take(&a.call, &l.list, &answer.n_profile_types);
    }
    finish(&a, status, &answer.base);
}

static void add_name(void *context, const char *text, size_t length)
{
    listing *l = context;
    char *copy = pyr_connect_text(&l->a->call, text, length);
    (void)pyr_buffer_append(&l->list, &copy, sizeof copy);
}

static void answer_labels(pyr_worker *worker, pyr_request *request,
                          const ProtobufCMessageDescriptor *descriptor, bool values)
{
    asking a;
    listing l;
    Pyr__Connect__LabelsAnswer answer = PYR__CONNECT__LABELS_ANSWER__INIT;
    pyr_status status = PYR_OK;
    start_list(&l, &a);
    if (start(&a, worker, request, descriptor) != NULL) {
        const char *name = values ? pyr_connect_string(&a.call, "name") : NULL;
        if (name != NULL && name[0] == '\0') {
            pyr_request_refuse(request, 400, "name is missing");
        } else {
            name = name != NULL && strcmp(name, "service_name") == 0 ? "service" : name;
            status = pyr_api_each_label(a.view, &a.question, name, add_name, &l);
        }
        answer.names = pyr_connect_take(&a.call, &l.list, &answer.n_names);
    }
    finish(&a, status, &answer.base);
}

void pyr_grafana_label_names(pyr_worker *worker, pyr_request *request)
{
    answer_labels(worker, request, &pyr__connect__label_names_question__descriptor, false);
}

void pyr_grafana_label_values(pyr_worker *worker, pyr_request *request)
{
    answer_labels(worker, request, &pyr__connect__label_values_question__descriptor, true);
}

static void add_label(pyr_connect *call, pyr_buffer *list, const char *name, const char *value,
                      size_t length)
{
    Pyr__Connect__Label *made = pyr_connect_add(call, list, &pyr__connect__label__descriptor);
    if (made != NULL) {
        const char *theirs = strcmp(name, "service") == 0 ? "service_name" : name;
        made->name = pyr_connect_text(call, theirs, strlen(theirs));
        made->value = pyr_connect_text(call, value, length);
    }
}

static bool is_wanted(const listing *l, const char *name)
{
    bool wanted = l->wanted_count == 0;
    for (size_t at = 0; at < l->wanted_count && !wanted; at++) {
        wanted = strcmp(l->wanted[at], strcmp(name, "service") == 0 ? "service_name" : name) == 0;
    }
    return wanted;
}

static pyr_status add_series(void *context, const pyr_view_series *series)
{
    listing *l = context;
    pyr_connect *call = &l->a->call;
    const char *at = series->labels;
    const char *name = NULL;
    const char *value = NULL;
    pyr_buffer labels;
    bool is_chosen = false;
    for (size_t place = 0; place < l->chosen_series->length && !is_chosen;
         place += sizeof(int64_t)) {
        is_chosen = memcmp(l->chosen_series->data + place, &series->id, sizeof series->id) == 0;
    }
    Pyr__Connect__Labels *made =
        is_chosen ? pyr_connect_add(call, &l->list, &pyr__connect__labels__descriptor) : NULL;
    if (made == NULL) {
        return call->has_failed ? PYR_ENOMEM : PYR_OK;
    }
    pyr_buffer_init(&labels, SIZE_MAX / 2);
    while (pyr_labels_next(&at, series->labels + series->labels_length, &name, &value)) {
        if (is_wanted(l, name)) {
            add_label(call, &labels, name, value, strlen(value));
        }
    }
    made->labels = pyr_connect_take(call, &labels, &made->n_labels);
    return PYR_OK;
}

void pyr_grafana_series(pyr_worker *worker, pyr_request *request)
{
    asking a;
    listing l;
    pyr_buffer ids;
    pyr_buffer open;
    Pyr__Connect__SeriesAnswer answer = PYR__CONNECT__SERIES_ANSWER__INIT;
    pyr_status status = PYR_OK;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    start_list(&l, &a);
    if (start(&a, worker, request, &pyr__connect__series_question__descriptor) != NULL) {
        l.wanted = pyr_connect_strings(&a.call, "label_names", &l.wanted_count);
        l.chosen_series = &ids;
        status = pyr_question_series(a.view, &a.question, &ids, &open);
        if (status == PYR_OK) {
            status = pyr_view_each_series(a.view, NULL, a.question.from_ns, a.question.until_ns,
                                          add_series, &l);
        }
        answer.labels_set = pyr_connect_take(&a.call, &l.list, &answer.n_labels_set);
    }
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    finish(&a, status, &answer.base);
}

/* ------------------------------------------------------------------------------ flame graphs ----
 */

typedef struct bar { /* of a flame graph: levels are rows of bars from left to right */
    int64_t start;
    int32_t node, depth;
} bar;

static int compare_bars(const void *a, const void *b)
{
    const bar *left = a;
    const bar *right = b;
    return left->depth != right->depth
               ? (left->depth < right->depth ? -1 : 1)
               : (left->start > right->start) - (left->start < right->start);
}

static bar *place_bars(const pyr_call_tree *tree)
{
    bar *bars = pyr_memory_new(tree->count + 1, sizeof *bars);
    int64_t *next = pyr_memory_new(tree->count + 1, sizeof *next);
    for (size_t at = 0; bars != NULL && next != NULL && at < tree->count; at++) {
        const pyr_call_node *node = &tree->nodes[at];
        int64_t start = node->parent >= 0 ? next[node->parent] : 0;
        bars[at] = (bar){start, (int32_t)at, node->depth};
        next[at] = start + node->self;
        if (node->parent >= 0) {
            next[node->parent] += node->total;
        }
    }
    bool good = bars != NULL && next != NULL;
    pyr_memory_free(next);
    if (!good) {
        pyr_memory_free(bars);
        return NULL;
    }
    qsort(bars, tree->count, sizeof *bars, compare_bars);
    return bars;
}

static pyr_status fill_levels(pyr_connect *call, const pyr_call_tree *tree, const bar *bars,
                              Pyr__Connect__FlameGraph *graph)
{
    pyr_buffer levels;
    pyr_buffer_init(&levels, SIZE_MAX / 2);
    for (size_t at = 0; at < tree->count;) {
        size_t first = at;
        int64_t end = 0;
        while (at < tree->count && bars[at].depth == bars[first].depth) {
            at++;
        }
        Pyr__Connect__Level *level =
            pyr_connect_add(call, &levels, &pyr__connect__level__descriptor);
        int64_t *values = pyr_connect_new(call, 4 * (at - first), sizeof *values);
        if (level == NULL || values == NULL) {
            break;
        }
        level->values = values;
        level->n_values = 4 * (at - first);
        for (size_t one = first; one < at; one++) {
            const pyr_call_node *node = &tree->nodes[bars[one].node];
            *values++ = bars[one].start - end;
            *values++ = node->total;
            *values++ = node->self;
            *values++ = bars[one].node;
            end = bars[one].start + node->total;
        }
    }
    graph->levels = pyr_connect_take(call, &levels, &graph->n_levels);
    return call->has_failed ? PYR_ENOMEM : PYR_OK;
}

/* A name a node: readers compare texts, and most names stand at few nodes. */
static pyr_status fill_graph(pyr_connect *call, const pyr_profile *profile,
                             const pyr_call_tree *tree, Pyr__Connect__FlameGraph *graph)
{
    static char total[] = "total";
    bar *bars = place_bars(tree);
    graph->names = pyr_connect_new(call, tree->count, sizeof *graph->names);
    pyr_status status = bars != NULL && graph->names != NULL ? PYR_OK : PYR_ENOMEM;
    for (size_t at = 0; status == PYR_OK && at < tree->count; at++) {
        const pyr_call_node *node = &tree->nodes[at];
        graph->max_self = node->self > graph->max_self ? node->self : graph->max_self;
        graph->names[at] = total;
        if (at > 0) {
            const pyr_profile_text *name =
                &profile->strings[profile->functions[node->function].name];
            graph->names[at] = pyr_connect_text(call, name->data, name->length);
        }
    }
    if (status == PYR_OK) {
        graph->n_names = tree->count;
        graph->total = tree->nodes[0].total;
        status = fill_levels(call, tree, bars, graph);
    }
    pyr_memory_free(bars);
    return status;
}

/* PYR_ENOENT: no profile. The texts are the call's. */
static pyr_status make_graph(pyr_connect *call, pyr_view *view, const pyr_question *question,
                             size_t most, Pyr__Connect__FlameGraph *graph)
{
    pyr_gathered gathered;
    pyr_call_tree tree = {0};
    pyr_status status = pyr_gather(view, question, PYR_GATHER_STACKS, &gathered);
    if (status == PYR_OK) {
        status = pyr_call_tree_init(&tree, &gathered, 0, most);
    }
    if (status == PYR_OK) {
        status = fill_graph(call, gathered.profile, &tree, graph);
    }
    pyr_call_tree_fini(&tree);
    pyr_gathered_fini(&gathered);
    return status;
}

void pyr_grafana_stacktraces(pyr_worker *worker, pyr_request *request)
{
    asking a;
    Pyr__Connect__StacktracesAnswer answer = PYR__CONNECT__STACKTRACES_ANSWER__INIT;
    Pyr__Connect__FlameGraph graph = PYR__CONNECT__FLAME_GRAPH__INIT;
    pyr_status status = PYR_OK;
    const Pyr__Connect__StacktracesQuestion *asked =
        (const Pyr__Connect__StacktracesQuestion *)start(
            &a, worker, request, &pyr__connect__stacktraces_question__descriptor);
    if (asked != NULL && asked->format > PYR__CONNECT__FORMAT__PROFILE_FORMAT_FLAMEGRAPH) {
        pyr_request_refuse(request, 501, "of the formats, only flame graphs are made here");
    } else if (asked != NULL && pyr_api_type(a.view, request, &a.question)) {
        int64_t most = asked->max_nodes;
        status = make_graph(&a.call, a.view, &a.question,
                            most > 0 && most < NODES_MOST ? (size_t)most : NODES, &graph);
        answer.flamegraph = status == PYR_OK ? &graph : NULL;
        status = status == PYR_ENOENT ? PYR_OK : status; /* an empty answer is "no data" there */
    }
    finish(&a, status, &answer.base);
}

static void write_flamebearer(pyr_answer *answer, const Pyr__Connect__FlameGraph *graph)
{
    pyr_answer_begin(answer, "flamebearer", '{');
    pyr_answer_begin(answer, "names", '[');
    for (size_t at = 0; at < graph->n_names; at++) {
        pyr_answer_string(answer, NULL, graph->names[at]);
    }
    pyr_answer_end(answer, ']');
    pyr_answer_begin(answer, "levels", '[');
    for (size_t at = 0; at < graph->n_levels; at++) {
        pyr_answer_begin(answer, NULL, '[');
        for (size_t value = 0; value < graph->levels[at]->n_values; value++) {
            pyr_answer_integer(answer, NULL, graph->levels[at]->values[value]);
        }
        pyr_answer_end(answer, ']');
    }
    pyr_answer_end(answer, ']');
    pyr_answer_integer(answer, "numTicks", graph->total);
    pyr_answer_integer(answer, "maxSelf", graph->max_self);
    pyr_answer_end(answer, '}');
}

void pyr_grafana_render(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    int64_t now_ns = pyr_clock_realtime_ns();
    const char *query = pyr_request_argument(request, "query");
    const char *from = pyr_request_argument(request, "from");
    const char *until = pyr_request_argument(request, "until");
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL) {
        return;
    }
    pyr_question_init(&question);
    question.from_ns = now_ns - HOUR_NS;
    question.until_ns = now_ns;
    if (query == NULL ||
        (from != NULL && pyr_time_parse(from, now_ns, &question.from_ns) != PYR_OK) ||
        (until != NULL && pyr_time_parse(until, now_ns, &question.until_ns) != PYR_OK)) {
        pyr_request_refuse(request, 400, "query is missing, or from or until is no time");
        return;
    }
    read_type(&question, query);
    const char *brace = strchr(query, '{');
    if ((brace == NULL || add_selector(request, &question, brace)) &&
        pyr_api_type(view, request, &question)) {
        pyr_answer answer = {.out = &request->answer};
        pyr_answer_begin(&answer, NULL, '{');
        pyr_answer_integer(&answer, "version", 1);
        Pyr__Connect__FlameGraph graph = PYR__CONNECT__FLAME_GRAPH__INIT;
        pyr_connect texts = {.request = request};
        pyr_status status = make_graph(&texts, view, &question, NODES, &graph);
        write_flamebearer(&answer, &graph);
        pyr_connect_end(&texts);
        pyr_answer_begin(&answer, "metadata", '{');
        pyr_answer_string(&answer, "format", "single");
        pyr_answer_string(&answer, "name", question.type);
        pyr_answer_string(&answer, "units",
                          strstr(question.type, "time") != NULL ? "nanoseconds" : "count");
        pyr_answer_integer(&answer, "sampleRate", SECOND_NS);
        pyr_answer_end(&answer, '}');
        pyr_answer_end(&answer, '}');
        pyr_api_finish(request, status);
    }
    pyr_question_fini(&question);
}

/* -------------------------------------------------------------------------------- time series ----
 */

static void add_line(pyr_connect *call, pyr_buffer *lines, const pyr_trend *trend, size_t index,
                     const char *by)
{
    const pyr_trend_line *from = &trend->lines[index];
    Pyr__Connect__Line *line = pyr_connect_add(call, lines, &pyr__connect__line__descriptor);
    pyr_buffer list;
    if (line == NULL) {
        return;
    }
    pyr_buffer_init(&list, SIZE_MAX / 2);
    if (by != NULL) {
        add_label(call, &list, by, from->name, from->name_length);
    }
    line->labels = pyr_connect_take(call, &list, &line->n_labels);
    pyr_buffer_init(&list, SIZE_MAX / 2);
    for (size_t step = 0; step < trend->steps; step++) {
        Pyr__Connect__Point *point = pyr_connect_add(call, &list, &pyr__connect__point__descriptor);
        if (point != NULL) {
            point->value = (double)from->values[step];
            point->timestamp = (trend->start_ns + (int64_t)step * trend->step_ns) / MS_NS;
        }
    }
    line->points = pyr_connect_take(call, &list, &line->n_points);
}

void pyr_grafana_select_series(pyr_worker *worker, pyr_request *request)
{
    asking a;
    pyr_buffer lines;
    pyr_trend trend = {0};
    pyr_status status = PYR_OK;
    Pyr__Connect__SelectSeriesAnswer answer = PYR__CONNECT__SELECT_SERIES_ANSWER__INIT;
    const Pyr__Connect__SelectSeriesQuestion *asked =
        (const Pyr__Connect__SelectSeriesQuestion *)start(
            &a, worker, request, &pyr__connect__select_series_question__descriptor);
    if (asked != NULL && pyr_api_type(a.view, request, &a.question)) {
        const char *by = asked->n_group_by > 0 ? asked->group_by[0] : NULL;
        by = by != NULL && strcmp(by, "service_name") == 0 ? "service" : by;
        int64_t step_ns =
            asked->step >= 1 && asked->step < 1e9 ? (int64_t)(asked->step * 1e9) : 15 * SECOND_NS;
        int64_t most = asked->limit > 0 && asked->limit < LINES ? asked->limit : LINES;
        pyr_buffer_init(&lines, SIZE_MAX / 2);
        status = pyr_trend_init(&trend, a.view, &a.question, step_ns, by);
        for (size_t at = 0; status == PYR_OK && at < trend.count && at < (size_t)most; at++) {
            add_line(&a.call, &lines, &trend, at, by);
        }
        answer.series = pyr_connect_take(&a.call, &lines, &answer.n_series);
        pyr_trend_fini(&trend);
        if (status == PYR_EINVAL) {
            pyr_request_refuse(request, 400, "more than %d steps", PYR_TREND_STEPS);
        }
        status = status == PYR_ENOENT ? PYR_OK : status;
    }
    finish(&a, status, &answer.base);
}
