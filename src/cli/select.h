/* Which sample type and which samples a command looks at: shared options and their effect. */
#ifndef PYR_CLI_SELECT_H
#define PYR_CLI_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "pprof/profile.h"

typedef struct pyr_select_arguments {
    const char *type;
    pyr_option_list focus, ignore, hide, threads, states, labels;
    bool parked;
} pyr_select_arguments;

/* Rows for the option table of a command that selects samples. */
#define PYR_SELECT_TYPE_OPTION(arguments)                                                          \
    {                                                                                              \
        PYR_OPTION_TEXT, 't', "type", "NAME", "sample type (default: the profile's own default)",  \
            &(arguments)->type                                                                     \
    }
#define PYR_SELECT_OPTIONS(arguments)                                                              \
    {PYR_OPTION_HEADING, 0, NULL, NULL, "Which samples", NULL},                                    \
        {PYR_OPTION_TEXTS,   0, "focus", "REGEX", "only stacks with a frame that matches",         \
         &(arguments)->focus},                                                                     \
        {PYR_OPTION_TEXTS,    0, "ignore", "REGEX", "no stack with a frame that matches",          \
         &(arguments)->ignore},                                                                    \
        {PYR_OPTION_TEXTS,  0, "hide", "REGEX", "take frames that match out of their stacks",      \
         &(arguments)->hide},                                                                      \
        {PYR_OPTION_TEXTS,     0, "thread", "REGEX", "only threads whose name matches",            \
         &(arguments)->threads},                                                                   \
        {PYR_OPTION_TEXTS,    0, "state", "NAME", "only samples in this state, such as gil-wait",  \
         &(arguments)->states},                                                                    \
        {PYR_OPTION_TEXTS,    0, "label", "KEY=REGEX", "only samples with such a label",           \
         &(arguments)->labels},                                                                    \
    {                                                                                              \
        PYR_OPTION_FLAG, 0, "parked", NULL, "with threads that wait for work (state parked)",      \
            &(arguments)->parked                                                                   \
    }

typedef struct pyr_selection {
    size_t type;                    /* index of the sample type */
    const char *type_name, *unit;   /* borrowed from the profile */
    int64_t kept, parked, left_out; /* values of that type; parked is not in left_out */
    int64_t
        samples; /* observations behind what was kept; -1 where the profile does not count them */
} pyr_selection;

/* Finds the sample type and removes from `profile` all samples that were not asked for, and hidden
 * frames. Regular expressions are those of PCRE2; those on frames match the function's name or its
 * file, as in `go tool pprof`. Several --focus, --label: all must match; several --ignore, --hide,
 * --thread, --state: one of them. A stack of which all frames are hidden is left out.
 * Returns PYR_EXIT_GOOD, or PYR_EXIT_WRONG after one line about what is wrong. */
int pyr_select(const pyr_select_arguments *arguments, pyr_profile *profile,
               pyr_selection *selection);

/* Text of a label: its text, or its number in decimal. `number` is storage for the latter. */
enum { PYR_LABEL_NUMBER_BYTES = 24 };
const char *pyr_label_text(const pyr_profile *profile, const pyr_profile_label *label,
                           char number[PYR_LABEL_NUMBER_BYTES]);

#endif
