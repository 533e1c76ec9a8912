/* Requests behind a question; see the header. One thread. */
#include "query/requests.h"

#include <string.h>

#include "base/memory.h"
#include "query/gather.h"
#include "query/trend.h"

/* Conditions that every series leaves to its samples, a bit each. */
static pyr_status find_open(pyr_view *view, const pyr_question *question, uint32_t *open)
{
    pyr_buffer ids;
    pyr_buffer bits;
    pyr_buffer_init(&ids, SIZE_MAX / 2);
    pyr_buffer_init(&bits, SIZE_MAX / 2);
    pyr_status status = pyr_question_series(view, question, &ids, &bits);
    *open = UINT32_MAX;
    for (size_t at = 0; at + sizeof *open <= bits.length; at += sizeof *open) {
        uint32_t of_one = 0;
        memcpy(&of_one, bits.data + at, sizeof of_one);
        *open &= of_one;
    }
    pyr_buffer_fini(&ids);
    pyr_buffer_fini(&bits);
    return status;
}

pyr_status pyr_requests_count(pyr_view *view, const pyr_question *question, int64_t *requests)
{
    static const char TYPE[] = "requests";
    pyr_trend trend = {0};
    uint32_t open = 0;
    *requests = 0;
    pyr_question *own = pyr_memory_new(1, sizeof *own);
    pyr_status status = own != NULL ? find_open(view, question, &open) : PYR_ENOMEM;
    if (status == PYR_OK) {
        *own = *question; /* patterns stay the question's: never fini'd here */
        own->count = 0;
        for (size_t at = 0; at < question->count; at++) {
            const pyr_condition *condition = &question->conditions[at];
            bool is_decided = condition->place == PYR_CONDITION_LABEL && (open >> at & 1) == 0;
            if (is_decided || strcmp(condition->name, "trace endpoint") == 0 ||
                strcmp(condition->name, "endpoint") == 0) {
                own->conditions[own->count++] = *condition;
            }
        }
        memcpy(own->type, TYPE, sizeof TYPE);
        status = pyr_trend_init(&trend, view, own, own->until_ns - own->from_ns, NULL);
        *requests = status == PYR_OK && trend.count > 0 ? trend.lines[0].sum : 0;
        pyr_trend_fini(&trend);
    }
    pyr_memory_free(own);
    return status == PYR_ENOENT ? PYR_OK : status;
}
