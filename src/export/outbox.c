/* The outbox; see the header.
 *
 *     send   nothing waits: try the fresh request; done
 *            else keep it on disk, then send from disk, oldest first, until all is out
 *            a failure: wait a little and try again, at most TRIES times a call; but a receiver
 *            that failed in the call before is tried once only, until it answers again
 *
 * On disk, a request is its header lines, an empty line, and its body; secrets are not among them.
 * Owns its texts and the spool's handle. It must never wait longer than its deadline, nor than the
 * nearer one that comes when the program ends: what is under way then goes to disk.
 */
#include "export/outbox.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "export/http.h"
#include "export/spool.h"
#include "os/os.h"

enum {
    TRIES = 3,       /* a call */
    WHY_BYTES = 400, /* as much as delivery shows */
    HEADERS_BYTES = 1 << 16,
    PATH_BYTES = PYR_LIMIT_URL_BYTES + 64,
    FILE_BYTES = 4096,
};

static const int64_t FIRST_WAIT_NS = 1000000000;
static const int64_t SLICE_NS = 50000000; /* how soon a nearer deadline is noticed */

struct pyr_outbox {
    pyr_address address;
    char url[PATH_BYTES];
    char ca_file[FILE_BYTES], proxy[PYR_LIMIT_URL_BYTES];
    pyr_buffer more_headers; /* secret ones and the user's, a NUL at its end */
    int64_t timeout_ns;
    const _Atomic int64_t *hurry_ns;
    pyr_spool *spool; /* NULL: nothing is kept on disk */
    bool failing;     /* the last try of the last call failed */
    uint64_t random;
    _Atomic uint64_t sent, failures, kept, refused, given_up;
};

/* A try: what came of it, and when to come back. */
typedef struct attempt {
    pyr_status status; /* OK, EREFUSED, EIO (try again) */
    bool is_answered;  /* the receiver is there, whatever it said */
    int64_t retry_after_s;
    char *why;
    size_t why_size;
} attempt;

/* The request of this call. */
typedef struct fresh_request {
    int64_t time_ns;
    const char *headers;
    const pyr_buffer *body;
    char name[PYR_SPOOL_NAME_BYTES]; /* on disk; "" = it is not there */
    bool is_refused;
} fresh_request;

/* ---------------------------------------------------------------------------------- waiting */

static int64_t get_deadline(const pyr_outbox *outbox, int64_t deadline_ns)
{
    int64_t hurry_ns = outbox->hurry_ns != NULL ? atomic_load(outbox->hurry_ns) : INT64_MAX;
    return hurry_ns < deadline_ns ? hurry_ns : deadline_ns;
}

static bool is_late(const pyr_outbox *outbox, int64_t deadline_ns)
{
    return pyr_clock_monotonic_ns() >= get_deadline(outbox, deadline_ns);
}

/* Sleeps before try number `tries` + 1: longer each time, and of random length, so that a fleet
 * does not come back all at once. False: there is no time for it. */
static bool wait_a_little(pyr_outbox *outbox, unsigned tries, int64_t retry_after_s,
                          int64_t deadline_ns)
{
    int64_t most_ns = FIRST_WAIT_NS << (tries - 1);
    outbox->random = pyr_hash_u64(outbox->random, tries);
    int64_t wait_ns = most_ns / 2 + (int64_t)(outbox->random % (uint64_t)(most_ns / 2));
    if (retry_after_s > 0 && retry_after_s < INT64_MAX / 1000000000) {
        wait_ns = retry_after_s * 1000000000;
    }
    int64_t now_ns = pyr_clock_monotonic_ns();
    if (wait_ns > deadline_ns - now_ns) {
        return false;
    }
    int64_t until_ns = now_ns + wait_ns;
    while (now_ns < until_ns && !is_late(outbox, deadline_ns)) {
        _Atomic uint32_t nobody_changes_it = 0;
        int64_t slice_ns = until_ns - now_ns < SLICE_NS ? until_ns : now_ns + SLICE_NS;
        pyr_os_futex_wait(&nobody_changes_it, 0, slice_ns);
        now_ns = pyr_clock_monotonic_ns();
    }
    return !is_late(outbox, deadline_ns);
}

/* ------------------------------------------------------------------------------------- tries */

static bool is_retried(int code)
{
    return code / 100 == 3 || code == 408 || code == 429 || code >= 500;
}

/* What an engineer can do about an answer. */
static const char *get_advice(int code)
{
    switch (code) {
    case 401:
    case 403:
        return "; check the API key and the address";
    case 404:
    case 405:
        return "; nothing takes profiles at this address: check it";
    case 413:
        return "; the profile is too large for it: shorten PYROMETER_UPLOAD_INTERVAL";
    default:
        return code / 100 == 3 ? "; redirections are not followed: set the address itself" : "";
    }
}

/* Where it goes, as a user knows it. */
static const char *get_place(const pyr_outbox *outbox)
{
    return outbox->address.socket[0] != '\0' ? outbox->address.socket : outbox->address.base;
}

static pyr_http_request make_request(const pyr_outbox *outbox, const char *url, int64_t timeout_ns,
                                     int64_t deadline_ns)
{
    int64_t own_ns = pyr_clock_monotonic_ns() + timeout_ns;
    return (pyr_http_request){
        .url = url,
        .socket_path = outbox->address.socket[0] != '\0' ? outbox->address.socket : NULL,
        .proxy = outbox->proxy,
        .ca_file = outbox->ca_file,
        .more_headers = (const char *)outbox->more_headers.data,
        .deadline_ns = own_ns < deadline_ns ? own_ns : deadline_ns,
        .hurry_ns = outbox->hurry_ns,
    };
}

static void try_once(pyr_outbox *outbox, const char *headers, const void *body, size_t length,
                     int64_t deadline_ns, attempt *result)
{
    pyr_http_answer answer;
    pyr_http_request request = make_request(outbox, outbox->url, outbox->timeout_ns, deadline_ns);
    request.headers = headers;
    request.body = body;
    request.body_length = length;
    pyr_status status = pyr_http_send(&request, &answer);
    result->retry_after_s = answer.retry_after_s;
    result->is_answered = status == PYR_OK;
    if (status == PYR_OK && answer.code / 100 == 2) {
        result->status = PYR_OK;
        atomic_fetch_add(&outbox->sent, 1);
        return;
    }
    if (status == PYR_OK) {
        snprintf(result->why, result->why_size, "%s says %d %s%s", get_place(outbox), answer.code,
                 answer.text, get_advice(answer.code));
    } else {
        snprintf(result->why, result->why_size, "%s: %s", get_place(outbox),
                 answer.text[0] != '\0' ? answer.text : pyr_status_text(status));
    }
    bool is_refused = status == PYR_OK && !is_retried(answer.code);
    result->status = is_refused ? PYR_EREFUSED : PYR_EIO;
    atomic_fetch_add(is_refused ? &outbox->refused : &outbox->failures, 1);
}

/* Sends one request from disk. The header lines end at the first empty line. */
static void send_entry(pyr_outbox *outbox, pyr_spool_entry *entry, int64_t deadline_ns,
                       attempt *result)
{
    pyr_buffer *content = &entry->content;
    uint8_t *end = content->data != NULL
                       ? memmem(content->data, content->length, "\n\n", strlen("\n\n"))
                       : NULL;
    if (end == NULL || memchr(content->data, '\0', (size_t)(end - content->data)) != NULL) {
        snprintf(result->why, result->why_size, "a kept request is damaged");
        result->status = PYR_EREFUSED;
        atomic_fetch_add(&outbox->refused, 1);
        return;
    }
    end[1] = '\0';
    const uint8_t *body = end + 2;
    try_once(outbox, (const char *)content->data, body,
             content->length - (size_t)(body - content->data), deadline_ns, result);
}

/* Sends what waits on disk, from the oldest on, until all is out (PYR_OK), a try fails (EIO, `last`
 * is its name), or time is up (EBUSY). What is refused is removed; if that is the fresh one, the
 * result says so. With `skip` a failure that was an answer is left for another day. */
static pyr_status drain(pyr_outbox *outbox, fresh_request *fresh, bool skip, int64_t deadline_ns,
                        char last[PYR_SPOOL_NAME_BYTES], attempt *result)
{
    pyr_spool_entry entry = {0};
    for (;;) {
        if (is_late(outbox, deadline_ns)) {
            return PYR_EBUSY;
        }
        if (pyr_spool_next(outbox->spool, &entry) != PYR_OK) {
            return PYR_OK;
        }
        send_entry(outbox, &entry, deadline_ns, result);
        pyr_spool_end(outbox->spool, &entry, result->status != PYR_EIO);
        fresh->is_refused |= result->status == PYR_EREFUSED && strcmp(entry.name, fresh->name) == 0;
        if (result->status == PYR_EIO && !(skip && result->is_answered)) {
            memcpy(last, entry.name, sizeof entry.name);
            return PYR_EIO;
        }
    }
}

/* ---------------------------------------------------------------------------------- sending */

static bool has_backlog(const pyr_outbox *outbox)
{
    pyr_spool_entry entry = {0};
    if (outbox->spool == NULL || pyr_spool_next(outbox->spool, &entry) != PYR_OK) {
        return false;
    }
    pyr_spool_end(outbox->spool, &entry, 0);
    return true;
}

/* Keeps the request on disk, which gives it a name. Where there is no spool, nothing happens. */
static pyr_status keep(pyr_outbox *outbox, fresh_request *fresh)
{
    if (outbox->spool == NULL) {
        return PYR_OK;
    }
    pyr_buffer head;
    pyr_buffer_init(&head, HEADERS_BYTES);
    pyr_buffer_text(&head, fresh->headers);
    pyr_status status = pyr_buffer_text(&head, "\n");
    if (status == PYR_OK) {
        status = pyr_spool_add(outbox->spool, fresh->time_ns, head.data, head.length,
                               fresh->body->data, fresh->body->length, fresh->name);
    }
    pyr_buffer_fini(&head);
    if (status == PYR_OK) {
        atomic_fetch_add(&outbox->kept, 1);
        atomic_fetch_add(&outbox->given_up, pyr_spool_prune(outbox->spool));
    } else {
        fresh->name[0] = '\0';
    }
    return status;
}

static pyr_status try_fresh(pyr_outbox *outbox, const fresh_request *fresh, int64_t deadline_ns,
                            attempt *result)
{
    try_once(outbox, fresh->headers, fresh->body->data, fresh->body->length, deadline_ns, result);
    return result->status;
}

/* One round: all that is kept, then the fresh request unless it is among that. */
static pyr_status send_all(pyr_outbox *outbox, fresh_request *fresh, int64_t deadline_ns,
                           attempt *result)
{
    char last[PYR_SPOOL_NAME_BYTES] = "";
    if (outbox->spool == NULL) {
        return try_fresh(outbox, fresh, deadline_ns, result);
    }
    pyr_status status = drain(outbox, fresh, false, deadline_ns, last, result);
    /* An answer that says no: is it the receiver, or that one request, which would then keep all
     * others waiting until it is too old? The fresh one tells. */
    bool in_doubt = status == PYR_EIO && result->is_answered && strcmp(last, fresh->name) != 0;
    if ((status == PYR_OK && fresh->name[0] == '\0') || in_doubt) {
        status = try_fresh(outbox, fresh, deadline_ns, result);
        if (status != PYR_EIO && fresh->name[0] != '\0') {
            pyr_spool_forget(outbox->spool, fresh->name);
        }
        if (status == PYR_OK && in_doubt) {
            status = drain(outbox, fresh, true, deadline_ns, last, result);
        }
    }
    return status;
}

pyr_status pyr_outbox_send(pyr_outbox *outbox, int64_t time_ns, const char *headers,
                           const pyr_buffer *body, int64_t deadline_ns, char *why, size_t why_size)
{
    fresh_request fresh = {.time_ns = time_ns, .headers = headers, .body = body};
    attempt result = {.why = why, .why_size = why_size};
    unsigned most = outbox->failing ? 1 : TRIES;
    unsigned tries = 0;
    pyr_status status = PYR_EBUSY;
    pyr_status kept = PYR_OK;
    why[0] = '\0';
    if (!has_backlog(outbox) && !is_late(outbox, deadline_ns)) {
        status = try_fresh(outbox, &fresh, deadline_ns, &result);
        tries++;
    }
    if (status != PYR_OK && status != PYR_EREFUSED) {
        kept = keep(outbox, &fresh);
        while (status != PYR_OK && status != PYR_EREFUSED && tries < most &&
               (tries == 0 || wait_a_little(outbox, tries, result.retry_after_s, deadline_ns))) {
            status = send_all(outbox, &fresh, deadline_ns, &result);
            tries++;
        }
    }
    outbox->failing = status == PYR_EIO; /* who only had no time may try as often next time */
    if (status == PYR_OK || status == PYR_EREFUSED) {
        return fresh.is_refused ? PYR_EREFUSED : status;
    }
    if (why[0] == '\0') {
        snprintf(why, why_size, "%s: no time was left", get_place(outbox));
    }
    if (kept != PYR_OK) {
        size_t used = strlen(why);
        snprintf(why + used, why_size - used, "; the spool %s cannot be written (%s)",
                 pyr_spool_folder(outbox->spool), pyr_status_text(kept));
    }
    return fresh.name[0] != '\0' ? PYR_EKEPT : PYR_EIO;
}

pyr_status pyr_outbox_ask(pyr_outbox *outbox, const char *path, int64_t timeout_ns,
                          int64_t deadline_ns, bool *is_pyrometer)
{
    char url[PATH_BYTES];
    pyr_http_answer answer;
    snprintf(url, sizeof url, "%s%s", outbox->address.base, path);
    const pyr_http_request request = make_request(outbox, url, timeout_ns, deadline_ns);
    pyr_status status = pyr_http_send(&request, &answer);
    *is_pyrometer = status == PYR_OK && answer.is_pyrometer && answer.code / 100 == 2;
    return status;
}

/* ------------------------------------------------------------------------------- interface */

static void set_text(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text != NULL ? text : "");
}

/* Another one of these would have the receiver read another body than the one that is sent. */
static bool says_what_the_body_is(const char *name, size_t length)
{
    static const char *const names[] = {"content-length", "content-type", "content-encoding",
                                        "transfer-encoding"};
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        if (strlen(names[index]) == length && strncasecmp(names[index], name, length) == 0) {
            pyr_log_add(PYR_LOG_WARNING,
                        "HTTP_HEADERS: %s is left out: it is the profiler's to say", names[index]);
            return true;
        }
    }
    return false;
}

/* Header lines of "name:value,name:value"; what has no name or no value is left out. */
static void add_user_headers(pyr_buffer *out, const char *list)
{
    while (list != NULL && *list != '\0') {
        list += strspn(list, " ");
        int length = (int)strcspn(list, ",");
        int name = (int)strcspn(list, ":,");
        const char *value = list + name + 1;
        if (name > 0 && name + 1 < length && strcspn(list, "\r\n") >= (size_t)length &&
            !says_what_the_body_is(list, (size_t)name)) {
            pyr_buffer_format(out, "%.*s: %.*s\n", name, list, length - name - 1, value);
        }
        list += length + (list[length] == ',' ? 1 : 0);
    }
}

pyr_outbox *pyr_outbox_new(const pyr_address *address, const char *path, const char *secret_headers,
                           bool may_proxy, const pyr_exporter_options *options)
{
    pyr_outbox *outbox = pyr_memory_new(1, sizeof *outbox);
    if (outbox == NULL) {
        return NULL;
    }
    outbox->address = *address;
    snprintf(outbox->url, sizeof outbox->url, "%s%s", address->base, path);
    set_text(outbox->ca_file, sizeof outbox->ca_file, options->ca_file);
    set_text(outbox->proxy, sizeof outbox->proxy, may_proxy ? options->https_proxy : NULL);
    outbox->timeout_ns = options->timeout_ns;
    outbox->hurry_ns = options->hurry_ns;
    outbox->random = pyr_hash_seed();
    pyr_buffer_init(&outbox->more_headers, HEADERS_BYTES);
    pyr_buffer_text(&outbox->more_headers, secret_headers);
    add_user_headers(&outbox->more_headers, options->http_headers);
    pyr_status status = pyr_buffer_append(&outbox->more_headers, "", 1);
    if (status == PYR_OK && options->spool_max_bytes > 0 && options->spool_folder != NULL) {
        char target[2 * PYR_LIMIT_URL_BYTES + PATH_BYTES];
        snprintf(target, sizeof target, "%s %s", outbox->address.socket, outbox->url);
        outbox->spool = pyr_spool_new(options->spool_folder, target, options->spool_max_bytes,
                                      options->spool_max_age_ns);
        status = outbox->spool != NULL ? PYR_OK : PYR_ENOMEM;
    }
    if (status != PYR_OK) {
        pyr_outbox_free(outbox);
        return NULL;
    }
    return outbox;
}

void pyr_outbox_free(pyr_outbox *outbox)
{
    if (outbox != NULL) {
        pyr_buffer_fini(&outbox->more_headers);
        pyr_spool_free(outbox->spool);
        pyr_memory_free(outbox);
    }
}

void pyr_outbox_facts(const pyr_outbox *outbox, pyr_facts *facts)
{
    const struct {
        const char *key;
        const _Atomic uint64_t *value;
    } rows[] = {
        {"sent", &outbox->sent},       {"failures", &outbox->failures}, {"kept", &outbox->kept},
        {"refused", &outbox->refused}, {"given_up", &outbox->given_up},
    };
    for (size_t index = 0; index < sizeof rows / sizeof rows[0]; index++) {
        const pyr_fact *before = pyr_facts_find(facts, "sending", rows[index].key);
        int64_t value = (int64_t)atomic_load(rows[index].value);
        if (before == NULL) { /* of several receivers, the first: the rest is in the log */
            pyr_facts_add_integer(facts, "sending", rows[index].key, value);
        }
    }
}
