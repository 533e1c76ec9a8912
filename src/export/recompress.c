/* Recompression; see the header. Pure but for allocation; the exporter's thread. */
#include "export/recompress.h"

pyr_status pyr_recompress(const uint8_t *bytes, size_t length, size_t most,
                          pyr_pprof_compression kind, pyr_buffer *out)
{
    pyr_buffer raw;
    pyr_buffer_init(&raw, most);
    pyr_compressor *compressor = pyr_compressor_new(out, kind);
    pyr_status status = compressor != NULL ? pyr_decompress(bytes, length, &raw) : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = pyr_compressor_write(compressor, raw.data, raw.length);
    }
    if (status == PYR_OK) {
        status = pyr_compressor_finish(compressor);
    }
    pyr_compressor_free(compressor);
    pyr_buffer_fini(&raw);
    return status;
}
