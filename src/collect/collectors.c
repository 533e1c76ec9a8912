/* The table of collectors: one row each. */
#include "collect/collector.h"

const pyr_collector_class *const pyr_collector_classes[] = {
    &pyr_stack_collector, &pyr_memory_collector, &pyr_exception_collector,
    &pyr_lock_collector,  &pyr_gc_collector,     NULL,
};
