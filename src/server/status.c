/* Health, metrics, what an Agent would say of itself, the description of the API, and the page; see
 * api.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "query/answer.h"
#include "server/api.h"
#include "server/page.h"
#include "server/watch.h"
#include "store/labels.h"

void pyr_status_health(pyr_worker *worker, pyr_request *request)
{
    pyr_store_figures figures = pyr_store_look(worker->server->store);
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_string(&answer, "status", figures.is_broken ? "the last write failed" : "ok");
    pyr_answer_string(&answer, "version", PYR_VERSION);
    pyr_answer_end(&answer, '}');
    pyr_request_answer(request, figures.is_broken ? 503 : 200, PYR_API_JSON);
}

void pyr_status_ready(pyr_worker *worker, pyr_request *request)
{
    (void)worker;
    (void)pyr_buffer_text(&request->answer, "ready\n");
    pyr_request_answer(request, 200, "text/plain; charset=utf-8");
}

void pyr_status_info(pyr_worker *worker, pyr_request *request)
{
    static const char *const ENDPOINTS[] = {"/profiling/v1/input", "/api/v2/profile"};
    (void)worker;
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_string(&answer, "version", PYR_VERSION);
    pyr_answer_begin(&answer, "endpoints", '[');
    for (size_t at = 0; at < sizeof ENDPOINTS / sizeof ENDPOINTS[0]; at++) {
        pyr_answer_string(&answer, NULL, ENDPOINTS[at]);
    }
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_request_answer(request, 200, PYR_API_JSON);
}

/* --------------------------------------------------------------------------------- metrics ---- */

enum { METRICS_BYTES = 4 << 20 };

typedef struct metric {
    const char *name, *kind, *help;
    double value;
} metric;

static void escape(pyr_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)pyr_buffer_append(out, "\\", 1);
        }
        (void)pyr_buffer_append(out, *text == '\n' ? " " : text, 1);
    }
}

/* Figures of each service since the start; cost and losses are of windows whose document came. */
static void write_services(pyr_services *services, pyr_buffer *out)
{
    enum { PROFILES, BYTES, LAST, CPU, COVERED, MEMORY, ROWS };
    static const struct {
        const char *name, *kind, *help;
    } TABLE[ROWS] = {
        [PROFILES] = {"profiles_total", "counter", "Profiles written to disk."},
        [BYTES] = {"profile_bytes_total", "counter", "Bytes of these, as received."},
        [LAST] = {"last_seconds", "gauge", "End of the last profile, as Unix time."},
        [CPU] = {"profiler_cpu_seconds_total", "counter", "CPU time that profiling itself took."},
        [COVERED] = {"profiled_seconds_total", "counter", "Time that processes were profiled."},
        [MEMORY] = {"profiler_bytes", "gauge", "The most memory that a profiler held."},
    };
    for (size_t row = 0; row < ROWS; row++) {
        char name[PYR_SERVICE_NAME_BYTES];
        pyr_service_figures of;
        (void)pyr_buffer_format(out,
                                "# HELP pyrometer_service_%s %s Since the server started.\n# TYPE "
                                "pyrometer_service_%s %s\n",
                                TABLE[row].name, TABLE[row].help, TABLE[row].name, TABLE[row].kind);
        for (size_t number = 0; pyr_services_at(services, number, name, sizeof name, &of);
             number++) {
            const double values[ROWS] = {
                [PROFILES] = (double)of.profiles,    [BYTES] = (double)of.bytes,
                [LAST] = (double)of.last_ns / 1e9,   [CPU] = of.cost.cpu_ns / 1e9,
                [COVERED] = of.cost.window_ns / 1e9, [MEMORY] = of.cost.bytes,
            };
            bool is_told = row < CPU || of.cost.windows > 0;
            if (of.profiles > 0 && is_told && out->length < METRICS_BYTES) {
                (void)pyr_buffer_format(out, "pyrometer_service_%s{service=\"", TABLE[row].name);
                escape(out, name);
                (void)pyr_buffer_format(out, "\"} %.15g\n", values[row]);
            }
        }
    }
}

/* What each service's profilers lost, by kind: of those that occurred. */
static void write_losses(pyr_services *services, pyr_buffer *out)
{
    char name[PYR_SERVICE_NAME_BYTES];
    pyr_service_figures of;
    (void)pyr_buffer_text(out, "# HELP pyrometer_service_lost_total Samples, ticks and names that "
                               "profilers lost. Since the server started.\n"
                               "# TYPE pyrometer_service_lost_total counter\n");
    for (size_t number = 0; pyr_services_at(services, number, name, sizeof name, &of); number++) {
        for (size_t kind = 0; kind < PYR_OWN_LOSSES && out->length < METRICS_BYTES; kind++) {
            if (of.cost.lost[kind] > 0) {
                (void)pyr_buffer_text(out, "pyrometer_service_lost_total{service=\"");
                escape(out, name);
                (void)pyr_buffer_format(out, "\",kind=\"%s\"} %.15g\n", pyr_own_cost_loss(kind),
                                        of.cost.lost[kind]);
            }
        }
    }
}

/* When each process was last heard of: the figure worth an alert is one that goes silent. */
static pyr_status write_series(void *context, const pyr_view_series *series)
{
    pyr_buffer *out = context;
    const char *at = series->labels;
    const char *name = NULL;
    const char *value = NULL;
    (void)pyr_buffer_text(out, "pyrometer_series_last_seconds{service=\"");
    escape(out, series->service);
    while (pyr_labels_next(&at, series->labels + series->labels_length, &name, &value)) {
        static const char *const SHOWN[] = {"env", "version", "host", "pid"};
        for (size_t shown = 0; shown < sizeof SHOWN / sizeof SHOWN[0]; shown++) {
            if (strcmp(name, SHOWN[shown]) == 0) {
                (void)pyr_buffer_format(out, "\",%s=\"", name);
                escape(out, value);
            }
        }
    }
    (void)pyr_buffer_format(out, "\"} %.3f\n", (double)series->last_ns / 1e9);
    return out->length < METRICS_BYTES ? PYR_OK : PYR_ETOOBIG;
}

void pyr_status_metrics(pyr_worker *worker, pyr_request *request)
{
    pyr_server *server = worker->server;
    pyr_server_counters *counters = &server->counters;
    pyr_store_figures figures = pyr_store_look(server->store);
    pyr_buffer *out = &request->answer;
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL) {
        return;
    }
    const metric metrics[] = {
        {"profiles_accepted_total", "counter", "Profiles written to disk.",
         (double)figures.accepted},
        {"profiles_repeated_total", "counter", "Profiles that were there already.",
         (double)figures.again},
        {"profiles_refused_total", "counter", "Profiles that cannot be kept.",
         (double)figures.refused},
        {"profiles_failed_total", "counter", "Profiles that could not be written.",
         (double)figures.failed},
        {"profile_bytes_total", "counter", "Bytes of the accepted profiles, as received.",
         (double)figures.bytes},
        {"commits_total", "counter", "Transactions, each of one or more profiles.",
         (double)figures.commits},
        {"profiles_waiting", "gauge", "Profiles that wait to be written.", (double)figures.waiting},
        {"profiles_removed_total", "counter", "Profiles that retention removed.",
         (double)figures.removed},
        {"store_bytes", "gauge", "Size of the store's file.", (double)figures.file_bytes},
        {"store_broken", "gauge", "1 while the last write failed.", figures.is_broken},
        {"connections", "gauge", "Open connections.", (double)pyr_watch_count(server->watch)},
        {"requests_total", "counter", "Requests of all kinds.",
         (double)atomic_load(&counters->requests)},
        {"questions_total", "counter", "Questions answered.",
         (double)atomic_load(&counters->questions)},
        {"question_seconds_total", "counter", "Time spent on questions.",
         (double)atomic_load(&counters->question_ns) / 1e9},
        {"ingest_seconds_total", "counter", "Time spent on reading profiles.",
         (double)atomic_load(&counters->ingest_ns) / 1e9},
        {"memory_bytes", "gauge", "Heap of the server's own objects.", (double)pyr_memory_in_use()},
    };
    for (size_t at = 0; at < sizeof metrics / sizeof metrics[0]; at++) {
        const metric *one = &metrics[at];
        (void)pyr_buffer_format(
            out, "# HELP pyrometer_%s %s\n# TYPE pyrometer_%s %s\npyrometer_%s %.9g\n", one->name,
            one->help, one->name, one->kind, one->name, one->value);
    }
    (void)pyr_buffer_text(out, "# HELP pyrometer_answers_total Answers by class of status code.\n"
                               "# TYPE pyrometer_answers_total counter\n");
    for (unsigned class = 2; class < 6; class ++) {
        (void)pyr_buffer_format(out, "pyrometer_answers_total{class=\"%uxx\"} %" PRIu64 "\n", class,
                                (uint64_t)atomic_load(&counters->by_class[class]));
    }
    write_services(server->services, out);
    write_losses(server->services, out);
    (void)pyr_buffer_text(out, "# HELP pyrometer_series_last_seconds End of the last profile, as "
                               "Unix time; series of the last day.\n"
                               "# TYPE pyrometer_series_last_seconds gauge\n");
    int64_t now_ns = pyr_clock_realtime_ns();
    pyr_status status = pyr_view_each_series(view, NULL, now_ns - INT64_C(86400000000000),
                                             INT64_MAX, write_series, out);
    if (status == PYR_OK || status == PYR_ETOOBIG) {
        pyr_request_answer(request, 200, "text/plain; version=0.0.4; charset=utf-8");
    } else {
        pyr_api_fail(request, status);
    }
}

/* ------------------------------------------------------------------------------ description ----
 */

static void describe_parameters(pyr_answer *answer, const char *words)
{
    pyr_answer_begin(answer, "parameters", '[');
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        pyr_answer_begin(answer, NULL, '{');
        pyr_answer_text(answer, "name", words, length);
        pyr_answer_string(answer, "in", "query");
        pyr_answer_boolean(answer, "required", false);
        pyr_answer_begin(answer, "schema", '{');
        pyr_answer_string(answer, "type", "string");
        pyr_answer_end(answer, '}');
        pyr_answer_end(answer, '}');
        words += length;
        words += strspn(words, " ");
    }
    pyr_answer_end(answer, ']');
}

static void describe(pyr_answer *answer, const pyr_route *route)
{
    char method[8];
    const char *bar = strchr(route->about, '|');
    size_t length = 0;
    for (; route->method[length] != '\0' && length < sizeof method - 1; length++) {
        method[length] = (char)(route->method[length] | 0x20);
    }
    method[length] = '\0';
    pyr_answer_begin(answer, method, '{');
    pyr_answer_text(answer, "summary", route->about,
                    bar != NULL ? (size_t)(bar - route->about) : strlen(route->about));
    describe_parameters(answer, bar != NULL ? bar + 1 : "");
    pyr_answer_begin(answer, "responses", '{');
    pyr_answer_begin(answer, "200", '{');
    pyr_answer_string(answer, "description", "The answer.");
    pyr_answer_end(answer, '}');
    pyr_answer_begin(answer, "default", '{');
    pyr_answer_string(answer, "description", "{\"error\": why}");
    pyr_answer_end(answer, '}');
    pyr_answer_end(answer, '}');
    pyr_answer_end(answer, '}');
}

void pyr_status_openapi(pyr_worker *worker, pyr_request *request)
{
    (void)worker;
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_string(&answer, "openapi", "3.1.0");
    pyr_answer_begin(&answer, "info", '{');
    pyr_answer_string(&answer, "title", "Pyrometer");
    pyr_answer_string(&answer, "version", PYR_VERSION);
    pyr_answer_end(&answer, '}');
    pyr_answer_begin(&answer, "paths", '{');
    const pyr_route *before = NULL;
    for (size_t at = 0; pyr_route_at(at) != NULL; at++) { /* routes of one path stand together */
        const pyr_route *route = pyr_route_at(at);
        if (before == NULL || strcmp(before->path, route->path) != 0) {
            if (before != NULL) {
                pyr_answer_end(&answer, '}');
            }
            pyr_answer_begin(&answer, route->path, '{');
        }
        describe(&answer, route);
        before = route;
    }
    pyr_answer_end(&answer, '}');
    pyr_answer_end(&answer, '}');
    pyr_answer_end(&answer, '}');
    pyr_request_answer(request, 200, PYR_API_JSON);
}

void pyr_page_serve(pyr_worker *worker, pyr_request *request)
{
    (void)worker;
    request->fixed = pyr_page_bytes(&request->fixed_length);
    request->policy = pyr_page_policy();
    pyr_request_answer(request, 200, "text/html; charset=utf-8");
}

void pyr_page_serve_graphviz(pyr_worker *worker, pyr_request *request)
{
    (void)worker;
    request->fixed = pyr_page_graphviz(&request->fixed_length);
    pyr_request_answer(request, 200, "text/javascript; charset=utf-8");
}
