/* Names of C functions; see the header.
 *
 * Owns a map from addresses to functions. Libraries are read under the loader's lock, a few dozen
 * addresses at a time, and names are given to the table of symbols after it, so that nobody waits
 * for the loader because of us. When a library was unloaded, all are looked for again: another one
 * may stand at its addresses.
 */
#include "collect/native_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "os/loaded.h"

enum { ADDRESSES = 4096, AT_ONCE = 32, NAME_BYTES = 256 };

struct pyr_native_names {
    pyr_map *functions; /* by address; 0 = wanted */
    uint64_t removed;   /* libraries, when these were found */
    size_t wanted_count;
    uintptr_t wanted[ADDRESSES];
};

pyr_native_names *pyr_native_names_new(void)
{
    pyr_native_names *names = pyr_memory_new(1, sizeof *names);
    if (names) {
        names->functions = pyr_map_new(ADDRESSES);
        if (!names->functions) {
            pyr_memory_free(names);
            names = NULL;
        }
    }
    return names;
}

void pyr_native_names_free(pyr_native_names *names)
{
    if (names) {
        pyr_map_free(names->functions);
        pyr_memory_free(names);
    }
}

void pyr_native_names_clear(pyr_native_names *names)
{
    pyr_map_clear(names->functions);
    names->wanted_count = 0;
}

void pyr_native_names_begin(pyr_native_names *names)
{
    pyr_loaded_counts now;
    bool is_known = pyr_loaded_count(&now);
    if (!is_known || now.removed != names->removed ||
        pyr_map_count(names->functions) >= ADDRESSES) {
        names->removed = is_known ? now.removed : names->removed;
        pyr_native_names_clear(names);
    }
}

void pyr_native_names_want(pyr_native_names *names, uintptr_t address)
{
    uint64_t known;
    if (names->wanted_count < ADDRESSES && !pyr_map_get(names->functions, address, &known) &&
        pyr_map_put(names->functions, address, 0) == PYR_OK) {
        names->wanted[names->wanted_count++] = address;
    }
}

uint32_t pyr_native_names_get(const pyr_native_names *names, uintptr_t address)
{
    uint64_t function = 0;
    (void)pyr_map_get(names->functions, address, &function);
    return (uint32_t)function;
}

typedef struct batch {
    const uintptr_t *addresses;
    size_t count;
    char names[AT_ONCE][NAME_BYTES];
} batch;

static const char *file_name(const pyr_loaded *object)
{
    const char *path = object->path[0] != '\0' ? object->path : program_invocation_short_name;
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool name_in(void *context, const pyr_loaded *object)
{
    batch *wanted = context;
    for (size_t at = 0; at < wanted->count; at++) {
        uintptr_t call =
            wanted->addresses[at] - 1; /* what it returns to may be the next function */
        if (!pyr_loaded_has(object, call, 1, PF_X)) {
            continue;
        }
        const char *function = pyr_loaded_function_at(object, call);
        int length = function
                         ? snprintf(wanted->names[at], NAME_BYTES, "%.180s [%.64s]", function,
                                    file_name(object))
                         : snprintf(wanted->names[at], NAME_BYTES, "[%.64s]", file_name(object));
        (void)length; /* what is too long is cut */
    }
    return false;
}

void pyr_native_names_find(pyr_native_names *names, pyr_symbols *symbols)
{
    static const char unloaded[] = "[unloaded library]", file[] = "<native>";
    batch some;
    for (size_t first = 0; first < names->wanted_count; first += some.count) {
        memset(&some, 0, sizeof some);
        some.addresses = &names->wanted[first];
        some.count = names->wanted_count - first < AT_ONCE ? names->wanted_count - first : AT_ONCE;
        if (!pyr_loaded_each(name_in, &some)) {
            pyr_native_names_clear(names); /* asked for again in the next window */
            return;
        }
        for (size_t at = 0; at < some.count; at++) {
            const char *name = some.names[at][0] != '\0' ? some.names[at] : unloaded;
            uint32_t function =
                pyr_symbols_function(symbols, name, strlen(name), file, sizeof file - 1, 0);
            (void)!pyr_map_put(names->functions, some.addresses[at], function);
        }
    }
    names->wanted_count = 0;
}
