/* How many requests were served where a question looks: what a cost is divided by to be the cost of
 * one. */
#ifndef PYR_QUERY_REQUESTS_H
#define PYR_QUERY_REQUESTS_H

#include "base/status.h"
#include "query/question.h"
#include "store/view.h"

/* Sums the sample type `requests` in the question's range. Its conditions on series count, and that
 * on `trace endpoint`; those that only other samples fulfil (a thread, a function) are left aside:
 * the work of one thread is divided by all requests. *requests is 0 where none are known. */
PYR_MUST_USE pyr_status pyr_requests_count(pyr_view *view, const pyr_question *question,
                                           int64_t *requests);

#endif
