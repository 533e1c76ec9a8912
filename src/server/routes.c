/* What is at which path: the one table of the server. Constant; any thread.
 *
 * The last column describes a route in /api/openapi.json: a summary, a bar, and the names of its
 * arguments. Routes of one path stand together.
 */
#include <string.h>

#include "server/api.h"
#include "server/intake.h"
#include "server/server_state.h"

#define FILTERS "service env version host where query from until "

static const pyr_route ROUTES[] = {
    /* ways in */
    {"POST", "/profiling/v1/input", PYR_ROUTE_INGEST, false, pyr_intake_datadog,
     "Takes a profile as the Datadog Agent does (multipart/form-data).|"},
    {"POST", "/api/v2/profile", PYR_ROUTE_INGEST, false, pyr_intake_datadog,
     "The same, as Datadog's intake does.|"},
    {"POST", "/api/upload", PYR_ROUTE_INGEST, false, pyr_intake_upload,
     "Takes a pprof file in the body; every other argument is a label.|"
     "service env version host from until"},
    {"POST", "/push.v1.PusherService/Push", PYR_ROUTE_INGEST, false, pyr_intake_push,
     "Takes profiles as Pyroscope does (Connect, protobuf or JSON).|"},
    {"POST", "/ingest", PYR_ROUTE_INGEST, false, pyr_intake_ingest,
     "Takes a profile as older Pyroscopes do.|name from until format sampleRate units"},
    {"POST", "/pyroscope/ingest", PYR_ROUTE_INGEST, false, pyr_intake_ingest,
     "The same.|name from until format sampleRate units"},
    /* questions */
    {"GET", "/api/services", PYR_ROUTE_READ, true, pyr_api_services,
     "Services, and when they were first and last heard of.|"},
    {"GET", "/api/labels", PYR_ROUTE_READ, true, pyr_api_labels,
     "Names of labels, or with name the values of one.|name " FILTERS},
    {"GET", "/api/types", PYR_ROUTE_READ, true, pyr_api_types,
     "Sample types of the profiles.|" FILTERS},
    {"GET", "/api/profiles", PYR_ROUTE_READ, true, pyr_api_profiles,
     "The newest profiles one by one, at most 1000, and the labels of their series.|" FILTERS},
    {"GET", "/api/window", PYR_ROUTE_READ, true, pyr_api_window,
     "The document that came with a profile: cost, losses, settings.|profile"},
    {"GET", "/api/flame", PYR_ROUTE_READ, true, pyr_api_flame,
     "The merged call tree: nodes are [parent, function, file, self, total], node 0 the root.|"
     "type nodes " FILTERS},
    {"GET", "/api/graph", PYR_ROUTE_READ, true, pyr_api_graph,
     "The call graph: edges are [caller, its file, callee, its file, value], largest first; a "
     "sample"
     " counts once in each.|type limit " FILTERS},
    {"GET", "/api/top", PYR_ROUTE_READ, true, pyr_api_top,
     "Functions, lines, files or packages by cost, with 95 % intervals.|"
     "type by order limit " FILTERS},
    {"GET", "/api/totals", PYR_ROUTE_READ, true, pyr_api_totals,
     "Sums of a type, split by a label or by function.|type by limit " FILTERS},
    {"GET", "/api/series", PYR_ROUTE_READ, true, pyr_api_series,
     "The same over time.|type by step limit " FILTERS},
    {"GET", "/api/diff", PYR_ROUTE_READ, true, pyr_api_diff,
     "What changed against the profiles that the before_ arguments choose, per second of a process"
     " or per=request, noise told apart; only=worse gives what got worse.|type by per limit "
     "only " FILTERS
     "before_service before_env before_version before_host before_where before_query before_from "
     "before_until"},
    {"GET", "/api/document", PYR_ROUTE_READ, true, pyr_api_document,
     "The document of the flame graph page.|type " FILTERS},
    {"GET", "/api/pprof", PYR_ROUTE_READ, true, pyr_api_pprof,
     "The merged profile as a pprof file; with profile that one, as it was sent.|"
     "profile type " FILTERS},
    {"GET", "/api/timeline", PYR_ROUTE_READ, true, pyr_api_timeline,
     "The samples of one profile over time, in lanes of threads, or by task name.|profile by"},
    {"GET", "/api/pairs", PYR_ROUTE_READ, true, pyr_api_pairs,
     "Who waited for whom, by function, for locks and for the GIL; of the 500 newest "
     "profiles.|" FILTERS},
    {"GET", "/api/windows", PYR_ROUTE_READ, true, pyr_api_windows,
     "The documents of the 200 newest profiles, and what profiling itself cost in them.|" FILTERS},
    {"GET", "/api/pins", PYR_ROUTE_READ, true, pyr_api_pins, "Pins.|"},
    {"POST", "/api/pins", PYR_ROUTE_READ, true, pyr_api_pin,
     "Pins profiles: retention leaves them.|note " FILTERS},
    {"DELETE", "/api/pins", PYR_ROUTE_READ, true, pyr_api_unpin, "Removes a pin.|pin"},
    {"GET", "/api/openapi.json", PYR_ROUTE_OPEN, false, pyr_status_openapi, "This description.|"},
    /* what Grafana's data source for Pyroscope asks */
    {"POST", "/querier.v1.QuerierService/ProfileTypes", PYR_ROUTE_READ, true, pyr_grafana_types,
     "Sample types, as Pyroscope names them (Connect).|"},
    {"POST", "/querier.v1.QuerierService/LabelNames", PYR_ROUTE_READ, true, pyr_grafana_label_names,
     "Names of labels (Connect).|"},
    {"POST", "/querier.v1.QuerierService/LabelValues", PYR_ROUTE_READ, true,
     pyr_grafana_label_values, "Values of a label (Connect).|"},
    {"POST", "/querier.v1.QuerierService/Series", PYR_ROUTE_READ, true, pyr_grafana_series,
     "Labels of series (Connect).|"},
    {"POST", "/querier.v1.QuerierService/SelectMergeStacktraces", PYR_ROUTE_READ, true,
     pyr_grafana_stacktraces, "A flame graph (Connect).|"},
    {"POST", "/querier.v1.QuerierService/SelectSeries", PYR_ROUTE_READ, true,
     pyr_grafana_select_series, "Values over time (Connect).|"},
    {"GET", "/pyroscope/render", PYR_ROUTE_READ, true, pyr_grafana_render,
     "A flame graph, as older Pyroscopes give it.|query from until"},
    /* the server itself */
    {"GET", "/", PYR_ROUTE_OPEN, false, pyr_page_serve, "The page.|"},
    {"GET", "/graphviz.js", PYR_ROUTE_OPEN, false, pyr_page_serve_graphviz,
     "The script that draws the page's call graph.|"},
    {"GET", "/healthz", PYR_ROUTE_OPEN, false, pyr_status_health,
     "Whether the last write succeeded.|"},
    {"GET", "/ready", PYR_ROUTE_OPEN, false, pyr_status_ready, "Answers when the server does.|"},
    {"GET", "/info", PYR_ROUTE_OPEN, false, pyr_status_info, "What an Agent would say of itself.|"},
    {"GET", "/metrics", PYR_ROUTE_READ, true, pyr_status_metrics, "Figures for Prometheus.|"},
};
enum { ROUTE_COUNT = sizeof ROUTES / sizeof ROUTES[0] };

const pyr_route *pyr_route_at(size_t index)
{
    return index < ROUTE_COUNT ? &ROUTES[index] : NULL;
}

const pyr_route *pyr_route_find(const char *method, const char *path, bool *other_method)
{
    *other_method = false;
    const char *asked = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t at = 0; at < ROUTE_COUNT; at++) {
        if (strcmp(ROUTES[at].path, path) == 0) {
            if (strcmp(ROUTES[at].method, asked) == 0) {
                return &ROUTES[at];
            }
            *other_method = true;
        }
    }
    return NULL;
}
