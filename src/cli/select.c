/* Which samples a command looks at.
 *
 * Owns compiled regular expressions while it works. One thread. It changes the profile in place:
 * everything after it (tables, pages, converters) sees a smaller profile and needs to know nothing
 * of filters.
 */
#include "cli/select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "cli/costs.h"
#include "cli/message.h"
#include "cli/units.h"
#include "model/sample.h"
#include "query/pattern.h"

enum { KEY_BYTES = 256, ERROR_BYTES = 256 };

typedef struct matcher { /* the expressions of one option */
    const char *option;
    const pyr_option_list *texts;
    pyr_pattern *expressions[PYR_OPTION_LIST_MAXIMUM];
    size_t count;
} matcher;

typedef struct filter {
    const pyr_select_arguments *arguments;
    pyr_profile *profile;
    matcher focus, ignore, hide, threads, labels;
    uint32_t *focused; /* a function: bit i = matches the i-th --focus */
    bool *ignored, *hidden;
} filter;

static void matcher_fini(matcher *one)
{
    while (one->count > 0) {
        pyr_pattern_free(one->expressions[--one->count]);
    }
}

/* Compiles what follows `skip_key`'s "=" (labels), or the whole texts. */
static int matcher_init(matcher *one, const char *option, const pyr_option_list *texts,
                        bool skip_key)
{
    one->option = option;
    one->texts = texts;
    for (size_t index = 0; index < texts->count; index++) {
        const char *text = texts->items[index];
        if (skip_key) {
            const char *equals = strchr(text, '=');
            if (equals == NULL || equals == text || equals - text >= KEY_BYTES) {
                return pyr_message_wrong("--%s \"%s\" has no KEY=REGEX; try --%s 'state=io'",
                                         option, text, option);
            }
            text = equals + 1;
        }
        char why[ERROR_BYTES] = "out of memory";
        if (pyr_pattern_new(text, false, &one->expressions[index], why, sizeof why) != PYR_OK) {
            return pyr_message_wrong("--%s \"%s\" is no regular expression: %s", option, text, why);
        }
        one->count++;
    }
    return PYR_EXIT_GOOD;
}

/* What a pattern that gave up has chosen would not be what was asked. */
static int matcher_verdict(const matcher *one)
{
    for (size_t index = 0; index < one->count; index++) {
        if (pyr_pattern_gave_up(one->expressions[index])) {
            return pyr_message_wrong("--%s \"%s\": %s", one->option, one->texts->items[index],
                                     pyr_status_text(PYR_ECOSTLY));
        }
    }
    return PYR_EXIT_GOOD;
}

static bool matches(const matcher *one, size_t index, const char *text)
{
    return pyr_pattern_matches(one->expressions[index], text, strlen(text));
}

static bool matches_any(const matcher *one, const char *text)
{
    for (size_t index = 0; index < one->count; index++) {
        if (matches(one, index, text)) {
            return true;
        }
    }
    return false;
}

/* Each expression is tried once a function, not once a frame of each sample. */
static void match_functions(filter *chosen)
{
    const pyr_profile *profile = chosen->profile;
    for (size_t index = 0; index < profile->function_count; index++) {
        const char *name = profile->strings[profile->functions[index].name].data;
        const char *file = profile->strings[profile->functions[index].file].data;
        for (size_t one = 0; one < chosen->focus.count; one++) {
            if (matches(&chosen->focus, one, name) || matches(&chosen->focus, one, file)) {
                chosen->focused[index] |= UINT32_C(1) << one;
            }
        }
        chosen->ignored[index] =
            matches_any(&chosen->ignore, name) || matches_any(&chosen->ignore, file);
        chosen->hidden[index] =
            matches_any(&chosen->hide, name) || matches_any(&chosen->hide, file);
    }
}

const char *pyr_label_text(const pyr_profile *profile, const pyr_profile_label *label,
                           char number[PYR_LABEL_NUMBER_BYTES])
{
    if (label->text != 0) {
        return profile->strings[label->text].data;
    }
    snprintf(number, PYR_LABEL_NUMBER_BYTES, "%" PRId64, label->number);
    return number;
}

static const char *sample_label(const pyr_profile *profile, const pyr_profile_sample *sample,
                                const char *key, char number[PYR_LABEL_NUMBER_BYTES])
{
    const pyr_profile_label *label = pyr_profile_find_label(profile, sample, key);
    return label != NULL ? pyr_label_text(profile, label, number) : NULL;
}

static bool has_labels(const filter *chosen, const pyr_profile_sample *sample)
{
    char number[PYR_LABEL_NUMBER_BYTES];
    if (chosen->threads.count > 0) {
        const char *name = sample_label(chosen->profile, sample, "thread name", number);
        if (name == NULL || !matches_any(&chosen->threads, name)) {
            return false;
        }
    }
    const pyr_option_list *states = &chosen->arguments->states;
    if (states->count > 0) {
        const char *state = sample_label(chosen->profile, sample, "state", number);
        bool found = false;
        for (size_t index = 0; state != NULL && index < states->count; index++) {
            found = found || strcmp(state, states->items[index]) == 0;
        }
        if (!found) {
            return false;
        }
    }
    for (size_t index = 0; index < chosen->labels.count; index++) {
        const char *wanted = chosen->labels.texts->items[index];
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "%.*s", (int)(strchr(wanted, '=') - wanted), wanted);
        const char *text = sample_label(chosen->profile, sample, key, number);
        if (text == NULL || !matches(&chosen->labels, index, text)) {
            return false;
        }
    }
    return true;
}

static bool has_frames(const filter *chosen, const pyr_profile_sample *sample)
{
    const pyr_profile *profile = chosen->profile;
    uint32_t focused = 0;
    for (uint32_t at = 0; at < sample->frame_count; at++) {
        uint32_t frame = profile->stack_frames[sample->frame_start + at];
        uint32_t function = profile->frames[frame].function;
        focused |= chosen->focused[function];
        if (chosen->ignored[function]) {
            return false;
        }
    }
    uint64_t all = (UINT64_C(1) << chosen->focus.count) - 1;
    return focused == all;
}

/* Moves the frames that stay to the front of the sample's range, which is its own: pyr_input gives
 * a sum, and only profiles fresh from the parser share frames. */
static bool hide_frames(const filter *chosen, pyr_profile_sample *sample)
{
    const pyr_profile *profile = chosen->profile;
    uint32_t *stack = &profile->stack_frames[sample->frame_start];
    uint32_t kept = 0;
    for (uint32_t at = 0; at < sample->frame_count; at++) {
        if (!chosen->hidden[profile->frames[stack[at]].function]) {
            stack[kept++] = stack[at];
        }
    }
    bool all_hidden = kept == 0 && sample->frame_count > 0;
    sample->frame_count = kept;
    return !all_hidden;
}

static bool is_parked(const pyr_profile *profile, const pyr_profile_sample *sample)
{
    char number[PYR_LABEL_NUMBER_BYTES];
    const char *state = sample_label(profile, sample, "state", number);
    return state != NULL && strcmp(state, "parked") == 0;
}

static bool asks_for_parked(const pyr_select_arguments *arguments)
{
    bool asked = arguments->parked;
    for (size_t index = 0; index < arguments->states.count; index++) {
        asked = asked || strcmp(arguments->states.items[index], "parked") == 0;
    }
    return asked;
}

static void filter_samples(const filter *chosen, pyr_selection *selection)
{
    pyr_profile *profile = chosen->profile;
    int count_type = pyr_costs_count_type(profile, selection->type);
    size_t counts = count_type >= 0 ? (size_t)count_type : 0;
    selection->samples = count_type >= 0 ? 0 : -1;
    bool with_parked = asks_for_parked(chosen->arguments);
    size_t kept = 0;
    for (size_t index = 0; index < profile->sample_count; index++) {
        pyr_profile_sample sample = profile->samples[index];
        int64_t value = profile->values[sample.value_start + selection->type];
        if (!has_labels(chosen, &sample) || !has_frames(chosen, &sample)) {
            pyr_units_add(&selection->left_out, value);
        } else if (!with_parked && is_parked(profile, &sample)) {
            pyr_units_add(&selection->parked, value);
        } else if (!hide_frames(chosen, &sample)) {
            pyr_units_add(&selection->left_out, value);
        } else {
            pyr_units_add(&selection->kept, value);
            if (selection->samples >= 0) {
                pyr_units_add(&selection->samples, profile->values[sample.value_start + counts]);
            }
            profile->samples[kept++] = sample;
        }
    }
    profile->sample_count = kept;
}

static const char *type_name_at(const void *names, size_t index)
{
    const pyr_profile *profile = names;
    return profile->strings[profile->types[index].type].data;
}

static int find_type(const pyr_select_arguments *arguments, const pyr_profile *profile,
                     pyr_selection *selection)
{
    int type = arguments->type != NULL ? pyr_profile_find_type(profile, arguments->type)
                                       : pyr_profile_default_type(profile);
    if (type < 0 && arguments->type == NULL) {
        return pyr_message_wrong("the profile has no sample types, so there is nothing to show");
    }
    if (type < 0) {
        const char *nearest =
            pyr_nearest(arguments->type, profile->type_count, type_name_at, profile);
        return pyr_message_wrong("the profile has no sample type \"%s\"; %s%s%s", arguments->type,
                                 nearest != NULL ? "did you mean \"" : "",
                                 nearest != NULL ? nearest
                                                 : "pyrometer report --list-types FILE "
                                                   "shows those it has",
                                 nearest != NULL ? "\"?" : "");
    }
    selection->type = (size_t)type;
    selection->type_name = profile->strings[profile->types[type].type].data;
    selection->unit = profile->strings[profile->types[type].unit].data;
    return PYR_EXIT_GOOD;
}

static const char *state_name_at(const void *names, size_t index)
{
    (void)names;
    return pyr_state_name((pyr_state)index);
}

/* Whether a sample has the label `key` with that text. */
static bool has_text(const pyr_profile *profile, const char *key, const char *text)
{
    for (size_t index = 0; index < profile->label_count; index++) {
        const pyr_profile_label *label = &profile->labels[index];
        if (strcmp(profile->strings[label->key].data, key) == 0 &&
            strcmp(profile->strings[label->text].data, text) == 0) {
            return true;
        }
    }
    return false;
}

/* A name that is none would choose nothing, which looks like an idle program. Profiles of others
 * may have states of their own. */
static int check_states(const pyr_option_list *states, const pyr_profile *profile)
{
    for (size_t index = 0; index < states->count; index++) {
        const char *word = states->items[index];
        bool known = has_text(profile, "state", word);
        char names[KEY_BYTES] = "";
        for (size_t state = 0; state < PYR_STATES; state++) {
            const char *name = state_name_at(NULL, state);
            size_t length = strlen(names);
            known = known || strcmp(word, name) == 0;
            snprintf(names + length, sizeof names - length, "%s%s", length > 0 ? ", " : "", name);
        }
        if (!known) {
            const char *nearest = pyr_nearest(word, PYR_STATES, state_name_at, NULL);
            return pyr_message_wrong("there is no state \"%s\"; %s%s%s", word,
                                     nearest != NULL ? "did you mean \"" : "there are ",
                                     nearest != NULL ? nearest : names,
                                     nearest != NULL ? "\"?" : "");
        }
    }
    return PYR_EXIT_GOOD;
}

int pyr_select(const pyr_select_arguments *arguments, pyr_profile *profile,
               pyr_selection *selection)
{
    *selection = (pyr_selection){0};
    int code = find_type(arguments, profile, selection);
    code = code == PYR_EXIT_GOOD ? check_states(&arguments->states, profile) : code;
    if (code != PYR_EXIT_GOOD) {
        return code;
    }
    filter *chosen = pyr_memory_new(1, sizeof *chosen);
    if (chosen == NULL) {
        return pyr_message_no_memory();
    }
    chosen->arguments = arguments;
    chosen->profile = profile;
    const struct {
        matcher *target;
        const char *option;
        const pyr_option_list *texts;
    } MATCHERS[] = {
        {&chosen->focus, "focus", &arguments->focus},
        {&chosen->ignore, "ignore", &arguments->ignore},
        {&chosen->hide, "hide", &arguments->hide},
        {&chosen->threads, "thread", &arguments->threads},
        {&chosen->labels, "label", &arguments->labels},
    };
    enum { MATCHER_COUNT = sizeof MATCHERS / sizeof MATCHERS[0] };
    for (size_t index = 0; index < MATCHER_COUNT && code == PYR_EXIT_GOOD; index++) {
        code = matcher_init(MATCHERS[index].target, MATCHERS[index].option, MATCHERS[index].texts,
                            MATCHERS[index].target == &chosen->labels);
    }
    if (code == PYR_EXIT_GOOD) {
        size_t functions = profile->function_count + 1;
        chosen->focused = pyr_memory_new(functions, sizeof *chosen->focused);
        chosen->ignored = pyr_memory_new(functions, sizeof *chosen->ignored);
        chosen->hidden = pyr_memory_new(functions, sizeof *chosen->hidden);
        if (chosen->focused == NULL || chosen->ignored == NULL || chosen->hidden == NULL) {
            code = pyr_message_no_memory();
        } else {
            match_functions(chosen);
            filter_samples(chosen, selection);
        }
    }
    for (size_t index = 0; index < MATCHER_COUNT; index++) {
        code = code == PYR_EXIT_GOOD ? matcher_verdict(MATCHERS[index].target) : code;
        matcher_fini(MATCHERS[index].target);
    }
    pyr_memory_free(chosen->focused);
    pyr_memory_free(chosen->ignored);
    pyr_memory_free(chosen->hidden);
    pyr_memory_free(chosen);
    return code;
}
