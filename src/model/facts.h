/* Facts about a window or a running profiler, as rows of (section, key, value).
 *
 * Collectors and the recorder add rows; the window's document and status() print the same rows, so
 * a new fact is one line where it is known. Bounded; a row that does not fit is left out. Keys and
 * sections are static strings. One thread at a time.
 */
#ifndef PYR_MODEL_FACTS_H
#define PYR_MODEL_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PYR_LIMIT_FACTS = 192, PYR_LIMIT_FACT_TEXT = 256 };

/* What facts are asked for. In PYR_FACTS_OF_HELD_WINDOW a handler of signals waits for the window:
 * nothing may be waited for then that the interrupted thread may hold, such as malloc's locks. */
typedef enum pyr_facts_occasion {
    PYR_FACTS_SO_FAR,
    PYR_FACTS_OF_WINDOW,
    PYR_FACTS_OF_HELD_WINDOW
} pyr_facts_occasion;

typedef enum pyr_fact_kind { PYR_FACT_INTEGER, PYR_FACT_REAL, PYR_FACT_TEXT } pyr_fact_kind;

typedef struct pyr_fact {
    const char *section, *key; /* "tick", "visits" */
    pyr_fact_kind kind;
    int64_t integer;
    double real;
    char text[PYR_LIMIT_FACT_TEXT]; /* NUL-terminated UTF-8, cut where too long */
} pyr_fact;

enum { PYR_LIMIT_LEAK_SITES = 16, PYR_LEAK_AGES = 4, PYR_LIMIT_LEAK_TEXT = 192 };

/* An allocation site whose live bytes may be growing; by whom and how it is judged:
 * collect/heap_trend.h. Texts are NUL-terminated UTF-8, cut where too long. */
typedef struct pyr_leak_site {
    char function[PYR_LIMIT_LEAK_TEXT], file[PYR_LIMIT_LEAK_TEXT]; /* where it is allocated */
    char caller[PYR_LIMIT_LEAK_TEXT];                              /* "function (file:line)" */
    uint32_t line;
    uint32_t windows; /* that the judgement rests on */
    bool is_suspect;
    double live_bytes, standard_error;
    double live_by_age[PYR_LEAK_AGES]; /* below 1, 10 and 60 minutes, and above */
    double growth, growth_error;       /* bytes a second, one standard error */
    double confidence;                 /* that it grows, 0 to 1 */
} pyr_leak_site;

enum { PYR_LIMIT_ENDPOINTS = 256, PYR_LIMIT_ENDPOINT_TEXT = 132 };

/* Requests that began in a window (model/requests.h). */
typedef struct pyr_request_count {
    const char *endpoint; /* static, as keys are */
    int64_t count;
} pyr_request_count;

typedef struct pyr_facts {
    size_t count;
    pyr_fact rows[PYR_LIMIT_FACTS];
    size_t leak_count; /* set anew by whoever finds leaks */
    pyr_leak_site leaks[PYR_LIMIT_LEAK_SITES];
    size_t request_count; /* set anew with each window */
    pyr_request_count requests[PYR_LIMIT_ENDPOINTS];
} pyr_facts;

void pyr_facts_add_integer(pyr_facts *facts, const char *section, const char *key, int64_t value);
void pyr_facts_add_real(pyr_facts *facts, const char *section, const char *key, double value);
void pyr_facts_add_text(pyr_facts *facts, const char *section, const char *key, const char *value);

/* The row, or NULL. */
const pyr_fact *pyr_facts_find(const pyr_facts *facts, const char *section, const char *key);

#endif
