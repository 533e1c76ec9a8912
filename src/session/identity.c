/* Identity of a process; see the header. Owns the runtime ids that the process was given at its
 * first start. */
#include "session/identity.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"

enum { UUID_BYTES = 16 };

/* A process keeps its ids when the profiler is stopped and started again. */
static struct {
    int64_t pid; /* 0 = none so far; the child of a fork has another */
    char own[PYR_LIMIT_RUNTIME_ID], parent[PYR_LIMIT_RUNTIME_ID];
} given;

static void make_runtime_id(char *text)
{
    uint8_t bytes[UUID_BYTES];
    /* Early in a boot the kernel may have no entropy: GRND_NONBLOCK fails rather than waits. */
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != (ssize_t)sizeof bytes) {
        for (size_t half = 0; half < UUID_BYTES; half += sizeof(uint64_t)) {
            uint64_t word = pyr_hash_u64((uint64_t)getpid() + half, pyr_hash_seed());
            memcpy(bytes + half, &word, sizeof word);
        }
    }
    bytes[6] = (uint8_t)((bytes[6] & 0x0F) | 0x40);
    bytes[8] = (uint8_t)((bytes[8] & 0x3F) | 0x80);
    for (size_t index = 0; index < UUID_BYTES; index++) {
        bool dash = index == 4 || index == 6 || index == 8 || index == 10;
        text += snprintf(text, 4, dash ? "-%02x" : "%02x", bytes[index]);
    }
}

void pyr_identity_make(pyr_identity *identity, const char *parent_id, const char *python)
{
    *identity = (pyr_identity){
        .pid = getpid(),
        .parent_pid = getppid(),
        .start_ns = pyr_clock_realtime_ns(),
        .python = python,
    };
    if (given.pid != identity->pid) {
        given.pid = identity->pid;
        make_runtime_id(given.own);
        snprintf(given.parent, sizeof given.parent, "%s",
                 strlen(parent_id) < sizeof given.parent ? parent_id : "");
    }
    memcpy(identity->runtime_id, given.own, sizeof given.own);
    memcpy(identity->parent_runtime_id, given.parent, sizeof given.parent);
    char entity[PYR_LIMIT_CONTAINER_ID];
    pyr_entity_id(identity->container, entity);
    if (gethostname(identity->host, sizeof identity->host - 1) != 0) {
        identity->host[0] = '\0';
    }
}

void pyr_identity_facts(const pyr_identity *identity, const pyr_settings *settings,
                        pyr_facts *facts)
{
    static const struct {
        const char *key;
        pyr_setting_id id;
    } TEXTS[] = {
        {"service", PYR_SETTING_SERVICE},
        {"env", PYR_SETTING_ENV},
        {"version", PYR_SETTING_VERSION},
        {"tags", PYR_SETTING_TAGS},
    };
    for (size_t index = 0; index < sizeof TEXTS / sizeof TEXTS[0]; index++) {
        const char *text = pyr_settings_text(settings, TEXTS[index].id);
        if (text[0] != '\0') {
            pyr_facts_add_text(facts, "identity", TEXTS[index].key, text);
        }
    }
    pyr_facts_add_text(facts, "identity", "host", identity->host);
    if (identity->container[0] != '\0') {
        pyr_facts_add_text(facts, "identity", "container", identity->container);
    }
    pyr_facts_add_integer(facts, "identity", "pid", identity->pid);
    pyr_facts_add_integer(facts, "identity", "parent_pid", identity->parent_pid);
    pyr_facts_add_text(facts, "identity", "runtime_id", identity->runtime_id);
    if (identity->parent_runtime_id[0] != '\0') {
        pyr_facts_add_text(facts, "identity", "parent_runtime_id", identity->parent_runtime_id);
    }
    pyr_facts_add_integer(facts, "identity", "start_ns", identity->start_ns);
    pyr_facts_add_text(facts, "identity", "python", identity->python);
    pyr_facts_add_text(facts, "identity", "pyrometer", PYR_VERSION);
}
