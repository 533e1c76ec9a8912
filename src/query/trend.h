/* Values over time: one sum a step, split by a label or by function. */
#ifndef PYR_QUERY_TREND_H
#define PYR_QUERY_TREND_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "query/question.h"
#include "store/view.h"

enum { PYR_TREND_STEPS = 2000, PYR_TREND_LINES = 1024 };

typedef struct pyr_trend_line {
    const char *name; /* owned by the trend; "" = without this label */
    size_t name_length;
    int64_t *values; /* one a step */
    int64_t sum;
} pyr_trend_line;

typedef struct pyr_trend {
    int64_t start_ns, step_ns;
    size_t steps;
    pyr_trend_line *lines; /* largest sum first */
    size_t count;
    char unit[PYR_QUESTION_NAME_BYTES];
    size_t profiles, damaged;
    void *storage; /* private */
} pyr_trend;

/* Sums question->type, which must be set, over steps of `step_ns` from question->from_ns on. A
 * profile that starts there counts whole, spread evenly over the steps that it covers. `by`: a
 * label of series or samples, "function" (the leaf), or NULL for one line of all. Lines beyond
 * PYR_TREND_LINES become one named "(other)". Fini either way. PYR_EINVAL: more than
 * PYR_TREND_STEPS steps. */
PYR_MUST_USE pyr_status pyr_trend_init(pyr_trend *trend, pyr_view *view,
                                       const pyr_question *question, int64_t step_ns,
                                       const char *by);
void pyr_trend_fini(pyr_trend *trend);

#endif
