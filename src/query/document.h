/* The document of the flame graph page (ui/flamegraph/profile.schema.json) of what was gathered. */
#ifndef PYR_QUERY_DOCUMENT_H
#define PYR_QUERY_DOCUMENT_H

#include "base/status.h"
#include "query/answer.h"
#include "query/gather.h"

/* Writes it. All types and states go in; threads by name, since processes are added up. Samples
 * with negative values cannot be shown and are counted in a note. PYR_ENOMEM. One thread. */
PYR_MUST_USE pyr_status pyr_document_write(pyr_answer *answer, const pyr_gathered *gathered,
                                           const char *title);

#endif
