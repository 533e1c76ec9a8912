/* The window's document, and status() as JSON; see the header.
 *
 * Both are the same rows of facts, as an object of sections; a document adds what the window itself
 * knows. Schema: docs/window.schema.json. Pure but for allocation; jansson allocates by itself.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"

#include "encode/encode.h"

enum { SCHEMA = 1 };

/* A number that JSON can say: it has no infinities. */
static json_t *make_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *make_value(const pyr_fact *fact)
{
    switch (fact->kind) {
    case PYR_FACT_INTEGER:
        return json_integer(fact->integer);
    case PYR_FACT_REAL:
        return make_real(fact->real);
    case PYR_FACT_TEXT:
        break;
    }
    return json_string(fact->text);
}

/* The section of that name, made where needed; borrowed, NULL: no memory. */
static json_t *get_section(json_t *root, const char *name)
{
    json_t *section = json_object_get(root, name);
    if (!section && json_object_set_new(root, name, json_object()) == 0) {
        section = json_object_get(root, name);
    }
    return section;
}

/* 0, or -1: no memory. */
static int add_facts(json_t *root, const pyr_facts *facts)
{
    int failed = 0;
    for (size_t i = 0; i < facts->count; i++) {
        const pyr_fact *fact = &facts->rows[i];
        json_t *value = make_value(fact);
        if (!value && fact->kind == PYR_FACT_TEXT) {
            value = json_string(""); /* not UTF-8: whoever added it should have repaired it */
        }
        failed |= json_object_set_new(get_section(root, fact->section), fact->key, value);
    }
    return failed;
}

static int add_window(json_t *root, const pyr_window *window)
{
    int64_t offset_ns = pyr_window_epoch_offset_ns(window);
    json_t *section = get_section(root, "window");
    json_t *losses = get_section(root, "losses");
    int failed = 0;
    failed |= json_object_set_new(section, "sequence",
                                  json_integer((json_int_t)pyr_window_sequence(window)));
    failed |= json_object_set_new(section, "start_ns",
                                  json_integer(pyr_window_start_ns(window) + offset_ns));
    failed |=
        json_object_set_new(section, "end_ns", json_integer(pyr_window_end_ns(window) + offset_ns));
    failed |= json_object_set_new(section, "samples",
                                  json_integer((json_int_t)pyr_window_samples(window)));
    for (int i = 0; i < PYR_LOSSES; i++) {
        uint64_t lost = pyr_window_lost(window, (pyr_loss)i);
        if (lost > 0) {
            failed |= json_object_set_new(losses, pyr_loss_id((pyr_loss)i),
                                          json_integer((json_int_t)lost));
        }
    }
    return failed;
}

/* A text of a leak site may be cut in the middle of a character. */
static json_t *make_text(const char *text)
{
    char repaired[PYR_LIMIT_LEAK_TEXT + 8];
    pyr_utf8_repair(text, strlen(text), repaired, sizeof repaired);
    return json_string(repaired);
}

static int add_leak_site(json_t *sites, const pyr_leak_site *leak)
{
    json_t *site = json_object();
    json_t *ages = json_array();
    int failed = 0;
    for (size_t age = 0; age < PYR_LEAK_AGES; age++) {
        failed |= json_array_append_new(ages, make_real(leak->live_by_age[age]));
    }
    failed |= json_object_set_new(site, "function", make_text(leak->function));
    failed |= json_object_set_new(site, "file", make_text(leak->file));
    failed |= json_object_set_new(site, "line", json_integer((json_int_t)leak->line));
    failed |= json_object_set_new(site, "caller", make_text(leak->caller));
    failed |= json_object_set_new(site, "live_bytes", make_real(leak->live_bytes));
    failed |= json_object_set_new(site, "standard_error", make_real(leak->standard_error));
    failed |= json_object_set_new(site, "live_bytes_by_age", ages);
    failed |= json_object_set_new(site, "growth_bytes_per_s", make_real(leak->growth));
    failed |= json_object_set_new(site, "growth_standard_error", make_real(leak->growth_error));
    failed |= json_object_set_new(site, "confidence", make_real(leak->confidence));
    failed |= json_object_set_new(site, "windows", json_integer((json_int_t)leak->windows));
    failed |= json_object_set_new(site, "suspect", json_boolean(leak->is_suspect));
    return failed | json_array_append_new(sites, site);
}

/* 0, or -1: no memory. Absent where nothing is known. */
static int add_leaks(json_t *root, const pyr_facts *facts)
{
    json_t *sites = facts->leak_count > 0 ? json_array() : NULL;
    int failed = facts->leak_count > 0 ? json_object_set_new(root, "leak_sites", sites) : 0;
    for (size_t i = 0; i < facts->leak_count && !failed; i++) {
        failed = add_leak_site(sites, &facts->leaks[i]);
    }
    return failed;
}

/* 0, or -1: no memory. Absent where the program says nothing of requests. */
static int add_requests(json_t *root, const pyr_facts *facts)
{
    int failed = 0;
    for (size_t i = 0; i < facts->request_count; i++) {
        failed |= json_object_set_new(get_section(root, "requests"), facts->requests[i].endpoint,
                                      json_integer((json_int_t)facts->requests[i].count));
    }
    return failed;
}

static int append(const char *text, size_t length, void *buffer)
{
    return pyr_buffer_append(buffer, text, length) == PYR_OK ? 0 : -1;
}

static pyr_status write_json(const json_t *root, pyr_buffer *out)
{
    if (json_dump_callback(root, append, out, JSON_INDENT(1)) != 0) {
        return out->status != PYR_OK ? out->status : PYR_ENOMEM;
    }
    return pyr_buffer_append(out, "\n", 1);
}

pyr_status pyr_encode_document(const pyr_window *window, const pyr_facts *facts, pyr_buffer *out)
{
    static const char *const sections[] = {"identity", "window", "tick",    "losses",
                                           "cost",     "memory", "settings"};
    pyr_status status = PYR_ENOMEM;
    json_t *root = json_object();
    int failed = json_object_set_new(root, "schema", json_integer(SCHEMA));
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        failed |= get_section(root, sections[i]) == NULL;
    }
    failed |= add_facts(root, facts) | add_leaks(root, facts) | add_requests(root, facts) |
              add_window(root, window);
    if (!failed) {
        status = write_json(root, out);
    }
    json_decref(root);
    return status;
}

pyr_status pyr_encode_facts(const pyr_facts *facts, pyr_buffer *out)
{
    pyr_status status = PYR_ENOMEM;
    json_t *root = json_object();
    if (root && add_facts(root, facts) == 0 && add_leaks(root, facts) == 0) {
        status = write_json(root, out);
    }
    json_decref(root);
    return status;
}
