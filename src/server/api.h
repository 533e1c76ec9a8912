/* The answers under /api, and those that Grafana asks for. A worker's thread each. Private to
 * server/. What they take and give: /api/openapi.json, made from routes.c, and docs/server.md. */
#ifndef PYR_SERVER_API_H
#define PYR_SERVER_API_H

#include "query/answer.h"
#include "query/question.h"
#include "server/server_state.h"
#include "store/view.h"

#define PYR_API_JSON "application/json"

/* Reads service, from, until, type, and the conditions (where, env, version, host) into `question`,
 * with `prefix` before the names of times and conditions. Default: the last hour. False: refused.
 */
bool pyr_api_question(pyr_request *request, const char *prefix, pyr_question *question);

/* Sets the type where none was asked for: cpu-time, or the first that the profiles have. False:
 * refused, because there is no profile. */
bool pyr_api_type(pyr_view *view, pyr_request *request, pyr_question *question);

/* Calls `visit` for the names of labels of what the question is about, or with `name` for the
 * values of that one. */
PYR_MUST_USE pyr_status
pyr_api_each_label(pyr_view *view, const pyr_question *question, const char *name,
                   void (*visit)(void *context, const char *text, size_t length), void *context);

/* Calls `visit` for each sample type, with its unit. */
PYR_MUST_USE pyr_status pyr_api_each_type(pyr_view *view, const pyr_question *question,
                                          void (*visit)(void *context, const char *type,
                                                        size_t type_length, const char *unit,
                                                        size_t unit_length),
                                          void *context);

/* Refuses as a failed question deserves. */
void pyr_api_fail(pyr_request *request, pyr_status status);

/* Answers with the JSON that was written, or where `status` says so, refuses. */
void pyr_api_finish(pyr_request *request, pyr_status status);

void pyr_api_services(pyr_worker *worker, pyr_request *request);
void pyr_api_labels(pyr_worker *worker, pyr_request *request);
void pyr_api_types(pyr_worker *worker, pyr_request *request);
void pyr_api_profiles(pyr_worker *worker, pyr_request *request);
void pyr_api_window(pyr_worker *worker, pyr_request *request);
void pyr_api_flame(pyr_worker *worker, pyr_request *request);
void pyr_api_graph(pyr_worker *worker, pyr_request *request);
void pyr_api_document(pyr_worker *worker, pyr_request *request);
void pyr_api_top(pyr_worker *worker, pyr_request *request);
void pyr_api_totals(pyr_worker *worker, pyr_request *request);
void pyr_api_series(pyr_worker *worker, pyr_request *request);
void pyr_api_diff(pyr_worker *worker, pyr_request *request);
void pyr_api_pprof(pyr_worker *worker, pyr_request *request);
void pyr_api_timeline(pyr_worker *worker, pyr_request *request);
void pyr_api_pairs(pyr_worker *worker, pyr_request *request);
void pyr_api_windows(pyr_worker *worker, pyr_request *request);

/* Answers with one profile as it was sent. */
void pyr_api_pprof_one(pyr_view *view, pyr_request *request);

void pyr_api_pins(pyr_worker *worker, pyr_request *request);
void pyr_api_pin(pyr_worker *worker, pyr_request *request);
void pyr_api_unpin(pyr_worker *worker, pyr_request *request);

void pyr_grafana_types(pyr_worker *worker, pyr_request *request);
void pyr_grafana_label_names(pyr_worker *worker, pyr_request *request);
void pyr_grafana_label_values(pyr_worker *worker, pyr_request *request);
void pyr_grafana_series(pyr_worker *worker, pyr_request *request);
void pyr_grafana_stacktraces(pyr_worker *worker, pyr_request *request);
void pyr_grafana_select_series(pyr_worker *worker, pyr_request *request);
void pyr_grafana_render(pyr_worker *worker, pyr_request *request);

void pyr_status_health(pyr_worker *worker, pyr_request *request);
void pyr_status_ready(pyr_worker *worker, pyr_request *request);
void pyr_status_info(pyr_worker *worker, pyr_request *request);
void pyr_status_metrics(pyr_worker *worker, pyr_request *request);
void pyr_status_openapi(pyr_worker *worker, pyr_request *request);
void pyr_page_serve(pyr_worker *worker, pyr_request *request);
void pyr_page_serve_graphviz(pyr_worker *worker, pyr_request *request);

#endif
