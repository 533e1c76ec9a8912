/* Reading questions, and what the store has: services, labels, types, pins; see api.h. */
#include "server/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pprof/intern.h"
#include "query/answer.h"
#include "query/gather.h"
#include "store/labels.h"

enum { NAMES = 20000, NAME_BYTES = 1 << 23 };

static const int64_t HOUR_NS = INT64_C(3600000000000);

/* ------------------------------------------------------------------------------- questions ---- */

static const char *prefixed(const pyr_request *request, const char *prefix, const char *name)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%s%s", prefix, name);
    return pyr_request_argument(request, text);
}

static bool read_time(pyr_request *request, const char *prefix, const char *name, int64_t now_ns,
                      int64_t *time_ns)
{
    const char *text = prefixed(request, prefix, name);
    if (text == NULL || pyr_time_parse(text, now_ns, time_ns) == PYR_OK) {
        return true;
    }
    pyr_request_refuse(request, 400,
                       "%s%s=%.60s is no time: write now, now-1h, seconds since 1970, or "
                       "2026-11-30T02:00:00Z",
                       prefix, name, text);
    return false;
}

static bool add_condition(pyr_request *request, pyr_question *question, const char *name,
                          const char *value)
{
    char why[PYR_QUESTION_WHY_BYTES];
    if (pyr_question_add(question, name, "=", value, why, sizeof why) != PYR_OK) {
        pyr_request_refuse(request, 400, "%s", why);
        return false;
    }
    return true;
}

static bool read_conditions(pyr_request *request, const char *prefix, pyr_question *question)
{
    static const char *const SHORT[] = {"service", "env", "version", "host"};
    char why[PYR_QUESTION_WHY_BYTES];
    char where[64];
    (void)snprintf(where, sizeof where, "%swhere", prefix);
    for (size_t at = 0; at < sizeof SHORT / sizeof SHORT[0]; at++) {
        const char *value = prefixed(request, prefix, SHORT[at]);
        if (value != NULL && value[0] != '\0' &&
            !add_condition(request, question, SHORT[at], value)) {
            return false;
        }
    }
    for (size_t at = 0; at < request->argument_count; at++) {
        if (strcmp(request->arguments[at].name, where) == 0 &&
            pyr_question_where(question, request->arguments[at].value, why, sizeof why) != PYR_OK) {
            pyr_request_refuse(request, 400, "%s", why);
            return false;
        }
    }
    const char *selector = prefixed(request, prefix, "query");
    if (selector != NULL && pyr_question_selector(question, selector, why, sizeof why) != PYR_OK) {
        pyr_request_refuse(request, 400, "%s", why);
        return false;
    }
    return true;
}

bool pyr_api_question(pyr_request *request, const char *prefix, pyr_question *question)
{
    int64_t now_ns = pyr_clock_realtime_ns();
    pyr_question_init(question);
    question->from_ns = now_ns - HOUR_NS;
    question->until_ns = now_ns;
    const char *type = pyr_request_argument(request, "type");
    if (type != NULL && strlen(type) >= sizeof question->type) {
        pyr_request_refuse(request, 400, "type is too long");
        return false;
    }
    if (type != NULL) {
        memcpy(question->type, type, strlen(type) + 1);
    }
    if (!read_time(request, prefix, "from", now_ns, &question->from_ns) ||
        !read_time(request, prefix, "until", now_ns, &question->until_ns) ||
        !read_conditions(request, prefix, question)) {
        pyr_question_fini(question);
        return false;
    }
    if (question->from_ns >= question->until_ns) {
        pyr_question_fini(question);
        pyr_request_refuse(request, 400, "%sfrom must be before %suntil", prefix, prefix);
        return false;
    }
    return true;
}

void pyr_api_fail(pyr_request *request, pyr_status status)
{
    if (status == PYR_ENOENT) {
        pyr_request_refuse(request, 404, "no profile of this type in this time passes the filters");
    } else if (status == PYR_ECOSTLY) {
        pyr_request_refuse(request, 400, "%s: write it simpler", pyr_status_text(status));
    } else if (status == PYR_ETOOBIG) {
        pyr_request_refuse(request, 413, "the answer is too large: choose a shorter time");
    } else {
        pyr_request_refuse(request, status == PYR_EBUSY || status == PYR_ENOMEM ? 503 : 500,
                           "the store cannot answer: %s", pyr_status_text(status));
    }
}

void pyr_api_finish(pyr_request *request, pyr_status status)
{
    if (status == PYR_OK) {
        pyr_request_answer(request, 200, PYR_API_JSON);
    } else {
        pyr_buffer_clear(&request->answer);
        pyr_api_fail(request, status);
    }
}

/* ----------------------------------------------------------------------------------- types ---- */

typedef struct type_list {
    pyr_intern *names; /* "type\0unit" */
} type_list;

static pyr_status note_types(void *context, const pyr_book *book, uint32_t types_list)
{
    type_list *list = context;
    pyr_book_pair types[PYR_BOOK_LIST_PAIRS];
    size_t count = pyr_book_list_at(book, types_list, types);
    pyr_status status = PYR_OK;
    for (size_t type = 0; type < count && status == PYR_OK; type++) {
        char text[2 * PYR_QUESTION_NAME_BYTES + 2];
        size_t name_length = 0;
        size_t unit_length = 0;
        uint64_t index = 0;
        const char *name = pyr_book_text(book, types[type].key, &name_length);
        const char *unit = pyr_book_text(book, types[type].value, &unit_length);
        int length = snprintf(text, sizeof text, "%.*s%c%.*s", (int)name_length, name, '\t',
                              (int)unit_length, unit);
        size_t used = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        if (memchr(text, '\t', used) != NULL) {
            status = pyr_intern_add(list->names, text, used, &index);
        }
    }
    return status == PYR_ETOOBIG ? PYR_OK : status;
}

static pyr_status list_types(pyr_view *view, const pyr_question *question, type_list *list)
{
    pyr_buffer ids;
    pyr_buffer open;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    list->names = pyr_intern_new(PYR_SUMS_TYPES * 4, NAME_BYTES);
    pyr_status status =
        list->names != NULL ? pyr_question_series(view, question, &ids, &open) : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = pyr_view_each_types(view, (const int64_t *)(const void *)ids.data,
                                     ids.length / sizeof(int64_t), question->from_ns,
                                     question->until_ns, note_types, list);
    }
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    return status;
}

pyr_status pyr_api_each_type(pyr_view *view, const pyr_question *question,
                             void (*visit)(void *context, const char *type, size_t type_length,
                                           const char *unit, size_t unit_length),
                             void *context)
{
    type_list list = {0};
    pyr_status status = list_types(view, question, &list);
    for (size_t at = 0; status == PYR_OK && at < pyr_intern_count(list.names); at++) {
        size_t length = 0;
        const char *text = pyr_intern_get(list.names, at, &length);
        size_t name = (size_t)((const char *)memchr(text, '\t', length) - text);
        visit(context, text, name, text + name + 1, length - name - 1);
    }
    pyr_intern_free(list.names);
    return status;
}

typedef struct choice {
    pyr_question *question;
    size_t rank;
} choice;

static void prefer(void *context, const char *type, size_t length, const char *unit,
                   size_t unit_length)
{
    static const char *const LIKED[] = {"cpu-time", "cpu", "wall-time", "wall"};
    choice *c = context;
    size_t rank = sizeof LIKED / sizeof LIKED[0];
    (void)unit;
    (void)unit_length;
    for (size_t liked = 0; liked < sizeof LIKED / sizeof LIKED[0]; liked++) {
        if (strlen(LIKED[liked]) == length && memcmp(LIKED[liked], type, length) == 0) {
            rank = liked;
        }
    }
    if (rank < c->rank && length < sizeof c->question->type) {
        c->rank = rank;
        memcpy(c->question->type, type, length);
        c->question->type[length] = '\0';
    }
}

bool pyr_api_type(pyr_view *view, pyr_request *request, pyr_question *question)
{
    choice best = {question, SIZE_MAX};
    if (question->type[0] != '\0') {
        return true;
    }
    pyr_status status = pyr_api_each_type(view, question, prefer, &best);
    if (status != PYR_OK || question->type[0] == '\0') {
        pyr_api_fail(request, status == PYR_OK ? PYR_ENOENT : status);
        return false;
    }
    return true;
}

static void write_type(void *context, const char *type, size_t type_length, const char *unit,
                       size_t unit_length)
{
    pyr_answer *answer = context;
    pyr_answer_begin(answer, NULL, '{');
    pyr_answer_text(answer, "type", type, type_length);
    pyr_answer_text(answer, "unit", unit, unit_length);
    pyr_answer_end(answer, '}');
}

void pyr_api_types(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_begin(&answer, "types", '[');
    pyr_status status = pyr_api_each_type(view, &question, write_type, &answer);
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_question_fini(&question);
    pyr_api_finish(request, status);
}

/* -------------------------------------------------------------------------------- services ---- */

typedef struct service_row {
    int64_t first_ns, last_ns, series;
} service_row;

typedef struct service_list {
    pyr_intern *names;
    service_row rows[NAMES];
} service_list;

static pyr_status note_service(void *context, const pyr_view_series *series)
{
    service_list *list = context;
    uint64_t index = 0;
    size_t before = pyr_intern_count(list->names);
    pyr_status status =
        pyr_intern_add(list->names, series->service, strlen(series->service), &index);
    if (status != PYR_OK) {
        return status == PYR_ETOOBIG ? PYR_OK : status;
    }
    service_row *row = &list->rows[index];
    if (index == before) {
        *row = (service_row){series->first_ns, series->last_ns, 0};
    }
    row->first_ns = series->first_ns < row->first_ns ? series->first_ns : row->first_ns;
    row->last_ns = series->last_ns > row->last_ns ? series->last_ns : row->last_ns;
    row->series++;
    return PYR_OK;
}

void pyr_api_services(pyr_worker *worker, pyr_request *request)
{
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL) {
        return;
    }
    service_list *list = pyr_memory_new(1, sizeof *list);
    pyr_status status = list != NULL ? PYR_OK : PYR_ENOMEM;
    if (status == PYR_OK) {
        list->names = pyr_intern_new(NAMES, NAME_BYTES);
        status = list->names != NULL
                     ? pyr_view_each_series(view, NULL, 0, INT64_MAX, note_service, list)
                     : PYR_ENOMEM;
    }
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_begin(&answer, "services", '[');
    for (size_t at = 0; status == PYR_OK && at < pyr_intern_count(list->names); at++) {
        size_t length = 0;
        const char *name = pyr_intern_get(list->names, at, &length);
        pyr_answer_begin(&answer, NULL, '{');
        pyr_answer_text(&answer, "service", name, length);
        pyr_answer_big(&answer, "first_ns", list->rows[at].first_ns);
        pyr_answer_big(&answer, "last_ns", list->rows[at].last_ns);
        pyr_answer_integer(&answer, "series", list->rows[at].series);
        pyr_answer_end(&answer, '}');
    }
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    if (list != NULL) {
        pyr_intern_free(list->names);
    }
    pyr_memory_free(list);
    pyr_api_finish(request, status);
}

/* ---------------------------------------------------------------------------------- labels ---- */

typedef struct label_list {
    pyr_intern *names;
    const char *name;   /* whose values are wanted; NULL: the names */
    pyr_buffer *chosen; /* series that the question is about; int64_t */
} label_list;

static pyr_status note_text(label_list *list, const char *text, size_t length)
{
    uint64_t index = 0;
    pyr_status status = pyr_intern_add(list->names, text, length, &index);
    return status == PYR_ETOOBIG ? PYR_OK : status;
}

static pyr_status note_labels(void *context, const pyr_view_series *series)
{
    label_list *list = context;
    const char *at = series->labels;
    const char *name = NULL;
    const char *value = NULL;
    pyr_status status = PYR_OK;
    bool is_chosen = false;
    for (size_t place = 0; place < list->chosen->length && !is_chosen; place += sizeof(int64_t)) {
        is_chosen = memcmp(list->chosen->data + place, &series->id, sizeof series->id) == 0;
    }
    while (is_chosen && status == PYR_OK &&
           pyr_labels_next(&at, series->labels + series->labels_length, &name, &value)) {
        if (list->name == NULL) {
            status = note_text(list, name, strlen(name));
        } else if (strcmp(name, list->name) == 0) {
            status = note_text(list, value, strlen(value));
        }
    }
    return status;
}

/* The same of the labels of samples. */
static pyr_status note_lists(void *context, const pyr_view_row *row)
{
    label_list *list = context;
    const uint32_t *lists = (const uint32_t *)(const void *)row->block->lists.data;
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < row->block->count && status == PYR_OK; at++) {
        if (at > 0 && lists[at] == lists[at - 1]) {
            continue; /* rows stand by list */
        }
        pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
        size_t count = pyr_book_list_at(row->book, lists[at], pairs);
        for (size_t pair = 0; pair < count && status == PYR_OK; pair++) {
            size_t length = 0;
            const char *text = pyr_book_text(row->book, pairs[pair].key, &length);
            if (list->name != NULL &&
                (length != strlen(list->name) || memcmp(text, list->name, length) != 0)) {
                continue;
            }
            text = list->name != NULL ? pyr_book_text(row->book, pairs[pair].value, &length) : text;
            status = note_text(list, text, length);
        }
    }
    return status;
}

pyr_status pyr_api_each_label(pyr_view *view, const pyr_question *question, const char *name,
                              void (*visit)(void *context, const char *text, size_t length),
                              void *context)
{
    pyr_buffer ids;
    pyr_buffer open;
    size_t damaged = 0;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    label_list list = {.name = name, .chosen = &ids};
    list.names = pyr_intern_new(NAMES, NAME_BYTES);
    pyr_status status =
        list.names != NULL ? pyr_question_series(view, question, &ids, &open) : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = pyr_view_each_series(view, NULL, question->from_ns, question->until_ns,
                                      note_labels, &list);
    }
    if (status == PYR_OK && (name == NULL || pyr_intern_count(list.names) == 0)) {
        status = pyr_view_scan(view, (const int64_t *)(const void *)ids.data,
                               ids.length / sizeof(int64_t), question->from_ns, question->until_ns,
                               PYR_LEVEL_DAY, note_lists, &list, &damaged);
    }
    for (size_t at = 0; status == PYR_OK && at < pyr_intern_count(list.names); at++) {
        size_t length = 0;
        const char *text = pyr_intern_get(list.names, at, &length);
        visit(context, text, length);
    }
    pyr_intern_free(list.names);
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    return status;
}

static void write_label(void *context, const char *text, size_t length)
{
    pyr_answer_text(context, NULL, text, length);
}

void pyr_api_labels(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    const char *name = pyr_request_argument(request, "name");
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_begin(&answer, name == NULL ? "names" : "values", '[');
    pyr_status status = pyr_api_each_label(view, &question, name, write_label, &answer);
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_question_fini(&question);
    pyr_api_finish(request, status);
}

/* ------------------------------------------------------------------------------------ pins ---- */

static pyr_status write_pin(void *context, const pyr_view_pin *pin)
{
    pyr_answer *answer = context;
    pyr_answer_begin(answer, NULL, '{');
    pyr_answer_integer(answer, "pin", pin->id);
    pyr_answer_string(answer, "note", pin->note);
    pyr_answer_big(answer, "made_ns", pin->made_ns);
    pyr_answer_integer(answer, "profiles", pin->profiles);
    pyr_answer_end(answer, '}');
    return PYR_OK;
}

void pyr_api_pins(pyr_worker *worker, pyr_request *request)
{
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL) {
        return;
    }
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_begin(&answer, "pins", '[');
    pyr_status status = pyr_view_each_pin(view, write_pin, &answer);
    pyr_answer_end(&answer, ']');
    pyr_answer_end(&answer, '}');
    pyr_api_finish(request, status);
}

void pyr_api_pin(pyr_worker *worker, pyr_request *request)
{
    pyr_question question;
    pyr_buffer ids;
    pyr_buffer open;
    int64_t pin = 0;
    int64_t pinned = 0;
    const char *note = pyr_request_argument(request, "note");
    pyr_view *view = pyr_worker_view(worker, request);
    if (view == NULL || !pyr_api_question(request, "", &question)) {
        return;
    }
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&open, SIZE_MAX / 2);
    pyr_status status = pyr_question_series(view, &question, &ids, &open);
    pyr_view_end(view);
    for (size_t at = 0; at < open.length && request->code == 0; at++) {
        if (open.data[at] != 0) {
            pyr_request_refuse(request, 400,
                               "profiles are pinned whole: conditions may only name "
                               "what all of them have, such as service or version");
        }
    }
    if (status == PYR_OK && request->code == 0) {
        status = pyr_store_pin(worker->server->store, (const int64_t *)(const void *)ids.data,
                               ids.length / sizeof(int64_t), question.from_ns, question.until_ns,
                               note != NULL ? note : "", &pin, &pinned);
    }
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&open);
    pyr_question_fini(&question);
    if (status != PYR_OK || request->code != 0) {
        pyr_api_fail(request, status);
        return;
    }
    pyr_answer answer = {.out = &request->answer};
    pyr_answer_begin(&answer, NULL, '{');
    pyr_answer_integer(&answer, "pin", pin);
    pyr_answer_integer(&answer, "profiles", pinned);
    pyr_answer_end(&answer, '}');
    pyr_request_answer(request, 200, PYR_API_JSON);
}

void pyr_api_unpin(pyr_worker *worker, pyr_request *request)
{
    const char *text = pyr_request_argument(request, "pin");
    pyr_status status =
        pyr_store_unpin(worker->server->store, text != NULL ? strtoll(text, NULL, 10) : 0);
    if (status == PYR_OK) {
        (void)pyr_buffer_text(&request->answer, "{}");
        pyr_request_answer(request, 200, PYR_API_JSON);
    } else if (status == PYR_ENOENT) {
        pyr_request_refuse(request, 404, "there is no such pin");
    } else {
        pyr_api_fail(request, status);
    }
}
