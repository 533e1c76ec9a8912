/* Rows of facts; see the header. Pure. */
#include "model/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* The next row, or NULL when the table is full. */
static pyr_fact *add(pyr_facts *facts, const char *section, const char *key, pyr_fact_kind kind)
{
    if (facts->count >= PYR_LIMIT_FACTS) {
        return NULL;
    }
    pyr_fact *fact = &facts->rows[facts->count++];
    *fact = (pyr_fact){.section = section, .key = key, .kind = kind};
    return fact;
}

void pyr_facts_add_integer(pyr_facts *facts, const char *section, const char *key, int64_t value)
{
    pyr_fact *fact = add(facts, section, key, PYR_FACT_INTEGER);
    if (fact) {
        fact->integer = value;
    }
}

void pyr_facts_add_real(pyr_facts *facts, const char *section, const char *key, double value)
{
    pyr_fact *fact = add(facts, section, key, PYR_FACT_REAL);
    if (fact) {
        fact->real = value;
    }
}

void pyr_facts_add_text(pyr_facts *facts, const char *section, const char *key, const char *value)
{
    pyr_fact *fact = add(facts, section, key, PYR_FACT_TEXT);
    if (fact) {
        pyr_utf8_repair(value, strlen(value), fact->text, sizeof fact->text);
    }
}

const pyr_fact *pyr_facts_find(const pyr_facts *facts, const char *section, const char *key)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->rows[i].section, section) == 0 && strcmp(facts->rows[i].key, key) == 0) {
            return &facts->rows[i];
        }
    }
    return NULL;
}
