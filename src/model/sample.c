/* The tables of sample.h as functions. Pure; any thread. */
#include "model/sample.h"

const char *pyr_sample_type_name(pyr_sample_type type)
{
    static const char *const names[] = {
#define ROW(name, type, unit) type,
        PYR_SAMPLE_TYPE_MAP(ROW)
#undef ROW
    };
    return (unsigned)type < PYR_SAMPLE_TYPES ? names[type] : "";
}

const char *pyr_sample_type_unit(pyr_sample_type type)
{
    static const char *const units[] = {
#define ROW(name, type, unit) unit,
        PYR_SAMPLE_TYPE_MAP(ROW)
#undef ROW
    };
    return (unsigned)type < PYR_SAMPLE_TYPES ? units[type] : "";
}

size_t pyr_sample_kind_types(pyr_sample_kind kind, pyr_sample_type types[PYR_LIMIT_VALUES])
{
    static const pyr_sample_type rows[PYR_SAMPLE_KINDS][PYR_LIMIT_VALUES] = {
#define TYPE(name) PYR_SAMPLE_TYPE_##name
#define ROW(name, a, b, c, d) {TYPE(a), TYPE(b), TYPE(c), TYPE(d)},
        PYR_SAMPLE_KIND_MAP(ROW)
#undef ROW
#undef TYPE
    };
    if ((unsigned)kind >= PYR_SAMPLE_KINDS) {
        return 0;
    }
    size_t count = 0;
    for (; count < PYR_LIMIT_VALUES && rows[kind][count] != PYR_SAMPLE_TYPE_NONE; count++) {
        types[count] = rows[kind][count];
    }
    return count;
}

const char *pyr_label_name(pyr_label_key key)
{
    static const char *const names[] = {
#define ROW(name, key, numeric, unit) key,
        PYR_LABEL_MAP(ROW)
#undef ROW
    };
    return (unsigned)key < PYR_LABEL_KEYS ? names[key] : "";
}

int pyr_label_is_number(pyr_label_key key)
{
    static const int numbers[] = {
#define ROW(name, key, numeric, unit) numeric,
        PYR_LABEL_MAP(ROW)
#undef ROW
    };
    return (unsigned)key < PYR_LABEL_KEYS ? numbers[key] : 0;
}

const char *pyr_label_unit(pyr_label_key key)
{
    static const char *const units[] = {
#define ROW(name, key, numeric, unit) unit,
        PYR_LABEL_MAP(ROW)
#undef ROW
    };
    return (unsigned)key < PYR_LABEL_KEYS ? units[key] : "";
}

const char *pyr_state_name(pyr_state state)
{
    static const char *const names[] = {
#define ROW(name, text) text,
        PYR_STATE_MAP(ROW)
#undef ROW
    };
    return (unsigned)state < PYR_STATES ? names[state] : "";
}

const char *pyr_loss_id(pyr_loss loss)
{
    static const char *const ids[] = {
#define ROW(name, id, text) id,
        PYR_LOSS_MAP(ROW)
#undef ROW
    };
    return (unsigned)loss < PYR_LOSSES ? ids[loss] : "";
}

const char *pyr_loss_text(pyr_loss loss)
{
    static const char *const texts[] = {
#define ROW(name, id, text) text,
        PYR_LOSS_MAP(ROW)
#undef ROW
    };
    return (unsigned)loss < PYR_LOSSES ? texts[loss] : "";
}
