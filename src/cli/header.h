/* The facts on top of every text view and in every JSON result: what was measured, when, how much
 * of it is shown, what was left out or lost. */
#ifndef PYR_CLI_HEADER_H
#define PYR_CLI_HEADER_H

#include <stdint.h>
#include <stdio.h>

#include "cli/background.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/select.h"

/* Lines of text, and an empty one. */
void pyr_header_print(FILE *out, const pyr_input *input, const pyr_selection *selection);

/* The same as members of the JSON object that was begun. */
void pyr_header_json(pyr_json *json, const pyr_input *input, const pyr_selection *selection);

/* "2026-11-29 22:03:01 UTC" */
enum { PYR_HEADER_TIME_BYTES = 40 };
void pyr_header_time(char text[PYR_HEADER_TIME_BYTES], int64_t unix_ns);

#endif
