/* The table of exporters: one row each. */
#include "export/exporter.h"

extern const pyr_exporter_class pyr_exporter_datadog;
extern const pyr_exporter_class pyr_exporter_file;

const pyr_exporter_class *const pyr_exporter_classes[] = {
    &pyr_exporter_datadog,
    &pyr_exporter_file, /* last: it asks whether there is another target */
    NULL,
};
