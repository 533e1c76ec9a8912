/* A window into pprof and its document: the border of the system.
 *
 * Pure but for allocation; runs on the exporter thread, without the GIL.
 */
#ifndef PYR_ENCODE_ENCODE_H
#define PYR_ENCODE_ENCODE_H

#include "base/buffer.h"
#include "base/status.h"
#include "model/facts.h"
#include "pprof/writer.h"
#include "record/window.h"

typedef struct pyr_encode_options {
    pyr_pprof_compression compression;
    int timeline; /* 1: samples with their end times, all times rounded to 1.024 us; 0: aggregated,
              exact */
    uint32_t kinds;    /* PYR_SAMPLE_KIND_BIT: the profile has their sample types; 0 = all kinds */
    int64_t period_ns; /* sampling interval, goes into the profile's period */
    const char *executable; /* path of the program's executable, NULL = unknown */
} pyr_encode_options;

/* Writes the profile. Losses and truncation stand in its comments. PYR_ENOMEM, PYR_ETOOBIG. */
PYR_MUST_USE pyr_status pyr_encode_pprof(const pyr_window *window,
                                         const pyr_encode_options *options, pyr_buffer *out);

/* Writes the window's document (JSON, schema docs/window.schema.json) from the window and the
 * facts gathered for it. */
PYR_MUST_USE pyr_status pyr_encode_document(const pyr_window *window, const pyr_facts *facts,
                                            pyr_buffer *out);

/* Writes facts alone as one JSON object of sections: what status() shows. */
PYR_MUST_USE pyr_status pyr_encode_facts(const pyr_facts *facts, pyr_buffer *out);

#endif
