/* How many requests a program served, as its sender counted them beside the profile. Private to
 * server/. */
#ifndef PYR_SERVER_ENDPOINTS_H
#define PYR_SERVER_ENDPOINTS_H

#include <jansson.h>

#include "base/status.h"
#include "pprof/profile.h"

enum { PYR_ENDPOINTS = 1000 }; /* of one profile; those beyond count as "(other)" */

/* Adds the counts ({"GET /path": 12}) to the profile as the sample type `requests`: a sample
 * without a stack for each endpoint, with a label `key`. So they are summed, filtered and drawn
 * over time as anything else. What is no object, or empty, adds nothing, nor does what comes beside
 * a profile that has this type itself. *profile is exchanged; on failure it is gone, and NULL.
 * PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_endpoints_add(pyr_profile **profile, const json_t *counts,
                                          const char *key);

#endif
