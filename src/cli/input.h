/* The profiles that a command was given: files and folders, read, merged into one, with what is
 * known about them. */
#ifndef PYR_CLI_INPUT_H
#define PYR_CLI_INPUT_H

#include <stddef.h>

#include "base/map.h"
#include "cli/background.h"
#include "pprof/profile.h"

typedef struct pyr_input {
    pyr_profile *profile; /* changed in place by pyr_select */
    pyr_background background;
    size_t file_count;
    pyr_map *files; /* that were read, by identity */
} pyr_input;

typedef enum pyr_input_form {
    PYR_INPUT_SUMS,     /* samples that differ only in their time are added up */
    PYR_INPUT_TIMELINE, /* samples of different moments stay apart */
    PYR_INPUT_FAITHFUL, /* the same, and samples without a stack stay without one */
} pyr_input_form;

/* Reads `count` paths; a folder stands for its *.pprof files. Unless they are to stay as they are,
 * samples without a stack get the frame "<no stack>", so that views add up. A file that cannot be
 * read is an error; in a folder it is left out with a note, unless it is the only one. One that is
 * given twice is read once, with a note. Returns PYR_EXIT_GOOD, or PYR_EXIT_WRONG after one line
 * about what is wrong; fini either way. */
int pyr_input_open(pyr_input *input, char *const *paths, size_t count, pyr_input_form form);
void pyr_input_close(pyr_input *input);

/* Refuses to write to one of the profiles that were read: PYR_EXIT_WRONG after one line, else
 * PYR_EXIT_GOOD. `path` may be NULL or "-". */
int pyr_input_spare(const pyr_input *input, const char *path);

#endif
