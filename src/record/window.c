/* Windows; see the headers. A window owns its space and a share of its symbols. Nothing here is
 * shared between threads: an open window belongs to the recorder, a sealed one to its reader. */
#include "record/window.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/os.h"
#include "record/window_body.h"

/* Places are u32 in units of eight bytes; nobody needs so much. */
static const size_t LARGEST_SPACE = (size_t)1 << 32;
/* Where address space is limited, a smaller window is better than none. */
static const size_t SMALLEST_SPACE = (size_t)256 << 10;

static void start(pyr_window *window)
{
    uint64_t seed = pyr_hash_seed();
    atomic_store_explicit(&window->space.claimed, PYR_SPACE_UNIT, memory_order_relaxed);
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        pyr_lane_init(&window->lanes[i], seed);
    }
    window->start_ns = pyr_clock_monotonic_ns();
}

pyr_window *pyr_window_new(size_t window_bytes, pyr_symbols *symbols, uint64_t sequence)
{
    pyr_window *window = pyr_memory_new(1, sizeof *window);
    if (!window) {
        return NULL;
    }
    window->space.size = window_bytes < PYR_SPACE_UNIT  ? PYR_SPACE_UNIT
                         : window_bytes > LARGEST_SPACE ? LARGEST_SPACE
                                                        : window_bytes;
    window->space.bytes = pyr_os_reserve(window->space.size);
    while (!window->space.bytes && window->space.size / 2 >= SMALLEST_SPACE) {
        window->space.size /= 2;
        window->space.bytes = pyr_os_reserve(window->space.size);
    }
    if (!window->space.bytes) {
        pyr_memory_free(window);
        return NULL;
    }
    window->symbols = pyr_symbols_share(symbols);
    window->symbol_overflows = pyr_symbols_overflows(symbols);
    window->sequence = sequence;
    start(window);
    return window;
}

void pyr_window_reset(pyr_window *window)
{
    pyr_os_discard(window->space.bytes, window->space.size);
    window->symbol_overflows = pyr_symbols_overflows(window->symbols);
    window->sequence = 0;
    start(window);
}

void pyr_window_free(pyr_window *window)
{
    if (window) {
        pyr_os_release(window->space.bytes, window->space.size);
        pyr_symbols_release(window->symbols);
        pyr_memory_free(window);
    }
}

int64_t pyr_window_start_ns(const pyr_window *window)
{
    return window->start_ns;
}

int64_t pyr_window_end_ns(const pyr_window *window)
{
    return window->end_ns;
}

int64_t pyr_window_epoch_offset_ns(const pyr_window *window)
{
    return window->epoch_offset_ns;
}

uint64_t pyr_window_sequence(const pyr_window *window)
{
    return window->sequence;
}

const pyr_symbols *pyr_window_symbols(const pyr_window *window)
{
    return window->symbols;
}

size_t pyr_window_samples(const pyr_window *window)
{
    size_t count = 0;
    for (size_t i = 0; i < PYR_LIMIT_LANES; i++) {
        count += window->lanes[i].sample_count;
    }
    return count;
}

int pyr_window_each(const pyr_window *window, int (*visit)(void *context, const pyr_sample *sample),
                    void *context)
{
    int ended = 0;
    for (size_t i = 0; i < PYR_LIMIT_LANES && !ended; i++) {
        ended = pyr_lane_each(&window->lanes[i], &window->space, visit, context);
    }
    return ended;
}

uint64_t pyr_window_lost(const pyr_window *window, pyr_loss reason)
{
    return (unsigned)reason < PYR_LOSSES ? window->lost[reason] : 0;
}
