/* Delivery of windows; see the header.
 *
 * Owns the open exporters and, for each, a short queue of encoded windows; targets of one
 * compression share the bytes. Runs on the scheduler's thread, without the GIL. It must never wait
 * for longer than its deadline.
 *
 * A target whose exporter turns out to be of no use in this process (no libcurl) goes on with the
 * one of last resort. Other threads may be describing it at that moment, so both stay open until
 * the end, and which one counts is one atomic number.
 */
#include "session/delivery.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "export/recompress.h"

enum { TARGETS = 8, WHY_BYTES = 400, DOCUMENT_BYTES = 1 << 22 };

typedef struct parcel { /* an encoded window, shared by targets */
    unsigned references;
    pyr_buffer profile, document;
    pyr_facts facts;
    pyr_export_job job; /* points into the above */
} parcel;

typedef enum trouble { GOOD, FAILING, KEEPING, REFUSED } trouble;

typedef struct opened {
    const pyr_exporter_class *class;
    void *exporter;
} opened;

typedef struct target {
    opened exporters[2];   /* the first one, and the one of last resort after it */
    atomic_size_t current; /* of those; 2 = off, another target does as much */
    parcel *queue[PYR_LIMIT_PENDING_WINDOWS]; /* oldest first */
    size_t waiting;
    trouble trouble; /* of which the log says so */
} target;

enum { OFF = 2 };

struct pyr_delivery {
    pyr_encode_options encoding;
    pyr_exporter_options options; /* for the one of last resort: only its own texts */
    char *output_prefix;          /* its, NULL = default */
    pyr_sink losses;
    _Atomic int64_t hurry_ns;
    size_t target_count;
    target targets[TARGETS];
    /* For facts, which other threads read. */
    _Atomic uint64_t sent, bytes, failures, dropped, waiting;
};

/* The exporter in use; NULL: the target is off. Any thread. */
static const opened *get_opened(const target *to)
{
    size_t current = atomic_load(&to->current);
    return current < OFF ? &to->exporters[current] : NULL;
}

/* --------------------------------------------------------------------------------- parcels */

static void release(parcel *item)
{
    if (item != NULL && --item->references == 0) {
        pyr_buffer_fini(&item->profile);
        pyr_buffer_fini(&item->document);
        pyr_memory_free(item);
    }
}

/* NULL: the window could not be encoded, and the log says why. */
static parcel *encode(const pyr_delivery *delivery, pyr_pprof_compression compression,
                      const pyr_window *window, const pyr_facts *facts, int64_t pid)
{
    pyr_status status = PYR_ENOMEM;
    parcel *item = pyr_memory_new(1, sizeof *item);
    if (item == NULL) {
        goto out;
    }
    item->references = 1;
    pyr_buffer_init(&item->profile, PYR_LIMIT_PPROF_BYTES);
    pyr_buffer_init(&item->document, DOCUMENT_BYTES);
    pyr_encode_options encoding = delivery->encoding;
    encoding.compression = compression;
    status = pyr_encode_pprof(window, &encoding, &item->profile);
    if (status == PYR_OK) {
        status = pyr_encode_document(window, facts, &item->document);
    }
    item->facts = *facts;
    for (int loss = 0; loss < PYR_LOSSES; loss++) {
        uint64_t lost = pyr_window_lost(window, (pyr_loss)loss);
        if (lost > 0) {
            pyr_facts_add_integer(&item->facts, "losses", pyr_loss_id((pyr_loss)loss),
                                  (int64_t)lost);
        }
    }
    int64_t offset_ns = pyr_window_epoch_offset_ns(window);
    item->job = (pyr_export_job){
        .profile = item->profile.data,
        .profile_length = item->profile.length,
        .document = item->document.data,
        .document_length = item->document.length,
        .facts = &item->facts,
        .samples = pyr_window_samples(window),
        .start_ns = pyr_window_start_ns(window) + offset_ns,
        .end_ns = pyr_window_end_ns(window) + offset_ns,
        .pid = pid,
        .sequence = pyr_window_sequence(window),
    };
out:
    if (status != PYR_OK) {
        pyr_log_add(PYR_LOG_WARNING, "a window was lost, it could not be encoded: %s",
                    pyr_status_text(status));
        release(item);
        return NULL;
    }
    return item;
}

/* The same window, compressed otherwise. NULL: no memory. */
static parcel *recompress(const parcel *item, pyr_pprof_compression compression)
{
    parcel *made = pyr_memory_new(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    made->references = 1;
    made->facts = item->facts;
    made->job = item->job;
    pyr_buffer_init(&made->profile, PYR_LIMIT_PPROF_BYTES);
    pyr_buffer_init(&made->document, DOCUMENT_BYTES);
    pyr_status status = pyr_recompress(item->profile.data, item->profile.length,
                                       PYR_LIMIT_PPROF_BYTES, compression, &made->profile);
    if (status == PYR_OK) {
        status = pyr_buffer_append(&made->document, item->document.data, item->document.length);
    }
    if (status != PYR_OK) {
        release(made);
        return NULL;
    }
    made->job.profile = made->profile.data;
    made->job.profile_length = made->profile.length;
    made->job.document = made->document.data;
    made->job.facts = &made->facts;
    return made;
}

/* --------------------------------------------------------------------------------- targets */

static void shift(target *to)
{
    release(to->queue[0]);
    to->waiting--;
    memmove(&to->queue[0], &to->queue[1], to->waiting * sizeof to->queue[0]);
}

static void drop_window(pyr_delivery *delivery)
{
    atomic_fetch_add(&delivery->dropped, 1);
    delivery->losses.lose(delivery->losses.context, PYR_LOSS_WINDOW_DROPPED, 1);
}

static void enqueue(pyr_delivery *delivery, target *to, parcel *item)
{
    if (to->waiting == PYR_LIMIT_PENDING_WINDOWS) {
        shift(to);
        drop_window(delivery);
    }
    item->references++;
    to->queue[to->waiting++] = item;
}

/* One line when a trouble begins, however long it lasts, and one when all is good again. */
static void say_trouble(target *to, const pyr_exporter_class *class, trouble now, const char *why)
{
    trouble before = to->trouble;
    to->trouble = now;
    if (now == before) {
        return;
    }
    switch (now) {
    case GOOD:
        pyr_log_add(PYR_LOG_WARNING, "profiles are delivered again (%s)", class->name);
        break;
    case FAILING:
        pyr_log_add(PYR_LOG_WARNING, "profiles cannot be delivered (%s): %s; the last %d are kept",
                    class->name, why, PYR_LIMIT_PENDING_WINDOWS);
        break;
    case KEEPING:
        pyr_log_add(PYR_LOG_WARNING,
                    "profiles cannot be delivered (%s): %s; they wait on disk and are sent later",
                    class->name, why);
        break;
    case REFUSED:
        pyr_log_add(PYR_LOG_WARNING, "profiles are refused and lost (%s): %s", class->name, why);
        break;
    }
}

/* Another target of that class is in use. */
static bool has_class(const pyr_delivery *delivery, const pyr_exporter_class *class)
{
    for (size_t index = 0; index < delivery->target_count; index++) {
        const opened *one = get_opened(&delivery->targets[index]);
        if (one != NULL && one->class == class) {
            return true;
        }
    }
    return false;
}

/* Lets the exporter of last resort do the target's work, with all that waits. */
static void replace(pyr_delivery *delivery, target *to, const char *why)
{
    const pyr_exporter_class *class = NULL;
    char problem[WHY_BYTES] = "";
    for (size_t row = 0; pyr_exporter_classes[row] != NULL && class == NULL; row++) {
        class = pyr_exporter_classes[row]->is_last_resort ? pyr_exporter_classes[row] : NULL;
    }
    opened *next = &to->exporters[1];
    if (class == NULL || has_class(delivery, class) || next->class != NULL ||
        class->open(&delivery->options, &next->exporter, problem, sizeof problem) != PYR_OK) {
        pyr_log_add(PYR_LOG_WARNING, "profiles are not sent: %s", why);
        while (to->waiting > 0) {
            shift(to);
        }
        atomic_store(&to->current, OFF);
        return;
    }
    next->class = class;
    for (size_t index = 0; index < to->waiting; index++) {
        parcel *other = recompress(to->queue[index], class->compression);
        if (other != NULL) {
            release(to->queue[index]);
            to->queue[index] = other;
        }
    }
    atomic_store(&to->current, 1);
    char place[WHY_BYTES];
    class->describe(next->exporter, place, sizeof place);
    pyr_log_add(PYR_LOG_WARNING, "profiles go to %s instead: %s", place, why);
}

static void send_target(pyr_delivery *delivery, target *to, int64_t deadline_ns)
{
    while (to->waiting > 0) {
        char why[WHY_BYTES] = "";
        const opened *now = get_opened(to);
        const pyr_export_job *job = &to->queue[0]->job;
        pyr_status status = now->class->send(now->exporter, job, deadline_ns, why, sizeof why);
        if (status == PYR_ENOTSUP) {
            replace(delivery, to, why);
            continue;
        }
        if (status != PYR_OK) {
            atomic_fetch_add(&delivery->failures, 1);
        }
        if (status != PYR_OK && status != PYR_EKEPT && status != PYR_EREFUSED) {
            say_trouble(to, now->class, FAILING, why[0] != '\0' ? why : pyr_status_text(status));
            return;
        }
        say_trouble(to, now->class,
                    status == PYR_OK      ? GOOD
                    : status == PYR_EKEPT ? KEEPING
                                          : REFUSED,
                    why);
        if (status == PYR_EREFUSED) {
            drop_window(delivery);
        } else {
            atomic_fetch_add(&delivery->sent, status == PYR_OK);
            atomic_fetch_add(&delivery->bytes, job->profile_length + job->document_length);
        }
        shift(to);
    }
}

/* ------------------------------------------------------------------------------- interface */

/* Opens the class at one place; what cannot be opened is a line in the log. */
static void open_target(pyr_delivery *delivery, const pyr_exporter_class *class,
                        const pyr_exporter_options *options, char *why, size_t why_size)
{
    target *to = &delivery->targets[delivery->target_count];
    opened *one = &to->exporters[0];
    why[0] = '\0';
    if (class->open(options, &one->exporter, why, why_size) != PYR_OK) {
        if (!class->is_last_resort || delivery->target_count > 0) {
            pyr_log_add(PYR_LOG_WARNING, "profiles will not go to %s: %s", class->name, why);
        } /* else nothing works, and the caller says why */
        return;
    }
    one->class = class;
    delivery->target_count++;
    if (why[0] != '\0') {
        say_trouble(to, class, FAILING, why);
    }
}

/* Keeps the options that an exporter of last resort needs later. */
static pyr_status keep_options(pyr_delivery *delivery, const pyr_exporter_options *options)
{
    delivery->options = (pyr_exporter_options){
        .output_max_bytes = options->output_max_bytes,
        .output_max_age_s = options->output_max_age_s,
    };
    if (options->output_prefix == NULL) {
        return PYR_OK;
    }
    size_t size = strlen(options->output_prefix) + 1;
    delivery->output_prefix = pyr_memory_new(size, 1);
    if (delivery->output_prefix == NULL) {
        return PYR_ENOMEM;
    }
    memcpy(delivery->output_prefix, options->output_prefix, size);
    delivery->options.output_prefix = delivery->output_prefix;
    return PYR_OK;
}

pyr_status pyr_delivery_open(const pyr_exporter_options *options,
                             const pyr_encode_options *encoding, pyr_sink losses,
                             pyr_delivery **delivery, char *why, size_t why_size)
{
    pyr_delivery *made = pyr_memory_new(1, sizeof *made);
    if (made == NULL || keep_options(made, options) != PYR_OK) {
        pyr_memory_free(made);
        snprintf(why, why_size, "out of memory");
        return PYR_ENOMEM;
    }
    made->encoding = *encoding;
    made->losses = losses;
    atomic_store(&made->hurry_ns, INT64_MAX);
    for (size_t row = 0; pyr_exporter_classes[row] != NULL; row++) {
        const pyr_exporter_class *class = pyr_exporter_classes[row];
        pyr_exporter_options here = *options;
        pyr_export_places places = {.count = 1};
        here.hurry_ns = &made->hurry_ns;
        here.targets_open = made->target_count;
        if (class->places != NULL) {
            class->places(&here, &places);
        }
        for (size_t index = 0; index < places.count && made->target_count < TARGETS; index++) {
            here.place = places.texts[index];
            here.targets_open = made->target_count;
            open_target(made, class, &here, why, why_size);
        }
    }
    if (made->target_count == 0) {
        pyr_delivery_close(made);
        return PYR_ENOENT;
    }
    *delivery = made;
    return PYR_OK;
}

void pyr_delivery_close(pyr_delivery *delivery)
{
    for (size_t index = 0; delivery != NULL && index < delivery->target_count; index++) {
        target *to = &delivery->targets[index];
        while (to->waiting > 0) {
            shift(to);
        }
        for (size_t place = 0; place < 2; place++) {
            if (to->exporters[place].class != NULL) {
                to->exporters[place].class->close(to->exporters[place].exporter);
            }
        }
    }
    if (delivery != NULL) {
        pyr_memory_free(delivery->output_prefix);
    }
    pyr_memory_free(delivery);
}

void pyr_delivery_add(pyr_delivery *delivery, const pyr_window *window, const pyr_facts *facts,
                      int64_t pid)
{
    if (pyr_window_samples(window) == 0) {
        return;
    }
    bool done[TARGETS] = {false};
    parcel *encoded = NULL; /* the window is encoded once, and compressed for each kind */
    for (size_t first = 0; first < delivery->target_count; first++) {
        const opened *one = get_opened(&delivery->targets[first]);
        if (done[first] || one == NULL) {
            continue;
        }
        pyr_pprof_compression compression = one->class->compression;
        parcel *item = encoded == NULL ? encode(delivery, compression, window, facts, pid)
                                       : recompress(encoded, compression);
        for (size_t index = first; index < delivery->target_count; index++) {
            target *to = &delivery->targets[index];
            one = get_opened(to);
            if (one != NULL && one->class->compression == compression) {
                done[index] = true;
                if (item != NULL) {
                    enqueue(delivery, to, item);
                } else {
                    drop_window(delivery);
                }
            }
        }
        if (encoded == NULL) {
            encoded = item;
        } else {
            release(item);
        }
    }
    release(encoded);
}

void pyr_delivery_send(pyr_delivery *delivery, int64_t deadline_ns)
{
    uint64_t waiting = 0;
    /* From the last on: files, which take no time, before receivers that may hang. */
    for (size_t index = delivery->target_count; index-- > 0;) {
        int64_t now_ns = pyr_clock_monotonic_ns();
        int64_t share_ns = (deadline_ns - now_ns) / (int64_t)(index + 1);
        send_target(delivery, &delivery->targets[index], now_ns + share_ns);
        /* What an exporter keeps on disk is safe, but nobody has it. */
        waiting += delivery->targets[index].waiting + (delivery->targets[index].trouble == KEEPING);
    }
    atomic_store(&delivery->waiting, waiting);
}

void pyr_delivery_hurry(pyr_delivery *delivery, int64_t deadline_ns)
{
    int64_t before_ns = atomic_load(&delivery->hurry_ns);
    while (deadline_ns < before_ns &&
           !atomic_compare_exchange_weak(&delivery->hurry_ns, &before_ns, deadline_ns)) {
    }
}

uint64_t pyr_delivery_waiting(const pyr_delivery *delivery)
{
    return atomic_load(&delivery->waiting);
}

void pyr_delivery_facts(const pyr_delivery *delivery, pyr_facts *facts)
{
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"windows", atomic_load(&delivery->sent)},
        {"bytes", atomic_load(&delivery->bytes)},
        {"failures", atomic_load(&delivery->failures)},
        {"dropped", atomic_load(&delivery->dropped)},
        {"waiting", atomic_load(&delivery->waiting)},
    };
    for (size_t index = 0; index < sizeof rows / sizeof rows[0]; index++) {
        pyr_facts_add_integer(facts, "delivery", rows[index].key, (int64_t)rows[index].value);
    }
    for (size_t index = 0; index < delivery->target_count; index++) {
        const opened *one = get_opened(&delivery->targets[index]);
        if (one != NULL && one->class->facts != NULL) {
            one->class->facts(one->exporter, facts);
        }
    }
}

void pyr_delivery_describe(const pyr_delivery *delivery, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t index = 0; index < delivery->target_count && used + 2 < size; index++) {
        const opened *one = get_opened(&delivery->targets[index]);
        if (one == NULL) {
            continue;
        }
        if (used > 0) {
            used += (size_t)snprintf(text + used, size - used, ", ");
        }
        one->class->describe(one->exporter, text + used, size - used);
        used += strlen(text + used);
    }
}
