/* What is asked of the store: a range of time, and conditions on labels and frames.
 *
 * A condition names a label. Where a series (service, env, version, host, any tag) has it, that
 * decides; else the texts of each sample do (thread name, state, trace endpoint, exception type,
 * lock name); what has it nowhere has the empty text. "function", "file" and "package" look at the
 * frames: one of the stack must match, or with a negative condition none.
 */
#ifndef PYR_QUERY_QUESTION_H
#define PYR_QUERY_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "query/pattern.h"

enum {
    PYR_QUESTION_CONDITIONS = 24,
    PYR_QUESTION_NAME_BYTES = 128,
    PYR_QUESTION_VALUE_BYTES = 512,
    PYR_QUESTION_WHY_BYTES = 256,
};

typedef enum pyr_condition_place {
    PYR_CONDITION_LABEL, /* of the series, else of the sample */
    PYR_CONDITION_FUNCTION,
    PYR_CONDITION_FILE,
    PYR_CONDITION_PACKAGE,
} pyr_condition_place;

typedef struct pyr_condition {
    char name[PYR_QUESTION_NAME_BYTES];
    char value[PYR_QUESTION_VALUE_BYTES];
    pyr_condition_place place;
    bool is_negative;
    pyr_pattern *pattern; /* of whole texts; NULL: the value itself is meant */
} pyr_condition;

typedef struct pyr_question {
    int64_t from_ns, until_ns; /* profiles that start in [from, until) */
    pyr_condition conditions[PYR_QUESTION_CONDITIONS];
    size_t count;
    char type[PYR_QUESTION_NAME_BYTES]; /* sample type; "" = see who asks */
} pyr_question;

void pyr_question_init(pyr_question *question);
void pyr_question_fini(pyr_question *question);

/* Adds a condition; `operator` is =, !=, =~ or !~. PYR_EINVAL with `why`: a pattern that is none,
 * too long, too many; PYR_ENOMEM. */
PYR_MUST_USE pyr_status pyr_question_add(pyr_question *question, const char *name,
                                         const char *operator, const char * value, char *why,
                                         size_t why_size);

/* Adds the condition that a text like `version!=1.2` or `thread name=~worker.*` says. */
PYR_MUST_USE pyr_status pyr_question_where(pyr_question *question, const char *text, char *why,
                                           size_t why_size);

/* Adds those of a selector as Prometheus and Pyroscope write it: {service_name="x", env=~"a|b"}. A
 * name may be quoted too. Names that Pyroscope has for ours are translated. */
PYR_MUST_USE pyr_status pyr_question_selector(pyr_question *question, const char *text, char *why,
                                              size_t why_size);

/* True when `text` fulfils the condition, its sign left aside. */
bool pyr_condition_matches(const pyr_condition *condition, const char *text, size_t length);

/* PYR_ECOSTLY once a pattern took too many steps: then what its conditions chose is not true. */
PYR_MUST_USE pyr_status pyr_question_verdict(const pyr_question *question);

/* The package that a file belongs to: the folder below site-packages or dist-packages, "stdlib",
 * "native", or "app". Its length; not ended by NUL. Pure. */
const char *pyr_package_of(const char *file, size_t length, size_t *package_length);

#endif
