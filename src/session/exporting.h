/* What exporters are told: settings, identity and host in one plain structure. */
#ifndef PYR_SESSION_EXPORTING_H
#define PYR_SESSION_EXPORTING_H

#include "base/limits.h"
#include "export/exporter.h"
#include "session/identity.h"
#include "session/session.h"
#include "session/settings.h"

/* Texts that are made for the options. */
typedef struct pyr_exporting {
    char spool_folder[PYR_LIMIT_PATH_BYTES];
} pyr_exporting;

/* An absolute folder, so that a change of the working folder changes nothing: what was set, else
 * `name`-<user id> in the temporary folder. */
void pyr_exporting_folder(const char *setting, const char *name, char *folder, size_t size);

/* Fills the options; all is borrowed. The working folder and the temporary one are asked for now.
 */
void pyr_exporting_options(const pyr_settings *settings, const pyr_identity *identity,
                           const pyr_host *host, pyr_exporting *texts,
                           pyr_exporter_options *options);

#endif
