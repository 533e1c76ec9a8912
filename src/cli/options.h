/* Command line options from tables: parsing, help texts, and errors that say what to do. */
#ifndef PYR_CLI_OPTIONS_H
#define PYR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { PYR_OPTION_LIST_MAXIMUM = 32 };

typedef struct pyr_option_list { /* of an option that may be given several times */
    const char *items[PYR_OPTION_LIST_MAXIMUM];
    size_t count;
} pyr_option_list;

typedef enum pyr_option_kind {
    PYR_OPTION_HEADING, /* no option: `help` heads the options that follow in the help text */
    PYR_OPTION_FLAG,    /* target: bool, set to true */
    PYR_OPTION_TEXT,    /* target: const char *, borrowed from argv; the last one counts */
    PYR_OPTION_TEXTS,   /* target: pyr_option_list */
    PYR_OPTION_COUNT,   /* target: size_t, a number from 0 on */
    PYR_OPTION_PERCENT, /* target: double, 0 to 100, a % sign may follow */
} pyr_option_kind;

typedef struct pyr_option {
    pyr_option_kind kind;
    char letter;          /* '\0' = none */
    const char *name;     /* without the dashes */
    const char *argument; /* its name in the help text; NULL for flags */
    const char *help;
    void *target;
} pyr_option;

typedef struct pyr_usage {
    const char *command;  /* "report" */
    const char *operands; /* "FILE..." */
    const char *about;    /* what it does, ends in a newline */
    const pyr_option *options;
    size_t option_count;
    size_t least_operands, most_operands;
    bool stop_at_operand; /* what follows the first operand is not ours (run) */
} pyr_usage;

typedef enum pyr_parse_result { PYR_PARSE_GOOD, PYR_PARSE_HELP, PYR_PARSE_WRONG } pyr_parse_result;

/* Sets the targets, and moves the operands to argv[0] on, in their order; *operand_count says how
 * many. argv holds what follows the subcommand's name. HELP: help was asked for and is printed;
 * WRONG: one line on standard error says what is wrong. */
pyr_parse_result pyr_options_parse(const pyr_usage *usage, int argc, char **argv,
                                   size_t *operand_count);

/* Reads a percentage from 0 to 100, with or without its sign; false when it is none. */
bool pyr_options_percent(const char *text, double *percent);

#endif
