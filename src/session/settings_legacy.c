/* What this version does nothing with: variables that only ddtrace has a use for, and settings of
 * collectors that are not in the table of collectors.
 *
 * Constant; any thread. A setting is named here by the switch of its collector, so that it comes
 * alive with the collector and nothing here has to be changed.
 */
#include "session/settings_legacy.h"

#include <string.h>

#include "collect/collector.h"
#include "session/settings.h"

#define REMOVED "it is gone from ddtrace too"
#define DDTRACE_TESTS "only ddtrace's own build and tests use it"
#define ONE_BUDGET "OVERHEAD_PCT alone bounds the cost of sampling"
#define NO_MEMORY_COLLECTOR "this version does not have the memory collector"
#define NO_LOCK_COLLECTOR "this version does not have the lock collector"
#define NO_EXCEPTION_COLLECTOR "this version does not have the exception collector"
#define NO_PYTORCH_COLLECTOR "this version does not have the PyTorch collector"

const pyr_legacy_variable pyr_legacy_variables[] = {
    {"DD_PROFILING_IGNORE_PROFILER", "the profiler's own threads are never sampled", false},
    {"DD_PROFILING_ENABLE_ASSERTS", DDTRACE_TESTS, true},
    {"DD_PROFILING_SAMPLE_POOL_CAPACITY", "there is no such pool here", false},
    {"DD_PROFILING_ENDPOINT_COLLECTION_ENABLED", "this version does not collect endpoints", true},
    {"DD_PROFILING_STACK_UVLOOP", "there is no switch for uvloop here", false},
    {"DD_PROFILING_UVLOOP", "there is no switch for uvloop here", false},
    {"DD_PROFILING_STACK_NATIVE_FRAMES",
     "the C function being called is shown wherever it is known", false},
    {"DD_PROFILING_NATIVE_FRAMES", "the C function being called is shown wherever it is known",
     false},
    {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_ENABLED", ONE_BUDGET, false},
    {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_MAX_INTERVAL_US", ONE_BUDGET, false},
    {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_BASELINE", ONE_BUDGET, false},
    {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_P_STABLE_WINDOW_S", ONE_BUDGET, false},
    {"_DD_PROFILING_STACK_ADAPTIVE_SAMPLING_P_STABLE_PERCENTILE", ONE_BUDGET, false},
    {"_DD_PROFILING_STACK_MAX_THREADS", "every thread is looked at", false},
    {"_DD_PROFILING_STACK_MAX_TASKS", "there is no such bound here", false},
    {"_DD_PROFILING_STACK_FAST_COPY", "memory is always read in a way that cannot fault", false},
    {"DD_PROFILING_LOCK_NAME_INSPECT_DIR", "there is no such search for names of locks", true},
    {"DD_PROFILING_NAME_INSPECT_DIR", "there is no such search for names of locks", true},
    {"DD_PROFILING_MEMORY_EVENTS_BUFFER", "it is without effect in ddtrace too", false},
    {"DD_PROFILING_EVENTS_BUFFER", "it is without effect in ddtrace too", false},
    {"DD_PROFILING_MEMORY_MEM_DOMAIN_ENABLED", "all domains of allocators are measured", false},
    {"DD_PROFILING_PYTORCH_MAX_FRAMES", "MAX_FRAMES bounds every stack", false},
    {"DD_PROFILING_API_URL", REMOVED "; URL says where to send", false},
    {"DD_PROFILING_API_KEY", REMOVED "; DD_API_KEY is the key", false},
    {"DD_PROFILING_API_TIMEOUT", REMOVED "; DD_PROFILING_API_TIMEOUT_MS is the time", false},
    {"DD_PROFILING_MAX_EVENTS", REMOVED, false},
    {"DD_PROFILING_STACK_V2_ENABLED", REMOVED, false},
    {"DD_PROFILING_EXPORT_LIBDD_ENABLED", REMOVED, false},
    {"DD_PROFILING_MEMALLOC", REMOVED, false},
    {"DD_PROFILING_NATIVE_TESTS", DDTRACE_TESTS, true},
    {"DD_PROFILING_NATIVE_HEAP_TEST_SUPPORT", DDTRACE_TESTS, true},
    {"DD_PROFILING_MEMALLOC_ASSERT_ON_REENTRY", DDTRACE_TESTS, true},
    {"DD_PROFILING_FILE_PATH", DDTRACE_TESTS, false},
    {NULL, NULL, false},
};

/* Settings of a collector: by how their names begin. */
static const struct {
    const char *beginning, *collector, *why;
} OF_COLLECTORS[] = {
    {"MEMORY_", "MEMORY_ENABLED", NO_MEMORY_COLLECTOR},
    {"HEAP_", "MEMORY_ENABLED", NO_MEMORY_COLLECTOR},
    {"NATIVE_HEAP_", "MEMORY_ENABLED", NO_MEMORY_COLLECTOR},
    {"LOCK_", "LOCK_ENABLED", NO_LOCK_COLLECTOR},
    {"EXCEPTION_", "EXCEPTION_ENABLED", NO_EXCEPTION_COLLECTOR},
    {"PYTORCH_", "PYTORCH_ENABLED", NO_PYTORCH_COLLECTOR},
};

const pyr_legacy_variable *pyr_legacy_find(const char *name, size_t length)
{
    const pyr_legacy_variable *row = pyr_legacy_variables;
    while (row->name != NULL &&
           (strlen(row->name) != length || memcmp(row->name, name, length) != 0)) {
        row++;
    }
    return row->name != NULL ? row : NULL;
}

static bool has_collector(const char *setting)
{
    for (size_t row = 0; pyr_collector_classes[row] != NULL; row++) {
        if (strcmp(pyr_collector_classes[row]->setting, setting) == 0) {
            return true;
        }
    }
    return false;
}

const char *pyr_setting_without_effect(pyr_setting_id id)
{
    const char *name = pyr_setting_get(id)->name;
    for (size_t row = 0; row < sizeof OF_COLLECTORS / sizeof OF_COLLECTORS[0]; row++) {
        if (strncmp(name, OF_COLLECTORS[row].beginning, strlen(OF_COLLECTORS[row].beginning)) ==
            0) {
            return has_collector(OF_COLLECTORS[row].collector) ? NULL : OF_COLLECTORS[row].why;
        }
    }
    return NULL;
}
