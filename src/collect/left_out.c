/* Places that are left out; see the header. A module is known by the path of its file: a.b is in
 * ".../a/b.py" or below ".../a/b/". Constant after new; any thread. */
#include "collect/left_out.h"

#include <stdio.h>
#include <string.h>

#include "base/ending.h"
#include "base/memory.h"

enum { MODULES = 32, TEXT_BYTES = 256 };

typedef struct place {
    char text[TEXT_BYTES]; /* "/a/b/" or "/a/b.py" */
    size_t length;
    bool at_end; /* nothing may follow */
} place;

struct pyr_left_out {
    place places[2 * MODULES];
    size_t count;
};

static void add(pyr_left_out *left_out, const char *module, size_t length, const char *end)
{
    place *one = &left_out->places[left_out->count];
    int bytes = snprintf(one->text, sizeof one->text, "/%.*s%s", (int)length, module, end);
    if (bytes <= 0 || (size_t)bytes >= sizeof one->text) {
        return; /* no module has such a name */
    }
    for (size_t i = 1; i <= length; i++) {
        one->text[i] = one->text[i] == '.' ? '/' : one->text[i];
    }
    one->length = (size_t)bytes;
    one->at_end = end[0] == '.';
    left_out->count++;
}

pyr_left_out *pyr_left_out_new(const char *modules)
{
    pyr_left_out *made = pyr_memory_new(1, sizeof *made);
    for (const char *at = modules; made && *at != '\0';) {
        size_t length = strcspn(at, ", ");
        if (length > 0 && made->count + 2 <= sizeof made->places / sizeof made->places[0]) {
            add(made, at, length, "/");
            add(made, at, length, ".py");
        }
        at += length + (at[length] != '\0');
    }
    return made;
}

void pyr_left_out_free(pyr_left_out *left_out)
{
    pyr_memory_free(left_out);
}

static bool is_in(const place *one, const char *file, size_t length)
{
    if (one->at_end) {
        return pyr_ends_with(file, length, one->text);
    }
    for (size_t at = 0; at + one->length <= length; at++) {
        if (memcmp(file + at, one->text, one->length) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_left_out(const pyr_left_out *left_out, const char *file, size_t length)
{
    static const char import_system[] = "<frozen importlib._bootstrap>";
    if (length == sizeof import_system - 1 && memcmp(file, import_system, length) == 0) {
        return true;
    }
    for (size_t i = 0; i < left_out->count; i++) {
        if (is_in(&left_out->places[i], file, length)) {
            return true;
        }
    }
    return false;
}

/* Whether a file only takes locks for its callers. */
static bool is_in_between(const char *file, size_t length)
{
    static const char *const files[] = {"/threading.py", "/queue.py",
                                        "/multiprocessing/synchronize.py", "/asyncio/locks.py"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (pyr_ends_with(file, length, files[i])) {
            return true;
        }
    }
    return false;
}

bool pyr_left_out_matches(const pyr_left_out *left_out, const pyr_own_stack *stack)
{
    bool is_inside = true;
    for (uint32_t frame = 0; frame < stack->count && is_inside; frame++) {
        size_t length;
        pyr_function function = pyr_symbols_get(stack->symbols, stack->frames[frame].function);
        const char *file = pyr_symbols_text(stack->symbols, function.file, &length);
        if (is_left_out(left_out, file, length)) {
            return true;
        }
        is_inside = is_in_between(file, length);
    }
    return false;
}
