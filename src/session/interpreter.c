/* Opening the interpreter; see the header. Stateless. */
#include "session/interpreter.h"

#include <stdio.h>

pyr_status pyr_interpreter_open(const pyr_host *host, pyr_reader **reader,
                                const pyr_layout **layout, char *why, size_t why_size)
{
    pyr_status status = pyr_reader_open_self(reader);
    if (status != PYR_OK) {
        snprintf(why, why_size,
                 "the memory of this process cannot be read: %s; a sandbox that allows the system "
                 "call process_vm_readv or process_vm_writev on oneself is needed",
                 pyr_status_text(status));
        return status;
    }
    status = pyr_layout_discover(*reader, host->runtime, host->version, layout, why, why_size);
    if (status != PYR_OK) {
        return status;
    }
    const char *wrong = host->selfcheck(*layout);
    if (wrong != NULL) {
        snprintf(why, why_size,
                 "this Python differs from the one that pyrometer was built for (%s); build it "
                 "again here",
                 wrong);
        return PYR_EBAD;
    }
    return PYR_OK;
}
