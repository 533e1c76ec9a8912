/* Requests to one receiver: sent, tried again, kept on disk, sent later. What every exporter that
 * speaks HTTP stands on. The exporter's thread; facts from any.
 *
 * At least once: a request whose answer was lost is sent again.
 */
#ifndef PYR_EXPORT_OUTBOX_H
#define PYR_EXPORT_OUTBOX_H

#include "base/buffer.h"
#include "base/status.h"
#include "export/address.h"
#include "export/exporter.h"

typedef struct pyr_outbox pyr_outbox;

/* An outbox for POSTs to `path` at the address. `secret_headers` ("Name: value" lines) go with each
 * request and are never written to disk. Of the options it takes timeout, ca_file, https_proxy (if
 * `may_proxy`), http_headers, spool and hurry; all texts are copied. Touches neither disk nor net.
 * NULL: no memory. */
pyr_outbox *pyr_outbox_new(const pyr_address *address, const char *path, const char *secret_headers,
                           bool may_proxy, const pyr_exporter_options *options);
void pyr_outbox_free(pyr_outbox *outbox);

/* Asks GET `path` once, within `timeout_ns`. As pyr_http_send; `is_pyrometer` says who answered. */
PYR_MUST_USE pyr_status pyr_outbox_ask(pyr_outbox *outbox, const char *path, int64_t timeout_ns,
                                       int64_t deadline_ns, bool *is_pyrometer);

/* Sends a request of Unix time `time_ns`: header lines, and a body. What waits on disk goes first,
 * oldest first. Results as pyr_exporter_class.send has them; `why` says who answered what. */
PYR_MUST_USE pyr_status pyr_outbox_send(pyr_outbox *outbox, int64_t time_ns, const char *headers,
                                        const pyr_buffer *body, int64_t deadline_ns, char *why,
                                        size_t why_size);

/* Adds section "sending": requests sent, tries that failed, kept, refused, given up. Any thread. */
void pyr_outbox_facts(const pyr_outbox *outbox, pyr_facts *facts);

#endif
