/* One profile as it was sent: every sample by itself, with its moment and numeric labels. */
#ifndef PYR_QUERY_RECALL_H
#define PYR_QUERY_RECALL_H

#include <stdint.h>

#include "base/status.h"
#include "pprof/profile.h"
#include "store/view.h"

/* Makes profile number `number` again, which the caller frees. What the store does not keep is not
 * in it (docs/design/0010). PYR_ENOENT: there is no such profile; PYR_EBAD: damaged. One thread,
 * with the view between begin and end. */
PYR_MUST_USE pyr_status pyr_recall(pyr_view *view, int64_t number, pyr_profile **profile);

#endif
