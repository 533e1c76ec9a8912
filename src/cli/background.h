/* What is known about profiles beside their samples: where they come from, what was lost, what the
 * profiler itself says. Gathered from the profile and from the window's document (<file>.json). */
#ifndef PYR_CLI_BACKGROUND_H
#define PYR_CLI_BACKGROUND_H

#include <jansson.h>

#include "base/status.h"
#include "pprof/profile.h"

typedef struct pyr_background {
    json_t *processes; /* array of texts, one a distinct process */
    json_t *rows;      /* object: label -> text, such as "sampling interval" -> "10 ms" */
    json_t *losses;    /* object: reason -> count, summed over files */
    json_t *notes;     /* array of distinct texts: comments of the profiles */
} pyr_background;

/* Empty facts; PYR_ENOMEM leaves them empty and safe to fini. */
pyr_status pyr_background_init(pyr_background *background);
void pyr_background_fini(pyr_background *background);

/* Adds the comments of `profile`, and the document beside the profile file `path` when there is
 * one. A document that cannot be read is noted in the facts, never an error. */
void pyr_background_add(pyr_background *background, const pyr_profile *profile, const char *path);

#endif
