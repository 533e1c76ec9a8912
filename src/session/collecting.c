/* Collectors of a session; see the header. Owns the collectors. */
#include "session/collecting.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

typedef pyr_collecting_slot slot;

const char *pyr_collecting_explain(pyr_status status)
{
    return status == PYR_ETHREAD  ? "no thread could be started: raise the limit of processes "
                                    "(ulimit -u), of the container (pids) or of memory"
           : status == PYR_ENOMEM ? "out of memory: raise its limit or that of address space "
                                    "(ulimit -v)"
                                  : pyr_status_text(status);
}

static bool is_on(const slot *one)
{
    return atomic_load(&one->running);
}

/* Why it does not run, and for how long from now on. */
static void explain(const slot *one, char *text, size_t size)
{
    int64_t left_ns = one->resumes_ns - pyr_clock_monotonic_ns();
    if (one->resumes_ns != 0) {
        snprintf(text, size, "%.200s; it comes on in %" PRId64 " s", one->why,
                 left_ns > 0 ? (left_ns + 999999999) / 1000000000 : 0);
    } else {
        snprintf(text, size, "%s", one->why);
    }
}

/* --------------------------------------------------------------------------------- building ----
 */

static pyr_status create(pyr_collecting *collecting, slot *one)
{
    pyr_collect_context *context = &collecting->context;
    context->inside = pyr_guard_counter(collecting->guard, one->class->name);
    pyr_status status = one->class->create(context, &one->collector, one->why, sizeof one->why);
    if (status != PYR_OK) {
        one->collector = NULL;
        one->unsupported = status == PYR_ENOTSUP;
        if (one->why[0] == '\0') {
            snprintf(one->why, sizeof one->why, "%s", pyr_collecting_explain(status));
        }
    }
    return status;
}

pyr_status pyr_collecting_create(pyr_collecting *collecting, const pyr_collect_context *context,
                                 const pyr_settings *settings, pyr_guard *guard, char *why,
                                 size_t why_size)
{
    pyr_status status = PYR_ENOENT;
    collecting->context = *context;
    collecting->guard = guard;
    snprintf(why, why_size, "every collector is switched off by a setting");
    for (size_t row = 0; pyr_collector_classes[row] != NULL; row++) {
        const pyr_collector_class *class = pyr_collector_classes[row];
        int id = pyr_setting_find(class->setting);
        if (collecting->count == PYR_COLLECTING_SLOTS ||
            (id >= 0 && !pyr_settings_bool(settings, (pyr_setting_id)id))) {
            continue;
        }
        slot *one = &collecting->slots[collecting->count++];
        one->class = class;
        one->resumes_ns = pyr_guard_holds(guard, class->name, one->why, sizeof one->why);
        pyr_status made = one->resumes_ns != 0 ? PYR_OK : create(collecting, one);
        if (made == PYR_ENOMEM) { /* there will not be enough for the others to work with, either */
            snprintf(why, why_size, "%s", pyr_collecting_explain(made));
            return PYR_ENOMEM;
        }
        if (made == PYR_OK) {
            status = PYR_OK;
        } else if (status != PYR_OK) {
            status = made;
            snprintf(why, why_size, "%s: %s", class->name, one->why);
        }
    }
    return status;
}

bool pyr_collecting_is_in_use(const pyr_collecting *collecting)
{
    bool in_use = false;
    for (size_t index = 0; index < collecting->count && !in_use; index++) {
        const slot *one = &collecting->slots[index];
        in_use = one->collector != NULL && one->class->is_in_use != NULL &&
                 one->class->is_in_use(one->collector);
    }
    return in_use;
}

void pyr_collecting_destroy(pyr_collecting *collecting)
{
    for (size_t index = 0; index < collecting->count; index++) {
        collecting->slots[index].class->destroy(collecting->slots[index].collector);
    }
    collecting->count = 0;
}

/* ------------------------------------------------------------------------------------- life ----
 */

static pyr_status start(slot *one)
{
    pyr_status status = one->class->start(one->collector);
    atomic_store(&one->running, status == PYR_OK);
    if (status != PYR_OK && one->why[0] == '\0') {
        snprintf(one->why, sizeof one->why, "%s", pyr_collecting_explain(status));
    }
    return status;
}

static void tell_what_is_off(const pyr_collecting *collecting)
{
    char why[PYR_COLLECTING_WHY_BYTES];
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        if (!is_on(one) && !one->unsupported) {
            explain(one, why, sizeof why);
            pyr_log_add(PYR_LOG_WARNING, "the collector %s is off: %s", one->class->name, why);
        }
    }
}

pyr_status pyr_collecting_start(pyr_collecting *collecting, char *why, size_t why_size)
{
    size_t good = 0;
    const slot *starved = NULL;
    for (size_t index = 0; index < collecting->count; index++) {
        slot *one = &collecting->slots[index];
        pyr_status status = one->collector != NULL ? start(one) : PYR_ENOENT;
        good += status == PYR_OK || one->resumes_ns != 0;
        starved = status == PYR_ETHREAD || status == PYR_ENOMEM ? one : starved;
    }
    collecting->started = true;
    if (starved != NULL || good == 0) { /* the caller says so, in one line */
        snprintf(why, why_size, "%s", starved ? starved->why : collecting->slots[0].why);
        return PYR_ETHREAD;
    }
    tell_what_is_off(collecting);
    return PYR_OK;
}

void pyr_collecting_stop(pyr_collecting *collecting)
{
    collecting->started = false;
    for (size_t index = 0; index < collecting->count; index++) {
        slot *one = &collecting->slots[index];
        if (is_on(one)) {
            one->class->stop(one->collector);
            atomic_store(&one->running, false);
        }
    }
}

bool pyr_collecting_resume(pyr_collecting *collecting, pyr_symbols *symbols)
{
    bool any = false;
    int64_t now_ns = pyr_clock_monotonic_ns();
    collecting->context.symbols = symbols;
    for (size_t index = 0; index < collecting->count && collecting->started; index++) {
        slot *one = &collecting->slots[index];
        if (one->resumes_ns == 0 || one->resumes_ns > now_ns) {
            continue;
        }
        one->resumes_ns = 0;
        one->why[0] = '\0';
        if (create(collecting, one) == PYR_OK && start(one) == PYR_OK) {
            any = true;
            pyr_log_add(PYR_LOG_INFO, "the collector %s is on again", one->class->name);
        } else {
            pyr_log_add(PYR_LOG_WARNING, "the collector %s stays off: %s", one->class->name,
                        one->why);
        }
    }
    return any;
}

/* ---------------------------------------------------------------------------------- windows ----
 */

void pyr_collecting_flush(pyr_collecting *collecting)
{
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        if (is_on(one)) {
            one->class->flush(one->collector);
        }
    }
}

void pyr_collecting_checkpoint(pyr_collecting *collecting)
{
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        if (is_on(one) && one->class->checkpoint != NULL) {
            one->class->checkpoint(one->collector);
        }
    }
}

void pyr_collecting_renew_symbols(pyr_collecting *collecting, pyr_symbols *symbols)
{
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        if (one->collector != NULL) {
            one->class->renew_symbols(one->collector, symbols);
        }
    }
}

void pyr_collecting_facts(const pyr_collecting *collecting, pyr_facts *facts,
                          pyr_facts_occasion occasion)
{
    char why[PYR_COLLECTING_WHY_BYTES];
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        explain(one, why, sizeof why);
        pyr_facts_add_text(facts, "collectors", one->class->name, is_on(one) ? "on" : why);
        if (one->collector != NULL) {
            one->class->facts(one->collector, facts, occasion);
        }
    }
}

uint32_t pyr_collecting_kinds(const pyr_collecting *collecting)
{
    uint32_t kinds = 0;
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        kinds |= one->collector != NULL || one->resumes_ns != 0 ? one->class->kinds : 0;
    }
    return kinds;
}

size_t pyr_collecting_threads(const pyr_collecting *collecting)
{
    size_t threads = 0;
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        threads += is_on(one) ? one->class->threads : 0;
    }
    return threads;
}

void pyr_collecting_names(const pyr_collecting *collecting, char *text, size_t size)
{
    size_t used = 0;
    snprintf(text, size, "nothing yet");
    for (size_t index = 0; index < collecting->count && used < size; index++) {
        const slot *one = &collecting->slots[index];
        if (is_on(one)) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     one->class->name);
        }
    }
}

/* ------------------------------------------------------------------------------------- fork ----
 */

void pyr_collecting_prefork(pyr_collecting *collecting)
{
    for (size_t index = 0; index < collecting->count; index++) {
        const slot *one = &collecting->slots[index];
        if (is_on(one)) {
            one->class->prefork(one->collector);
        }
    }
}

void pyr_collecting_postfork_parent(pyr_collecting *collecting)
{
    for (size_t index = collecting->count; index-- > 0;) {
        const slot *one = &collecting->slots[index];
        if (is_on(one)) {
            one->class->postfork_parent(one->collector);
        }
    }
}

void pyr_collecting_postfork_child(pyr_collecting *collecting)
{
    collecting->started = false;
    for (size_t index = collecting->count; index-- > 0;) {
        slot *one = &collecting->slots[index];
        /* Also one that is paused: what it has of the kernel is the parent's. */
        if (one->collector != NULL) {
            one->class->postfork_child(one->collector);
            atomic_store(&one->running, false);
        }
    }
}
