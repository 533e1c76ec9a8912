/* The place in the program that a sample is about, as one text. */
#ifndef PYR_CLI_SITE_H
#define PYR_CLI_SITE_H

#include <stdint.h>

#include "pprof/profile.h"

enum { PYR_SITE_BYTES = 512 };

/* The leaf frame, C functions passed over; UINT32_MAX: there is none. */
uint32_t pyr_site_frame(const pyr_profile *profile, const pyr_profile_sample *sample);

/* The first frame that is not in the standard library's modules of locks and queues: who asked for
 * the lock. The leaf where all are. */
uint32_t pyr_site_user_frame(const pyr_profile *profile, const pyr_profile_sample *sample);

/* "file.py:12:function" of the leaf, or of a frame. */
void pyr_site_text(const pyr_profile *profile, const pyr_profile_sample *sample,
                   char text[PYR_SITE_BYTES]);
void pyr_site_frame_text(const pyr_profile *profile, uint32_t frame, char text[PYR_SITE_BYTES]);

#endif
